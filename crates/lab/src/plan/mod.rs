//! Plans: what is measured, with what jobs, and within what budget. Pure data, read from TOML.
//!
//! Invariants: a [`Plan`] that exists has been checked ([`Plan::parse`], [`Plan::check`]): names are
//! unique, sizes and depths are within named bounds, a block fits in the data. A plan names no
//! directory: targets are given when it is run, so both targets of a comparison get the same jobs.
//!
//! What it deliberately does not do: it runs nothing and knows neither fio nor the clock.

mod builtin;
mod estimate;
pub(crate) mod size;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use builtin::{builtin, list};
pub use estimate::{Estimate, estimate};

use crate::LabError;
use crate::units::{Bytes, Nanos};

/// The most requests one job keeps in flight.
pub const DEPTH_MAX: u32 = 1024;
/// The most jobs of one workload.
pub const JOBS_MAX: u32 = 64;
/// The largest block of one request.
pub const BLOCK_SIZE_MAX: Bytes = Bytes(64 << 20);
/// The most blocks of one run.
pub const BLOCKS_MAX: u32 = 1000;
/// The most workloads of one plan.
pub const WORKLOADS_MAX: usize = 64;
/// The least data worth measuring on.
pub const SIZE_MIN: Bytes = Bytes(16 << 20);

/// What is measured and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it is called on the command line.
    pub name: String,
    /// One sentence for `lab list`.
    pub summary: String,
    /// The test file.
    pub data: Data,
    /// How often and how long.
    pub budget: Budget,
    /// The tests, in the order in which they are reported.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
}

/// The file each target gets. It is written before it is read, with data that does not compress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Its size, unless a target has too little space or is too slow to write it in time.
    #[serde(with = "size")]
    pub size: Bytes,
    /// The longest that writing it may take on one target; what was written by then is used.
    pub layout_ms: u64,
}

/// How long to go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Blocks to make unless the time ends first.
    pub blocks_min: u32,
    /// Blocks after which to stop however wide the intervals still are.
    pub blocks_max: u32,
    /// No block beyond the least number is begun that would end after this, in milliseconds.
    pub time_ms: u64,
    /// No block but the first is begun that would end after this, in milliseconds.
    pub limit_ms: u64,
    /// Stop once every interval is within this part of its median (0.03 = 3 %).
    pub precision: f64,
}

/// One test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Short, unique in its plan: letters, digits and dashes.
    pub name: String,
    /// For people: `Sequential read`.
    pub title: String,
    /// Where requests go.
    pub pattern: Pattern,
    /// Which way the bytes go.
    pub direction: Direction,
    /// Bytes of one request.
    #[serde(with = "size")]
    pub block_size: Bytes,
    /// Requests each job keeps in flight.
    pub depth: u32,
    /// Jobs at once.
    pub jobs: u32,
    /// The longest one measurement takes; it ends sooner when every block was touched once.
    pub runtime_ms: u64,
}

/// Where requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after the other from the start.
    Sequential,
    /// Each block once, shuffled.
    Random,
}

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the target.
    Read,
    /// To the target.
    Write,
}

impl Direction {
    /// As fio names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl Workload {
    /// Bytes that are asked for and not yet answered at any one time.
    #[must_use]
    pub fn in_flight(&self) -> Bytes {
        Bytes(self.block_size.0 * u64::from(self.depth) * u64::from(self.jobs))
    }

    /// The longest one measurement takes.
    #[must_use]
    pub const fn runtime(&self) -> Nanos {
        Nanos::from_ms(self.runtime_ms)
    }
}

impl Plan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// [`LabError::BadPlan`] with the line, for an unknown key, a missing one or a value that makes
    /// no sense.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        let plan: Self = toml::from_str(text).map_err(|error| LabError::BadPlan {
            reason: one_line(&error.to_string()),
        })?;
        plan.check()?;
        Ok(plan)
    }

    /// The plan as TOML; [`Plan::parse`] reads it back.
    ///
    /// # Errors
    /// [`LabError::BadPlan`] when a value has no TOML form.
    pub fn to_toml(&self) -> Result<String, LabError> {
        toml::to_string(self).map_err(|error| LabError::BadPlan {
            reason: one_line(&error.to_string()),
        })
    }

    /// Checks the values; call it after changing a field.
    ///
    /// # Errors
    /// [`LabError::BadPlan`] naming the first value that makes no sense.
    pub fn check(&self) -> Result<(), LabError> {
        let fail = |reason: String| Err(LabError::BadPlan { reason });
        if self.data.size < SIZE_MIN {
            return fail(format!(
                "size is {}, at least {SIZE_MIN} is needed",
                self.data.size
            ));
        }
        let budget = &self.budget;
        if budget.blocks_min == 0
            || budget.blocks_min > budget.blocks_max
            || budget.blocks_max > BLOCKS_MAX
        {
            return fail(format!(
                "blocks_min {} and blocks_max {} must be 1 <= min <= max <= {BLOCKS_MAX}",
                budget.blocks_min, budget.blocks_max
            ));
        }
        if budget.time_ms > budget.limit_ms {
            return fail(format!(
                "time_ms {} is more than limit_ms {}",
                budget.time_ms, budget.limit_ms
            ));
        }
        if !(budget.precision > 0.0 && budget.precision < 1.0) {
            return fail(format!(
                "precision is {}, it must be between 0 and 1",
                budget.precision
            ));
        }
        if self.workloads.is_empty() || self.workloads.len() > WORKLOADS_MAX {
            return fail(format!(
                "{} workloads; between 1 and {WORKLOADS_MAX} are needed",
                self.workloads.len()
            ));
        }
        let mut names = BTreeSet::new();
        for workload in &self.workloads {
            if !names.insert(&workload.name) {
                return fail(format!("two workloads are named {:?}", workload.name));
            }
            self.check_workload(workload)?;
        }
        Ok(())
    }

    fn check_workload(&self, workload: &Workload) -> Result<(), LabError> {
        let fail = |reason: String| {
            Err(LabError::BadPlan {
                reason: format!("workload {:?}: {reason}", workload.name),
            })
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if workload.name.is_empty() || !workload.name.chars().all(plain) {
            return fail("the name may have letters, digits and dashes only".into());
        }
        let block = workload.block_size;
        if block.0 == 0 || !block.0.is_multiple_of(512) || block > BLOCK_SIZE_MAX {
            return fail(format!(
                "block_size is {block}, it must be a multiple of 512 B and at most {BLOCK_SIZE_MAX}"
            ));
        }
        if workload.depth == 0 || workload.depth > DEPTH_MAX {
            return fail(format!(
                "depth is {}, it must be 1 to {DEPTH_MAX}",
                workload.depth
            ));
        }
        if workload.jobs == 0 || workload.jobs > JOBS_MAX {
            return fail(format!(
                "jobs is {}, it must be 1 to {JOBS_MAX}",
                workload.jobs
            ));
        }
        if workload.runtime_ms == 0 {
            return fail("runtime_ms is 0".into());
        }
        if workload.in_flight() > self.data.size {
            return fail(format!(
                "{} in flight do not fit in the {} of data",
                workload.in_flight(),
                self.data.size
            ));
        }
        Ok(())
    }
}

/// A parser's report over several lines as one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
