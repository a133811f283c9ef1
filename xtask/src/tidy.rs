//! `cargo xtask tidy`: the rules of the house, as checks.
#[derive(clap::Args)]
pub(crate) struct Args {}
pub(crate) fn run(_: &Args) -> anyhow::Result<()> {
    Ok(())
}
