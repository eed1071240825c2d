//! The log: tracing's events on standard error.
//!
//! Where systemd's journal reads along (`JOURNAL_STREAM`) there is no time in a line, since the journal
//! keeps that itself, and each begins with its level as the journal wants it (`<4>`, sd-daemon(3)).
//!
//! `RUST_LOG` decides where it is set (`debug`, or `nbd=trace,engine=debug`), else `--verbose`, else
//! the command's own level.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{self, FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
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
    // The module that a line comes from matters only to users with a filter of their own.
    let has_target = !own_words;
    let to_journal = is_journal();
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_target(has_target)
        .with_ansi(io::stderr().is_terminal());
    let journal = fmt::layer()
        .with_writer(io::stderr)
        .event_format(Journal { has_target });
    let started = tracing_subscriber::registry()
        .with((!to_journal).then_some(lines))
        .with(to_journal.then_some(journal))
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

/// Whether standard error is the journal's socket. The variable alone proves nothing: child processes with a
/// redirected standard error inherit it.
fn is_journal() -> bool {
    let journal = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let stat = rustix::fs::fstat(io::stderr());
    stat.is_ok_and(|stat| journal == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Lines for the journal.
struct Journal {
    has_target: bool,
}

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        write!(writer, "<{priority}>")?;
        let line = fmt::format().without_time().with_level(false);
        let line = line.with_target(self.has_target).with_ansi(false);
        line.format_event(context, writer, event)
    }
}
