//! A request for a run.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::agents::AgentSpec;
use crate::LabError;
use crate::agent::FioFolder;
use crate::checks::alignment::DiskSegment;
use crate::checks::ceiling::Ceiling;
use crate::host::{Process, Role, TargetPlace};
use crate::plan::{Direction, Plan};
use crate::units::{Bytes, Rate};

/// A run to be made.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// What is measured.
    pub plan: Plan,
    /// Where, besides the plan's own targets.
    pub targets: Vec<TargetSpec>,
    /// Which of them is the baseline, unless the plan says.
    pub baseline: Option<usize>,
    /// The directory that the plan's own targets are built in.
    pub base: Option<PathBuf>,
    /// The other machines that are watched.
    pub agents: Vec<AgentSpec>,
    /// Which of them runs fio instead of this machine; all targets are directories there then.
    pub fio_on: Option<usize>,
    /// Serials of disks that the user typed: only these are written without a filesystem.
    pub write_serials: Vec<String>,
    /// Orders the blocks and the random requests; drawn when not given.
    pub seed: Option<u64>,
    /// What is started as fio.
    pub fio: PathBuf,
    /// Where results are kept; see [`crate::store::default_path`].
    pub store: PathBuf,
    /// The plan was made small ([`Plan::small`]) and its figures are no measurement: the run waits neither for an idle
    /// machine nor for what other programs have written, and drops no caches.
    pub small: bool,
}

/// Something to measure that is there.
#[derive(Debug, Clone)]
pub struct TargetSpec {
    /// Short: letters, digits and dashes.
    pub name: String,
    /// Where it is.
    pub place: TargetPlace,
    /// What it is called in the report; the place when not given.
    pub label: Option<String>,
    /// The processes of this machine that work for it.
    pub processes: Vec<Process>,
    /// The server's address, when it is known: it decides which wire is the ceiling.
    pub peer: Option<IpAddr>,
    /// Whether what is on it must stay; a directory only gets files of ours.
    pub read_only: bool,
    /// Its size, where that cannot be seen: that of an export.
    pub size: Option<Bytes>,
    /// What is known of a disk that is composed by us.
    pub disk: DiskFacts,
    /// The folder on the other machine, once the agent there has made it.
    pub(super) folder: Option<FioFolder>,
}

/// What the expression of a disk says, of which the kernel knows nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiskFacts {
    /// How its parts lie on what is below.
    pub segments: Vec<DiskSegment>,
    /// What its throttles let through.
    pub throttle: ThrottleBounds,
}

/// The most bytes per second that a composed disk lets through.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ThrottleBounds {
    /// In both directions together.
    pub any: Option<Rate>,
    /// Read.
    pub read: Option<Rate>,
    /// Written.
    pub write: Option<Rate>,
}

impl ThrottleBounds {
    /// The ceilings: of one direction only where that carries less than both together.
    pub(super) fn ceilings(self) -> impl Iterator<Item = Ceiling> {
        let any = self.any.map(|rate| Ceiling::of_throttle(rate, None));
        let one = [(self.read, Direction::Read), (self.write, Direction::Write)];
        let one = one.into_iter().filter_map(move |(rate, direction)| {
            let rate = rate.filter(|rate| self.any.is_none_or(|any| *rate < any))?;
            Some(Ceiling::of_throttle(rate, Some(direction)))
        });
        any.into_iter().chain(one)
    }
}

impl TargetSpec {
    /// A directory called by its path.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::at(TargetPlace::Directory(path.into()))
    }

    /// The same for any place.
    #[must_use]
    pub fn at(place: TargetPlace) -> Self {
        Self {
            name: "target".into(),
            read_only: !matches!(place, TargetPlace::Directory(_) | TargetPlace::There { .. }),
            place,
            label: None,
            processes: Vec::new(),
            peer: None,
            size: None,
            disk: DiskFacts::default(),
            folder: None,
        }
    }

    /// The same, called `label` in reports.
    #[must_use]
    pub fn called(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The same under a short name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same with a process that works for it.
    #[must_use]
    pub fn with(mut self, role: Role, pid: u32) -> Self {
        self.processes.push(Process { role, pid });
        self
    }

    pub(super) fn shown(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.place.to_string())
    }
}

impl RunRequest {
    /// The same with a plan that fits its number of targets.
    pub(super) fn fitted(&self) -> Self {
        let mut request = self.clone();
        let count = self.targets.len() + self.plan.targets.len();
        let fitted = self.plan.fitted(u32::try_from(count).unwrap_or(u32::MAX));
        request.plan = fitted;
        request
    }

    /// The same, with no answer of an agent waited for after `cancel`.
    pub(super) fn cancelled_by(&self, cancel: &Cancel) -> Self {
        let mut request = self.clone();
        for agent in &mut request.agents {
            agent.address.cancel = cancel.clone();
        }
        request
    }

    /// `plan` on its own targets, kept in `store`; everything else can be set afterwards.
    #[must_use]
    pub fn new(plan: Plan, store: PathBuf) -> Self {
        Self {
            plan,
            targets: Vec::new(),
            baseline: None,
            base: None,
            agents: Vec::new(),
            fio_on: None,
            write_serials: Vec::new(),
            seed: None,
            fio: PathBuf::from("fio"),
            store,
            small: false,
        }
    }

    /// The same on `target` too.
    #[must_use]
    pub fn on(mut self, target: TargetSpec) -> Self {
        self.targets.push(target);
        self
    }

    /// The same with `target` as the baseline.
    #[must_use]
    pub fn against(mut self, target: TargetSpec) -> Self {
        self.baseline = Some(self.targets.len());
        self.targets.push(target.named("against"));
        self
    }

    pub(super) fn check(&self) -> Result<(), LabError> {
        self.plan.check()?;
        if self.targets.is_empty() && self.plan.targets.is_empty() {
            return Err(LabError::BadRequest(format!(
                "the plan {} has no targets of its own; give a directory to measure",
                self.plan.name
            )));
        }
        if !self.plan.targets.is_empty() && self.base.is_none() {
            return Err(LabError::BadRequest(format!(
                "the plan {} builds its targets; give the directory to build them in",
                self.plan.name
            )));
        }
        super::remote_load::check(self)?;
        self.check_targets()
    }

    fn check_targets(&self) -> Result<(), LabError> {
        let mut names: BTreeSet<&str> = self
            .plan
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect();
        for (index, target) in self.targets.iter().enumerate() {
            if !names.insert(&target.name) {
                return Err(LabError::BadRequest(format!(
                    "two targets are named {:?}",
                    target.name
                )));
            }
            for other in &self.targets[..index] {
                if let (TargetPlace::Directory(a), TargetPlace::Directory(b)) =
                    (&other.place, &target.place)
                {
                    refuse_same(a, b)?;
                }
            }
            for process in &target.processes {
                if crate::sensors::read::process_tree(process.pid).is_none() {
                    return Err(LabError::NoProcess {
                        role: process.role.as_str(),
                        pid: process.pid,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Two names of one directory would wait for each other's lock and be called busy.
pub(super) fn refuse_same(a: &Path, b: &Path) -> Result<(), LabError> {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| {
        std::fs::metadata(path)
            .ok()
            .map(|found| (found.dev(), found.ino()))
    };
    if identity(a).is_some() && identity(a) == identity(b) {
        return Err(LabError::SameDirectory {
            a: a.to_owned(),
            b: b.to_owned(),
        });
    }
    Ok(())
}

/// A cancellation flag, shared with those that may raise it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Looks at `flag`, which a signal handler may set.
    #[must_use]
    pub const fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Requests a stop. What runs is ended, what was measured is kept.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
