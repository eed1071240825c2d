//! [`Counters`]: what one connection did, for others to read.

use std::sync::OnceLock;

use super::figures::{CommandFigures, Figures};
use super::histogram::{Count, Histogram};
use super::{BUCKETS, Op};

/// One connection's counters. Its [`Meter`](super::Meter) alone changes them.
#[derive(Debug, Default)]
pub(in crate::server) struct Counters {
    commands: [Command; Op::ALL.len()],
}

/// The counters of one command.
#[derive(Debug, Default)]
pub(super) struct Command {
    /// Begun.
    pub(super) requests: Count,
    /// Answered with an error.
    pub(super) errors: Count,
    /// Bytes of those that succeeded.
    pub(super) bytes: Count,
    /// Begun and not answered.
    pub(super) in_flight: Count,
    latency: OnceLock<Box<Histogram>>,
}

impl Command {
    pub(super) fn latency(&self) -> &Histogram {
        self.latency.get_or_init(|| Box::new(Histogram::new()))
    }

    fn figures(&self, command: Op) -> CommandFigures {
        let mut figures = CommandFigures {
            requests: self.requests.value(),
            errors: self.errors.value(),
            bytes: self.bytes.value(),
            in_flight: self.in_flight.value(),
            ..CommandFigures::none(command)
        };
        if let Some(histogram) = self.latency.get() {
            figures.latency_nanos = histogram.nanos.value();
            figures.latency = histogram.buckets.iter().map(Count::value).collect();
        } else {
            figures.latency = vec![0; BUCKETS];
        }
        figures
    }
}

impl Counters {
    pub(super) fn of(&self, op: Op) -> &Command {
        &self.commands[op.index()]
    }

    /// The current figures. Commands that were never requested are left out.
    pub(in crate::server) fn figures(&self) -> Figures {
        let asked = |op: &Op| self.of(*op).requests.value() > 0;
        let commands = Op::ALL.into_iter().filter(asked);
        Figures {
            commands: commands.map(|op| self.of(op).figures(op)).collect(),
        }
    }
}
