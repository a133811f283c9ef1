//! `cargo xtask new-op`: the four files of a new op that builds everywhere and passes, to be changed into the one that is meant.

use crate::support::root;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The op's one name, in snake_case: `rms_norm`.
    name: String,
}

const OP: &str = include_str!("new_op/op.rs.in");
const REFERENCE: &str = include_str!("new_op/reference.rs.in");
const HEADER: &str = include_str!("new_op/op.h.in");
const LIST: &str = "crates/kernels/src/ops/mod.rs";

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = root()?;
    for path in scaffold(&root, &args.name)? {
        println!("{}", path.display());
    }
    println!("an op that computes factor * x; change it, then: cargo xtask build --op {} && cargo xtask verify", args.name);
    Ok(())
}

/// Writes the files of an op; their paths below the root.
fn scaffold(root: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let good = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    ensure!(good && !name.ends_with('_') && !name.contains("__"), "`{name}` is no snake_case name");
    const TAKEN: &[&str] =
        &["as", "box", "const", "do", "fn", "for", "if", "in", "loop", "match", "mod", "move", "ref", "static", "type", "use", "where", "while"];
    ensure!(!TAKEN.contains(&name), "`{name}` is a word of the language");
    let type_name: String = name.split('_').map(|w| w[..1].to_uppercase() + &w[1..]).collect();
    let fill = |text: &str| text.replace("@name@", name).replace("@Type@", &type_name);
    let ops = Path::new("crates/kernels/src/ops");
    let files = [
        (ops.join(format!("{name}.rs")), fill(OP)),
        (ops.join(name).join("reference.rs"), fill(REFERENCE)),
        (Path::new("crates/kernels/include/warpwave/ops").join(format!("{name}.h")), fill(HEADER)),
    ];
    for (path, _) in &files {
        ensure!(!root.join(path).exists(), "{} is there already", path.display());
    }
    let list = fs::read_to_string(root.join(LIST)).context(LIST)?;
    let list = register(&list, name, &type_name)?;
    for (path, text) in &files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        fs::write(path, text)?;
    }
    fs::write(root.join(LIST), list)?;
    Ok(files.into_iter().map(|(path, _)| path).chain([LIST.into()]).collect())
}

/// `ops/mod.rs` with one more op, laid out as rustfmt does.
fn register(list: &str, name: &str, type_name: &str) -> Result<String> {
    const WIDTH: usize = 150;
    let module = |line: &str| line.strip_prefix("pub mod ").and_then(|l| l.strip_suffix(';')).map(str::to_owned);
    let line = format!("pub mod {name};");
    let mut lines: Vec<&str> = list.lines().collect();
    let after = lines.iter().rposition(|l| module(l).is_some_and(|m| m.as_str() < name));
    let at = after.map(|i| i + 1).or_else(|| lines.iter().position(|l| module(l).is_some())).context("ops/mod.rs lists no module")?;
    lines.insert(at, &line);
    let text = lines.join("\n") + "\n";
    let parts = text.split_once("&[&dyn Op] =").and_then(|(head, tail)| {
        let (entries, rest) = tail.split_once("];")?;
        Some((head, entries.trim_start().strip_prefix("&[")?, rest))
    });
    let (head, entries, rest) = parts.context("ops/mod.rs has no list of ops")?;
    let entry = format!("&{name}::{type_name}");
    let entries: Vec<&str> = entries.split(',').map(str::trim).filter(|e| !e.is_empty()).chain([entry.as_str()]).collect();
    let declaration = format!("{}&[&dyn Op] =", head.lines().next_back().unwrap_or_default());
    let row = format!("&[{}];", entries.join(", "));
    let value = if declaration.len() + 1 + row.len() <= WIDTH {
        format!(" {row}")
    } else if 4 + row.len() <= WIDTH {
        format!("\n    {row}")
    } else {
        format!(" &[\n{}];", entries.iter().map(|e| format!("    {e},\n")).collect::<String>())
    };
    Ok(format!("{head}&[&dyn Op] ={value}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn an_op_is_registered_in_order() {
        let list = "//! x\n\npub mod a;\npub mod c;\n\nstatic ALL: &[&dyn Op] = &[&a::A, &c::C];\n";
        let wanted = "//! x\n\npub mod a;\npub mod b_b;\npub mod c;\n\nstatic ALL: &[&dyn Op] = &[&a::A, &c::C, &b_b::BB];\n";
        assert_eq!(register(list, "b_b", "BB").unwrap(), wanted);
        assert!(register(wanted, "a0", "A0").unwrap().contains("pub mod a;\npub mod a0;\npub mod b_b;"));
        let (wide, tall) = ("b".repeat(50), "b".repeat(64));
        let next = register(list, &wide, "B").unwrap();
        assert!(next.contains(" = &[&a::A, &c::C, &b"));
        let next = register(&next, &tall, "B").unwrap();
        assert!(next.contains(&format!(" =\n    &[&a::A, &c::C, &{wide}::B, &{tall}::B];\n")), "{next}");
        let next = register(&next, "d", "D").unwrap();
        assert!(next.contains(&format!(" = &[\n    &a::A,\n    &c::C,\n    &{wide}::B,\n    &{tall}::B,\n    &d::D,\n];\n")), "{next}");
    }

    #[test]
    fn names_that_are_none_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["", "Rms", "a b", "../x", "1a", "a_", "a__b", "fn"] {
            assert!(scaffold(dir.path(), name).is_err(), "{name}");
        }
    }

    fn run(command: &mut Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_new_op_changes_four_files_and_is_a_registered_op() {
        let root = root().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path();
        let git = |arguments: &[&str]| run(Command::new("git").current_dir(copy).args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(arguments));
        for name in run(Command::new("git").current_dir(&root).args(["ls-files", "--cached", "--others", "--exclude-standard"])).lines() {
            // a file may be gone from the tree but not from the index
            if root.join(name).is_file() {
                fs::create_dir_all(copy.join(name).parent().unwrap()).unwrap();
                fs::copy(root.join(name), copy.join(name)).unwrap();
            }
        }
        git(&["init", "-q"]);
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", "copy"]);

        scaffold(copy, "scale_all").unwrap();
        assert!(scaffold(copy, "scale_all").is_err(), "written over");
        let changed = git(&["status", "--porcelain", "--untracked-files=all"]);
        let wanted = [
            " M crates/kernels/src/ops/mod.rs",
            "?? crates/kernels/include/warpwave/ops/scale_all.h",
            "?? crates/kernels/src/ops/scale_all.rs",
            "?? crates/kernels/src/ops/scale_all/reference.rs",
        ];
        assert_eq!(changed.lines().collect::<Vec<_>>(), wanted);

        // dependencies of the copy are kept for the next run
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(copy).env("CARGO_TARGET_DIR", root.join("target/new-op")).env("RUSTFLAGS", "-D warnings");
        run(cargo.args(["check", "--quiet", "--package", "warpwave-kernels"]));
        let formatted =
            Command::new("rustfmt").current_dir(copy).args(["--edition", "2024", "--check", "crates/kernels/src/ops/scale_all.rs"]).output();
        assert!(formatted.unwrap().status.success(), "the scaffold is not formatted");
        for finding in crate::tidy::findings(copy).unwrap() {
            assert!(!finding.contains("scale_all"), "{finding}");
        }
    }
}
