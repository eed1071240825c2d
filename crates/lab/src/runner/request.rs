//! What the user asks for.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::LabError;
use crate::plan::Plan;

/// A run to be made.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// What is measured.
    pub plan: Plan,
    /// Where.
    pub target: TargetSpec,
    /// What it is held against, if anything.
    pub against: Option<TargetSpec>,
    /// The server behind `target`, when it is a process of this machine.
    pub server_pid: Option<u32>,
    /// The client behind `target`: the process that owns its attachment or its mount.
    pub client_pid: Option<u32>,
    /// The server's address, when it is known: it tells which wire is the ceiling.
    pub peer: Option<IpAddr>,
    /// Orders the blocks and the random requests; drawn when not given.
    pub seed: Option<u64>,
    /// Where results are kept; see [`crate::store::default_path`].
    pub store: PathBuf,
}

/// A directory to measure.
#[derive(Debug, Clone)]
pub struct TargetSpec {
    /// It exists and can be written.
    pub path: PathBuf,
    /// What it is called in the report; the path when not given.
    pub label: Option<String>,
}

impl TargetSpec {
    /// A directory called by its path.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            label: None,
        }
    }

    /// The same, called `label`.
    #[must_use]
    pub fn called(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    pub(super) fn shown(&self) -> String {
        self.label
            .clone()
            .unwrap_or_else(|| self.path.display().to_string())
    }
}

impl RunRequest {
    /// `plan` on `target`, kept in `store`; everything else can be set afterwards.
    #[must_use]
    pub const fn new(plan: Plan, target: TargetSpec, store: PathBuf) -> Self {
        Self {
            plan,
            target,
            against: None,
            server_pid: None,
            client_pid: None,
            peer: None,
            seed: None,
            store,
        }
    }

    /// The directories: what is measured first, then what it is held against.
    #[must_use]
    pub fn targets(&self) -> Vec<&TargetSpec> {
        std::iter::once(&self.target).chain(&self.against).collect()
    }

    pub(super) fn check(&self) -> Result<(), LabError> {
        self.plan.check()?;
        if let Some(against) = &self.against {
            refuse_same(&self.target.path, &against.path)?;
        }
        for (role, pid) in [("server", self.server_pid), ("client", self.client_pid)] {
            if let Some(pid) = pid
                && crate::sensors::read::process_tree(pid).is_none()
            {
                return Err(LabError::NoProcess { role, pid });
            }
        }
        Ok(())
    }
}

/// Two names of one directory would wait for each other's lock and be called busy.
fn refuse_same(a: &Path, b: &Path) -> Result<(), LabError> {
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

/// A request to stop, shared with whoever may ask for it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Looks at `flag`, which a signal handler may set.
    #[must_use]
    pub const fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Asks to stop. What runs is ended, what was measured is kept.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether someone asked.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
