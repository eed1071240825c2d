//! A plan for as many targets as a run has: what its budget allows for two is too little for more. Pure.
//!
//! Invariants: the plan of at most two targets that fits stays as it is. A plan that was fitted stays as it is when it
//! is fitted again to as many targets: a run that goes on has the plan that it began with.
//!
//! What it deliberately does not do: it makes no test smaller than what it keeps in flight. A bound below that ends the
//! run after its first block.

use super::{Direction, Estimate, Job, Plan, SIZE_MIN, Workload, estimate};
use crate::units::{Bytes, MIB};

/// The targets that the times of a plan are for: one against another.
const USUAL: u32 = 2;
/// More than any run takes.
const TIME_MAX_MS: u64 = 1_000_000_000;

impl Plan {
    /// The same plan, of which the test files and the least number of blocks on `targets` are within `written_max`, and
    /// with more time where there are more than [`USUAL`].
    #[must_use]
    pub(crate) fn fitted(&self, targets: u32) -> Self {
        // What has reached its least size leaves the rest to the others.
        let mut fitted = self.shrunk(targets);
        loop {
            let again = fitted.shrunk(targets);
            if again == fitted {
                return fitted;
            }
            fitted = again;
        }
    }

    /// The same with all parts multiplied by how many times too large it is; itself where it fits or is as small as it
    /// can be.
    fn shrunk(&self, targets: u32) -> Self {
        let mut fitted = self.clone();
        let least = self.least(targets);
        if self.targets.is_empty() && targets > USUAL {
            let layouts = self.data.layout_ms.saturating_mul(targets.into());
            let needed = (least.time_typical.0 / 1_000_000).saturating_add(layouts);
            fitted.budget.limit_ms = self.budget.limit_ms.max(needed);
        }
        let needed = least.written_max.0;
        let Some(most) = self.budget.written_max.filter(|most| needed > most.0) else {
            return fitted;
        };
        let part = |bytes: Bytes, unit: u64, least: u64| {
            let part = u128::from(bytes.0) * u128::from(most.0) / u128::from(needed);
            let whole = u64::try_from(part).unwrap_or(u64::MAX) / unit * unit;
            Bytes(whole.max(least).min(bytes.0))
        };
        let jobs = self.workloads.iter().filter_map(Workload::fio);
        let used = jobs.map(|job| job.offset.0 + job.in_flight().0.max(job.extent.0));
        let least = used.max().unwrap_or(0).max(SIZE_MIN.0);
        fitted.data.size = part(self.data.size, MIB, least.next_multiple_of(MIB));
        for workload in &mut fitted.workloads {
            if let Job::Fio(job) = &mut workload.job
                && job.direction == Direction::Write
                && job.bytes_max.0 > 0
            {
                job.bytes_max = part(job.bytes_max, job.block_size.0, job.in_flight().0);
            }
        }
        fitted
    }

    /// The cost of the least number of blocks, without bounds, of what fio does.
    fn least(&self, targets: u32) -> Estimate {
        let mut least = self.clone();
        least.budget.blocks_max = least.budget.blocks_min;
        least.budget.written_max = None;
        (least.budget.time_ms, least.budget.limit_ms) = (0, TIME_MAX_MS);
        least.workloads.retain(|workload| workload.fio().is_some());
        estimate(&least, targets)
    }
}
