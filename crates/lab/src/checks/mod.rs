//! Checks: whether a figure may be believed. Each is a small pure function in its own file, tested
//! with the figures of the study that went wrong. [`registry`] lists all of them with the phases in which they
//! run; the rest of the lab calls a phase, never a check.
//!
//! Invariants: a check gets numbers and gives a [`Finding`] or nothing; it does not measure. What a
//! check could not look at is a remark, never silence. One invalid finding makes a result invalid;
//! invalid results are shown and never averaged in.

pub mod alignment;
pub mod asymmetry;
pub mod cache;
pub mod ceiling;
pub mod data;
pub mod denominators;
pub mod direct;
pub mod emulation;
pub mod engine;
pub mod generator;
pub mod identity;
pub mod in_flight;
pub mod label;
pub mod noise;
pub mod observer;
pub mod order;
mod phase;
mod registry;
pub mod steady;
pub mod sweep;
pub mod tail;
pub mod thermal;
pub mod units;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use phase::{
    FioMeasurement, MachineWatch, Measurement, TargetCheck, ToolMeasurement, fio_cpu,
};
pub use registry::Check;
pub(crate) use registry::{
    block_sizes, blocks, disks, dropped, fio, host, idle, imported, jobs, layer, machine,
    percentile, run, target, tool,
};

/// How bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Read the figure with this in mind.
    Remark,
    /// The figure is none.
    Invalid,
}

/// What a check has to say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// Which check.
    pub check: Check,
    /// How bad.
    pub level: Level,
    /// One sentence without a full stop, fit to follow "because".
    pub text: String,
}

impl Finding {
    /// A remark.
    #[must_use]
    pub fn remark(check: Check, text: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Remark,
            text: text.into(),
        }
    }

    /// A remark about how the run was made.
    #[must_use]
    pub(crate) fn of_run(text: impl Into<String>) -> Self {
        Self::remark(Check::Run, text)
    }

    /// The same, of a named target or machine.
    #[must_use]
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.text = format!("{place}: {}", self.text);
        self
    }

    /// The end of a result.
    #[must_use]
    pub fn invalid(check: Check, text: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Invalid,
            text: text.into(),
        }
    }
}

/// Whether a result may be believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "validity", rename_all = "kebab-case")]
pub enum Validity {
    /// Nothing to say.
    Good,
    /// With these in mind.
    Remarks {
        /// At least one.
        texts: Vec<String>,
    },
    /// Not a result, for this reason.
    Invalid {
        /// The first reason.
        reason: String,
    },
}

impl Validity {
    /// What a result's findings make of it.
    #[must_use]
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for finding in findings {
            match finding.level {
                Level::Invalid => {
                    return Self::Invalid {
                        reason: finding.text.clone(),
                    };
                }
                Level::Remark if texts.contains(&finding.text) => {}
                Level::Remark => texts.push(finding.text.clone()),
            }
        }
        if texts.is_empty() {
            Self::Good
        } else {
            Self::Remarks { texts }
        }
    }

    /// Whether it may be averaged and compared.
    #[must_use]
    pub(crate) const fn is_usable(&self) -> bool {
        !matches!(self, Self::Invalid { .. })
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => f.write_str("good"),
            Self::Remarks { .. } => f.write_str("good with remarks"),
            Self::Invalid { reason } => write!(f, "invalid because {reason}"),
        }
    }
}

#[cfg(test)]
mod tests;
