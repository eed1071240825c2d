//! Samples of a sensor as courses over time, thinned to what can be drawn. Pure.

use crate::report::chart::{Line, Point};
use crate::sensors::Sample;
use crate::store::RunRecord;

/// The most points of a course.
pub(super) const POINTS_MAX: usize = 240;

/// One item of a sensor over time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Timeline {
    pub(super) item: String,
    /// Seconds and values.
    pub(super) points: Vec<(f64, f64)>,
    /// What a model says, if there is one.
    pub(super) fit: Vec<(f64, f64)>,
}

impl Timeline {
    /// The mean of all points.
    pub(super) fn mean(&self) -> f64 {
        let sum: f64 = self.points.iter().map(|(_, value)| value).sum();
        sum / self.points.len().max(1) as f64
    }

    /// The greatest value.
    pub(super) fn peak(&self) -> f64 {
        self.points
            .iter()
            .map(|(_, value)| *value)
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// As a line of a plane, values times `factor`.
    pub(super) fn line(&self, look: usize, factor: f64) -> Line {
        Line {
            look,
            name: self.item.clone(),
            points: self
                .points
                .iter()
                .map(|(at, value)| Point::of(*at, value * factor))
                .collect(),
            fit: self
                .fit
                .iter()
                .map(|(at, value)| (*at, value * factor))
                .collect(),
        }
    }
}

/// The items of `sensor` that `wanted` accepts, in the order in which they first come.
pub(super) fn courses(
    samples: &[Sample],
    sensor: &str,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Timeline> {
    let mut all: Vec<Timeline> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.sensor == sensor) {
        if !wanted(&sample.item) || !sample.value.is_finite() {
            continue;
        }
        let point = (sample.at.seconds(), sample.value);
        let item = named(sample);
        match all.iter_mut().find(|course| course.item == item) {
            Some(course) => course.points.push(point),
            None => all.push(Timeline {
                item,
                points: vec![point],
                fit: Vec::new(),
            }),
        }
    }
    for course in &mut all {
        course.points = thinned(&course.points);
    }
    all
}

/// Each machine's samples, as if they were this one's, with what its figures are called after: nothing for
/// this machine, ` of HOST` for an agent's.
pub(super) fn machines(run: &RunRecord) -> Vec<(String, Vec<Sample>)> {
    let agents = run.manifest.agents.iter();
    let names = agents.map(|agent| format!(" of {}", agent.machine.hostname));
    let mut all: Vec<(String, Vec<Sample>)> = std::iter::once(String::new())
        .chain(names)
        .map(|name| (name, Vec::new()))
        .collect();
    for sample in &run.samples {
        let machine = usize::try_from(sample.machine).unwrap_or(usize::MAX);
        if let Some((_, samples)) = all.get_mut(machine) {
            samples.push(Sample {
                machine: 0,
                ..sample.clone()
            });
        }
    }
    all
}

/// What a sample is of; that of another machine says so.
pub(super) fn named(sample: &Sample) -> String {
    match sample.machine {
        0 => sample.item.clone(),
        agent => format!("{} (agent {agent})", sample.item),
    }
}

/// Neighbours averaged until there are few enough.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let together = points.len().div_ceil(POINTS_MAX).max(1);
    let mean = |chunk: &[(f64, f64)]| {
        let sum: f64 = chunk.iter().map(|(_, value)| value).sum();
        (chunk[chunk.len() / 2].0, sum / chunk.len() as f64)
    };
    points.chunks(together).map(mean).collect()
}

/// The table of several courses: a line for each time, a column for each course.
pub(super) fn rows(courses: &[(&Timeline, f64)]) -> Vec<Vec<String>> {
    let mut times: Vec<f64> = courses
        .iter()
        .flat_map(|(course, _)| course.points.iter().map(|(at, _)| *at))
        .collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let mut at = vec![0; courses.len()];
    let rows = times.into_iter().map(|time| {
        let cells = courses.iter().zip(&mut at).map(|((course, factor), next)| {
            match course.points.get(*next) {
                Some((here, value)) if *here <= time => {
                    *next += 1;
                    figure(value * factor)
                }
                _ => String::new(),
            }
        });
        std::iter::once(format!("{time:.1}")).chain(cells).collect()
    });
    rows.collect()
}

/// Without what a float adds, and with three digits after the point only where a zero stands before it: some read them as
/// thousands.
fn figure(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// What was being measured when: target, beginning and end in seconds.
pub(super) fn spans(run: &RunRecord) -> Vec<(usize, f64, f64)> {
    let cells = run.cells.iter();
    cells
        .map(|cell| {
            let from = cell.started.seconds();
            (cell.target, from, from + cell.elapsed.seconds())
        })
        .collect()
}

/// How long the run took in seconds.
pub(super) fn end(run: &RunRecord) -> f64 {
    let measured = spans(run).last().map_or(0.0, |(_, _, end)| *end);
    run.elapsed
        .map_or(measured, |elapsed| elapsed.seconds())
        .max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Nanos, SECOND};

    fn sample(second: u64, item: &str, value: f64) -> Sample {
        Sample {
            machine: 0,
            at: Nanos(second * SECOND),
            sensor: "net".into(),
            item: item.into(),
            value,
        }
    }

    #[test]
    fn items_are_courses_of_their_own_and_other_sensors_are_not() {
        let mut samples = vec![
            sample(1, "a", 1.0),
            sample(1, "b", 2.0),
            sample(2, "a", 3.0),
        ];
        samples[1].sensor = "disk".into();
        let found = courses(&samples, "net", |_| true);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].points, [(1.0, 1.0), (2.0, 3.0)]);
        assert_eq!((found[0].mean(), found[0].peak()), (2.0, 3.0));
    }

    #[test]
    fn a_long_course_is_thinned_and_keeps_its_mean() {
        let samples: Vec<Sample> = (0..1000)
            .map(|second| sample(second, "a", (second % 10) as f64))
            .collect();
        let found = courses(&samples, "net", |_| true);
        assert!(found[0].points.len() <= POINTS_MAX);
        assert!((found[0].mean() - 4.5).abs() < 0.1);
    }

    #[test]
    fn a_table_has_a_line_for_each_time_and_nothing_where_there_is_no_value() {
        let a = Timeline {
            item: "a".into(),
            points: vec![(1.0, 0.5), (3.0, 12_345.6)],
            fit: Vec::new(),
        };
        let b = Timeline {
            item: "b".into(),
            points: vec![(2.0, 1.0)],
            fit: Vec::new(),
        };
        assert_eq!(
            rows(&[(&a, 1.0), (&b, 10.0)]),
            [["1.0", "0.5", ""], ["2.0", "", "10"], ["3.0", "12346", ""]]
        );
    }
}
