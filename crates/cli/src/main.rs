//! `warpwave`: devices, one problem, the conformance suite, benchmarks and kernel images from the command line.

mod bench;
mod devices;
mod embedded;
mod inspect;
mod kernels;
mod machine;
mod run;
mod ui;
mod verify;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// GPU kernels for transformers, on NVIDIA, AMD and the CPU.
///
/// A PROBLEM is one line: an op, its operands as `name=dtype[shape]:strides+offset`, its attributes as name=value, and if you like the device:
/// `softmax x=bf16[512,4096] axis=-1 @cuda:0`. Outputs and strides that are not given are contiguous.
#[derive(Parser)]
#[command(name = "warpwave", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the devices of this machine, and why a backend is missing
    Devices(devices::Args),
    /// Run one problem on generated inputs and check the result against the float64 reference
    Run(run::Args),
    /// Run the conformance suite
    Verify(verify::Args),
    Bench(bench::Args),
    /// Show what built kernels take: registers, shared memory, spills, bytes
    Inspect(inspect::Args),
    /// Show or check the kernel packs that are found
    Kernels(kernels::Args),
}

/// How a command that could do its work ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Devices(args) => devices::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Kernels(args) => kernels::run(&args),
    };
    match result {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        Err(e) => {
            anstream::eprintln!("{}: {e:#}", ui::bad("error"));
            ExitCode::from(2)
        }
    }
}
