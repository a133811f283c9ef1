//! `cargo xtask fuzz`: builds the fuzz targets once and runs each for some seconds. What it finds becomes a text that `cargo test` runs again.

use crate::support;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The targets of `fuzz/fuzz_targets`, the one that runs kernels first.
const TARGETS: [&str; 5] = ["differential", "plan", "problem_string", "cases", "pack"];
/// Seconds for each target of `--smoke`.
const SMOKE: u64 = 15;
/// Seconds that may go into making a crash smaller.
const MINIMISE: u64 = 30;
/// Random inputs that a fresh corpus begins with, and their bytes: enough for a problem.
const FIRST: (u32, usize) = (48, 96);
/// What `cargo fuzz` passes, so that both find the same.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                         -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address --cfg fuzzing \
                         -Cdebug-assertions -Coverflow-checks";
/// As in `warpwave_conformance::fuzz`.
const DESCRIBE: &str = "WARPWAVE_FUZZ_DESCRIBE";

/// What to run and for how long.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only this target
    #[arg(value_parser = TARGETS)]
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Some seconds for each target, as CI does
    #[arg(long)]
    smoke: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = support::root()?;
    let folder = root.join("fuzz");
    let programs = build(&root)?;
    let seconds = if args.smoke { SMOKE } else { args.seconds };
    let wanted = TARGETS.into_iter().filter(|t| args.target.as_deref().is_none_or(|w| w == *t));
    let mut found = Vec::new();
    for target in wanted {
        let fuzzer = Fuzzer { target, program: programs.join(target), folder: &folder };
        println!("{target}: {seconds} s");
        match fuzzer.run(seconds)? {
            End::Clean(figures) => println!("  {figures}"),
            End::Crash { artifact, seconds, what } => {
                println!("  found after {seconds:.1} s: {what}");
                found.extend(fuzzer.promote(&artifact, &what)?);
            }
        }
    }
    if !found.is_empty() {
        let list: Vec<String> = found.iter().map(|p| p.strip_prefix(&root).unwrap_or(p).display().to_string()).collect();
        bail!("crashes, now regressions (`cargo test -p warpwave-conformance --test regressions` runs them again):\n  {}", list.join("\n  "));
    }
    Ok(())
}

/// Builds every target; returns where the programs lie.
fn build(root: &Path) -> Result<PathBuf> {
    let host =
        output(Command::new("rustc").arg("-vV"))?.lines().find_map(|l| l.strip_prefix("host: ")).map(str::to_owned).context("rustc names no host")?;
    let clang = clang()?;
    let target_dir = root.join("target/fuzz");
    let _lock = support::lock(&target_dir)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut c = Command::new(cargo);
    c.args(["build", "--quiet", "--locked", "--bins", "--manifest-path", "fuzz/Cargo.toml", "--target", &host, "--target-dir"]).arg(&target_dir);
    // sanitizer and coverage are flags of a nightly compiler; the pinned one has them too
    c.current_dir(root).env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", RUSTFLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS").env("CXX", &clang);
    // libFuzzer itself must not be instrumented, so the compiler's own copy serves
    let arch = host.split('-').next().unwrap_or_default();
    let library = ["libclang_rt.fuzzer.a".to_owned(), format!("libclang_rt.fuzzer-{arch}.a")]
        .iter()
        .filter_map(|name| output(Command::new(&clang).arg(format!("-print-file-name={name}"))).ok())
        .map(|path| PathBuf::from(path.trim()))
        .find(|path| path.is_file());
    match library {
        Some(path) => c.env("CXXFLAGS", "-fsanitize=address,fuzzer-no-link").env("CUSTOM_LIBFUZZER_PATH", path),
        None => bail!("{} has no libclang_rt.fuzzer: install its compiler-rt (Debian: libclang-rt-19-dev)", clang.display()),
    };
    let start = Instant::now();
    let status = c.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("building the fuzz targets failed: {status}");
    }
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    Ok(target_dir.join(host).join("debug"))
}

fn output(c: &mut Command) -> Result<String> {
    let out = c.output().with_context(|| format!("cannot run {}", c.get_program().display()))?;
    Ok(String::from_utf8(out.stdout)?)
}

/// A clang++ that gives coverage of C++; g++ does not.
fn clang() -> Result<OsString> {
    let named = std::env::var_os("CXX").filter(|c| c.to_string_lossy().contains("clang"));
    let all = named.into_iter().chain(["clang++-19", "clang++"].map(OsString::from));
    all.into_iter()
        .find(|c| Command::new(c).arg("--version").output().is_ok_and(|o| o.status.success()))
        .context("fuzzing needs clang++ (19 is known to work) for coverage of the C++ templates; name one in CXX")
}

/// How a run ended.
enum End {
    /// Figures, for people.
    Clean(String),
    Crash {
        artifact: PathBuf,
        seconds: f64,
        what: String,
    },
}

struct Fuzzer<'a> {
    target: &'a str,
    program: PathBuf,
    folder: &'a Path,
}

impl Fuzzer<'_> {
    fn command(&self) -> Command {
        let mut c = Command::new(&self.program);
        c.current_dir(self.folder).env("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1").env("RUST_BACKTRACE", "0");
        c.args(["-timeout=25", "-rss_limit_mb=4096", "-max_len=4096"]);
        c
    }

    fn run(&self, seconds: u64) -> Result<End> {
        let corpus = self.folder.join("corpus").join(self.target);
        let artifacts = self.folder.join("artifacts").join(self.target);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        let mut c = self.command();
        c.arg(format!("-max_total_time={seconds}"))
            .arg("-print_final_stats=1")
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg(&corpus);
        let seeds = self.folder.join("seeds").join(self.target);
        if seeds.is_dir() {
            c.arg(seeds);
        } else {
            first_inputs(&corpus)?;
        }
        let start = Instant::now();
        let mut child = c.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().with_context(|| format!("cannot run {}", self.program.display()))?;
        let mut log = Log::default();
        if let Some(pipe) = child.stderr.take() {
            for line in BufReader::new(pipe).split(b'\n') {
                log.take(&String::from_utf8_lossy(&line?));
            }
        }
        let status = child.wait()?;
        let seconds = start.elapsed().as_secs_f64();
        fs::write(artifacts.join("log.txt"), log.lines.join("\n"))?;
        match (&log.artifact, status.success()) {
            (None, true) => Ok(End::Clean(log.figures())),
            (Some(path), _) => Ok(End::Crash { artifact: path.clone(), seconds, what: log.what() }),
            (None, false) => bail!("{} ended with {status}:\n{}", self.target, log.lines.join("\n")),
        }
    }

    /// Makes a crash smaller and writes both as text: the smaller one may fail in another way, which only a sanitizer sees.
    fn promote(&self, artifact: &Path, what: &str) -> Result<Vec<PathBuf>> {
        let small = artifact.with_extension("min");
        let mut c = self.command();
        c.arg("-minimize_crash=1").arg(format!("-max_total_time={MINIMISE}")).arg(format!("-exact_artifact_path={}", small.display())).arg(artifact);
        // stops at its time limit with a failure of its own; what counts is the file
        c.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        let folder = self.folder.join("regressions").join(self.target);
        fs::create_dir_all(&folder)?;
        let mut written = Vec::new();
        for input in [artifact, &small].into_iter().filter(|p| p.is_file()) {
            let text = input.with_added_extension("txt");
            self.command().arg(input).env(DESCRIBE, &text).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            let text = fs::read_to_string(&text).with_context(|| format!("{} does not describe {}", self.target, input.display()))?;
            let path = folder.join(format!("{}.txt", &support::sha256(text.as_bytes())[..12]));
            let from = if input == artifact { "" } else { "made smaller from: " };
            fs::write(&path, format!("# {from}{what}\n{text}"))?;
            println!("  {}", text.trim_end());
            written.push(path);
        }
        written.dedup();
        Ok(written)
    }
}

/// Inputs for an empty corpus: libFuzzer would begin with single bytes.
fn first_inputs(corpus: &Path) -> Result<()> {
    if fs::read_dir(corpus)?.next().is_some() {
        return Ok(());
    }
    for i in 0..FIRST.0 {
        let text: String = (0..FIRST.1.div_ceil(32)).map(|j| support::sha256(format!("{i} {j}").as_bytes())).collect();
        let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
        let bytes: Vec<u8> = digits.chunks(2).map(|d| d[0] << 4 | d[d.len() - 1]).take(FIRST.1).collect();
        fs::write(corpus.join(format!("first-{i:02}")), bytes)?;
    }
    Ok(())
}

/// What a fuzzer printed.
#[derive(Default)]
struct Log {
    lines: Vec<String>,
    coverage: String,
    rate: String,
    executions: String,
    shares: String,
    panic: String,
    summary: String,
    rule: String,
    artifact: Option<PathBuf>,
}

impl Log {
    /// Lines kept for the log: a report with its stacks.
    const KEPT: usize = 400;

    fn take(&mut self, line: &str) {
        let after = |key: &str| line.split_once(key).map(|(_, rest)| rest.trim().to_owned());
        if let Some((_, rest)) = line.split_once(" cov: ") {
            let mut words = rest.split_whitespace();
            let (edges, features) = (words.next().unwrap_or("?"), words.nth(1).unwrap_or("?"));
            self.coverage = format!("{edges} edges, {features} features");
        } else if let Some(n) = after("stat::average_exec_per_sec:") {
            self.rate = n;
        } else if let Some(n) = after("stat::number_of_executed_units:") {
            self.executions = n;
        } else if let Some(s) = line.strip_prefix("shares: ") {
            self.shares = s.to_owned();
        } else if let Some(path) = after("Test unit written to ") {
            self.artifact = Some(path.into());
        } else if let Some(s) = line.strip_prefix("SUMMARY: ") {
            self.summary = s.trim().to_owned();
        } else if line.starts_with("warpwave host: ") {
            self.rule = line.trim().to_owned();
        } else if self.panic == "next" {
            self.panic = line.trim().to_owned();
        } else if line.starts_with("thread ") && line.contains(" panicked at ") {
            // the message follows
            self.panic = "next".into();
        }
        let progress = line.starts_with('#') && line.contains(" cov: ");
        if !progress && self.lines.len() < Self::KEPT {
            self.lines.push(line.to_owned());
        }
    }

    fn figures(&self) -> String {
        format!("{} executions, {}/s; coverage {}; {}", self.executions, self.rate, self.coverage, self.shares)
    }

    /// The crash in one line.
    fn what(&self) -> String {
        let said = [&self.panic, &self.rule, &self.summary].into_iter().find(|s| !s.is_empty());
        // no path of this machine, which regressions would keep
        let words = said.map_or("a crash", String::as_str).split_whitespace();
        words.map(|w| if w.starts_with('/') { w.rsplit('/').next().unwrap_or(w) } else { w }).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Log {
        let mut log = Log::default();
        text.lines().for_each(|l| log.take(l));
        log
    }

    #[test]
    fn figures_of_a_clean_run() {
        let log = log("#8\tpulse  cov: 3 ft: 4 corp: 1/1b\n#9\tDONE   cov: 812 ft: 1934 corp: 97/2345b\nstat::number_of_executed_units: 4100\n\
                       stat::average_exec_per_sec:     273\nshares: matmul 50.0 %, softmax 50.0 %");
        assert_eq!(log.figures(), "4100 executions, 273/s; coverage 812 edges, 1934 features; matmul 50.0 %, softmax 50.0 %");
        assert!(log.artifact.is_none());
    }

    #[test]
    fn a_crash_is_named_by_panic_then_rule_then_summary() {
        let summary = "SUMMARY: AddressSanitizer: heap-buffer-overflow /a/b/rows.h:42:7 in load\nTest unit written to /a/crash-1\n";
        assert_eq!(log(summary).what(), "AddressSanitizer: heap-buffer-overflow rows.h:42:7 in load");
        assert_eq!(log(summary).artifact, Some(PathBuf::from("/a/crash-1")));
        assert_eq!(log(&format!("warpwave host: a slot that is not held\n{summary}")).what(), "warpwave host: a slot that is not held");
        let panic = "thread '<unnamed>' (7) panicked at a.rs:1:2:\nsoftmax: wrong\n";
        assert_eq!(log(&format!("{panic}{summary}")).what(), "softmax: wrong");
    }
}
