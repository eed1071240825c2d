//! What a run would do: every command, the bytes it would write, the time.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::build::{BuildContext, Builder};
use super::request::{Cancel, RunRequest, TargetSpec};
use super::scratch::{FILE, PREFIX, TOOLS};
use crate::LabError;
use crate::fio::{Engine, FioCommand, Subject, command};
use crate::host::TargetPlace;
use crate::plan::{self, Direction, Plan, Target, TargetKind, Workload};
use crate::tools::{self, Tool, Writes};
use crate::units::{Bytes, Nanos};

/// Where results and what tools print would be, by name.
const WORK: &str = "/tmp/outboard-lab-work";
/// What drops the caches by hand.
const DROP: &str = "sync; echo 1 > /proc/sys/vm/drop_caches";

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
    /// Tests that write besides, as much as their targets take in their time.
    pub unbounded: Vec<String>,
    /// The space taken on each target, the same not counted.
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

/// Says what `request` would do. Touches nothing and needs neither fio nor a tool.
///
/// # Errors
/// [`LabError::BadPlan`] and the like.
pub fn dry_run(request: &RunRequest, builder: &dyn Builder) -> Result<DryRun, LabError> {
    request.check()?;
    let request = &request.fitted();
    let plan = &request.plan;
    let (mut commands, built, left_out) = described(request, builder);
    let specs: Vec<&TargetSpec> = request.targets.iter().chain(&built).collect();
    let seed = request.seed.unwrap_or(1) & 0x7fff_ffff;
    let grounds: Vec<Imagined> = specs.iter().map(|spec| Imagined::of(spec)).collect();
    if plan.workloads.iter().any(|test| test.fio().is_some()) {
        let written = grounds.iter().filter(|ground| ground.writable);
        commands.extend(written.map(|ground| ground.laid_out(plan, seed)));
    }
    let mut cells = 0;
    for test in &plan.workloads {
        let all = specs.iter().zip(&grounds);
        let its = all.filter(|(spec, ground)| test.is_for(&spec.name) && ground.takes(test));
        let its: Vec<&Imagined> = its.map(|(_, ground)| ground).collect();
        for (index, ground) in its.iter().enumerate() {
            let others = its.iter().enumerate().filter(|(other, _)| *other != index);
            let beside: Vec<PathBuf> = others.filter_map(|(_, other)| other.tools()).collect();
            cells += 1;
            if !request.small {
                commands.push(DROP.into());
            }
            commands.extend(ground.measured(plan, test, seed, &beside));
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
        unbounded: plan.workloads.iter().filter_map(unbounded).collect(),
        space: estimate.space,
        blocks_min: plan.budget.blocks_min,
        time_typical: estimate.time_typical,
        time_max: estimate.time_max,
    })
}

/// What `request` would write, in one line; none where that is nothing. Cards and flash wear by it.
pub(super) fn wear(request: &RunRequest) -> Option<String> {
    let request = request.fitted();
    let plan = &request.plan;
    let count = request.targets.len() + plan.targets.len();
    let written = plan::estimate(plan, u32::try_from(count).unwrap_or(u32::MAX)).written_max;
    let tests = plan.workloads.iter();
    let unbounded = tests.filter(|test| unbounded(test).is_some());
    let unbounded: Vec<&str> = unbounded.map(|test| test.title.as_str()).collect();
    let more = match unbounded.is_empty() {
        true => String::new(),
        false => format!(
            ", and what {} writes, which has no bound",
            unbounded.join(" and ")
        ),
    };
    (written.0 > 0 || !more.is_empty()).then(|| {
        format!("This run writes at most {written} to its targets{more}: flash wears by that.")
    })
}

/// The text for a test that writes without a bound.
fn unbounded(test: &Workload) -> Option<String> {
    let tool = test.tool()?;
    let usual = tool.kind().usual().seconds();
    (tool.kind().writes() == Writes::AsMuchAsItCan).then(|| {
        format!(
            "{} writes as much as its target takes in about {usual:.0} s, in each block",
            test.title
        )
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
                let mut spec = TargetSpec::at(place(target, &scratch)).named(&target.name);
                spec.label = Some(target.shown().to_owned());
                spec.read_only = target.is_read_only();
                specs.push(spec);
            }
            Err(reason) => left_out.push(format!("{}: {reason}", target.shown())),
        }
    }
    (commands, specs, left_out)
}

/// Where a target would be, as far as that is known before it is built.
fn place(target: &Target, scratch: &Path) -> TargetPlace {
    match &target.kind {
        TargetKind::Raw {
            device: Some(device),
            ..
        } => TargetPlace::Device(device.clone()),
        TargetKind::Raw { uri: Some(uri), .. } => TargetPlace::Uri(uri.clone()),
        TargetKind::Raw { .. } => TargetPlace::Device("DEVICE".into()),
        TargetKind::Served {
            filesystem: None, ..
        } => TargetPlace::Uri("URI".into()),
        _ => TargetPlace::Directory(scratch.join(&target.name)),
    }
}

/// A target as fio and the tools would see it.
struct Imagined {
    file: PathBuf,
    uri: Option<String>,
    /// Our directory on it.
    own: Option<PathBuf>,
    writable: bool,
}

impl Imagined {
    fn of(spec: &TargetSpec) -> Self {
        let writable = !spec.read_only;
        let (file, uri, own) = match &spec.place {
            TargetPlace::Directory(path) => {
                let own = path.join(format!("{PREFIX}XXXXXX"));
                (own.join(FILE), None, Some(own))
            }
            // Only fio goes there.
            TargetPlace::There { directory, .. } => {
                let own = directory.join(format!("{PREFIX}XXXXXX"));
                (own.join(FILE), None, None)
            }
            TargetPlace::Device(path) => (path.clone(), None, None),
            TargetPlace::Uri(uri) => (PathBuf::new(), Some(uri.clone()), None),
        };
        Self {
            file,
            uri,
            own,
            writable,
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

    /// Whether a test can be made here at all.
    fn takes(&self, test: &Workload) -> bool {
        match &test.job {
            plan::Job::Fio(job) => self.writable || job.direction == Direction::Read,
            plan::Job::Tool(tool) => self.own.is_some() || !tool.uses_storage(),
        }
    }

    fn laid_out(&self, plan: &Plan, seed: u64) -> String {
        let limit = Nanos::from_ms(plan.data.layout_ms);
        let output = Path::new("result.json");
        let args = command::lay_out(self.subject(), plan.data.size, limit, seed, output);
        command::shown("fio", &args)
    }

    /// Where a tool works.
    fn tools(&self) -> Option<PathBuf> {
        self.own.as_ref().map(|own| own.join(TOOLS))
    }

    /// `beside` has the directories of tools on the other targets of the test.
    fn measured(&self, plan: &Plan, test: &Workload, seed: u64, beside: &[PathBuf]) -> Vec<String> {
        match &test.job {
            plan::Job::Fio(job) => {
                let job = FioCommand {
                    name: &test.name,
                    job,
                    subject: self.subject(),
                    size: plan.data.size,
                    engine: self.engine(),
                    direct: true,
                    seed,
                };
                let args = command::measure(&job, Path::new("result.json"));
                vec![command::shown("fio", &args)]
            }
            plan::Job::Tool(tool) => self.of_tool(tool, seed, beside),
        }
    }

    fn of_tool(&self, tool: &Tool, seed: u64, beside: &[PathBuf]) -> Vec<String> {
        let work = Path::new(WORK);
        let own = self.tools();
        tool.shown(&tools::ToolDirs {
            directory: own.as_deref().unwrap_or(work),
            beside,
            work,
            seed,
        })
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
        let besides = match self.unbounded.is_empty() {
            true => "",
            false => " besides what has no bound",
        };
        writeln!(
            f,
            "Takes {} on each and writes at most {} in all{besides}. Nothing is left behind.",
            self.space, self.written_max
        )?;
        for test in &self.unbounded {
            writeln!(f, "{test}.")?;
        }
        write!(
            f,
            "Time: usually {:.0} s, at most {:.0} s.",
            self.time_typical.seconds(),
            self.time_max.seconds()
        )
    }
}
