//! What a plane's x axis counts, with its scale and ticks. Pure.

use crate::report::chart::scale::{Scale, linear_ticks};
use crate::units::{Bytes, grouped, round};

/// The most ticks that have room.
const TICKS_MAX: usize = 9;

/// The x axis.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) enum Along {
    /// Seconds from zero.
    Time {
        /// The last of them.
        end: f64,
    },
    /// Doublings of a number of bytes or of a count.
    Doubling {
        /// What is doubled.
        of: &'static str,
        /// Whether values are bytes.
        is_bytes: bool,
        /// The least and the greatest.
        ends: (f64, f64),
    },
    /// Even steps from zero: a place on a disk in bytes.
    TargetPlace {
        /// The end.
        end: f64,
    },
}

impl Along {
    /// From values to places.
    pub(super) fn scale(&self, left: f64, right: f64) -> Scale {
        match self {
            Self::Time { end } | Self::TargetPlace { end } => {
                Scale::linear((0.0, end.max(f64::MIN_POSITIVE)), (left, right))
            }
            Self::Doubling {
                ends: (low, high), ..
            } => Scale::log((low / 1.15, high.max(low * 1.01) * 1.15), (left, right)),
        }
    }

    /// Where figures stand.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        match self {
            Self::Time { end } => linear_ticks(*end, 6.0),
            Self::TargetPlace { end } => places(*end),
            Self::Doubling { is_bytes, ends, .. } => doublings(*ends, *is_bytes),
        }
    }

    /// The label below.
    pub(super) const fn unit(&self) -> &'static str {
        match self {
            Self::Time { .. } => "s",
            Self::Doubling { of, .. } => of,
            Self::TargetPlace { .. } => "place on the disk",
        }
    }
}

/// Powers of two, every second or third where they are many.
fn doublings((low, high): (f64, f64), is_bytes: bool) -> Vec<(f64, String)> {
    let all: Vec<f64> = (0..63)
        .map(|power| 2f64.powi(power))
        .filter(|value| (low * 0.999..=high * 1.001).contains(value))
        .collect();
    let every = all.len().div_ceil(TICKS_MAX).max(1);
    let ticks = all.into_iter().step_by(every).map(|value| {
        let text = match is_bytes {
            true => shown(value),
            false => grouped(value),
        };
        (value, text)
    });
    ticks.collect()
}

/// `4K` rather than `4 KiB`, since room is short.
fn shown(bytes: f64) -> String {
    let text = Bytes(round(bytes)).to_string();
    match text.split_once(' ') {
        Some((figure, "B")) => figure.to_owned(),
        Some((figure, unit)) => format!("{figure}{}", &unit[..1]),
        None => text,
    }
}

fn places(end: f64) -> Vec<(f64, String)> {
    let unit = (0..7)
        .map(|power| 1024f64.powi(power))
        .take_while(|unit| *unit * 2.0 <= end.max(2.0))
        .last()
        .unwrap_or(1.0);
    linear_ticks(end / unit, 6.0)
        .into_iter()
        .map(|(value, _)| (value * unit, shown(value * unit)))
        .collect()
}
