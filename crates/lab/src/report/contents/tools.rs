//! What tools other than fio measured: every figure of them.

use super::{ReportBlock, Section, Table};
use crate::report::NONE;
use crate::report::summary::Summary;

pub(super) fn tools(summary: &Summary) -> Option<Section> {
    let figures = summary
        .rows
        .iter()
        .flat_map(|row| row.figures.iter().map(move |figure| (row, figure)));
    let rows: Vec<Vec<String>> = figures
        .map(|(row, figure)| {
            let value = figure.value;
            let shown = |end| match value.is_known() {
                true => figure.unit.shown(end),
                false => NONE.to_owned(),
            };
            let ends = [
                figure.unit.shown(value.median),
                shown(value.low),
                shown(value.high),
            ];
            [row.title.clone(), row.label.clone(), figure.name.clone()]
                .into_iter()
                .chain(ends)
                .chain([figure.value.n.to_string()])
                .collect()
        })
        .collect();
    let head = ["test", "on", "figure", "median", "low", "high", "blocks"];
    (!rows.is_empty()).then(|| Section {
        id: "tools",
        title: "What other tools measured",
        parts: vec![
            ReportBlock::Text(
                "Medians over all blocks, from five blocks on with the 95 % interval, in each tool's own units."
                    .into(),
            ),
            ReportBlock::Table(Table::new(&head).with(rows)),
        ],
    })
}
