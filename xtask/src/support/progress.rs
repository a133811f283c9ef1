//! A bar on a terminal, short lines now and then elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two lines where there is no terminal.
const QUIET: Duration = Duration::from_secs(10);

pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    label: String,
    plain: Mutex<(u64, Instant)>,
    total: u64,
}

impl Progress {
    /// Progress of `total` pieces of work.
    pub(crate) fn steps(label: &str, total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {elapsed} {wide_msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total).with_style(style).with_prefix(label.to_owned())
        });
        Progress { bar, label: label.into(), plain: Mutex::new((0, Instant::now())), total }
    }

    /// Progress of one piece of work of unknown length.
    pub(crate) fn spinner(label: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_message(label.to_owned());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        if bar.is_none() {
            eprintln!("{label}");
        }
        Progress { bar, label: label.into(), plain: Mutex::new((0, Instant::now())), total: 1 }
    }

    /// One piece is done.
    pub(crate) fn done(&self, name: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(name.to_owned());
            bar.inc(1);
        } else if let Ok(mut plain) = self.plain.lock() {
            plain.0 += 1;
            if plain.1.elapsed() > QUIET && plain.0 < self.total {
                plain.1 = Instant::now();
                eprintln!("{}: {} of {}", self.label, plain.0, self.total);
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
