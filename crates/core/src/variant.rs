use crate::{Arch, Target};
use std::fmt;

/// The name of one compiled kernel: `{kernel}.{tag}.{target}`, where the tag gives dtypes, tile and flags.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KernelId {
    /// Name of the kernel: the op's, or that of a step it shares with others (`copy`).
    pub kernel: &'static str,
    /// Dtypes, tile, flags, joined by dots.
    pub tag: String,
    /// Target it is compiled for.
    pub target: Target,
}

impl KernelId {
    /// The extern "C" symbol: the name with every character that C does not allow replaced by `_`.
    pub fn symbol(&self) -> String {
        format!("ww_{self}").chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
    }
}

impl fmt::Display for KernelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.kernel, self.tag, self.target)
    }
}

/// How much of the variant table a build makes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BuildSet {
    /// One variant for each op, schedule and target.
    Ci,
    /// All.
    Full,
}

/// One instantiation of a template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variant {
    /// The kernel's name.
    pub id: KernelId,
    /// Primitives that it is built from.
    pub arch: Arch,
    /// Header of the template, below `warpwave/`.
    pub header: &'static str,
    /// C++ name of the policy template, and of its config struct without the namespace.
    pub template: &'static str,
    /// Name of the config struct.
    pub config_type: &'static str,
    /// Designated initialisers of the config struct.
    pub config: String,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared: u32,
    /// The smallest build set that holds it.
    pub set: BuildSet,
}
