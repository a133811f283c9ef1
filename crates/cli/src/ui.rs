//! Tables, colours and progress. `anstream` drops the colours where there is no terminal.

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};

/// Writes to the standard output; whoever stopped reading, as `head` does, wants no more.
pub(crate) fn put(text: std::fmt::Arguments<'_>) {
    let mut out = anstream::stdout().lock();
    if out.write_fmt(text).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

macro_rules! out {
    ($($text:tt)*) => { $crate::ui::put(format_args!($($text)*)) };
}

macro_rules! outln {
    ($($text:tt)*) => { $crate::ui::put(format_args!("{}\n", format_args!($($text)*))) };
}

pub(crate) use {out, outln};

fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

pub(crate) fn good(text: impl std::fmt::Display) -> String {
    styled(AnsiColor::Green.on_default(), text)
}

pub(crate) fn bad(text: impl std::fmt::Display) -> String {
    styled(AnsiColor::Red.on_default().bold(), text)
}

pub(crate) fn dim(text: impl std::fmt::Display) -> String {
    styled(Style::new().dimmed(), text)
}

pub(crate) fn head(text: impl std::fmt::Display) -> String {
    styled(Style::new().bold(), text)
}

/// Which side a column keeps to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// One line of cells of given widths.
pub(crate) fn line(cells: &[String], widths: &[usize], sides: &[Side]) -> String {
    let pad = |(i, cell): (usize, &String)| {
        let w = widths.get(i).copied().unwrap_or(0);
        let free = " ".repeat(w.saturating_sub(cell.chars().count()));
        if sides.get(i) == Some(&Side::Right) { format!("{free}{cell}") } else { format!("{cell}{free}") }
    };
    cells.iter().enumerate().map(pad).collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// A table whose first row is the head.
pub(crate) fn table(rows: &[Vec<String>], sides: &[Side]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(|c| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for (i, row) in rows.iter().enumerate() {
        let text = line(row, &widths, sides);
        out.push_str(&if i == 0 { head(text) } else { text });
        out.push('\n');
    }
    out
}

/// Bytes in binary units: `141.1 GiB`.
pub(crate) fn bytes(n: u64) -> String {
    let mut x = n as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if x < 1024.0 {
            return if unit == "B" { format!("{n} B") } else { format!("{x:.1} {unit}") };
        }
        x /= 1024.0;
    }
    format!("{x:.1} TiB")
}

/// A bar on the terminal, nothing elsewhere.
pub(crate) fn progress(total: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {elapsed} {wide_msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style)
}
