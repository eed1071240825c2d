//! `outboard disk …`: disk images.

mod create;
mod mkfs;

use clap::Subcommand;

use crate::failure::Failure;
use crate::output::Format;

/// What can be done with images.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a disk image
    Create(create::Args),
}

/// Does it.
pub(crate) fn run(command: Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create::run(&args, format),
    }
}

#[cfg(test)]
mod tests;
