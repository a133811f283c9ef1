use crate::Outcome;
use crate::machine::images;
use crate::ui::{self, Side, out, outln};
use anyhow::Result;
use clap::ValueEnum;
use std::collections::BTreeSet;
use warpwave::Target;
use warpwave_core::{KernelId, Vendor};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// `list` shows where packs are found, `check` compares each image with its hash and the packs with the variant table
    #[arg(value_enum, default_value = "list")]
    action: Action,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    List,
    Check,
}

pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let images = images();
    let mut rows = vec![["target", "kernels", "images", "pack", "compiler"].map(str::to_owned).to_vec()];
    let host = warpwave_kernels::variants(Target::Host32).len();
    rows.push(vec!["host32, host64".into(), host.to_string(), "-".into(), "linked into the program".into(), "-".into()]);
    let (mut lines, mut bad) = (Vec::new(), 0);
    for target in Target::ALL.into_iter().filter(|t| t.vendor() != Vendor::Cpu) {
        let table = warpwave_kernels::variants(target);
        let mut have = BTreeSet::new();
        let packs = match images.packs(target) {
            Ok(packs) => packs,
            Err(e) => {
                bad += 1;
                lines.push(format!("{}: {e}", ui::bad(target)));
                continue;
            }
        };
        for pack in &packs {
            let total: u64 = pack.manifest.kernels.iter().map(|k| k.bytes).sum();
            let kernels = pack.manifest.kernels.len().to_string();
            rows.push(vec![target.to_string(), kernels, ui::bytes(total), pack.path.clone(), pack.manifest.compiler.clone()]);
            for k in pack.manifest.kernels.iter().filter(|_| args.action == Action::Check) {
                let known: Option<&KernelId> = table.iter().map(|v| &v.id).find(|id| id.to_string() == k.id);
                match known.map(|id| pack.image(id)) {
                    Some(Ok(_)) => {
                        have.insert(k.id.clone());
                    }
                    Some(Err(e)) => {
                        bad += 1;
                        lines.push(ui::bad(e));
                    }
                    None => lines.push(format!("{}: {} is no kernel of this version", pack.path, k.id)),
                }
            }
        }
        if args.action == Action::Check && !packs.is_empty() {
            let missing: Vec<String> = table.iter().map(|v| v.id.to_string()).filter(|id| !have.contains(id)).collect();
            let text = format!("{target}: {} of {} kernels of this version are here and whole", have.len(), table.len());
            lines.push(if missing.is_empty() { ui::good(text) } else { text });
            lines.extend(missing.iter().map(|id| ui::dim(format!("  not built: {id}"))));
        }
    }
    if args.action == Action::List {
        out!("{}", ui::table(&rows, &[Side::Left, Side::Right, Side::Right, Side::Left, Side::Left]));
        if rows.len() == 2 {
            outln!("{}", ui::dim("no pack for a GPU: `cargo xtask build` makes them, WARPWAVE_KERNELS names their folder"));
        }
    }
    lines.iter().for_each(|l| outln!("{l}"));
    if args.action == Action::Check {
        outln!("{}", if bad == 0 { "every image has its hash".into() } else { format!("{bad} images are damaged") });
    }
    Ok(if bad == 0 { Outcome::Passed } else { Outcome::Failed })
}
