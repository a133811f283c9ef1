//! `cargo xtask ci`: the rows that CI runs, each runnable by hand. `cargo xtask test` runs those that every change must pass.

use crate::support;
use anyhow::{Context, Result, bail};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The rows.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only this row; may be repeated
    #[arg(long, value_name = "ROW")]
    row: Vec<String>,
    /// List the rows and run none
    #[arg(long)]
    list: bool,
}

/// One row: what it proves, how long it may take on two cores, and what it runs.
struct Row {
    name: &'static str,
    what: &'static str,
    minutes: u64,
    /// Whether every change must pass it.
    always: bool,
    run: fn(&Shell) -> Result<()>,
}

const ROWS: &[Row] = &[
    Row {
        name: "toolchain",
        what: "device compilers are there, or are installed",
        minutes: 2,
        always: true,
        run: |s| s.xtask(&["toolchain", "--vendor", "all"]),
    },
    Row { name: "kernels", what: "one variant for each op, schedule and target compiles without a spill", minutes: 10, always: true, run: kernels },
    Row { name: "lint", what: "format, clippy, documentation, rules of the house, drift of generated files", minutes: 5, always: true, run: lint },
    Row {
        name: "test",
        what: "unit tests, snapshots, conformance on the CPU",
        minutes: 5,
        always: true,
        run: |s| s.cargo(&["test", "--workspace", "--quiet"]),
    },
    Row {
        name: "native",
        what: "the tile layer by itself: planted bugs under AddressSanitizer, layouts of every arch",
        minutes: 2,
        always: true,
        run: native,
    },
    Row {
        name: "sanitize",
        what: "conformance on the CPU under AddressSanitizer and UndefinedBehaviorSanitizer, late and eager",
        minutes: 6,
        always: true,
        run: sanitize,
    },
    Row {
        name: "interp",
        what: "every AMD kernel that ships, executed instruction by instruction on the CPU through the HIP backend",
        minutes: 6,
        always: true,
        run: |s| interp(s, "quick"),
    },
    Row { name: "fuzz", what: "each fuzz target for some seconds; its regressions replayed", minutes: 3, always: true, run: fuzz },
    Row { name: "package", what: "every crate packages, and builds from its package", minutes: 3, always: true, run: package },
    Row {
        name: "interp-asan",
        what: "the HIP backend, the drop-in runtime and the interpreter under AddressSanitizer",
        minutes: 15,
        always: false,
        run: interp_asan,
    },
    Row {
        name: "interp-grid",
        what: "the conformance grid of `--set ci` on the interpreted AMD devices",
        minutes: 120,
        always: false,
        run: |s| interp(s, "ci"),
    },
    Row {
        name: "full-build",
        what: "the whole variant table for every target",
        minutes: 60,
        always: false,
        run: |s| s.xtask(&["build", "--vendor", "all", "--set", "full"]),
    },
    Row {
        name: "full-grid",
        what: "the whole conformance grid on the CPU",
        minutes: 60,
        always: false,
        run: |s| s.cargo(&["run", "--release", "-p", "warpwave-cli", "--", "verify", "--device", "cpu", "--device", "cpu:64", "--set", "full"]),
    },
];

/// Commands in the checkout, their output shown as it comes.
struct Shell {
    root: PathBuf,
    target: PathBuf,
    /// This program. Rows may build it anew: then what lies at its path is meant, not the file that runs.
    program: PathBuf,
}

impl Shell {
    fn command(&self, program: impl Into<OsString>, args: &[&str]) -> Command {
        let mut c = Command::new(program.into());
        c.args(args).current_dir(&self.root);
        c
    }

    fn run(&self, mut c: Command) -> Result<()> {
        let shown = format!("{:?}", c.get_program()).trim_matches('"').to_owned();
        let words: Vec<String> = c.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        let status = c.status().with_context(|| format!("cannot run {shown}"))?;
        if !status.success() {
            bail!("`{} {}` failed: {status}", Path::new(&shown).file_name().map_or(shown.as_str().into(), |n| n.to_string_lossy()), words.join(" "));
        }
        Ok(())
    }

    fn cargo(&self, args: &[&str]) -> Result<()> {
        self.run(self.command(cargo(), args))
    }

    fn xtask(&self, args: &[&str]) -> Result<()> {
        self.run(self.command(&self.program, args))
    }
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn kernels(s: &Shell) -> Result<()> {
    s.xtask(&["build", "--vendor", "all", "--set", "ci"])?;
    s.xtask(&["resources", "--check"])
}

fn lint(s: &Shell) -> Result<()> {
    s.cargo(&["fmt", "--all", "--check"])?;
    s.cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    let mut doc = s.command(cargo(), &["doc", "--workspace", "--no-deps", "--quiet"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    s.run(doc)?;
    s.xtask(&["tidy"])?;
    s.xtask(&["support", "--check"])?;
    s.xtask(&["bindgen", "--check"])
}

/// The compiler whose sanitizers report best, and whose objects fit Rust's AddressSanitizer runtime.
const CLANG: &str = "clang++-19";

/// Programs that prove an arch's layouts on the host, or run its kernels' own text under a wave emulation: name, compiler, source, flags.
const ARCH_TESTS: &[(&str, &str, &str, &[&str])] = &[
    ("layout_sm80", "c++", "cuda/tests/layout_sm80.cpp", &["-Icuda/arch/sm80"]),
    ("layout_sm90", "c++", "cuda/tests/layout_sm90.cpp", &["-Icuda/arch/sm90"]),
    ("layout_amd", "c++", "hip/tests/layout_amd.cpp", &["-Ihip/include"]),
    ("emulate_gfx9", CLANG, "hip/tests/emulate.cpp", &["-D__GFX9__", "-Ihip/include", "-Ihip/arch/gfx9", "-Wno-ignored-attributes", "-Wno-psabi"]),
    ("emulate_gfx11", CLANG, "hip/tests/emulate.cpp", &["-Ihip/include", "-Ihip/arch/gfx11", "-Wno-ignored-attributes", "-Wno-psabi"]),
];

fn native(s: &Shell) -> Result<()> {
    let out = s.target.join("native");
    std::fs::create_dir_all(&out)?;
    let mut build = s.command("sh", &["crates/cpu/tests/native/build.sh"]);
    build.arg(out.join("asan")).env("CXX", CLANG).env("CXXFLAGS", "-fsanitize=address,undefined -fno-sanitize-recover=all");
    s.run(build)?;
    for (name, compiler, source, flags) in ARCH_TESTS {
        let program = out.join(name);
        let mut c = s.command(*compiler, &["-std=c++20", "-O1", "-Icrates/kernels/include"]);
        c.args(*flags).arg(source).arg("-o").arg(&program);
        s.run(c)?;
        s.run(s.command(&program, &[]))?;
    }
    Ok(())
}

fn sanitize(s: &Shell) -> Result<()> {
    let target = host_triple()?;
    for (schedule, set) in [("late", "quick"), ("eager", "quick")] {
        let args = [
            "run",
            "--quiet",
            "-p",
            "warpwave-cli",
            "--no-default-features",
            "--target",
            &target,
            "--",
            "verify",
            "--device",
            "cpu",
            "--device",
            "cpu:64",
            "--set",
            set,
        ];
        let mut c = s.command(cargo(), &args);
        // the C++ is instrumented; clang links the runtime, which also checks what Rust allocates
        c.env("CARGO_TARGET_DIR", s.target.join("sanitize"))
            .env("RUSTFLAGS", "-Clinker=clang-19 -Clink-arg=-fsanitize=address,undefined -Clink-arg=-lstdc++")
            .env("CXX", CLANG)
            .env("CXXFLAGS", "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-sanitize=vptr,function -fno-omit-frame-pointer")
            .env("WARPWAVE_CPU_SCHEDULE", schedule)
            .env("ASAN_OPTIONS", "detect_leaks=0");
        s.run(c)?;
    }
    Ok(())
}

fn interp(s: &Shell, set: &str) -> Result<()> {
    s.xtask(&["build", "--vendor", "hip", "--set", "full"])?;
    // the program finds the library beside itself
    s.cargo(&["build", "--quiet", "-p", "warpwave-hip-interp", "-p", "warpwave-cli"])?;
    s.run(s.command(s.target.join("debug/warpwave"), &["verify", "--device", "hip-interp", "--set", set, "--skip-big"]))
}

fn interp_asan(s: &Shell) -> Result<()> {
    s.xtask(&["build", "--vendor", "hip", "--set", "ci"])?;
    let mut c = s.command(cargo(), &["test", "--quiet", "-p", "warpwave-hip-interp", "--target", &host_triple()?]);
    // stable Rust has the sanitizer behind this switch; its runtime is in the program, where the loaded library finds it; strings of HIP are never freed
    c.env("CARGO_TARGET_DIR", s.target.join("sanitize"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address -Clink-arg=-rdynamic")
        .env("ASAN_OPTIONS", "detect_leaks=0");
    s.run(c)
}

fn host_triple() -> Result<String> {
    let out = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8(out.stdout)?;
    text.lines().find_map(|l| l.strip_prefix("host: ")).map(str::to_owned).context("rustc -vV names no host")
}

fn fuzz(s: &Shell) -> Result<()> {
    s.xtask(&["fuzz", "--smoke"])
}

fn package(s: &Shell) -> Result<()> {
    let target = s.target.join("package");
    forget_packages(&target)?;
    let mut c = s.command(cargo(), &["package", "--workspace", "--allow-dirty", "--quiet", "--exclude", "xtask"]);
    c.env("CARGO_TARGET_DIR", &target);
    s.run(c)
}

/// Removes what an earlier run left of our packages. Cargo holds a package for immutable: it
/// unpacks one once per registry path and version, and builds it once per target folder, so the
/// next run at the same path would check the old text.
fn forget_packages(target: &Path) -> Result<()> {
    let remove = |folder: &Path| match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).with_context(|| format!("cannot remove {}", folder.display())),
        _ => Ok(()),
    };
    remove(target)?;
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    let unpacked = home.context("no CARGO_HOME and no home folder")?.join("registry/src");
    for registry in unpacked.read_dir().into_iter().flatten() {
        let registry = registry?;
        // a registry without a host is one on this disk, as `cargo package` makes for a workspace
        if registry.file_name().as_encoded_bytes().starts_with(b"-") {
            for package in registry.path().read_dir()? {
                let package = package?;
                if package.file_name().as_encoded_bytes().starts_with(b"warpwave") {
                    remove(&package.path())?;
                }
            }
        }
    }
    Ok(())
}

fn run_rows(rows: &[&Row]) -> Result<()> {
    let root = support::root()?;
    let shell = Shell { target: root.join("target"), root, program: env::current_exe()? };
    let mut results: Vec<(&Row, Duration, Option<anyhow::Error>)> = Vec::new();
    for row in rows {
        println!("== {}: {}", row.name, row.what);
        let start = Instant::now();
        let error = (row.run)(&shell).err();
        if let Some(e) = &error {
            eprintln!("error: {e:#}");
        }
        results.push((row, start.elapsed(), error));
    }
    println!();
    for (row, time, error) in &results {
        let verdict = if error.is_none() { "ok" } else { "FAILED" };
        let over = if time.as_secs() > row.minutes * 60 { format!(", over its {} minutes", row.minutes) } else { String::new() };
        println!("{:<12} {verdict:<6} {:>6.1} s{over}", row.name, time.as_secs_f64());
    }
    let failed = results.iter().filter(|r| r.2.is_some()).count();
    println!("{} passed, {failed} failed", results.len() - failed);
    if failed > 0 {
        bail!("{failed} of {} rows failed", results.len());
    }
    Ok(())
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.list {
        for row in ROWS {
            println!("{:<12} {:>3} min  {}{}", row.name, row.minutes, row.what, if row.always { "" } else { "  (on request)" });
        }
        return Ok(());
    }
    let mut rows: Vec<&Row> = Vec::new();
    for name in &args.row {
        rows.push(ROWS.iter().find(|r| r.name == name).with_context(|| format!("no row `{name}`; `cargo xtask ci --list` lists them"))?);
    }
    if rows.is_empty() {
        rows = ROWS.iter().filter(|r| r.always).collect();
    }
    run_rows(&rows)
}

/// `cargo xtask test`: all rows that every change must pass.
pub(crate) fn test() -> Result<()> {
    run_rows(&ROWS.iter().filter(|r| r.always).collect::<Vec<_>>())
}
