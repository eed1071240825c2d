//! The door to the repository: `cargo xtask test`, `demo`, `bench`, `ci`, `tidy`, `guest`, `fuzz`, `soak`,
//! `package`, `manual`, `units`, `netboot`, `book`.
//!
//! Every command says what it needs, installs it where it may, and ends with a non-zero status and one
//! line when it fails. Nothing here is linked into the product.

#![expect(
    clippy::print_stdout,
    reason = "a command-line tool whose output is its product"
)]

mod bench;
mod book;
mod browser;
mod ci;
mod clock;
mod data;
mod demo;
mod fuzz;
mod guest;
mod manual;
mod mounted_attachment;
mod netboot;
mod package;
mod packages;
mod process;
mod s3_servers;
mod servers;
mod shell;
mod soak;
mod suite;
mod systemd;
mod tidy;
mod units;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The door to the repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Door,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum Door {
    /// Show the main job, from a disk image to a report.
    Demo,
    /// Run the workspace's tests.
    Test {
        /// A package (nbd), a program of tests (guides, cli, browser) or a part of tests' names.
        filter: Option<String>,
    },
    /// Run everything that has to pass.
    Ci(ci::Args),
    /// Measure our server and the peers side by side and print the ratios.
    Bench(bench::Args),
    /// Serve a file as the bench's bare loop does.
    #[command(hide = true)]
    Bare(bench::bare::Args),
    /// Check the rules that no compiler checks.
    Tidy(tidy::Args),
    /// Run scripts in a Linux guest against servers on this machine.
    Guest(guest::Args),
    /// Run the fuzz targets.
    Fuzz(fuzz::Args),
    /// Let hundreds of clients come, work and be killed, and see that nothing is lost.
    Soak(soak::Args),
    /// Write all manual pages.
    Manual(manual::Args),
    /// Build Debian packages.
    Package(package::Args),
    /// Make a book of the guides, in target/book.
    Book,
    /// Boot systemd with our units in a container, and use them.
    Units,
    /// Boot machines without a disk from `outboard netboot`, in QEMU.
    Netboot(netboot::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Door::Bench(args) => bench::run(&args),
        Door::Book => book::run(),
        Door::Bare(args) => bench::bare::run(&args),
        Door::Demo => demo::run(),
        Door::Test { filter } => ci::test(filter.as_deref()),
        Door::Ci(args) => ci::run(&args),
        Door::Fuzz(args) => fuzz::run(&args),
        Door::Soak(args) => soak::run(&args),
        Door::Tidy(args) => tidy::run(&args),
        Door::Guest(args) => guest::run(&args),
        Door::Manual(args) => manual::run(&args),
        Door::Package(args) => package::run(&args),
        Door::Units => units::run(),
        Door::Netboot(args) => netboot::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
