//! What the commands share.

pub(crate) mod cache;
pub(crate) mod headers;
pub(crate) mod manifest;
pub(crate) mod pack;
pub(crate) mod progress;
pub(crate) mod resources;
pub(crate) mod source;
pub(crate) mod targets;

use anyhow::{Context, Result};
use clap::ValueEnum;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use warpwave_core::Vendor;

/// The checkout that the current directory lies in.
pub(crate) fn root() -> Result<PathBuf> {
    let here = std::env::current_dir()?;
    let root = here.ancestors().find(|d| d.join("cuda/targets.toml").is_file());
    root.map(Path::to_path_buf).with_context(|| format!("{} lies in no checkout of warpwave", here.display()))
}

/// `--vendor` on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum VendorArg {
    Cuda,
    Hip,
    Cpu,
    All,
}

impl VendorArg {
    pub(crate) fn has(self, vendor: Vendor) -> bool {
        match self {
            VendorArg::Cuda => vendor == Vendor::Cuda,
            VendorArg::Hip => vendor == Vendor::Hip,
            VendorArg::Cpu => vendor == Vendor::Cpu,
            VendorArg::All => true,
        }
    }
}

/// Hexadecimal SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Writes a file unless it holds these bytes already; true if it did not. Readers see the old file or the new one, never half of it.
pub(crate) fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<bool> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    let fresh = path.with_added_extension("new");
    fs::write(&fresh, bytes).and_then(|()| fs::rename(&fresh, path)).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}

/// Holds `<dir>/.lock` until dropped, so that two commands do not write the same files.
pub(crate) fn lock(dir: &Path) -> Result<File> {
    fs::create_dir_all(dir)?;
    let file = File::create(dir.join(".lock"))?;
    if file.try_lock().is_err() {
        eprintln!("waiting for another command in {}", dir.display());
        file.lock()?;
    }
    Ok(file)
}

/// Bytes for people.
pub(crate) fn human(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.2} MiB", bytes as f64 / 1_048_576.0),
    }
}
