//! outboard: disks for small machines that live on another one.
//!
//! The command line ([`cli`]) and disk expressions ([`graph`]) are parsed here and handed to the
//! crates that do the work; each command has a file in [`commands`].
//!
//! # Invariants
//!
//! * A command that fails says so in one line ([`failure`]) and exits with 1, or with 2 if the
//!   command line alone is wrong.
//! * Standard output holds answers only, the log goes to standard error.
//! * A configuration that is wrong changes nothing.
//! * One builder makes all disks of a process. A file is open once; each disk claims its bytes of it, and
//!   bytes of two disks, one of them writable, are refused at both positions of the expression
//!   (`graph/builder/claims.rs`).
//! * What may be written through a disk is decided in one place (`graph/builder/written.rs`), without a
//!   default for kinds to come.
//! * An array is stopped after the disk on it was flushed, never before. A command names an array
//!   unambiguously. The program of `on_event` runs without a shell, one at a time, bounded.
//! * `inspect` writes nothing; `serve --auto` writes only where an option permits it. An overlay is opened
//!   only over the image that is recorded next to it.
//!
//! # What it does not do
//!
//! No protocol, no I/O path, no disk of its own.

mod abandonable;
mod arrays;
mod buckets;
mod caches;
mod cli;
mod commands;
mod completion;
mod config;
mod control;
mod event_log;
mod failure;
mod graph;
mod http_thread;
mod interrupt;
mod live_page;
mod logging;
mod metrics;
mod output;
mod programs;
mod remotes;
mod snapshots;
mod stamp;
mod volume_moves;

use std::process::ExitCode;

use tracing::Level;

use cli::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let format = cli::format(&arguments);
    match completion::answer_shell() {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(error) => {
            output::print_failure(&cli::failure(&error), format);
            return ExitCode::FAILURE;
        }
    }
    let done = match cli::read(arguments.into_iter()) {
        Ok(cli) => run(cli, format),
        Err(error) if !error.use_stderr() => output::print(error.render().to_string().trim_end()),
        Err(error) => Err(cli::failure(&error)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::print_failure(&failure, format);
            failure.exit_code()
        }
    }
}

fn run(cli: Cli, format: output::Format) -> Result<(), Failure> {
    let own = match &cli.command {
        Command::Serve(_) | Command::Netboot(_) | Command::AttachBackground => Level::INFO,
        _ => Level::WARN,
    };
    logging::start(own, cli.verbose)?;
    match cli.command {
        Command::Serve(args) => commands::serve::run(args, format),
        Command::Attach(args) => commands::attach::run(args, cli.verbose, format),
        Command::AttachBackground => commands::attach::background(),
        Command::AttachWorker => commands::attach::worker(),
        Command::Detach(args) => commands::detach::run(args, format),
        Command::Refresh(args) => commands::refresh::run(&args, format),
        Command::Status => commands::status::run(format),
        Command::Reload(which) => commands::reload::run(&which, format),
        Command::Export(command) => commands::export::run(command, format),
        Command::Client(command) => commands::client::run(&command, format),
        Command::Inspect(args) => commands::inspect::run(&args, format),
        Command::Netboot(args) => commands::netboot::run(&args, format),
        Command::Ls(args) => commands::ls::run(&args, format),
        Command::Copy(args) => commands::copy::run(&args, format),
        Command::Disk(command) => commands::disk::run(command, format),
        Command::Array(command) => commands::array::run(command, format),
        Command::Volume(command) => commands::volume::run(command, format),
        Command::Overlay(command) => commands::overlay::run(&command, format),
        #[cfg(feature = "bucket")]
        Command::Bucket(command) => commands::bucket::run(&command, format),
        Command::Tls(command) => commands::tls::run(command, format),
        Command::Lab(command) => commands::lab::run(command, format),
        Command::Agent(args) => commands::agent::run(&args, format),
        Command::Doctor(args) => commands::doctor::run(&args, format),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Manual(args) => commands::manual::run(&args),
    }
}
