//! `target/kernels/<target>/manifest.json`: what was built.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use warpwave_core::{Arch, Target};

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub(crate) struct Manifest {
    pub(crate) target: Target,
    /// Name and version of the compiler.
    pub(crate) compiler: String,
    /// SHA-256 of the flags that all kernels share.
    pub(crate) flags: String,
    /// Sorted by id.
    pub(crate) kernels: Vec<Entry>,
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) symbol: String,
    pub(crate) arch: Arch,
    /// Image, beside the manifest.
    pub(crate) file: String,
    /// Where the image begins in the pack, behind the manifest.
    pub(crate) offset: u64,
    /// Length of the image.
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub(crate) shared: u32,
    #[serde(flatten)]
    pub(crate) resources: Resources,
}

/// What the compiler says a kernel takes.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Resources {
    /// Registers of a thread. AMD: vector registers without accumulators.
    pub(crate) registers: u32,
    /// AMD: accumulation registers.
    pub(crate) accumulators: u32,
    /// AMD: scalar registers of a wave.
    pub(crate) scalar_registers: u32,
    pub(crate) spill_bytes: u32,
    /// Local memory of a thread, in bytes.
    pub(crate) stack_bytes: u32,
    /// Shared memory that the kernel declares, in bytes.
    pub(crate) static_shared: u32,
}

impl Manifest {
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("manifest.json");
        let text = std::fs::read(&path).with_context(|| format!("no {}: `cargo xtask build` writes it", path.display()))?;
        serde_json::from_slice(&text).with_context(|| path.display().to_string())
    }

    pub(crate) fn json(&self) -> Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }
}
