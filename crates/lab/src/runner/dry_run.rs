//! What a run would do: every command, the bytes it would write, the time.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::request::RunRequest;
use super::scratch::{FILE, PREFIX};
use crate::LabError;
use crate::fio::{Engine, Job, command};
use crate::plan;
use crate::units::{Bytes, Nanos};

/// A run that is not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DryRun {
    /// In the order in which they would first be run; the blocks repeat them in shuffled orders.
    pub commands: Vec<String>,
    /// The directories.
    pub targets: Vec<PathBuf>,
    /// Bytes written to all targets together, at most.
    pub written_max: Bytes,
    /// The space taken on each target.
    pub space: Bytes,
    /// Blocks at least.
    pub blocks_min: u32,
    /// Measurements in a block.
    pub cells: usize,
    /// When it usually has ended.
    pub time_typical: Nanos,
    /// When it stops at the latest.
    pub time_max: Nanos,
}

/// Says what `request` would do. Touches nothing and needs no fio.
///
/// # Errors
/// [`LabError::BadPlan`] and the like.
pub fn dry_run(request: &RunRequest) -> Result<DryRun, LabError> {
    request.plan.check()?;
    let plan = &request.plan;
    let targets: Vec<PathBuf> = request
        .targets()
        .iter()
        .map(|spec| spec.path.clone())
        .collect();
    let output = Path::new("result.json");
    let seed = request.seed.unwrap_or(1) & 0x7fff_ffff;
    let files: Vec<PathBuf> = targets
        .iter()
        .map(|path| path.join(format!("{PREFIX}XXXXXX")).join(FILE))
        .collect();
    let layout = Nanos::from_ms(plan.data.layout_ms);
    let mut commands: Vec<String> = files
        .iter()
        .map(|file| {
            command::shown(
                "fio",
                &command::lay_out(file, plan.data.size, layout, seed, output),
            )
        })
        .collect();
    for workload in &plan.workloads {
        for file in &files {
            commands.push("sync; echo 1 > /proc/sys/vm/drop_caches".into());
            let job = Job {
                workload,
                file,
                size: plan.data.size,
                engine: Engine::IoUring,
                direct: true,
                seed,
            };
            commands.push(command::shown("fio", &command::measure(&job, output)));
        }
    }
    let count = u32::try_from(targets.len()).unwrap_or(u32::MAX);
    let estimate = plan::estimate(plan, count);
    Ok(DryRun {
        commands,
        cells: plan.workloads.len() * targets.len(),
        targets,
        written_max: estimate.written_max,
        space: estimate.space,
        blocks_min: plan.budget.blocks_min,
        time_typical: estimate.time_typical,
        time_max: estimate.time_max,
    })
}

impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for command in &self.commands {
            writeln!(f, "{command}")?;
        }
        writeln!(f)?;
        let plural = |count: usize| if count == 1 { "y" } else { "ies" };
        writeln!(
            f,
            "{} measurements a block, at least {} blocks, in shuffled order on {} director{}.",
            self.cells,
            self.blocks_min,
            self.targets.len(),
            plural(self.targets.len())
        )?;
        writeln!(
            f,
            "Takes {} on each and writes at most {} in all. Nothing is left behind.",
            self.space, self.written_max
        )?;
        write!(
            f,
            "Time: usually {:.0} s, at most {:.0} s.",
            self.time_typical.seconds(),
            self.time_max.seconds()
        )
    }
}
