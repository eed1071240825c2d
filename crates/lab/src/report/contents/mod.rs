//! What a report says, section by section: the page, Markdown and JSON show the same.
//!
//! Invariants: everything that is drawn is in the figure's table too, so a figure of one form is in all of them;
//! a caption has n and interval; a section without anything to say is left out.

mod blocks;
mod comparison;
mod faults;
mod latency;
mod layers;
mod machines;
mod network;
mod processors;
mod rates;
mod sweeps;
mod timeline;
mod tools;
mod trust;

pub(super) use comparison::overview;
pub(super) use trust::{noise, sureness, too_few, wear};

use maud::Markup;

use super::Summary;
use crate::store::RunRecord;
use crate::units::ungrouped;

/// One section.
pub(super) struct Section {
    /// Its anchor on the page, unique.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) parts: Vec<ReportBlock>,
}

impl Section {
    pub(super) const fn new(
        id: &'static str,
        title: &'static str,
        parts: Vec<ReportBlock>,
    ) -> Self {
        Self { id, title, parts }
    }

    /// A section of a text, which target is which, and figures; none where there is no figure.
    fn of_figures(
        id: &'static str,
        title: &'static str,
        lead: &str,
        figures: impl Iterator<Item = Figure>,
    ) -> Option<Self> {
        let mut parts = vec![ReportBlock::Text(lead.into()), ReportBlock::Targets];
        parts.extend(figures.map(ReportBlock::Figure));
        (parts.len() > 2).then_some(Self { id, title, parts })
    }
}

/// What a section is made of.
pub(super) enum ReportBlock {
    /// A paragraph.
    Text(String),
    /// Which colour and shape is which target.
    Targets,
    /// Which shade is which kind of CPU time.
    Kinds,
    /// A drawing with its table.
    Figure(Figure),
    /// A table by itself.
    Table(Table),
    /// Names and values under a heading.
    Facts {
        title: String,
        items: Vec<(String, String)>,
    },
    /// Sentences.
    List(Vec<String>),
    /// The table of all results, with its notes.
    Results,
    /// Every command.
    Commands,
}

/// A drawing with its caption and its figures.
pub(super) struct Figure {
    /// Above the drawing.
    pub(super) title: String,
    pub(super) drawing: Markup,
    /// Colours and shapes that are no target's.
    pub(super) key: Vec<(usize, String)>,
    /// With n and interval.
    pub(super) caption: String,
    pub(super) table: Table,
    /// The CSV's name, without its ending.
    pub(super) file: &'static str,
}

/// A table of figures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    pub(super) fn new(head: &[&str]) -> Self {
        Self {
            head: head.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// The same with these rows. Cells are read by programs, too (CSV, JSON): their numbers have no groups.
    pub(super) fn with(mut self, rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        let plain = |row: Vec<String>| row.iter().map(|cell| ungrouped(cell)).collect();
        self.rows.extend(rows.into_iter().map(plain));
        self
    }
}

/// Everything below the cover, in the order in which it is read.
pub(super) fn contents(run: &RunRecord, summary: &Summary) -> Vec<Section> {
    let sections = [
        trust::trust(run, summary),
        comparison::section(run, summary),
        rates::rates(run, summary),
        layers::layers(run, summary),
        sweeps::sweeps(run, summary),
        tools::tools(summary),
        latency::latency(run, summary),
        blocks::blocks(run, summary),
        machines::machines(run),
        processors::processors(run, summary),
        network::network(run),
        faults::faults(run, summary),
        commands(),
    ];
    sections.into_iter().flatten().collect()
}

/// The tests that are no points of a curve; sweeps have their own section.
fn singles(run: &RunRecord) -> impl Iterator<Item = usize> {
    let workloads = run.plan.workloads.iter().enumerate();
    workloads
        .filter(|(_, workload)| workload.series.is_none())
        .map(|(index, _)| index)
}

fn commands() -> Option<Section> {
    let lead = "Each as it was run. Before each measurement: sync, then the page cache was dropped as far as permitted.";
    let parts = vec![ReportBlock::Text(lead.into()), ReportBlock::Commands];
    Some(Section::new("commands", "Every command", parts))
}
