//! What the wires and the disks carried, second by second.

use super::machines::figure;
use super::timeline::{Timeline, courses, machines};
use super::{Figure, ReportBlock, Section};
use crate::report::chart::Floor;
use crate::sensors::Sample;
use crate::store::RunRecord;
use crate::units::{Rate, significant};

/// Interfaces and disks that are drawn: the busiest.
const DRAWN_MAX: usize = 6;
/// Below this many bytes per second at most, nothing of the run went through it.
const IDLE: f64 = 50_000.0;

pub(super) fn network(run: &RunRecord) -> Option<Section> {
    let mut parts: Vec<ReportBlock> = Vec::new();
    for (of, samples) in &machines(run) {
        let figures = [links(run, of, samples), disks(run, of, samples)];
        parts.extend(figures.into_iter().flatten().map(ReportBlock::Figure));
    }
    if parts.is_empty() {
        return None;
    }
    let lead =
        "Everything that interfaces and devices carried while the run was made, by any sender.";
    parts.insert(0, ReportBlock::Text(lead.into()));
    Some(Section::new("network", "Network and disks", parts))
}

/// What is before the last dash or slash, each once.
fn names<'a>(items: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for item in items {
        let name = item.rsplit_once('/').map_or(item, |(name, _)| name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The courses of one sensor, by the interface or the disk that they are of.
struct Items(Vec<Timeline>);

impl Items {
    /// The courses of `name` that are one of `what`.
    fn of(&self, name: &str, what: &[&str]) -> Vec<Timeline> {
        let wanted = |course: &&Timeline| {
            let rest = course.item.strip_prefix(name);
            rest.and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|rest| what.contains(&rest))
        };
        self.0.iter().filter(wanted).map(inner).collect()
    }

    /// Those that carried something as one of `what`, with that: the busiest, those first.
    fn busiest(&self, what: &[&str]) -> Vec<(&str, Vec<Timeline>)> {
        let mut found: Vec<(&str, Vec<Timeline>)> =
            names(self.0.iter().map(|course| course.item.as_str()))
                .into_iter()
                .map(|name| (name, self.of(name, what)))
                .filter(|(_, bytes)| bytes.iter().any(|course| course.peak() > IDLE))
                .collect();
        found.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
        found.truncate(DRAWN_MAX);
        found
    }
}

/// Both directions of each interface that carried something, and what it lost.
fn links(run: &RunRecord, of_machine: &str, samples: &[Sample]) -> Vec<Figure> {
    let all = Items(courses(samples, "net", |_| true));
    let found = all.busiest(&["rx-bytes", "tx-bytes"]);
    let figures = found.iter().map(|(name, bytes)| {
        let errors = all.of(name, &["rx-errors", "tx-errors"]);
        let mut lost = [errors, all.of(name, &["rx-drops", "tx-drops"])].concat();
        lost.retain(|one| one.peak() > 0.0);
        let caption = format!(
            "{}{} No interval: this is a course, not an estimate.",
            said(bytes),
            match lost.is_empty() {
                true => "No packet was lost.".to_owned(),
                false => format!(
                    "Packets were lost: {} a second at most.",
                    significant(lost.iter().map(Timeline::peak).fold(0.0, f64::max))
                ),
            }
        );
        let panels = [
            ("MB/s", Floor::Zero, bytes, 1e-6),
            ("lost packets per second", Floor::Zero, &lost, 1.0),
        ];
        let title = format!("Interface {name}{of_machine}");
        figure(run, &title, &panels, Vec::new(), caption, "network")
    });
    figures.collect()
}

/// The course by what it is of its interface or disk.
fn inner(course: &Timeline) -> Timeline {
    let of = course.item.rsplit_once('/');
    let item = match of.map_or(course.item.as_str(), |(_, of)| of) {
        "rx-bytes" => "received",
        "tx-bytes" => "sent",
        other => other,
    };
    Timeline {
        item: item.to_owned(),
        points: course.points.clone(),
        fit: Vec::new(),
    }
}

fn sum(courses: &[Timeline]) -> f64 {
    courses.iter().map(Timeline::mean).sum()
}

fn said(courses: &[Timeline]) -> String {
    let each = courses.iter().map(|course| {
        let (mean, peak) = (Rate(course.mean()), significant(course.peak() / 1e6));
        let n = course.points.len();
        format!(
            "{}: {mean} on average, {peak} MB/s at most, n = {n} points. ",
            course.item
        )
    });
    each.collect()
}

/// What each device of the run carried, and how busy it was.
fn disks(run: &RunRecord, of_machine: &str, samples: &[Sample]) -> Vec<Figure> {
    let all = Items(courses(samples, "disk", |_| true));
    let found = all.busiest(&["read", "write"]);
    let figures = found.iter().map(|(name, bytes)| {
        let (busy, queue) = (all.of(name, &["busy"]), all.of(name, &["queue"]));
        let caption = format!(
            "{}No interval: this is a course, not an estimate.",
            said(bytes)
        );
        let panels = [
            ("MB/s", Floor::Zero, bytes, 1e-6),
            ("% of the time busy", Floor::Zero, &busy, 100.0),
            ("requests waiting", Floor::Zero, &queue, 1.0),
        ];
        let title = format!("Disk {name}{of_machine}");
        figure(run, &title, &panels, Vec::new(), caption, "disk")
    });
    figures.collect()
}
