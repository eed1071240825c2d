//! What a run would do: every command, the bytes it would write, the time.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::build::{BuildContext, Builder};
use super::request::{Cancel, RunRequest, TargetSpec};
use super::scratch::{FILE, PREFIX};
use crate::LabError;
use crate::fio::{Engine, Job, Subject, command};
use crate::host::Place;
use crate::plan;
use crate::units::{Bytes, Nanos};

/// A run that is not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DryRun {
    /// In the order in which they would first be run; the blocks repeat them in shuffled orders.
    pub commands: Vec<String>,
    /// Where: what is built gets a place of its own.
    pub targets: Vec<String>,
    /// Targets of the plan that cannot be had here, with the reason.
    pub left_out: Vec<String>,
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
pub fn dry_run(request: &RunRequest, builder: &dyn Builder) -> Result<DryRun, LabError> {
    request.check()?;
    let plan = &request.plan;
    let (mut commands, built, left_out) = described(request, builder);
    let specs: Vec<&TargetSpec> = request.targets.iter().chain(&built).collect();
    let output = Path::new("result.json");
    let seed = request.seed.unwrap_or(1) & 0x7fff_ffff;
    let layout = Nanos::from_ms(plan.data.layout_ms);
    let grounds: Vec<Imagined> = specs.iter().map(|spec| Imagined::of(spec)).collect();
    if plan
        .workloads
        .iter()
        .any(|workload| workload.fio().is_some())
    {
        commands.extend(
            grounds
                .iter()
                .filter(|ground| ground.writable)
                .map(|ground| {
                    let args =
                        command::lay_out(ground.subject(), plan.data.size, layout, seed, output);
                    command::shown("fio", &args)
                }),
        );
    }
    let mut cells = 0;
    for workload in &plan.workloads {
        for (spec, ground) in specs.iter().zip(&grounds) {
            if !workload.is_for(&spec.name) {
                continue;
            }
            cells += 1;
            commands.push("sync; echo 1 > /proc/sys/vm/drop_caches".into());
            commands.push(match &workload.job {
                plan::Job::Fio(job) => {
                    let job = Job {
                        name: &workload.name,
                        job,
                        subject: ground.subject(),
                        size: plan.data.size,
                        engine: ground.engine(),
                        direct: true,
                        seed,
                    };
                    command::shown("fio", &command::measure(&job, output))
                }
                plan::Job::Tool(tool) => format!("{} in {}", tool.program().name, spec.place),
            });
        }
    }
    let count = u32::try_from(specs.len()).unwrap_or(u32::MAX);
    let estimate = plan::estimate(plan, count);
    Ok(DryRun {
        commands,
        cells,
        targets: specs.iter().map(|spec| spec.place.to_string()).collect(),
        left_out,
        written_max: estimate.written_max,
        space: estimate.space,
        blocks_min: plan.budget.blocks_min,
        time_typical: estimate.time_typical,
        time_max: estimate.time_max,
    })
}

/// The commands that build the plan's targets, the targets as they would be, and those that would be
/// left out.
fn described(
    request: &RunRequest,
    builder: &dyn Builder,
) -> (Vec<String>, Vec<TargetSpec>, Vec<String>) {
    let (mut commands, mut specs, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    let base = request.base.clone().unwrap_or_default();
    let scratch = base.join(format!("{PREFIX}XXXXXX"));
    let cancel = Cancel::default();
    for target in &request.plan.targets {
        let context = BuildContext {
            base: &base,
            scratch: &scratch,
            built: &[],
            cancel: &cancel,
            write_serials: &request.write_serials,
        };
        match builder.describe(target, &context) {
            Ok(lines) => {
                commands.extend(lines);
                let mut spec = TargetSpec::new(scratch.join(&target.name)).named(&target.name);
                spec.label = Some(target.shown().to_owned());
                spec.read_only = target.is_read_only();
                specs.push(spec);
            }
            Err(reason) => left_out.push(format!("{}: {reason}", target.shown())),
        }
    }
    (commands, specs, left_out)
}

/// A target as fio would see it.
struct Imagined {
    file: PathBuf,
    uri: Option<String>,
    writable: bool,
}

impl Imagined {
    fn of(spec: &TargetSpec) -> Self {
        let (file, uri) = match &spec.place {
            Place::Directory(path)
            | Place::There {
                directory: path, ..
            } => (path.join(format!("{PREFIX}XXXXXX")).join(FILE), None),
            Place::Device(path) => (path.clone(), None),
            Place::Uri(uri) => (PathBuf::new(), Some(uri.clone())),
        };
        Self {
            file,
            uri,
            writable: !spec.read_only,
        }
    }

    fn subject(&self) -> Subject<'_> {
        match &self.uri {
            Some(uri) => Subject::Uri(uri),
            None => Subject::File(&self.file),
        }
    }

    const fn engine(&self) -> Engine {
        match self.uri {
            Some(_) => Engine::Nbd,
            None => Engine::IoUring,
        }
    }
}

impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for command in &self.commands {
            writeln!(f, "{command}")?;
        }
        writeln!(f)?;
        for target in &self.left_out {
            writeln!(f, "Left out: {target}.")?;
        }
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        writeln!(
            f,
            "{} measurements a block, at least {} blocks, in shuffled order on {} target{}.",
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
