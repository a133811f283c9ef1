use crate::Outcome;
use crate::machine::Machine;
use crate::ui::{self, Side, out, outln};
use anyhow::Result;
use serde_json::json;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let machine = Machine::find();
    if args.json {
        let devices: Vec<_> = machine
            .every()
            .map(|d| {
                let c = d.caps();
                json!({ "name": d.name(), "model": d.model(), "target": c.target, "units": c.units, "shared_memory": c.shared_memory,
                    "max_cluster": c.max_cluster, "memory": c.memory })
            })
            .collect();
        outln!("{}", serde_json::to_string_pretty(&json!({ "devices": devices, "missing": missing(&machine) }))?);
        return Ok(Outcome::Passed);
    }
    let mut rows = vec![["name", "model", "target", "units", "shared", "memory"].map(str::to_owned).to_vec()];
    for d in machine.every() {
        let c = d.caps();
        rows.push(vec![
            d.name(),
            d.model(),
            c.target.to_string(),
            c.units.to_string(),
            // the host has no limit worth the name
            if c.target.vendor() == warpwave_core::Vendor::Cpu { "-".into() } else { ui::bytes(c.shared_memory.into()) },
            ui::bytes(c.memory),
        ]);
    }
    out!("{}", ui::table(&rows, &[Side::Left, Side::Left, Side::Left, Side::Right, Side::Right, Side::Right]));
    for e in missing(&machine) {
        outln!("{}", ui::dim(e));
    }
    Ok(Outcome::Passed)
}

/// Why a backend has no device here.
fn missing(machine: &Machine) -> Vec<String> {
    let mut all: Vec<String> = machine.missing.iter().map(ToString::to_string).collect();
    for (backend, built) in [("cuda", cfg!(feature = "cuda")), ("hip", cfg!(feature = "hip"))] {
        let said = all.iter().any(|e| e.starts_with(&format!("no {backend} ")));
        if !said && !machine.devices.iter().any(|d| d.name().starts_with(&format!("{backend}:"))) {
            all.push(if built { format!("no {backend} device: the driver finds none") } else { format!("no {backend} backend in this build") });
        }
    }
    all
}
