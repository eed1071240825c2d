//! Plans: what is measured, with what jobs, and within what budget. Pure data, read from TOML.
//!
//! Invariants: a [`Plan`] that exists has been checked ([`Plan::parse`], [`Plan::check`]): names are
//! unique, sizes and depths are within named bounds, a block fits in the data. A plan names targets of
//! its own or none; without, directories are given when it is run. Either way every target of a
//! comparison gets the same jobs.
//!
//! What it deliberately does not do: it runs nothing and knows neither fio nor the clock.

pub(crate) mod bounds;
mod builtin;
mod estimate;
mod fit;
mod kernel;
pub(crate) mod size;
mod small;
mod sweep;
mod target;
mod workload;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use builtin::{builtin, list, source};
pub use estimate::Estimate;
pub(crate) use estimate::estimate;
pub use kernel::Layer;
pub use sweep::{Series, Varies};
pub use target::{Image, MountType, Target, TargetKind, Transport, Via};
pub use workload::{Direction, FioJob, Job, Pattern, Workload};

use crate::LabError;
use crate::units::Bytes;

/// The most requests one job keeps in flight.
pub const DEPTH_MAX: u32 = 1024;
/// The most jobs of one workload.
pub(crate) const JOBS_MAX: u32 = 64;
/// The largest block of one request.
pub const BLOCK_SIZE_MAX: Bytes = Bytes(64 << 20);
/// The most blocks of one run.
pub(crate) const BLOCKS_MAX: u32 = 1000;
/// The most workloads of one plan, each point of a sweep counted.
pub(crate) const WORKLOADS_MAX: usize = 256;
/// The least data worth measuring on.
pub(crate) const SIZE_MIN: Bytes = Bytes(16 << 20);

/// What is measured and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it is called on the command line.
    pub name: String,
    /// One sentence for `lab list`.
    pub summary: String,
    /// The experiment that it repeats: `study B, figures 5 to 8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<String>,
    /// The target that the others are compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The test file.
    pub data: Data,
    /// How often and how long.
    pub budget: Budget,
    /// Where; empty when the command line names it.
    #[serde(rename = "target", default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// The tests, in the order in which they are reported.
    #[serde(rename = "workload", deserialize_with = "workload::expanded")]
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
    /// No block but the first is begun that would take the bytes written by fio, test files included, beyond this.
    #[serde(
        default,
        with = "size::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub written_max: Option<Bytes>,
}

impl Plan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// [`LabError::BadPlan`] with the line, for an unknown key, a missing one or a value that makes
    /// no sense.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        let plan = Self::stored(text)?;
        plan.check()?;
        Ok(plan)
    }

    /// A plan as it is in a store. It was checked before it was run; one that was imported describes what
    /// was done, whether or not the lab would do it.
    ///
    /// # Errors
    /// [`LabError::BadPlan`] for what is no plan at all.
    pub fn stored(text: &str) -> Result<Self, LabError> {
        toml::from_str(text).map_err(|error| LabError::BadPlan(one_line(&error.to_string())))
    }

    /// The plan as TOML; [`Plan::parse`] reads it back.
    ///
    /// # Errors
    /// [`LabError::BadPlan`] when a value has no TOML form.
    pub fn to_toml(&self) -> Result<String, LabError> {
        toml::to_string(self).map_err(|error| LabError::BadPlan(one_line(&error.to_string())))
    }

    /// What has to be there for all of it: programs of its tests, and what its targets ask for. Each
    /// once, in their order.
    #[must_use]
    pub fn needs(&self) -> Vec<String> {
        let program = |workload: &Workload| {
            workload
                .tool()
                .map_or("fio", |tool| tool.kind().program().name)
        };
        let programs = self
            .workloads
            .iter()
            .map(|workload| program(workload).to_owned());
        let targets = self
            .targets
            .iter()
            .flat_map(|target| target.needs.iter().cloned());
        let mut needs: Vec<String> = Vec::new();
        for need in programs.chain(targets) {
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
        needs
    }

    /// Checks the values; call it after changing a field.
    ///
    /// # Errors
    /// [`LabError::BadPlan`] naming the first value that makes no sense.
    pub fn check(&self) -> Result<(), LabError> {
        let fail = |reason: String| Err(LabError::BadPlan(reason));
        let wrong = |reason| LabError::BadPlan(reason);
        bounds::at_least("size", self.data.size, SIZE_MIN).map_err(wrong)?;
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
        target::check(&self.targets, self.baseline.as_deref()).map_err(wrong)?;
        let mut names = BTreeSet::new();
        for workload in &self.workloads {
            if !names.insert(&workload.name) {
                return fail(format!("two workloads are named {:?}", workload.name));
            }
            self.check_workload(workload)
                .map_err(|reason| wrong(format!("workload {:?}: {reason}", workload.name)))?;
        }
        Ok(())
    }

    fn check_workload(&self, workload: &Workload) -> Result<(), String> {
        if !target::is_name(&workload.name) {
            return Err("the name may have letters, digits and dashes only".into());
        }
        let known = |name: &String| self.targets.iter().any(|target| target.name == *name);
        if let Some(name) = workload.on.iter().find(|name| !known(name)) {
            return Err(format!(
                "it is for {name:?}, which is no target of the plan"
            ));
        }
        match &workload.job {
            Job::Fio(job) => job.check(self.data.size),
            Job::Tool(tool) => tool.kind().check(),
        }
    }
}

/// A parser's report over several lines as one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
