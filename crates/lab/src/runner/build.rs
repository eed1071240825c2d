//! A plan's own targets: built one after the other before a run, taken down in the reverse order after
//! it on every way out.
//!
//! Invariants: a target that cannot be had here is left out with its reason, and so is what is on
//! it; the others are measured. Everything a builder makes is in the directory it is given.
//!
//! What it deliberately does not do: it attaches nothing and starts no server; a [`Builder`] does.

use std::fmt;
use std::path::{Path, PathBuf};

use super::claims::Claimed;
use super::request::{Cancel, RunRequest, TargetSpec};
use super::scratch::Scratch;
use crate::LabError;
use crate::host::TargetPlace;
use crate::host::safety::{Claim, ExportContent};
use crate::plan::{Target, TargetKind};
use crate::store::LeftOutTarget;

/// Builds targets.
pub trait Builder {
    /// Makes `target` ready to be measured.
    ///
    /// # Errors
    /// [`LeftOut`] when it cannot be had here. What was made for it until then is gone again.
    fn build(&mut self, target: &Target, context: &BuildContext<'_>) -> Result<Built, LeftOut>;

    /// What [`Builder::build`] would run, for `--dry-run`. Touches nothing.
    ///
    /// # Errors
    /// [`LeftOut`] as far as that is known without building.
    fn describe(&self, target: &Target, context: &BuildContext<'_>)
    -> Result<Vec<String>, LeftOut>;

    /// What is on the export `uri`, before a run writes to it. The export is only read.
    fn export_content(&self, uri: &str) -> ExportContent {
        Err(format!("what is on {uri} cannot be found out here"))
    }
}

/// What a builder is given.
#[derive(Debug, Clone, Copy)]
pub struct BuildContext<'a> {
    /// The run's directory.
    pub base: &'a Path,
    /// A directory of ours in it, for images and mount points; removed after the run.
    pub scratch: &'a Path,
    /// The targets built so far, with their names.
    pub built: &'a [(String, Built)],
    /// Whether a stop was requested.
    pub cancel: &'a Cancel,
    /// Serials that the user typed, for [`crate::host::safety::claim_foreign`]: a builder writes to
    /// nothing outside of `scratch` without it.
    pub write_serials: &'a [String],
}

/// A target that is ready.
pub struct Built {
    /// Where it is, what works for it, what it is called.
    pub spec: TargetSpec,
    /// Every command that built it, as it can be pasted into a shell.
    pub commands: Vec<String>,
    /// Takes it down; when dropped instead it does the same as far as it can.
    pub guard: Box<dyn TakeDown>,
}

/// What has to be taken down after a run.
pub trait TakeDown {
    /// Takes it down.
    ///
    /// # Errors
    /// What stays, and why: one line.
    fn take_down(self: Box<Self>) -> Result<(), String>;
}

/// Nothing has to be taken down.
impl TakeDown for () {
    fn take_down(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }
}

/// Why a target cannot be had here: one sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LeftOut(pub String);

impl fmt::Debug for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Built")
            .field("spec", &self.spec)
            .field("commands", &self.commands)
            .finish_non_exhaustive()
    }
}

impl BuildContext<'_> {
    /// A target that was built before.
    #[must_use]
    pub fn target(&self, name: &str) -> Option<&Built> {
        self.built
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, built)| built)
    }

    /// Where the images of `target` belong: ours, or that of the target below it.
    ///
    /// # Errors
    /// [`LeftOut`] when that has no directory.
    pub fn directory_of(&self, target: &Target) -> Result<PathBuf, LeftOut> {
        let Some(on) = target.on() else {
            return Ok(self.scratch.to_owned());
        };
        match self.target(on).map(|built| &built.spec.place) {
            Some(TargetPlace::Directory(path)) => Ok(path.clone()),
            Some(_) => Err(LeftOut(format!("{on} has no directory to stand on"))),
            None => Err(LeftOut(format!("it stands on {on}, which is left out"))),
        }
    }
}

/// Directories that are there, and nothing else.
#[derive(Debug, Clone, Copy, Default)]
pub struct Directories;

impl Directories {
    /// The directory that a target of that kind is.
    ///
    /// # Errors
    /// [`LeftOut`] when there is none.
    pub fn find(target: &Target, context: &BuildContext<'_>) -> Result<PathBuf, LeftOut> {
        let TargetKind::Directory { path } = &target.kind else {
            return Err(LeftOut("only directories can be measured here".into()));
        };
        let path = context.base.join(path);
        let known = |path: &Path| std::fs::canonicalize(path).ok();
        if known(&path).is_none() {
            return Err(LeftOut(format!("{} does not exist", path.display())));
        }
        // The run's own directory is locked already.
        if known(&path) == known(context.base) {
            return Ok(context.scratch.join(&target.name));
        }
        Ok(path)
    }
}

impl Builder for Directories {
    fn build(&mut self, target: &Target, context: &BuildContext<'_>) -> Result<Built, LeftOut> {
        let path = Self::find(target, context)?;
        std::fs::create_dir_all(&path)
            .map_err(|error| LeftOut(format!("cannot make {}: {error}", path.display())))?;
        Ok(Built {
            spec: TargetSpec::new(path),
            commands: Vec::new(),
            guard: Box::new(()),
        })
    }

    fn describe(
        &self,
        target: &Target,
        context: &BuildContext<'_>,
    ) -> Result<Vec<String>, LeftOut> {
        Self::find(target, context).map(|_| Vec::new())
    }
}

/// All targets of a run, built.
pub(super) struct Site {
    built: Vec<(String, Built)>,
    /// Removed after the targets that live in it.
    scratch: Option<Scratch>,
    /// What could not be had.
    pub(super) left_out: Vec<LeftOutTarget>,
    /// Devices that are written raw; they are claimed, so that they cannot be mounted meanwhile.
    claims: Vec<Claim>,
}

impl Site {
    /// Builds what can be had.
    pub(super) fn build(
        request: &RunRequest,
        builder: &mut dyn Builder,
        cancel: &Cancel,
        phase: &mut dyn FnMut(&str),
    ) -> Result<Self, LabError> {
        let mut site = Self {
            built: Vec::new(),
            scratch: None,
            left_out: Vec::new(),
            claims: super::claims::of_request(request, builder)?,
        };
        let (Some(base), false) = (&request.base, request.plan.targets.is_empty()) else {
            return Ok(site);
        };
        let scratch = Scratch::make(base)?;
        for target in &request.plan.targets {
            phase(&format!("building {}", target.shown()));
            let context = BuildContext {
                base: &scratch.directory,
                scratch: scratch.own(),
                built: &site.built,
                cancel,
                write_serials: &request.write_serials,
            };
            let claimed = super::claims::of_target(target, &request.write_serials, builder);
            let made = claimed.and_then(|claim| {
                let mut made = builder.build(target, &context)?;
                // A user that typed its serial wants it written.
                if matches!(claim, Claimed::Typed(_)) {
                    made.spec.read_only = false;
                }
                site.claims.extend(claim.held());
                Ok(made)
            });
            match made {
                Ok(mut built) => {
                    built.spec.name.clone_from(&target.name);
                    built.spec.label = Some(target.shown().to_owned());
                    built.spec.read_only |= target.is_read_only();
                    site.built.push((target.name.clone(), built));
                }
                Err(LeftOut(reason)) => site.left_out.push(LeftOutTarget {
                    name: target.name.clone(),
                    title: target.shown().to_owned(),
                    reason,
                }),
            }
            if cancel.is_cancelled() {
                break;
            }
        }
        site.scratch = Some(scratch);
        Ok(site)
    }

    /// What was built, in its order.
    pub(super) fn built(&self) -> impl Iterator<Item = &Built> {
        self.built.iter().map(|(_, built)| built)
    }

    /// Takes everything down; what stays is reported.
    pub(super) fn take_down(mut self) -> Vec<String> {
        let mut left = self.unbuild();
        if let Some(Err(reason)) = self.scratch.take().map(Scratch::remove) {
            left.push(reason);
        }
        left
    }

    fn unbuild(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        // The last one is on the others.
        while let Some((name, built)) = self.built.pop() {
            if let Err(reason) = built.guard.take_down() {
                left.push(format!("{name}: {reason}"));
            }
        }
        left
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for reason in self.unbuild() {
            tracing::error!("{reason}");
        }
    }
}
