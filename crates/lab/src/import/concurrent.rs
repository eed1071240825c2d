//! Jobs that ran at the same time: fio runs the jobs of one group (`groupid`) together, and each of `numjobs` has an
//! entry of its own unless `group_reporting` was given. Pure.
//!
//! Source: fio's HOWTO, "numjobs", "group_reporting", "stonewall".

use super::job::Imported;
use crate::checks::{Check, Finding};

/// Clones of one job as one job; others that ran at the same time get a remark.
pub(super) fn merged(jobs: Vec<Imported>) -> Vec<Imported> {
    let mut merged: Vec<(Imported, u32)> = Vec::new();
    for job in jobs {
        match merged.iter_mut().find(|(known, _)| known.is_clone(&job)) {
            Some((known, count)) => {
                known.add(&job);
                *count += 1;
            }
            None => merged.push((job, 1)),
        }
    }
    let names: Vec<(u64, String)> = merged
        .iter()
        .map(|(job, _)| (job.group, job.name.clone()))
        .collect();
    merged
        .into_iter()
        .map(|(mut job, count)| {
            job.jobs = job.jobs.max(count);
            // The other direction of the same job has a remark of its own.
            let mut others = names.iter().filter(|(group, _)| *group == job.group);
            if others.any(|(_, name)| *name != job.name) {
                job.findings.push(Finding::remark(
                    Check::Asymmetry,
                    "other jobs of its file ran at the same time: it is not comparable with one that ran alone",
                ));
            }
            job
        })
        .collect()
}

impl Imported {
    /// Whether `other` is one more process of the same job.
    fn is_clone(&self, other: &Self) -> bool {
        // The title has the pattern and the direction.
        (self.group, &self.name, &self.title) == (other.group, &other.name, &other.title)
            && (self.block_size, self.size) == (other.block_size, other.size)
            && (self.limit_ms, self.jobs) == (other.limit_ms, other.jobs)
            && (self.result.depth, self.result.direct) == (other.result.depth, other.result.direct)
    }

    /// Adds what another process moved in the same time.
    fn add(&mut self, other: &Self) {
        let (result, more) = (&mut self.result, &other.result);
        result.bytes.0 = result.bytes.0.saturating_add(more.bytes.0);
        result.ios = result.ios.saturating_add(more.ios);
        result.runtime = result.runtime.max(more.runtime);
        result.printed_rate.0 += more.printed_rate.0;
        result.generator_cpu += more.generator_cpu;
        result.latencies.merge(&more.latencies);
    }
}
