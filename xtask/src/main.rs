//! Development commands: `cargo xtask <command>`. One file for each; what they share lies in the modules below `support`.
#![forbid(unsafe_code)]

mod build;
mod inspect;
mod support;
mod tidy;
mod toolchain;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development commands of warpwave")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Finds the device compilers; installs the pinned ones where there are none.
    Toolchain(toolchain::Args),
    /// Compiles the kernels of a vendor, a target or an op into target/kernels.
    Build(build::Args),
    /// Shows what the built kernels take of a device, and their instructions.
    Inspect(inspect::Args),
    /// Checks the rules of the house.
    Tidy(tidy::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Toolchain(args) => toolchain::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Tidy(args) => tidy::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
