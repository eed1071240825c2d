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
mod remark_group;
mod sentences;
mod serials;
mod square;
mod summary;
mod table;

pub use compare::{PairedTest, RunComparison, compare_runs};
pub use data::{csv, csv_of, json};
pub use history::{History, HistoryPoint, history, history_text};
pub use html::html;
pub use markdown::markdown;
pub(crate) use sentences::overall;
pub use sentences::sentences;
pub use serials::hash_serials;
pub use square::Square;
pub use summary::{BlockPoint, Cpu, FigureRow, Overall, Row, Summary, TestComparison};
pub use table::{run_list, table};

use crate::units::significant;

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

#[cfg(test)]
mod tests;
