//! `cargo xtask inspect`: what built kernels take of a device, and their instructions.

use crate::support::manifest::{Entry, Manifest};
use crate::support::targets::Targets;
use crate::support::{human, root};
use crate::toolchain::{self, Tool};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use warpwave_core::{Target, Vendor};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only kernels whose name holds this.
    kernel: Option<String>,
    /// Only these targets.
    #[arg(long)]
    target: Vec<Target>,
    /// Count the instructions that matter; show the whole code if one kernel is left.
    #[arg(long)]
    sass: bool,
}

/// Instructions that decide a kernel's speed: matrix units, copies and wide accesses, local memory.
const CUDA_COUNTS: &[&str] = &["HGMMA", "HMMA", "FFMA", "UTMALDG", "UTMASTG", "LDGSTS", "LDSM", "LDG.E.128", "STG.E.128", "LDL", "STL"];
const PTX_COUNTS: &[&str] = &["wgmma.mma_async", "mma.sync", "fma.rn", "cp.async", "ldmatrix", "ld.global", "st.global"];
const GFX9_COUNTS: &[&str] =
    &["v_mfma", "v_fma", "ds_read_b128", "ds_read_b64", "ds_write_b128", "global_load_dwordx4", "global_store_dwordx4", "scratch_"];
const GFX11_COUNTS: &[&str] =
    &["v_wmma", "v_fma", "ds_load_b128", "ds_load_b64", "ds_store_b128", "global_load_b128", "global_store_b128", "scratch_"];

const fn counts_of(target: Target) -> &'static [&'static str] {
    match target {
        Target::Compute80 => PTX_COUNTS,
        Target::Gfx1100 => GFX11_COUNTS,
        Target::Gfx90a | Target::Gfx942 => GFX9_COUNTS,
        _ => CUDA_COUNTS,
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = root()?;
    let mut found = 0;
    for target in Target::ALL.into_iter().filter(|t| t.vendor() != Vendor::Cpu && (args.target.is_empty() || args.target.contains(t))) {
        let dir = root.join("target/kernels").join(target.name());
        if !dir.join("manifest.json").is_file() {
            ensure!(!args.target.contains(&target), "no kernels for {target}: `cargo xtask build --target {target}` makes them");
            continue;
        }
        let manifest = Manifest::read(&dir)?;
        let matches = |e: &&Entry| args.kernel.as_ref().is_none_or(|k| e.id.contains(k.as_str()));
        let kernels: Vec<&Entry> = manifest.kernels.iter().filter(matches).collect();
        if kernels.is_empty() {
            continue;
        }
        found += kernels.len();
        println!("{target}: {} kernels, {}", kernels.len(), manifest.compiler);
        print!("{}", table(target, &kernels));
        if args.sass {
            let code = instructions(&root, &dir, target, &kernels)?;
            print!("{}", count_table(counts_of(target), &kernels, &code));
            if let [only] = code.as_slice() {
                println!("{only}");
            }
        }
        println!();
    }
    ensure!(found > 0, "no built kernel matches; `cargo xtask build` makes them");
    Ok(())
}

/// Columns to the right, but for the first.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|c| rows.iter().map(|r| r[c].len()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(i, (cell, &w))| if i == 0 { format!("  {cell:<w$}") } else { format!("{cell:>w$}") });
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    out
}

fn table(target: Target, kernels: &[&Entry]) -> String {
    let amd = target.vendor() == Vendor::Hip;
    let mut head = vec!["kernel", "threads", "shared", "static", "regs", "spill", "stack", "image", "blocks", "occupancy"];
    if amd {
        head.extend(["acc", "scalar"]);
    }
    let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for e in kernels {
        let r = &e.resources;
        let fit = occupancy(target, e.threads, r.registers + r.accumulators, e.shared + r.static_shared);
        let mut row = vec![e.id.clone()];
        row.extend([e.threads, e.shared, r.static_shared, r.registers, r.spill_bytes, r.stack_bytes].map(|n| n.to_string()));
        row.extend([human(e.bytes), fit.blocks.to_string(), format!("{:.0}%", 100.0 * fit.share)]);
        if amd {
            row.extend([r.accumulators.to_string(), r.scalar_registers.to_string()]);
        }
        rows.push(row);
    }
    aligned(&rows)
}

/// What a multiprocessor, compute unit (gfx9) or work-group processor (gfx11) has.
struct Unit {
    threads: u32,
    blocks: u32,
    /// 32-bit registers.
    registers: u32,
    /// Registers of a thread come in multiples of this.
    grain: u32,
    shared: u32,
    /// Shared memory that the system takes of each block.
    reserved: u32,
}

const fn nvidia_unit(threads: u32, blocks: u32, kib: u32) -> Unit {
    Unit { threads, blocks, registers: 65536, grain: 8, shared: kib << 10, reserved: 1024 }
}

const fn unit(target: Target) -> Unit {
    match target {
        Target::Sm80 => nvidia_unit(2048, 32, 164),
        Target::Sm89 | Target::Compute80 => nvidia_unit(1536, 24, 100),
        Target::Gfx90a | Target::Gfx942 => Unit { threads: 2048, blocks: 32, registers: 4 * 512 * 64, grain: 8, shared: 64 << 10, reserved: 0 },
        Target::Gfx1100 => Unit { threads: 2048, blocks: 32, registers: 4 * 1536 * 32, grain: 24, shared: 128 << 10, reserved: 0 },
        _ => nvidia_unit(2048, 32, 228),
    }
}

#[derive(PartialEq, Debug)]
struct Fit {
    /// Blocks that a unit holds at once.
    blocks: u32,
    /// Part of the unit's threads that they are.
    share: f64,
}

/// An estimate: what registers, shared memory and threads allow, block by block.
fn occupancy(target: Target, threads: u32, registers: u32, shared: u32) -> Fit {
    let u = unit(target);
    let threads = threads.max(1).next_multiple_of(target.warp_width());
    let by_threads = u.threads / threads;
    let by_registers = u.registers.checked_div(registers.next_multiple_of(u.grain) * threads).unwrap_or(u.blocks);
    let by_shared = u.shared.checked_div(shared + u.reserved).unwrap_or(u.blocks);
    let blocks = u.blocks.min(by_threads).min(by_registers).min(by_shared);
    Fit { blocks, share: f64::from(blocks * threads) / f64::from(u.threads) }
}

/// The code of each kernel as text.
fn instructions(root: &Path, dir: &Path, target: Target, kernels: &[&Entry]) -> Result<Vec<String>> {
    let config = Targets::load(root, target.vendor())?;
    let flags = config.target(target)?;
    let tool = toolchain::ensure_compiler(root, &config, &flags.compiler)?;
    kernels
        .iter()
        .map(|e| {
            let image = dir.join(&e.file);
            if flags.image == "ptx" {
                return Ok(std::fs::read_to_string(image)?);
            }
            let mut command = disassembler(&tool, target);
            let output = command.arg(&image).output().with_context(|| format!("cannot run {:?}", command.get_program()))?;
            ensure!(output.status.success(), "{:?}: {}", command.get_program(), String::from_utf8_lossy(&output.stderr).trim_end());
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        })
        .collect()
}

fn disassembler(tool: &Tool, target: Target) -> Command {
    if target.vendor() == Vendor::Cuda {
        let mut command = Command::new(tool.beside("cuobjdump"));
        command.arg("-sass");
        return command;
    }
    // beside ROCm's clang, or the distribution's of the same number
    let beside = tool.beside("llvm-objdump");
    let numbered = tool.path.file_name().and_then(|n| n.to_str()).and_then(|n| n.split_once("++")).map(|(_, number)| format!("llvm-objdump{number}"));
    let path = if beside.is_file() { beside } else { PathBuf::from(numbered.unwrap_or_else(|| "llvm-objdump".into())) };
    let mut command = Command::new(path);
    command.args(["-d", &format!("--mcpu={target}")]);
    command
}

/// How many lines hold an instruction of this name. A name with dots, `LDG.E.128`, also counts where more parts stand between: `LDG.E.NA.128`.
fn count(code: &str, name: &str) -> usize {
    let is = |word: &str| match name.split_once('.') {
        None => word.starts_with(name),
        Some((first, rest)) => {
            let mut parts = word.split('.');
            parts.next() == Some(first) && rest.split('.').all(|wanted| parts.any(|p| p == wanted))
        }
    };
    code.lines().filter(|line| line.split_whitespace().any(is)).count()
}

fn count_table(names: &[&str], kernels: &[&Entry], code: &[String]) -> String {
    let mut rows = vec![std::iter::once("instructions").chain(names.iter().copied()).map(str::to_owned).collect::<Vec<_>>()];
    for (e, text) in kernels.iter().zip(code) {
        rows.push(std::iter::once(e.id.clone()).chain(names.iter().map(|n| count(text, n).to_string())).collect());
    }
    aligned(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_is_what_the_scarcest_allows() {
        // by threads; by registers; by shared memory
        assert_eq!(occupancy(Target::Sm90a, 256, 32, 0), Fit { blocks: 8, share: 1.0 });
        assert_eq!(occupancy(Target::Sm90a, 256, 128, 0), Fit { blocks: 2, share: 0.25 });
        assert_eq!(occupancy(Target::Sm90a, 384, 168, 200 << 10), Fit { blocks: 1, share: 0.1875 });
        // two waves of 64 at 256 registers each: 512 a lane, one block of 4 waves on each SIMD
        assert_eq!(occupancy(Target::Gfx942, 256, 256, 0), Fit { blocks: 2, share: 0.25 });
        assert_eq!(occupancy(Target::Gfx942, 256, 64, 64 << 10), Fit { blocks: 1, share: 0.125 });
    }

    #[test]
    fn instructions_are_counted_by_name() {
        let code = "  LDG.E.NA.128 R1, [R2] ; STG.E R3\n        /*0010*/                   HGMMA.64x64x16.F32 R24, gdesc ;\n  /*0020*/ LDG.E.128.CONSTANT R4, [R2] ;\n  /*0030*/ @P0 LDG.E R4 ;\n";
        assert_eq!((count(code, "HGMMA"), count(code, "LDG.E.128"), count(code, "HMMA")), (1, 2, 0));
    }
}
