//! [`ReadaheadTrials`]: how fast one reader gets on through the page cache, by how much the kernel reads ahead of it. Pure.
//!
//! # Invariants
//!
//! * A larger readahead is suggested only if it was measured, and is 1.3 times as fast or more; of those that are as good,
//!   the smallest.
//! * It is the limiter only of a job with one request at a time: others keep several in flight by themselves.

use serde::{Deserialize, Serialize};

use super::{DoctorJob, Examination, Sign, Stage, Substitution};
use crate::units::{Bytes, Rate, significant};

/// What is not so many times as fast is no help.
const HELPS: f64 = 1.3;
/// From this part of the best on, a smaller readahead is as good.
const AS_GOOD: f64 = 0.92;
/// A readahead that is so many times as fast as none hides the disk.
const HIDES: f64 = 2.0;

/// The reader of the trials and the examined job got the same if the parts differ by less than this.
const SAME: f64 = 0.7;

/// One readahead, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReadaheadTrial {
    /// How much is read ahead.
    pub size: Bytes,
    /// What the reader got.
    pub rate: Rate,
}

/// The readahead of a filesystem, and others in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadaheadTrials {
    /// The file that sets it: `/sys/class/bdi/7:0/read_ahead_kb`.
    pub file: String,
    /// As it is.
    pub now: ReadaheadTrial,
    /// What the reader gets without any.
    pub without: Option<Rate>,
    /// Larger ones, the smallest first.
    pub larger: Vec<ReadaheadTrial>,
}

impl ReadaheadTrials {
    /// The smallest that is as good as the best, where that is far better than the one of now.
    #[must_use]
    pub fn suggestion(&self) -> Option<ReadaheadTrial> {
        let best = self
            .larger
            .iter()
            .map(|trial| trial.rate.0)
            .fold(0.0, f64::max);
        let good = |trial: &&ReadaheadTrial| {
            trial.rate.0 >= best * AS_GOOD && trial.rate.0 >= self.now.rate.0 * HELPS
        };
        self.larger.iter().find(good).copied()
    }

    /// Whether the readahead of now gave what was measured, and the other one gives far more than that.
    fn limits(&self, e: &Examination, wanted: &ReadaheadTrial) -> bool {
        let is_one_reader = is_one_reader(&e.job);
        let part = self.now.rate.0 / e.rate.0.max(1.0);
        let is_what_was_measured = (SAME..=1.0 / SAME).contains(&part);
        let helps = wanted.rate.0 >= e.rate.0 * HELPS;
        !is_one_reader || (is_what_was_measured && helps)
    }

    /// Adds what follows from it: the readahead as a part of the path that is too small, or remarks.
    pub fn add_to(self, e: &mut Examination) {
        let size = self.now.size;
        if let Some(wanted) = self.suggestion().filter(|wanted| self.limits(e, wanted)) {
            let by = format!("a readahead of {}", wanted.size);
            match is_one_reader(&e.job) {
                true => {
                    let text = format!("The kernel reads {size} ahead ({}), which is too little.", self.file);
                    e.signs.push(Sign { part: Stage::Readahead, text });
                    e.way.push(Stage::Readahead);
                    let parts = vec![Stage::Readahead];
                    e.substitutions.push(Substitution::new(parts, by, wanted.rate));
                }
                false => e.remarks.push(format!(
                    "A program that reads one request after the other gets {}, because the kernel reads only {size} ahead \
                     ({}); with {by} it gets {}.",
                    self.now.rate, self.file, wanted.rate
                )),
            }
        }
        let hides = |without: &Rate| self.now.rate.0 >= without.0 * HIDES;
        if let Some(without) = self.without.filter(hides) {
            e.remarks.push(format!(
                "The readahead of {size} hides the disk from a program that reads in order: without it, and at random, one \
                 request after the other gets {without}, {} times less.",
                significant(self.now.rate.0 / without.0.max(1.0))
            ));
        }
        e.readahead = Some(self);
    }

    /// What to do about one that is too small.
    pub(super) fn advice(&self) -> Option<String> {
        let wanted = self.suggestion()?;
        Some(format!(
            "Read {} ahead: `echo {} > {}` as root. A program that reads in order gets about {} then.",
            wanted.size,
            wanted.size.0 >> 10,
            self.file,
            wanted.rate
        ))
    }
}

const fn is_one_reader(job: &DoctorJob) -> bool {
    job.depth == 1
}
