//! Targets that a plan names: images, disks, servers and mounts, made for a run and taken down after it.
//!
//! # How a target is made
//!
//! [`features`] says what this machine lacks for it (pure, from [`facts`]); the file of its kind says
//! in which [`step`]s it is made (pure); [`carry_out`] takes them one after the other, and what each
//! leaves behind is in [`teardown`], which tears it down in the reverse order.
//!
//! # Invariants
//!
//! * What cannot be had is left out with a reason, never a failure of the plan.
//! * Everything is made in the directory that the lab gives, or in that of the target below.
//! * A folder of ours is removed only once nothing is mounted in it any more.
//!
//! # What it deliberately does not do
//!
//! It reads no disk expression, and writes to no disk that it did not make: the program that it runs in does the one
//! and decides on the other ([`DiskAccess`]).

mod carry_out;
mod directory;
mod disk;
mod export;
mod facts;
mod features;
mod kernel;
mod mount;
mod names;
mod nfs;
mod process;
mod raw;
mod serve;
mod smb;
mod sshfs;
mod step;
mod teardown;

use std::fmt;

use attach::{AttachError, AttachRequest, Attachment};
use lab::host::safety::ExportContent;
use lab::plan::{Target, TargetKind};
use lab::runner::{BuildContext, Builder, Built, DiskFacts, LeftOut};

use carry_out::TargetBuild;
use facts::MachineFacts;
pub use names::Names;
use step::Recipe;

/// What the program that the builder runs in does for it: disk expressions are read and opened there.
pub trait DiskAccess: fmt::Debug {
    /// What may be written while `target` is built.
    fn write_rules<'a>(
        &self,
        target: &Target,
        context: &BuildContext<'a>,
    ) -> Box<dyn WriteRules + 'a>;

    /// How `disk` is attached when nothing else is requested.
    ///
    /// # Errors
    /// The expression is wrong.
    fn attach_request(&self, disk: &str) -> Result<AttachRequest, String>;

    /// Attaches it; a process of its own owns the attachment.
    ///
    /// # Errors
    /// [`AttachError`].
    fn attach(&self, request: &AttachRequest) -> Result<Attachment, AttachError>;

    /// What the expression `disk` and the sizes of its files say.
    fn facts(&self, disk: &str) -> DiskFacts;

    /// What is on the export `uri`, which is only read.
    fn export_content(&self, uri: &str) -> ExportContent;
}

/// Which disks may be written while one target is built.
pub trait WriteRules {
    /// Notes an export that we serve: its disk was checked when its server was started.
    fn add_export(&mut self, export: nbd::client::Target);

    /// Whether the disk of `expression` may be written.
    ///
    /// # Errors
    /// Why it may not.
    fn check(&self, expression: &str) -> Result<(), String>;

    /// The same of every disk that one of our own commands would write.
    ///
    /// # Errors
    /// Why one may not.
    fn check_command(&self, words: &[String]) -> Result<(), String>;
}

/// Builds the targets of a plan on this machine.
#[derive(Debug)]
pub struct TargetBuilder {
    facts: MachineFacts,
    disks: Box<dyn DiskAccess>,
}

impl TargetBuilder {
    /// Looks at what this machine has.
    #[must_use]
    pub fn new(disks: Box<dyn DiskAccess>) -> Self {
        Self {
            facts: MachineFacts::of_this_machine(),
            disks,
        }
    }

    /// How `target` would be made, if it can be had here.
    fn recipe(&self, target: &Target, context: &BuildContext<'_>) -> Result<Recipe, LeftOut> {
        if let Some(lacking) = features::lacking(target, &self.facts)? {
            return Err(LeftOut(lacking));
        }
        let folder = context
            .directory_of(target)?
            .join(format!("outboard-{}", target.name));
        match &target.kind {
            TargetKind::Directory { .. } => directory::recipe(target, context),
            TargetKind::Disk { .. } => disk::recipe(target, folder),
            TargetKind::Served { .. } => export::recipe(target, folder),
            TargetKind::Kernel { .. } => kernel::recipe(target, folder, context.built.len()),
            TargetKind::Mount { .. } => mount::recipe(target, folder),
            TargetKind::Raw { .. } => raw::recipe(target, folder),
        }
    }
}

impl Builder for TargetBuilder {
    fn build(&mut self, target: &Target, context: &BuildContext<'_>) -> Result<Built, LeftOut> {
        let recipe = self.recipe(target, context)?;
        let names = Names::of(context);
        let rules = self.disks.write_rules(target, context);
        let work = TargetBuild::new(names, rules, &*self.disks, context.cancel);
        work.carry_out(recipe, target.kind.expression())
    }

    fn describe(
        &self,
        target: &Target,
        context: &BuildContext<'_>,
    ) -> Result<Vec<String>, LeftOut> {
        let recipe = self.recipe(target, context)?;
        let names = Names::of(context);
        Ok(recipe.shown(&names))
    }

    fn export_content(&self, uri: &str) -> ExportContent {
        self.disks.export_content(uri)
    }
}

#[cfg(test)]
mod tests;
