//! `cargo xtask verify`: the main job. Compilers, kernels for every vendor, every op checked on every device found.

use crate::support;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Nothing to choose.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How much of the conformance suite to run on each device
    #[arg(long, default_value = "ci", value_parser = ["quick", "ci", "full"])]
    set: String,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = support::root()?;
    let xtask = std::env::current_exe()?;
    let step = |program: &std::ffi::OsStr, args: &[&str]| -> Result<()> {
        println!("== {}", args.join(" "));
        let status = Command::new(program).args(args).current_dir(&root).status().with_context(|| format!("cannot run {}", program.display()))?;
        if !status.success() {
            bail!("`{}` failed: {status}", args.join(" "));
        }
        Ok(())
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    step(xtask.as_os_str(), &["toolchain", "--vendor", "all"])?;
    step(xtask.as_os_str(), &["build", "--vendor", "all", "--set", "ci"])?;
    step(&cargo, &["build", "--quiet", "--release", "-p", "warpwave-cli"])?;
    let cli = root.join("target/release/warpwave");
    // a device of this machine runs all that its target has
    let out = Command::new(&cli).args(["devices", "--json"]).current_dir(&root).output().context("cannot run warpwave devices")?;
    let devices: serde_json::Value = serde_json::from_slice(&out.stdout).context("warpwave devices --json")?;
    let mut targets: Vec<&str> =
        devices["devices"].as_array().into_iter().flatten().filter_map(|d| d["target"].as_str()).filter(|t| !t.starts_with("host")).collect();
    targets.dedup();
    for target in targets {
        step(xtask.as_os_str(), &["build", "--target", target, "--set", "full"])?;
    }
    step(cli.as_os_str(), &["verify", "--set", &args.set])?;
    crate::support_table::print(&root)
}
