//! Development commands: `cargo xtask <command>`. One file for each; what they share lies in the modules below `support`.
#![forbid(unsafe_code)]

mod bindgen;
mod build;
mod ci;
mod fuzz;
mod inspect;
mod new_op;
mod resources;
mod support;
mod support_table;
mod tidy;
mod toolchain;
mod verify;

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
    /// Writes or checks the bindings of the HIP runtime.
    Bindgen(bindgen::Args),
    /// Writes the files of a new op.
    NewOp(new_op::Args),
    /// The main job: compilers, kernels for every vendor, every op checked on every device found.
    Verify(verify::Args),
    /// Runs all tests: every row of CI that a change must pass.
    Test,
    /// Runs rows of CI, also those on request.
    Ci(ci::Args),
    /// Runs the fuzz targets; a crash becomes a regression that `cargo test` runs again.
    Fuzz(fuzz::Args),
    /// Writes or checks what each built kernel takes of a device.
    Resources(resources::Args),
    /// Writes or checks the README's support table.
    Support(support_table::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Toolchain(args) => toolchain::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Tidy(args) => tidy::run(&args),
        Command::Bindgen(args) => bindgen::run(&args),
        Command::NewOp(args) => new_op::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Test => ci::test(),
        Command::Ci(args) => ci::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Resources(args) => resources::run(&args),
        Command::Support(args) => support_table::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
