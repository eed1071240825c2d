//! The cells of a row: the same words in the terminal, in Markdown and in HTML. Pure.

use super::summary::{Cpu, Row};
use super::{NONE, range};
use crate::fio::Quantile;
use crate::units::{MIB, grouped, significant};

/// The rate in MB/s, in MiB/s, and the ends of its interval in MB/s.
pub(super) fn rates(row: &Row) -> [String; 3] {
    const MB: f64 = 1e6;
    let Some(rate) = row.rate else {
        return [NONE; 3].map(str::to_owned);
    };
    [
        significant(rate.median / MB),
        significant(rate.median / MIB as f64),
        match rate.is_known() {
            true => range(rate.low / MB, rate.high / MB),
            false => NONE.to_owned(),
        },
    ]
}

/// Operations per second.
pub(super) fn operations(row: &Row) -> String {
    row.operations
        .map_or_else(|| NONE.into(), |found| grouped(found.median))
}

/// A percentile, or nothing where too few operations were slower.
pub(super) fn latency(found: Option<Quantile>) -> String {
    found.map_or_else(|| NONE.into(), |found| found.value.to_string())
}

/// Of one core, and for each MiB.
pub(super) fn cpu(found: Option<Cpu>) -> String {
    found.map_or_else(
        || NONE.into(),
        |cpu| format!("{:.0} %, {}/MiB", cpu.of_core * 100.0, cpu.per_mib),
    )
}
