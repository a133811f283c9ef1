//! `cuda/targets.toml` and `hip/targets.toml`.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use warpwave_core::{Arch, Target, Vendor};

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Targets {
    /// Flags of every compile.
    pub(crate) flags: Vec<String>,
    pub(crate) compiler: BTreeMap<String, Compiler>,
    arch: BTreeMap<String, ArchPaths>,
    target: BTreeMap<String, TargetFlags>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Compiler {
    /// The oldest release that will do.
    pub(crate) minimum: Option<String>,
    /// The one release that will do.
    pub(crate) release: Option<String>,
    /// What is installed where there is none: Python wheels, exact versions.
    pub(crate) wheels: BTreeMap<String, String>,
    /// Name of the distribution's own clang.
    pub(crate) clang: Option<String>,
    /// What is installed where there is none: Debian packages.
    pub(crate) packages: Vec<String>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct ArchPaths {
    include: Vec<String>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetFlags {
    /// A key of `compiler`.
    pub(crate) compiler: String,
    /// Extension of the image: cubin, ptx, hsaco.
    pub(crate) image: String,
    pub(crate) flags: Vec<String>,
    /// Arguments of ptxas for a target whose image is text.
    pub(crate) assemble: Option<Vec<String>>,
}

impl Targets {
    pub(crate) fn load(root: &Path, vendor: Vendor) -> Result<Self> {
        let name = if vendor == Vendor::Cuda { "cuda/targets.toml" } else { "hip/targets.toml" };
        let text = std::fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        toml::from_str(&text).with_context(|| name.to_owned())
    }

    pub(crate) fn target(&self, target: Target) -> Result<&TargetFlags> {
        self.target.get(target.name()).with_context(|| format!("targets.toml has no [target.{target}]"))
    }

    /// Include directories, below the root.
    pub(crate) fn include(&self, arch: Arch) -> Result<&[String]> {
        let name = match arch {
            Arch::Host => "host",
            Arch::Sm80 => "sm80",
            Arch::Sm90 => "sm90",
            Arch::Gfx9 => "gfx9",
            Arch::Gfx11 => "gfx11",
        };
        Ok(&self.arch.get(name).with_context(|| format!("targets.toml has no [arch.{name}]"))?.include)
    }

    /// The names of the targets that a compiler builds.
    pub(crate) fn built_by<'a>(&'a self, compiler: &'a str) -> impl Iterator<Item = &'a str> {
        self.target.iter().filter(move |(_, t)| t.compiler == compiler).map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_flags_a_compiler_and_include_paths() {
        let root = crate::support::root().unwrap();
        for target in Target::ALL.into_iter().filter(|t| t.vendor() != Vendor::Cpu) {
            let all = Targets::load(&root, target.vendor()).unwrap();
            let t = all.target(target).unwrap();
            assert!(all.compiler.contains_key(&t.compiler), "{target}");
            assert!(!all.include(target.arch()).unwrap().is_empty());
            assert!(t.image != "ptx" || t.assemble.is_some(), "{target}: PTX that nothing checks");
        }
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(toml::from_str::<Targets>("flags = []\nflag = 1\n[compiler]\n[arch]\n[target]").is_err());
    }
}
