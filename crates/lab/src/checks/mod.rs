//! Checks: whether a figure may be believed. Each is a small pure function in its own file, tested
//! with the figures of the study that went wrong.
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
pub mod steady;
pub mod sweep;
pub mod tail;
pub mod thermal;
pub mod units;

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// No result is above what the wire, the bus or the memory can carry.
    Ceiling,
    /// O_DIRECT asked is O_DIRECT done.
    Direct,
    /// Only equal jobs are compared.
    Asymmetry,
    /// The printed rate is bytes over time.
    Units,
    /// The direction counted is the direction asked for.
    Label,
    /// Nothing that is read was in a cache.
    Cache,
    /// What is in flight is little of what is moved.
    InFlight,
    /// Nothing else used the device, the processor or the wire.
    Noise,
    /// A percentile rests on enough slower operations.
    Tail,
    /// The state that was measured lasts.
    Steady,
    /// A layer is no faster than what it stands on.
    Order,
    /// A disk is known by more than its letter.
    Identity,
    /// Parts begin where physical blocks do.
    Alignment,
    /// It is not the load's generator that was measured.
    Generator,
    /// What is read was written and does not compress.
    Data,
    /// The engine and the depth asked for were there.
    Engine,
    /// Heat did not hold the machine back.
    Thermal,
    /// A percentage of CPU says of what.
    Denominators,
    /// The lab's own cost is small.
    Observer,
    /// The machine is a real one.
    Emulation,
    /// Other findings about how the run was made.
    Run,
}

impl Check {
    /// As stored and printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ceiling => "ceiling",
            Self::Direct => "direct",
            Self::Asymmetry => "asymmetry",
            Self::Units => "units",
            Self::Label => "label",
            Self::Cache => "cache",
            Self::InFlight => "in-flight",
            Self::Noise => "noise",
            Self::Tail => "tail",
            Self::Steady => "steady",
            Self::Order => "order",
            Self::Identity => "identity",
            Self::Alignment => "alignment",
            Self::Generator => "generator",
            Self::Data => "data",
            Self::Engine => "engine",
            Self::Thermal => "thermal",
            Self::Denominators => "denominators",
            Self::Observer => "observer",
            Self::Emulation => "emulation",
            Self::Run => "run",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

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
    pub const fn is_usable(&self) -> bool {
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
