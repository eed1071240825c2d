//! `outboard overlay …`: the stores of overlays.

mod commit;
mod status;

use clap::Subcommand;

use crate::failure::Failure;
use crate::output::Format;

/// What can be done with the store of an overlay.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write the changes of an overlay into its base, and empty it
    Commit(commit::Args),
    /// Show how much an overlay has changed, and how much space is left
    Status(status::Args),
}

/// Does it.
pub(crate) fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Commit(args) => commit::run(args, format),
        Command::Status(args) => status::run(args, format),
    }
}

#[cfg(test)]
mod tests;
