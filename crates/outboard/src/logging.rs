//! The log: tracing's events on standard error.
//!
//! `RUST_LOG` decides where it is set (`debug`, or `nbd=trace,engine=debug`), else `--verbose`, else
//! the command's own level.

use std::io::{self, IsTerminal};

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::failure::Failure;

/// Starts the log. Call once.
pub(crate) fn start(own: Level, verbose: u8) -> Result<(), Failure> {
    let wanted = std::env::var("RUST_LOG").unwrap_or_default();
    let own_words = wanted.is_empty() && verbose == 0;
    let targets = match wanted.as_str() {
        "" => Targets::new().with_default(level(own, verbose)),
        wanted => wanted.parse::<Targets>().map_err(|error| {
            Failure::usage(format!("RUST_LOG is `{wanted}`: {error}"))
                .next("set it to error, warn, info, debug or trace")
        })?,
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        // Where in the program a line comes from helps who looks for more of them only.
        .with_target(!own_words)
        .with_ansi(io::stderr().is_terminal());
    let started = tracing_subscriber::registry()
        .with(lines)
        .with(targets)
        .try_init();
    started.map_err(|error| Failure::because("cannot start the log", &error))
}

fn level(own: Level, verbose: u8) -> LevelFilter {
    let level = match verbose {
        0 => own,
        1 => own.max(Level::DEBUG),
        _ => Level::TRACE,
    };
    LevelFilter::from_level(level)
}
