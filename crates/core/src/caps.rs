use serde::{Deserialize, Serialize};
use std::fmt;

/// Whose compiler makes a target's kernels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// The host's C++ compiler.
    Cpu,
    /// nvcc.
    Cuda,
    /// hipcc, driving clang.
    Hip,
}

/// What kernels are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each is the vendor's own name")]
pub enum Target {
    #[serde(rename = "host32")]
    Host32,
    #[serde(rename = "host64")]
    Host64,
    #[serde(rename = "sm_80")]
    Sm80,
    #[serde(rename = "sm_89")]
    Sm89,
    #[serde(rename = "sm_90a")]
    Sm90a,
    #[serde(rename = "sm_100")]
    Sm100,
    #[serde(rename = "compute_80")]
    Compute80,
    #[serde(rename = "gfx90a")]
    Gfx90a,
    #[serde(rename = "gfx942")]
    Gfx942,
    #[serde(rename = "gfx1100")]
    Gfx1100,
}

/// Which set of tile primitives a kernel is built from: the folder that its translation unit finds `warpwave/target/entry.h` in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// Plain loops, each pipeline stage checked.
    Host,
    /// cp.async, ldmatrix, mma.sync.
    Sm80,
    /// Tensor maps, mbarriers, wgmma.
    Sm90,
    /// MFMA, waves of 64.
    Gfx9,
    /// WMMA, waves of 32.
    Gfx11,
}

impl Target {
    /// Whether matrix instructions take subnormal f16 and bf16 for zeros: MFMA of CDNA2 (AMD, "Reduced precision on MI200").
    pub const fn matrix_flushes_subnormals(self) -> bool {
        matches!(self, Target::Gfx90a)
    }

    /// Every target.
    pub const ALL: [Target; 10] = [
        Target::Host32,
        Target::Host64,
        Target::Sm80,
        Target::Sm89,
        Target::Sm90a,
        Target::Sm100,
        Target::Compute80,
        Target::Gfx90a,
        Target::Gfx942,
        Target::Gfx1100,
    ];

    /// The name in kernel names, on the command line and in folders.
    pub const fn name(self) -> &'static str {
        match self {
            Target::Host32 => "host32",
            Target::Host64 => "host64",
            Target::Sm80 => "sm_80",
            Target::Sm89 => "sm_89",
            Target::Sm90a => "sm_90a",
            Target::Sm100 => "sm_100",
            Target::Compute80 => "compute_80",
            Target::Gfx90a => "gfx90a",
            Target::Gfx942 => "gfx942",
            Target::Gfx1100 => "gfx1100",
        }
    }

    /// Whose compiler builds it.
    pub const fn vendor(self) -> Vendor {
        match self {
            Target::Host32 | Target::Host64 => Vendor::Cpu,
            Target::Gfx90a | Target::Gfx942 | Target::Gfx1100 => Vendor::Hip,
            _ => Vendor::Cuda,
        }
    }

    /// Threads that run in step: a warp or wave.
    pub const fn warp_width(self) -> u32 {
        match self {
            Target::Host64 | Target::Gfx90a | Target::Gfx942 => 64,
            _ => 32,
        }
    }

    /// The primitives of row ops, and of matrix ops unless the variant says otherwise.
    pub const fn arch(self) -> Arch {
        match self {
            Target::Host32 | Target::Host64 => Arch::Host,
            Target::Sm90a => Arch::Sm90,
            Target::Gfx90a | Target::Gfx942 => Arch::Gfx9,
            Target::Gfx1100 => Arch::Gfx11,
            _ => Arch::Sm80,
        }
    }

    /// The least shared memory of a block, in bytes, that every device of this target has. A variant that needs more is not built for it.
    pub const fn shared_memory(self) -> u32 {
        match self {
            Target::Host32 | Target::Host64 => 1 << 30,
            Target::Sm80 => 163 << 10,
            // also runs on sm_86 and sm_89
            Target::Sm89 | Target::Compute80 => 99 << 10,
            Target::Sm90a | Target::Sm100 => 227 << 10,
            Target::Gfx90a | Target::Gfx942 | Target::Gfx1100 => 64 << 10,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Target {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Target::ALL.into_iter().find(|t| t.name() == s).ok_or_else(|| format!("unknown target `{s}`"))
    }
}

/// What a plan may know of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeviceCaps {
    /// The target whose kernels the device runs.
    pub target: Target,
    /// Multiprocessors, compute units or cores.
    pub units: u32,
    /// Shared memory that one block may ask for, in bytes.
    pub shared_memory: u32,
    /// Blocks that may form a cluster; 1 where there are none.
    pub max_cluster: u32,
    /// Device memory, in bytes.
    pub memory: u64,
}

impl DeviceCaps {
    /// Plausible capabilities of a target, for snapshots and for compiling without a device: H200, A100, MI300X and so on.
    pub const fn typical(target: Target) -> Self {
        let (units, max_cluster) = match target {
            Target::Host32 | Target::Host64 => (4, 1),
            Target::Sm80 | Target::Compute80 => (108, 1),
            Target::Sm89 => (142, 1),
            Target::Sm90a => (132, 8),
            Target::Sm100 => (148, 8),
            Target::Gfx90a => (104, 1),
            Target::Gfx942 => (304, 1),
            Target::Gfx1100 => (96, 1),
        };
        DeviceCaps { target, units, shared_memory: target.shared_memory(), max_cluster, memory: 64 << 30 }
    }
}
