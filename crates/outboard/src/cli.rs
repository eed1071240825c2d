//! The command line: what can be said. What it does is in [`crate::commands`].

mod usage_error;

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    agent, array, attach, client, copy, detach, disk, doctor, export, inspect, lab, ls, overlay,
    refresh, reload, serve, tls,
};
use crate::output::Format;

pub(crate) use usage_error::{conflict, failure};

/// Place of options that every command has.
const LAST: usize = 900;

/// Disks for small machines that live on another one.
#[derive(Debug, Parser)]
#[command(
    name = "outboard",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    subcommand_required = true
)]
pub(crate) struct Cli {
    /// Speak JSON, for programs
    #[arg(long, global = true, display_order = LAST)]
    pub(crate) json: bool,

    /// Log more (twice: everything); RUST_LOG goes before it
    #[arg(long, short, global = true, action = ArgAction::Count, display_order = LAST)]
    pub(crate) verbose: u8,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve disks over NBD
    Serve(serve::Args),
    /// Make a block device of a disk, and mount it
    Attach(attach::Args),
    /// Flush, unmount and disconnect
    Detach(detach::Args),
    /// See that a disk that is attached has grown
    Refresh(refresh::Args),
    /// What is attached and served here, and how it is
    Status,
    /// Have a server read its configuration again
    Reload(reload::WhichServer),
    /// See to the exports of a server that runs
    #[command(subcommand)]
    Export(export::Command),
    /// See to the clients of a server that runs
    #[command(subcommand)]
    Client(client::Command),
    /// What a disk is
    Inspect(inspect::Args),
    /// The exports of a server
    Ls(ls::Args),
    /// Copy a disk onto another one
    Copy(copy::Args),
    /// Make disk images
    #[command(subcommand)]
    Disk(disk::Command),
    /// Make arrays (Linux software RAID), and see to them
    #[command(subcommand)]
    Array(array::Command),
    /// See to the changes that overlays keep
    #[command(subcommand)]
    Overlay(overlay::Command),
    /// Make certificates
    #[command(subcommand)]
    Tls(tls::Command),
    /// Measure how fast, and why not faster
    #[command(subcommand)]
    Lab(lab::Command),
    /// Show this machine's sensors to a lab on another one
    Agent(agent::Args),
    /// Find out what holds a disk, an export or a directory back
    Doctor(doctor::Args),
    /// What `attach` runs in the background; not for people
    #[command(name = attach::BACKGROUND, hide = true)]
    AttachBackground,
    /// What the background process runs for calls that may block; not for people
    #[command(name = ::attach::WORKER, hide = true)]
    AttachWorker,
}

/// Parses the command line. clap reports a request for help or for the version as an error, too.
pub(crate) fn read(
    arguments: impl Iterator<Item = std::ffi::OsString>,
) -> Result<Cli, clap::Error> {
    // Without a command derived parsers report their help, which names no command; this way the error does.
    let mut command = Cli::command()
        .arg_required_else_help(false)
        .mut_subcommands(|group| group.arg_required_else_help(false));
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Whether programs are listening, found out without understanding the command line.
pub(crate) fn format(arguments: &[std::ffi::OsString]) -> Format {
    if arguments.iter().any(|argument| argument == "--json") {
        Format::Json
    } else {
        Format::Text
    }
}
