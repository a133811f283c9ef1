//! `cargo xtask toolchain`: finds the device compilers, or installs the pinned ones.

use crate::support::progress::Progress;
use crate::support::targets::{Compiler, Targets};
use crate::support::{VendorArg, lock, root, write_if_changed};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::UNIX_EPOCH;
use warpwave_core::Vendor;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose compilers.
    #[arg(long, value_enum, default_value = "all")]
    vendor: VendorArg,
    /// Print only the path of each compiler, one a line.
    #[arg(long)]
    print: bool,
}

/// A compiler that was found or installed.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) path: PathBuf,
    /// Name and release: `nvcc 13.5.37`.
    pub(crate) release: String,
    /// All that `--version` prints.
    pub(crate) version: String,
    /// Why this one.
    pub(crate) origin: String,
}

impl Tool {
    /// Another program of the same installation.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = root()?;
    for vendor in [Vendor::Cuda, Vendor::Hip].into_iter().filter(|&v| args.vendor.has(v)) {
        for (name, tool) in ensure_compilers(&root, vendor)? {
            if args.print {
                println!("{}", tool.path.display());
            } else {
                println!("{name}: {} at {} ({})", tool.release, tool.path.display(), tool.origin);
            }
        }
        if vendor == Vendor::Hip && !args.print {
            match on_path("hipcc") {
                Some(path) => println!("hipcc: {} (not used: kernels need no HIP header, clang alone builds them)", path.display()),
                None => println!("hipcc: none (not needed: kernels need no HIP header, clang alone builds them)"),
            }
        }
    }
    Ok(())
}

/// The compilers that a vendor's targets name, found or installed.
pub(crate) fn ensure_compilers(root: &Path, vendor: Vendor) -> Result<BTreeMap<String, Tool>> {
    let targets = Targets::load(root, vendor)?;
    targets.compiler.keys().map(|name| Ok((name.clone(), ensure_compiler(root, &targets, name)?))).collect()
}

/// One compiler of `targets.toml`, found or installed.
pub(crate) fn ensure_compiler(root: &Path, targets: &Targets, name: &str) -> Result<Tool> {
    let compiler = targets.compiler.get(name).with_context(|| format!("targets.toml has no [compiler.{name}]"))?;
    let home = root.join("target/toolchain");
    let _lock = lock(&home)?;
    let mut probes = Probes::load(&home);
    let tool = match &compiler.clang {
        Some(clang) => ensure_clang(&mut probes, targets, name, compiler, clang),
        None => ensure_nvcc(&home, &mut probes, name, compiler),
    }?;
    probes.save()?;
    Ok(tool)
}

fn on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|d| d.join(name)).find(|p| p.is_file())
}

fn from_env(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from)
}

// ---- nvcc ----

/// `13.5.37` of `Cuda compilation tools, release 13.5, V13.5.37`.
fn nvcc_release(version: &str) -> Option<&str> {
    let (_, rest) = version.split_once(", V")?;
    rest.split_whitespace().next()
}

fn numbers(release: &str) -> Vec<u32> {
    release.split('.').map_while(|n| n.parse().ok()).collect()
}

/// Whether a release is the one that is asked for, or new enough.
fn suits(release: &str, compiler: &Compiler) -> bool {
    let have = numbers(release);
    let exact = compiler.release.as_deref().is_none_or(|r| have.starts_with(&numbers(r)));
    exact && compiler.minimum.as_deref().is_none_or(|m| have >= numbers(m))
}

fn ensure_nvcc(home: &Path, probes: &mut Probes, name: &str, compiler: &Compiler) -> Result<Tool> {
    let mut places = Vec::new();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        places.extend(from_env(variable).map(|d| (d.join("bin/nvcc"), variable.to_owned())));
    }
    places.extend(on_path("nvcc").map(|p| (p, "PATH".to_owned())));
    places.push((PathBuf::from("/usr/local/cuda/bin/nvcc"), "/usr/local/cuda".to_owned()));
    for (path, origin) in places {
        let Some(version) = probes.version(&path) else { continue };
        if let Some(release) = nvcc_release(&version).filter(|r| suits(r, compiler)) {
            return Ok(Tool { path, release: format!("nvcc {release}"), origin, version });
        }
    }
    let venv = home.join(name);
    let path = install_wheels(&venv, name, compiler)?;
    let version = probes.version(&path).with_context(|| format!("{} does not run", path.display()))?;
    let release = nvcc_release(&version).context("nvcc prints no release")?.to_owned();
    ensure!(suits(&release, compiler), "the pinned wheels hold nvcc {release}");
    Ok(Tool { path, release: format!("nvcc {release}"), origin: format!("pinned wheels in target/toolchain/{name}"), version })
}

fn nvcc_in(venv: &Path) -> Option<PathBuf> {
    let lib = fs::read_dir(venv.join("lib")).ok()?;
    lib.filter_map(Result::ok).map(|d| d.path().join("site-packages/nvidia/cu13/bin/nvcc")).find(|p| p.is_file())
}

fn install_wheels(venv: &Path, name: &str, compiler: &Compiler) -> Result<PathBuf> {
    let pins: Vec<String> = compiler.wheels.iter().map(|(wheel, version)| format!("{wheel}=={version}")).collect();
    let stamp = venv.join("stamp");
    let wanted = pins.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|s| s == wanted)
        && let Some(nvcc) = nvcc_in(venv)
    {
        return Ok(nvcc);
    }
    let python = ensure_python()?;
    let release = compiler.release.as_deref().or(compiler.minimum.as_deref()).unwrap_or("13");
    let _progress =
        Progress::spinner(&format!("{name}: no nvcc {release} in CUDA_HOME or on PATH; installing pinned wheels into target/toolchain/{name}"));
    if venv.exists() {
        fs::remove_dir_all(venv)?;
    }
    checked(Command::new(&python).args(["-m", "venv"]).arg(venv), "python3 -m venv")?;
    // no index: pip asks the one that this machine is set up for
    checked(Command::new(venv.join("bin/pip")).args(["install", "--quiet", "--no-deps", "--disable-pip-version-check"]).args(&pins), "pip install")?;
    let nvcc = nvcc_in(venv).context("the wheels hold no nvcc")?;
    fs::write(&stamp, wanted)?;
    Ok(nvcc)
}

/// A Python that can make virtual environments.
fn ensure_python() -> Result<PathBuf> {
    let usable = || {
        let python = on_path("python3")?;
        let works = Command::new(&python).args(["-c", "import venv, ensurepip"]).output().is_ok_and(|o| o.status.success());
        works.then_some(python)
    };
    if let Some(python) = usable() {
        return Ok(python);
    }
    apt_install(&["python3-venv".into()], "python3 with its venv module")?;
    usable().context("python3 still cannot make virtual environments")
}

// ---- clang ----

fn ensure_clang(probes: &mut Probes, targets: &Targets, name: &str, compiler: &Compiler, clang: &str) -> Result<Tool> {
    let mut places = Vec::new();
    for (home, origin) in [(from_env("ROCM_PATH"), "ROCM_PATH"), (Some("/opt/rocm".into()), "/opt/rocm")] {
        for folder in ["lib/llvm/bin", "llvm/bin", "bin"] {
            for binary in ["amdclang++", "clang++"] {
                places.extend(home.as_ref().map(|h| (h.join(folder).join(binary), origin)));
            }
        }
    }
    for binary in ["amdclang++", clang, "clang++"] {
        places.extend(on_path(binary).map(|p| (p, "PATH")));
    }
    let archs: Vec<&str> = targets.built_by(name).collect();
    for round in 0..2 {
        for (path, origin) in &places {
            let Some(version) = probes.version(path) else { continue };
            if probes.builds_all(path, &archs) {
                let release = version.lines().next().unwrap_or_default().trim().to_owned();
                return Ok(Tool { path: path.clone(), release, origin: (*origin).to_owned(), version });
            }
        }
        if round == 0 {
            apt_install(&compiler.packages, &format!("a clang that builds for {}", archs.join(", ")))?;
            places = on_path(clang).map(|p| (p, "PATH")).into_iter().collect();
        }
    }
    bail!("{clang} builds and links no code for {}", archs.join(", "))
}

fn apt_install(packages: &[String], what: &str) -> Result<()> {
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n");
    let (Some(apt), true) = (on_path("apt-get"), root) else {
        bail!("{what} is missing. Install these packages (Debian's names), then try again: {}", packages.join(" "));
    };
    let _progress = Progress::spinner(&format!("{what} is missing; installing Debian's packages"));
    let apt = || {
        let mut command = Command::new(&apt);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    checked(apt().args(["update", "-qq"]), "apt-get update")?;
    checked(apt().args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages), "apt-get install")?;
    Ok(())
}

/// Runs a command to its end; what it printed is shown only if it failed.
fn checked(command: &mut Command, name: &str) -> Result<Output> {
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(
        output.status.success(),
        "{name} failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(output)
}

// ---- what binaries said, remembered by path and time of change ----

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct Probe {
    changed: u64,
    length: u64,
    version: Option<String>,
    /// Targets for which it compiled and linked, and those for which it did not.
    builds: BTreeMap<String, bool>,
}

struct Probes {
    path: PathBuf,
    all: BTreeMap<PathBuf, Probe>,
}

impl Probes {
    fn load(home: &Path) -> Self {
        let path = home.join("probes.json");
        let all = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Probes { path, all }
    }

    fn save(&self) -> Result<()> {
        write_if_changed(&self.path, &serde_json::to_vec_pretty(&self.all)?)?;
        Ok(())
    }

    fn probe(&mut self, binary: &Path) -> Option<&mut Probe> {
        let meta = fs::metadata(binary).ok()?;
        let changed = meta.modified().ok()?.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        let same = self.all.get(binary).is_some_and(|p| (p.changed, p.length) == (changed, meta.len()));
        if !same {
            let output = Command::new(binary).arg("--version").output().ok().filter(|o| o.status.success());
            let version = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
            self.all.insert(binary.into(), Probe { changed, length: meta.len(), version, builds: BTreeMap::new() });
        }
        self.all.get_mut(binary)
    }

    /// What `--version` prints; `None` if there is no such program.
    fn version(&mut self, binary: &Path) -> Option<String> {
        self.probe(binary)?.version.clone()
    }

    /// Whether a clang compiles and links device code for every one of these.
    fn builds_all(&mut self, clang: &Path, archs: &[&str]) -> bool {
        let Some(probe) = self.probe(clang) else { return false };
        archs.iter().all(|&arch| *probe.builds.entry(arch.into()).or_insert_with(|| clang_builds(clang, arch).unwrap_or(false)))
    }
}

fn clang_builds(clang: &Path, arch: &str) -> Result<bool> {
    let dir = std::env::temp_dir().join(format!("warpwave-probe-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let source = dir.join("probe.hip");
    fs::write(&source, "extern \"C\" __attribute__((global)) void probe(int* p) { *p = 1; }\n")?;
    let flags = ["-x", "hip", "-std=c++20", "-O3", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-c"];
    let output = Command::new(clang).args(flags).arg(format!("--offload-arch={arch}")).arg(&source).arg("-o").arg(dir.join("probe.o")).output();
    let good = output.is_ok_and(|o| o.status.success());
    fs::remove_dir_all(&dir)?;
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.5, V13.5.37\nBuild cuda_13.5.r13.5\n";

    #[test]
    fn releases_compare_by_number() {
        assert_eq!(nvcc_release(VERSION), Some("13.5.37"));
        let minimum = Compiler { minimum: Some("13.0".into()), ..Compiler::default() };
        let exact = Compiler { release: Some("13.0".into()), ..Compiler::default() };
        for (release, at_least, just) in [("13.5.37", true, false), ("13.0.88", true, true), ("12.9.86", false, false), ("14.0.1", true, false)] {
            assert_eq!((suits(release, &minimum), suits(release, &exact)), (at_least, just), "{release}");
        }
    }

    #[test]
    fn a_probe_is_repeated_when_the_program_changes() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("tool");
        let put = |text: &str| {
            use std::os::unix::fs::PermissionsExt;
            fs::write(&tool, format!("#!/bin/sh\necho {text}\n")).unwrap();
            fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let mut probes = Probes::load(dir.path());
        assert_eq!(probes.version(&tool), None);
        put("one");
        assert_eq!(probes.version(&tool).as_deref(), Some("one\n"));
        probes.save().unwrap();
        put("second");
        assert_eq!(Probes::load(dir.path()).version(&tool).as_deref(), Some("second\n"));
    }
}
