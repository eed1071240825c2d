//! `outboard tls …`: certificates for servers and their clients.

mod authority;
mod folder;
mod init;

use clap::Subcommand;

use crate::failure::Failure;
use crate::output::Format;

/// What can be done with certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a certificate authority, and certificates for a server and its clients
    Init(init::Args),
    /// Create a certificate for another client
    Client(init::ClientArgs),
}

/// Does it.
pub(crate) fn run(command: Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Init(args) => init::run(&args, format),
        Command::Client(args) => init::add_client(&args, format),
    }
}

#[cfg(test)]
mod tests;
