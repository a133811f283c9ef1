use crate::Outcome;
use crate::machine::images;
use crate::ui::{self, Side, out, outln};
use anyhow::{Result, bail};
use serde_json::json;
use warpwave::Target;
use warpwave_core::Vendor;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only kernels whose name holds this
    kernel: Option<String>,
    /// Only this target (sm_90a, gfx942, ...); may be repeated
    #[arg(long)]
    target: Vec<Target>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let images = images();
    let mut all = Vec::new();
    for target in Target::ALL.into_iter().filter(|t| t.vendor() != Vendor::Cpu && (args.target.is_empty() || args.target.contains(t))) {
        // the first pack that has a kernel is the one that serves it
        let mut seen = std::collections::BTreeMap::new();
        for pack in images.packs(target)? {
            for k in pack.manifest.kernels.iter().filter(|k| args.kernel.as_ref().is_none_or(|w| k.id.contains(w.as_str()))) {
                seen.entry(k.id.clone()).or_insert_with(|| (k.clone(), pack.path.clone()));
            }
        }
        all.extend(seen.into_values());
    }
    if all.is_empty() {
        let what = args.kernel.as_ref().map_or("no kernel".to_owned(), |k| format!("no kernel whose name holds `{k}`"));
        bail!("{what} in any pack that is found; `warpwave kernels list` shows them, `cargo xtask build` makes them");
    }
    if args.json {
        let list: Vec<_> = all.iter().map(|(k, path)| json!({ "kernel": k, "pack": path })).collect();
        outln!("{}", serde_json::to_string_pretty(&list)?);
        return Ok(Outcome::Passed);
    }
    let mut rows = vec![["kernel", "threads", "registers", "acc", "shared", "static", "spill", "image"].map(str::to_owned).to_vec()];
    for (k, _) in &all {
        let mut row = vec![k.id.clone()];
        row.extend([k.threads, k.registers, k.accumulators, k.shared, k.static_shared, k.spill_bytes].map(|n| n.to_string()));
        row.push(ui::bytes(k.bytes));
        rows.push(row);
    }
    let mut sides = vec![Side::Left];
    sides.resize(8, Side::Right);
    out!("{}", ui::table(&rows, &sides));
    Ok(Outcome::Passed)
}
