//! `cargo xtask build`: compiles the variant table into `target/kernels`.

use crate::support::cache::{self, Inputs};
use crate::support::headers::Headers;
use crate::support::manifest::{Entry, Manifest};
use crate::support::progress::Progress;
use crate::support::targets::{TargetFlags, Targets};
use crate::support::{VendorArg, human, lock, pack, resources, root, sha256, write_if_changed};
use crate::toolchain::{self, Tool};
use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use clap::ValueEnum;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use warpwave_core::{BuildSet, Target, Variant, Vendor};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose kernels.
    #[arg(long, value_enum, default_value = "all")]
    vendor: VendorArg,
    /// Only these targets (sm_90a, gfx942, ...).
    #[arg(long)]
    target: Vec<Target>,
    /// Only the kernels of this op.
    #[arg(long)]
    op: Option<String>,
    /// How much of the variant table.
    #[arg(long, value_enum, default_value = "full")]
    set: SetArg,
    /// Compilers that run at once; as many as there are cores by default.
    #[arg(long, short)]
    jobs: Option<usize>,
    /// After a failing compile go on with the others; what compiles goes into the pack.
    #[arg(long, short)]
    keep_going: bool,
    /// Show all that a failing compiler printed, and its command.
    #[arg(long, short)]
    verbose: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SetArg {
    Ci,
    Full,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = root()?;
    let wanted = |t: &Target| if args.target.is_empty() { args.vendor.has(t.vendor()) } else { args.target.contains(t) };
    let targets: Vec<Target> = Target::ALL.into_iter().filter(wanted).collect();
    if let Some(op) = &args.op {
        let known: Vec<_> = warpwave_kernels::ops().iter().map(|o| o.signature().op).collect();
        ensure!(known.contains(&op.as_str()), "unknown op `{op}`; there are {}", known.join(", "));
    }
    let mut failed = 0;
    for vendor in [Vendor::Cuda, Vendor::Hip] {
        let targets: Vec<Target> = targets.iter().copied().filter(|t| t.vendor() == vendor).collect();
        if !targets.is_empty() {
            failed += build_vendor(&root, args, vendor, &targets)?;
        }
    }
    ensure!(failed == 0, "{failed} kernels failed");
    if targets.iter().any(|t| t.vendor() == Vendor::Cpu) {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo).current_dir(&root).args(["build", "--package", "warpwave-cpu"]).status()?;
        ensure!(status.success(), "cargo build --package warpwave-cpu failed");
    }
    Ok(())
}

fn build_vendor(root: &Path, args: &Args, vendor: Vendor, targets: &[Target]) -> Result<usize> {
    let config = Targets::load(root, vendor)?;
    let kernels = root.join("target/kernels");
    let _lock = lock(&kernels)?;
    let mut headers = Headers::new(root);
    let mut tools: BTreeMap<&str, Tool> = BTreeMap::new();
    let mut failed = 0;
    for &target in targets {
        let flags = config.target(target)?;
        if !tools.contains_key(flags.compiler.as_str()) {
            tools.insert(&flags.compiler, toolchain::ensure_compiler(root, &config, &flags.compiler)?);
        }
        let build = TargetBuild { root, args, target, config: &config, flags, tool: &tools[flags.compiler.as_str()] };
        failed += build.run(&mut headers)?;
    }
    Ok(failed)
}

struct TargetBuild<'a> {
    root: &'a Path,
    args: &'a Args,
    target: Target,
    config: &'a Targets,
    flags: &'a TargetFlags,
    tool: &'a Tool,
}

/// One variant on its way through the compiler.
struct Item {
    variant: Variant,
    source: String,
    /// Below the root.
    source_path: PathBuf,
    image: PathBuf,
    arguments: Vec<String>,
    key: String,
    wanted: bool,
    entry: Option<Entry>,
}

impl TargetBuild<'_> {
    /// Returns how many kernels failed, which is none unless told to go on.
    fn run(&self, headers: &mut Headers) -> Result<usize> {
        let start = Instant::now();
        let mut items = self.items(headers)?;
        let mut failed = 0;
        let todo: Vec<usize> = (0..items.len()).filter(|&i| items[i].wanted && items[i].entry.is_none()).collect();
        if !todo.is_empty() {
            fs::create_dir_all(self.root.join(self.folder()))?;
            fs::create_dir_all(self.root.join("target/kernels/tu").join(self.target.name()))?;
            let (built, errors) = self.compile_all(&items, &todo);
            for (i, entry) in built {
                items[i].entry = Some(entry);
            }
            failed = errors.len();
            for error in errors {
                if !self.args.keep_going {
                    return Err(error);
                }
                // the table may fail as a whole: two lines for each kernel
                let text = format!("{error:#}");
                eprintln!("error: {}", text.lines().take(2).collect::<Vec<_>>().join("\n"));
            }
        }
        let wanted = items.iter().filter(|i| i.wanted).count();
        let entries: Vec<Entry> = items.into_iter().filter_map(|i| i.entry).collect();
        if entries.is_empty() {
            eprintln!("{}: no kernel", self.target);
            return Ok(failed);
        }
        let packed = self.finish(entries)?;
        let seconds = start.elapsed().as_secs_f64();
        eprintln!("{}: {wanted} kernels, {} built in {seconds:.1} s, {}; {packed}", self.target, todo.len() - failed, self.tool.release);
        Ok(failed)
    }

    fn folder(&self) -> PathBuf {
        Path::new("target/kernels").join(self.target.name())
    }

    /// Every variant of the table, those that are asked for marked, with what is known of the ones built before.
    fn items(&self, headers: &mut Headers) -> Result<Vec<Item>> {
        let mut variants = warpwave_kernels::variants(self.target);
        variants.sort_by_key(|v| v.id.to_string());
        let of_op: Option<BTreeSet<String>> = self.args.op.as_ref().map(|name| {
            let op = warpwave_kernels::ops().iter().filter(|o| o.signature().op == name);
            op.flat_map(|o| o.variants(self.target)).map(|v| v.id.to_string()).collect()
        });
        let set = match self.args.set {
            SetArg::Ci => BuildSet::Ci,
            SetArg::Full => BuildSet::Full,
        };
        let extension = if self.target.vendor() == Vendor::Cuda { "cu" } else { "hip" };
        let mut items = Vec::new();
        for variant in variants {
            let id = variant.id.to_string();
            let source = warpwave_kernels::translation_unit(&variant);
            let source_path = Path::new("target/kernels/tu").join(self.target.name()).join(format!("{id}.{extension}"));
            let image = self.folder().join(format!("{}.{}", variant.id.symbol(), self.flags.image));
            let include = self.config.include(variant.arch)?;
            let mut arguments: Vec<String> = self.config.flags.iter().chain(&self.flags.flags).cloned().collect();
            arguments.extend(include.iter().flat_map(|dir| ["-I".to_owned(), dir.clone()]));
            let reached = headers.closure(&source, include).with_context(|| id.clone())?;
            // the checks of an image that is text are inputs too
            let all: Vec<String> = arguments.iter().chain(self.flags.assemble.iter().flatten()).cloned().collect();
            let key = Inputs { compiler: &self.tool.version, arguments: &all, source: &source, headers: &reached }.key();
            let entry = cache::fresh(&self.root.join(&image), &key).map(|e| Entry { threads: variant.threads, shared: variant.shared, ..e });
            let wanted = variant.set <= set && of_op.as_ref().is_none_or(|ids| ids.contains(&id));
            items.push(Item { variant, source, source_path, image, arguments, key, wanted, entry });
        }
        Ok(items)
    }

    /// Compiles on several threads. Unless told to go on, no new compile starts after one has failed.
    fn compile_all(&self, items: &[Item], todo: &[usize]) -> (Vec<(usize, Entry)>, Vec<Error>) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.args.jobs.unwrap_or(cores).clamp(1, todo.len());
        let progress = Progress::steps(self.target.name(), todo.len() as u64);
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let results = Mutex::new((Vec::new(), Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while !failed.load(Ordering::Relaxed)
                        && let Some(&i) = todo.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let result = self.compile(&items[i]);
                        failed.fetch_or(result.is_err() && !self.args.keep_going, Ordering::Relaxed);
                        progress.done(&items[i].variant.id.to_string());
                        let mut all = results.lock().unwrap_or_else(|e| e.into_inner());
                        match result {
                            Ok(entry) => all.0.push((i, entry)),
                            Err(error) => all.1.push(error),
                        }
                    }
                });
            }
        });
        results.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    fn compile(&self, item: &Item) -> Result<Entry> {
        let id = &item.variant.id;
        write_if_changed(&self.root.join(&item.source_path), item.source.as_bytes())?;
        let fresh = item.image.with_added_extension("new");
        let mut command = Command::new(&self.tool.path);
        command.current_dir(self.root).args(&item.arguments).arg("-o").arg(&fresh).arg(&item.source_path);
        let mut log = self.output(&mut command, id)?;
        let fresh = self.root.join(fresh);
        if let Some(flags) = &self.flags.assemble {
            let scratch = fresh.with_extension("checked");
            let mut command = Command::new(self.tool.beside("ptxas"));
            command.current_dir(self.root).args(flags).arg("-o").arg(&scratch).arg(&fresh);
            log += &self.output(&mut command, id)?;
            fs::remove_file(&scratch)?;
        }
        let image = fs::read(&fresh).with_context(|| format!("{id}: the compiler wrote no image"))?;
        let found = if self.target.vendor() == Vendor::Cuda {
            resources::ptxas(&log)
        } else if let Some(line) = log.lines().find(|l| l.contains("warning")) {
            Err(anyhow!("{}", line.trim()))
        } else {
            resources::code_object(&image)
        };
        let resources = found.map_err(|error| {
            let more = if self.args.verbose { format!("\n{}\n{command:?}", log.trim_end()) } else { String::new() };
            anyhow!("{id}: {error:#}{more}")
        })?;
        let path = self.root.join(&item.image);
        fs::rename(&fresh, &path)?;
        let entry = Entry {
            id: id.to_string(),
            symbol: id.symbol(),
            arch: item.variant.arch,
            file: item.image.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            offset: 0,
            bytes: image.len() as u64,
            sha256: sha256(&image),
            threads: item.variant.threads,
            shared: item.variant.shared,
            resources,
        };
        cache::record(&path, &item.key, &entry)?;
        Ok(entry)
    }

    /// Runs a compiler and returns all that it printed.
    fn output(&self, command: &mut Command, id: &warpwave_core::KernelId) -> Result<String> {
        let output = command.output().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let log = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() {
            return Ok(log);
        }
        if self.args.verbose {
            bail!("{id} does not compile\n{}\n{command:?}", log.trim_end());
        }
        bail!("{id} does not compile (-v: command and full output)\n{}", first_error(&log));
    }

    /// Writes manifest and pack, and removes images that the table no longer names. Returns a word on the pack.
    fn finish(&self, entries: Vec<Entry>) -> Result<String> {
        let dir = self.root.join(self.folder());
        let flags = sha256(self.config.flags.iter().chain(&self.flags.flags).cloned().collect::<Vec<_>>().join("\0").as_bytes());
        let mut manifest = Manifest { target: self.target, compiler: self.tool.release.clone(), flags, kernels: entries };
        pack::assign_offsets(&mut manifest);
        let packed = dir.with_extension("wwk");
        if write_if_changed(&dir.join("manifest.json"), &manifest.json()?)? || !packed.is_file() {
            remove_orphans(&dir, &warpwave_kernels::variants(self.target), &self.flags.image)?;
            let bytes = pack::pack(&manifest, &dir)?;
            ensure!(
                bytes.len() as u64 <= pack::BUDGET,
                "{}: the pack weighs {}, more than {}",
                self.target,
                human(bytes.len() as u64),
                human(pack::BUDGET)
            );
            write_if_changed(&packed, &bytes)?;
        }
        let images = manifest.kernels.iter().map(|e| e.bytes).sum();
        Ok(format!("{} images of {}, pack {}", manifest.kernels.len(), human(images), human(fs::metadata(&packed)?.len())))
    }
}

fn remove_orphans(dir: &Path, table: &[Variant], extension: &str) -> Result<()> {
    let known: BTreeSet<String> = table.iter().map(|v| v.id.symbol()).collect();
    for file in fs::read_dir(dir)? {
        let path = file?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|e| e == extension) && !known.contains(&stem) {
            fs::remove_file(&path)?;
            let _ = fs::remove_file(path.with_extension("json"));
        }
    }
    Ok(())
}

/// The first error among a compiler's messages, with the lines that belong to it.
fn first_error(log: &str) -> String {
    const LINES: usize = 16;
    let lines: Vec<&str> = log.lines().collect();
    let is_error = |l: &&str| l.contains("error") || l.contains("fatal");
    let Some(first) = lines.iter().position(is_error) else {
        return lines[lines.len().saturating_sub(LINES)..].join("\n");
    };
    let rest = &lines[first + 1..];
    let end = rest.iter().position(is_error).unwrap_or(rest.len());
    // where clang came from (In file included from) stands before its error
    let from = lines[..first].iter().rposition(|l| !l.starts_with("In file included from")).map_or(0, |i| i + 1);
    // a macro's body says nothing that its use does not
    let mut in_macro = false;
    let useful = |l: &&str| {
        if l.contains(": note: ") {
            in_macro = l.contains("expanded from macro");
        }
        !in_macro && !l.trim().is_empty()
    };
    let shown: Vec<&str> = lines[from..=first].iter().chain(&rest[..end]).copied().filter(useful).collect();
    let more = if shown.len() > LINES { format!("\n... {} more lines", shown.len() - LINES) } else { String::new() };
    format!("{}{more}", shown[..shown.len().min(LINES)].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_shown_alone() {
        let log =
            "ptxas info: x\nIn file included from a.hip:1:\nb.h:3:1: error: no such name\n  foo\n  ^\nb.h:9:1: error: another\n2 errors generated\n";
        assert_eq!(first_error(log), "In file included from a.hip:1:\nb.h:3:1: error: no such name\n  foo\n  ^");
        let expanded = "a.hip:1:1: error: no\n  X\nb.h:2:1: note: expanded from macro 'X'\n  body\na.hip:1:1: note: evaluates to 1\n  X\n";
        assert_eq!(first_error(expanded), "a.hip:1:1: error: no\n  X\na.hip:1:1: note: evaluates to 1\n  X");
        assert_eq!(first_error("killed\n"), "killed");
        let long = format!("a.cu(3): error: deep\n{}", "  instantiation\n".repeat(40));
        assert!(first_error(&long).ends_with("... 25 more lines"));
    }

    #[test]
    fn images_that_the_table_does_not_name_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["ww_old.cubin", "ww_old.json", "manifest.json", "other.txt"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        remove_orphans(dir.path(), &[], "cubin").unwrap();
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["manifest.json", "other.txt"]);
    }
}
