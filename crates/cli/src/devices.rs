use crate::machine::Machine;
use crate::ui::{self, Side};
use crate::Outcome;
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
            .devices
            .iter()
            .map(|d| {
                let c = d.caps();
                json!({ "name": d.name(), "model": d.model(), "target": c.target, "units": c.units, "shared_memory": c.shared_memory,
                    "max_cluster": c.max_cluster, "memory": c.memory })
            })
            .collect();
        let missing: Vec<String> = machine.missing.iter().map(ToString::to_string).collect();
        println!("{}", serde_json::to_string_pretty(&json!({ "devices": devices, "missing": missing }))?);
        return Ok(Outcome::Passed);
    }
    let mut rows = vec![["name", "model", "target", "units", "shared", "memory"].map(str::to_owned).to_vec()];
    for d in &machine.devices {
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
    anstream::print!("{}", ui::table(&rows, &[Side::Left, Side::Left, Side::Left, Side::Right, Side::Right, Side::Right]));
    for e in &machine.missing {
        anstream::println!("{}", ui::dim(e));
    }
    Ok(Outcome::Passed)
}
