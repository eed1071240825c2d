//! What a tool measured, as plain data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos, Rate, significant};

/// One start of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Its name: `dbench`.
    pub tool: String,
    /// As it says of itself; empty where no program's figures are reported.
    pub version: String,
    /// The first is the headline; none where it failed.
    pub figures: Vec<ToolFigure>,
    /// From its start to its end.
    pub elapsed: Nanos,
    /// Bytes moved, where the tool counts them.
    pub bytes: Option<Bytes>,
    /// What it worked on, where the plan does not say: the tree and its size.
    #[serde(default)]
    pub subject: Option<String>,
}

/// One number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolFigure {
    /// Lower case, for people: `block read`.
    pub name: String,
    /// In `unit`.
    pub value: f64,
    /// Of `value`.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes per second.
    BytesPerSecond,
    /// Files, seeks, requests or rounds per second.
    PerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// A part: 0.5 is half.
    Part,
    /// Degrees Celsius.
    Celsius,
    /// Hertz.
    Hertz,
}

/// Which way is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

impl Better {
    /// A positive value turned so that more is better.
    pub(crate) fn goodness(self, value: f64) -> f64 {
        match self {
            Self::Higher => value,
            Self::Lower => 1.0 / value,
        }
    }
}

impl ToolResult {
    /// A start that gave no figure.
    #[must_use]
    pub fn failed(tool: &str, version: &str, elapsed: Nanos) -> Self {
        Self {
            tool: tool.into(),
            version: version.into(),
            figures: Vec::new(),
            elapsed,
            bytes: None,
            subject: None,
        }
    }

    /// The number that statistics are made of.
    #[must_use]
    pub fn headline(&self) -> Option<&ToolFigure> {
        self.figures.first()
    }
}

impl ToolFigure {
    /// A figure of which more is better.
    #[must_use]
    pub fn higher(name: impl Into<String>, value: f64, unit: Unit) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            better: Better::Higher,
        }
    }

    /// Bytes per second.
    #[must_use]
    pub(super) fn rate(name: &str, bytes_per_second: f64) -> Self {
        Self::higher(name, bytes_per_second, Unit::BytesPerSecond)
    }

    /// Things per second.
    #[must_use]
    pub(super) fn per_second(name: &str, count: f64) -> Self {
        Self::higher(name, count, Unit::PerSecond)
    }

    /// A time.
    #[must_use]
    pub(super) fn time(name: &str, time: Nanos) -> Self {
        Self::lower(name, time.0 as f64, Unit::Nanoseconds)
    }

    /// A figure of which less is better.
    #[must_use]
    pub fn lower(name: impl Into<String>, value: f64, unit: Unit) -> Self {
        Self {
            better: Better::Lower,
            ..Self::higher(name, value, unit)
        }
    }
}

impl fmt::Display for ToolFigure {
    /// `block read 81.2 MB/s (77.4 MiB/s)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.unit.shown(self.value))
    }
}

impl Unit {
    /// A value with its unit, as printed.
    #[must_use]
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::BytesPerSecond => Rate(value).to_string(),
            Self::PerSecond => format!("{} /s", significant(value)),
            Self::Nanoseconds => Nanos(crate::units::round(value)).to_string(),
            Self::Count => crate::units::grouped(value),
            Self::Bytes => Bytes(crate::units::round(value)).to_string(),
            Self::Part => format!("{} %", significant(value * 100.0)),
            Self::Celsius => format!("{value:.1} C"),
            Self::Hertz => format!("{} MHz", significant(value / 1e6)),
        }
    }
}
