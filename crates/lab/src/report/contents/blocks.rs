//! Every single measurement, block by block.

use super::latency::rows_of;
use super::rates::{are_rates, interval_of};
use super::{Figure, Section, Table, singles};
use crate::report::chart;
use crate::report::summary::{Row, Summary};
use crate::store::RunRecord;

pub(super) fn blocks(run: &RunRecord, summary: &Summary) -> Option<Section> {
    let lead =
        "Every single measurement, in time order. Lines are medians; hollow marks are invalid.";
    let figures = singles(run).filter_map(|workload| blocks_of(&rows_of(summary, workload)));
    Section::of_figures("blocks", "Block by block", lead, figures)
}

fn blocks_of(rows: &[&Row]) -> Option<Figure> {
    let first = rows.first().filter(|_| are_rates(rows))?;
    let caption: Vec<String> = rows.iter().map(|row| interval_of(row)).collect();
    let caption = caption.join(" ");
    let cells = rows.iter().flat_map(|row| {
        row.blocks.iter().map(|block| {
            vec![
                row.label.clone(),
                (block.block + 1).to_string(),
                format!("{:.0}", block.rate),
                (if block.usable { "yes" } else { "no" }).to_owned(),
            ]
        })
    });
    Some(Figure {
        title: first.title.clone(),
        drawing: chart::blocks(rows, &caption),
        key: Vec::new(),
        caption,
        table: Table::new(&["target", "block", "bytes/s", "usable"]).with(cells),
        file: "blocks",
    })
}
