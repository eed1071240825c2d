//! The command line: commands and their options. [`crate::commands`] carries them out.

mod examples;
mod usage_error;

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

#[cfg(feature = "bucket")]
use crate::commands::bucket;
use crate::commands::{
    agent, array, attach, client, completions, copy, detach, disk, doctor, export, inspect, lab,
    ls, manual, netboot, overlay, refresh, reload, serve, tls, volume,
};
use crate::output::Format;

pub(crate) use usage_error::{conflict, failure};

/// Display order of global options: last.
const LAST: usize = 900;

/// The version; that of a package names the commit that it was built from, too.
const VERSION: &str = match option_env!("OUTBOARD_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Disks for small machines that live on another one.
#[derive(Debug, Parser)]
#[command(
    name = "outboard",
    version = VERSION,
    max_term_width = 100,
    disable_help_subcommand = true,
    subcommand_required = true
)]
pub(crate) struct Cli {
    /// Print JSON
    #[arg(long, global = true, display_order = LAST)]
    pub(crate) json: bool,

    /// Log at level debug (twice: trace); RUST_LOG overrides it
    #[arg(long, short, global = true, action = ArgAction::Count, display_order = LAST)]
    pub(crate) verbose: u8,

    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve disks over NBD
    Serve(serve::Args),
    /// Boot machines without disks from an image, each on an overlay of its own
    Netboot(netboot::Args),
    /// Attach a disk as a block device, and mount it
    Attach(attach::Args),
    /// Flush, unmount and disconnect
    Detach(detach::Args),
    /// Refresh the size of an attached disk that has grown
    Refresh(refresh::Args),
    /// Show what is attached and served on this machine
    Status,
    /// Reload the configuration of a running server
    Reload(reload::WhichServer),
    /// Manage exports of a running server
    #[command(subcommand)]
    Export(export::Command),
    /// Manage clients of a running server
    #[command(subcommand)]
    Client(client::Command),
    /// Show what is on a disk
    Inspect(inspect::Args),
    /// List the exports of a server
    Ls(ls::Args),
    /// Copy a disk onto another one
    Copy(copy::Args),
    /// Create disk images
    #[command(subcommand)]
    Disk(disk::Command),
    /// Create and manage arrays (Linux software RAID)
    #[command(subcommand)]
    Array(array::Command),
    /// Create and manage volumes (LVM2)
    #[command(subcommand)]
    Volume(volume::Command),
    /// Manage overlays
    #[command(subcommand)]
    Overlay(overlay::Command),
    /// Create and manage volumes on object stores
    #[cfg(feature = "bucket")]
    #[command(subcommand)]
    Bucket(bucket::Command),
    /// Create TLS certificates
    #[command(subcommand)]
    Tls(tls::Command),
    /// Measure throughput and latency, and compare runs
    #[command(subcommand)]
    Lab(lab::Command),
    /// Serve this machine's sensors to a lab on another machine
    Agent(agent::Args),
    /// Find the bottleneck of a disk, an export or a directory
    Doctor(doctor::Args),
    /// Print the script that completes command lines in a shell
    Completions(completions::Args),
    /// Write the manual pages into a folder
    Manual(manual::Args),
    /// The background process of `attach`; internal
    #[command(name = attach::BACKGROUND, hide = true)]
    AttachBackground,
    /// The worker of the background process for calls that may block; internal
    #[command(name = ::attach::WORKER, hide = true)]
    AttachWorker,
}

/// All commands, with the examples that their help ends with.
pub(crate) fn definition() -> clap::Command {
    examples::add(Cli::command())
}

/// Parses the command line. clap reports a request for help or for the version as an error, too.
pub(crate) fn read(
    arguments: impl Iterator<Item = std::ffi::OsString>,
) -> Result<Cli, clap::Error> {
    // Without a command derived parsers report their help, which names no command; this way the error does.
    let mut command = definition()
        .arg_required_else_help(false)
        .mut_subcommands(|group| group.arg_required_else_help(false));
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// The output format, determined before the command line is parsed, for its errors.
pub(crate) fn format(arguments: &[std::ffi::OsString]) -> Format {
    if arguments.iter().any(|argument| argument == "--json") {
        Format::Json
    } else {
        Format::Text
    }
}
