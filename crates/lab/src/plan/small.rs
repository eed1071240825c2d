//! A plan made as short as it goes: to see that all of it can be made here, not to measure.
//!
//! Every target and every test stays; one block, little data, the least that each tool takes, and of a
//! curve the first and the last point. Pure.

use super::{Budget, Job, Plan, Workload};
use crate::tools::Tool;
use crate::units::{Bytes, MIB};

/// fio's time for one test.
const RUNTIME_MS: u64 = 300;
/// The test file; a test with more in flight gets as much as that takes.
const SIZE: Bytes = Bytes(32 * MIB);

impl Plan {
    /// The same plan, as short as it goes. Its figures are no measurement.
    #[must_use]
    pub fn small(&self) -> Self {
        let mut workloads: Vec<Workload> = Vec::new();
        for (at, workload) in self.workloads.iter().enumerate() {
            if is_end(&self.workloads, at) {
                workloads.push(small(workload));
            }
        }
        let needed = workloads.iter().filter_map(Workload::fio);
        let needed = needed.map(|job| job.offset.0 + job.in_flight().0.max(job.extent.0));
        let size = needed.max().unwrap_or(0).max(SIZE.0).next_multiple_of(MIB);
        let mut small = Self {
            budget: Budget {
                blocks_min: 1,
                blocks_max: 1,
                ..self.budget.clone()
            },
            workloads,
            ..self.clone()
        };
        small.data.size = Bytes(size.min(self.data.size.0));
        small
    }
}

/// Whether a test is on no curve, or at the end of one.
fn is_end(workloads: &[Workload], at: usize) -> bool {
    let Some(own) = curve(&workloads[at]) else {
        return true;
    };
    let before = at.checked_sub(1).and_then(|before| workloads.get(before));
    let after = workloads.get(at + 1);
    [before, after]
        .into_iter()
        .any(|other| other.and_then(curve) != Some(own))
}

fn curve(workload: &Workload) -> Option<&str> {
    workload.series.as_ref().map(|series| series.name.as_str())
}

fn small(workload: &Workload) -> Workload {
    let mut workload = workload.clone();
    match &mut workload.job {
        Job::Fio(job) => {
            job.runtime_ms = job.runtime_ms.min(RUNTIME_MS);
            job.options.remove("ramp_time");
            if job.extent.0 > 0 {
                // The same places, closer together.
                let part = job.extent.0.min(MIB * 4);
                job.offset = Bytes(job.offset.0 / (job.extent.0 / part));
                job.extent = Bytes(part);
            }
        }
        Job::Tool(tool) => small_tool(tool),
    }
    workload
}

fn small_tool(tool: &mut Tool) {
    let least = |size: &mut Bytes, mib: u64| size.0 = size.0.min(mib * MIB);
    match tool {
        Tool::Dbench(options) => options.runtime_ms = crate::tools::dbench::RUNTIME_MIN_MS,
        Tool::Bonnie(options) => {
            least(&mut options.size, 16);
            options.files = 0;
        }
        Tool::Tar(options) => least(&mut options.bytes_max, 1),
        Tool::Compile(options) => options.files = options.files.min(4),
        Tool::StressNg(options) => options.runtime_ms = 1000,
        Tool::Iperf3(options) => options.runtime_ms = 1000,
        Tool::Clients(options) => least(&mut options.bytes, 2),
        Tool::Together(options) => {
            least(&mut options.bytes, 16);
            options.runtime_ms = options.runtime_ms.min(RUNTIME_MS);
        }
        Tool::Pull(options) => least(&mut options.bytes, 32),
        Tool::Resync(options) => {
            least(&mut options.bytes, 16);
            options.before_ms = 300;
        }
    }
}
