//! `outboard disk …`: disk images.

mod create;
mod grow;
mod mkfs;
mod part_options;
mod partitions;

use clap::Subcommand;

use crate::failure::Failure;
use crate::output::Format;

/// What can be done with images.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a disk image
    Create(create::Args),
    /// Grow a disk image, with its partition table
    Grow(grow::Args),
}

/// Does it.
pub(crate) fn run(command: Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create::run(&args, format),
        Command::Grow(args) => grow::run(&args, format),
    }
}

#[cfg(test)]
mod tests;
