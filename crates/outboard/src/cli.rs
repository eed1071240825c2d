//! The command line: what can be said. What it does is in [`crate::commands`].

use clap::error::ErrorKind;
use clap::{ArgAction, Parser, Subcommand};

use crate::commands::{
    agent, array, attach, client, copy, detach, disk, doctor, export, inspect, lab, ls, overlay,
    refresh, reload, serve, tls,
};
use crate::failure::Failure;
use crate::output::Format;

/// Place of options that every command has.
const LAST: usize = 900;

/// Disks for small machines that live on another one.
#[derive(Debug, Parser)]
#[command(
    name = "outboard",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
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

/// Reads the command line. A request for help or the version comes back as an error of clap's,
/// since it is clap who prints it.
pub(crate) fn read(
    arguments: impl Iterator<Item = std::ffi::OsString>,
) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(arguments)
}

/// A clap error in outboard's own words: one line.
pub(crate) fn failure(error: &clap::Error) -> Failure {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("no command").next("outboard --help lists them");
    }
    let told = error.render().to_string();
    let said = told.split("\n\nUsage:").next().unwrap_or_default();
    let said = said
        .split("\n\nFor more information")
        .next()
        .unwrap_or_default();
    let mut parts = said
        .split("\n\n")
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let what = parts.next().unwrap_or_default();
    let what = what.strip_prefix("error: ").unwrap_or(what);
    let tips: Vec<&str> = parts
        .map(|tip| tip.strip_prefix("tip: ").unwrap_or(tip))
        .collect();
    let usage = told
        .split_once("Usage: ")
        .map(|(_, usage)| usage.lines().next().unwrap_or_default());
    let next = match (tips.is_empty(), usage) {
        (false, _) => tips.join(", "),
        (true, Some(usage)) => format!("usage: {usage}"),
        (true, None) => "see --help".to_owned(),
    };
    Failure::usage(what).next(next)
}

/// Whether programs are listening, found out without understanding the command line.
pub(crate) fn format(arguments: &[std::ffi::OsString]) -> Format {
    if arguments.iter().any(|argument| argument == "--json") {
        Format::Json
    } else {
        Format::Text
    }
}
