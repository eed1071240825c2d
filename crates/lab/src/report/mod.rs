//! Reports: pure functions of a stored run.
//!
//! [`Summary`] computes every figure once; [`mod@table`], [`mod@html`], [`mod@markdown`], [`json`] and [`csv`]
//! show it. Invariants: the same run gives the same bytes each time; anything from outside
//! (labels, hostnames, commands) is escaped; invalid results are shown hatched and are in no median;
//! a percentile is shown only when [`crate::checks::tail`] allows it. The page needs no network and no
//! script.

mod cells;
mod chart;
mod compare;
mod contents;
mod data;
mod date;
mod history;
mod html;
mod io_path;
mod markdown;
mod notes;
mod place_verdict;
mod remark_group;
mod sentences;
mod serials;
mod square;
mod summary;
mod table;

pub use compare::{PairedTest, RunComparison, compare_runs};
pub use data::{csv, csv_of, json};
pub use history::{History, HistoryPoint, history, history_text};
pub use html::{LOOK, html};
pub use markdown::markdown;
pub use place_verdict::{PlaceVerdict, place_verdicts};
pub(crate) use sentences::overall;
pub use sentences::sentences;
pub use serials::hash_serials;
pub use square::Square;
pub use summary::{BlockPoint, Cpu, FigureRow, Overall, Row, Summary, TestComparison};
pub use table::{run_list, table};

use crate::stats::Interval;
use crate::units::{grouped, significant};

/// Placeholder of a figure that there is not.
const NONE: &str = "–";

/// The end of a label, which says more than its beginning, in at most `max` characters.
fn short(label: &str, max: usize) -> String {
    let count = label.chars().count();
    if count <= max {
        return label.to_owned();
    }
    let tail: String = label.chars().skip(count - max + 1).collect();
    format!("…{tail}")
}

/// Two ends of an interval.
fn range(low: f64, high: f64) -> String {
    format!("{} to {}", significant(low), significant(high))
}

/// A ratio and the ends of its interval, with as many digits as show three of the ratio and one of the interval.
struct RatioText {
    times: String,
    low: String,
    high: String,
}

impl RatioText {
    /// More digits after the point are no help to a reader.
    const DIGITS_MAX: i32 = 6;

    fn of(ratio: &Interval) -> Self {
        let digits = |value: f64, significant: i32| match value > 0.0 && value.is_finite() {
            true => significant - 1 - power_of_ten(value),
            false => 0,
        };
        let of_width = match ratio.is_known() {
            true => digits(ratio.high - ratio.low, 1),
            false => 0,
        };
        let digits = digits(ratio.median, 3).max(of_width);
        // Three digits after the point would be thousands to a reader with a decimal comma.
        let digits = match digits {
            3 if ratio.high >= 1.0 => 4,
            digits => digits.clamp(0, Self::DIGITS_MAX).unsigned_abs(),
        };
        let text = |value: f64| match digits {
            0 => grouped(value),
            digits => format!("{value:.*}", usize::try_from(digits).unwrap_or(0)),
        };
        Self {
            times: text(ratio.median),
            low: text(ratio.low),
            high: text(ratio.high),
        }
    }

    /// Both ends.
    fn range(&self) -> String {
        format!("{} to {}", self.low, self.high)
    }
}

/// Of the first digit of a positive number.
fn power_of_ten(value: f64) -> i32 {
    let mut power = 0;
    while power > -RatioText::DIGITS_MAX && value < 10f64.powi(power) {
        power -= 1;
    }
    while power < RatioText::DIGITS_MAX && value >= 10f64.powi(power + 1) {
        power += 1;
    }
    power
}

#[cfg(test)]
mod tests;
