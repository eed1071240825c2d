//! What one measurement gave: fio's result or another tool's, and the one number that statistics are
//! made of.

use serde::{Deserialize, Serialize};

use super::Cell;
use crate::checks::Validity;
use crate::fio::JobResult;
use crate::tools::{Better, ToolResult, Unit};
use crate::units::{Nanos, Rate};

/// What fio or a tool says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// fio's.
    Fio(JobResult),
    /// Another tool's.
    Tool(ToolResult),
}

/// One number of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headline<'a> {
    /// What it is: `throughput`.
    pub name: &'a str,
    /// In `unit`.
    pub value: f64,
    /// Of `value`.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
}

impl Headline<'_> {
    /// How many times as good as `other` it is: above one is better, whichever way that is.
    #[must_use]
    pub fn over(&self, other: &Self) -> f64 {
        match self.better {
            Better::Higher => self.value / other.value,
            Better::Lower => other.value / self.value,
        }
    }
}

impl Cell {
    /// fio's result, if fio measured.
    #[must_use]
    pub const fn fio(&self) -> Option<&JobResult> {
        match &self.outcome {
            Outcome::Fio(result) => Some(result),
            Outcome::Tool(_) => None,
        }
    }

    /// The same, to be changed.
    #[must_use]
    pub const fn fio_mut(&mut self) -> Option<&mut JobResult> {
        match &mut self.outcome {
            Outcome::Fio(result) => Some(result),
            Outcome::Tool(_) => None,
        }
    }

    /// A tool's result, if one measured.
    #[must_use]
    pub const fn tool(&self) -> Option<&ToolResult> {
        match &self.outcome {
            Outcome::Fio(_) => None,
            Outcome::Tool(result) => Some(result),
        }
    }

    /// Whether it gave no figure at all.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.tool().is_some_and(|result| result.figures.is_empty())
    }

    /// The number that statistics are made of: fio's bytes per second, the time for each write
    /// with its fsync, a tool's first figure.
    #[must_use]
    pub fn headline(&self) -> Option<Headline<'_>> {
        match &self.outcome {
            Outcome::Fio(result) if result.fsync => Some(Headline {
                name: "time for each write and fsync",
                value: result.runtime.0 as f64 / result.ios.max(1) as f64,
                unit: Unit::Nanoseconds,
                better: Better::Lower,
            }),
            Outcome::Fio(result) => Some(Headline {
                name: "throughput",
                value: result.rate().0,
                unit: Unit::BytesPerSecond,
                better: Better::Higher,
            }),
            Outcome::Tool(result) => result.headline().map(|figure| Headline {
                name: &figure.name,
                value: figure.value,
                unit: figure.unit,
                better: figure.better,
            }),
        }
    }

    /// Bytes per second, where the headline is that; zero where it is not.
    #[must_use]
    pub fn rate(&self) -> Rate {
        match self.headline() {
            Some(headline) if headline.unit == Unit::BytesPerSecond => Rate(headline.value),
            _ => Rate(0.0),
        }
    }

    /// fio's operations per second.
    #[must_use]
    pub fn operations_per_second(&self) -> f64 {
        self.fio().map_or(0.0, |result| {
            result.ios as f64 / result.runtime.seconds().max(f64::MIN_POSITIVE)
        })
    }

    /// Bytes moved, where they are counted.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match &self.outcome {
            Outcome::Fio(result) => Some(result.bytes.0),
            Outcome::Tool(result) => result.bytes.map(|bytes| bytes.0),
        }
    }

    /// The time that its figures are of.
    #[must_use]
    pub const fn runtime(&self) -> Nanos {
        match &self.outcome {
            Outcome::Fio(result) => result.runtime,
            Outcome::Tool(result) => result.elapsed,
        }
    }

    /// Whether it may be averaged in.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        Validity::of(&self.findings).is_usable()
    }
}

impl JobResult {
    /// Bytes per second.
    #[must_use]
    pub fn rate(&self) -> Rate {
        Rate::of(self.bytes, self.runtime).unwrap_or(Rate(0.0))
    }
}
