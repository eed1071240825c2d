//! Targets that a plan names: images, disks, servers and mounts, made for a run and taken down after it.
//!
//! # The way of a target
//!
//! [`features`] says what this machine lacks for it (pure, from [`facts`]); the file of its kind says
//! in which [`step`]s it is made (pure); [`carry_out`] takes them one after the other, and what each
//! leaves behind stands in [`standing`], which takes it down in the reverse order.
//!
//! # Invariants
//!
//! * What cannot be had is left out with a reason, never a failure of the plan.
//! * Everything is made in the directory that the lab gives, or in that of the target below.
//! * A folder of ours is removed only once nothing is mounted in it any more.
//!
//! # What it deliberately does not do
//!
//! It writes to no disk that it did not make, unless the lab's rules allow it ([`foreign`]).

mod carry_out;
mod directory;
mod disk;
mod facts;
mod features;
mod foreign;
mod kernel;
mod mount;
mod names;
mod nfs;
mod process;
mod raw;
mod serve;
mod served;
mod smb;
mod sshfs;
mod standing;
mod step;

use lab::plan::{Target, TargetKind};
use lab::runner::{BuildContext, Builder, Built, LeftOut};

use facts::Facts;
use foreign::Foreign;
use names::Names;
use step::Recipe;

/// Builds the targets of a plan on this machine.
#[derive(Debug)]
pub(super) struct TargetBuilder {
    facts: Facts,
}

impl TargetBuilder {
    /// Looks at what this machine has.
    pub(super) fn new() -> Self {
        Self {
            facts: Facts::of_this_machine(),
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
            TargetKind::Served { .. } => served::recipe(target, folder),
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
        carry_out::carry_out(recipe, names, Foreign::of(target, context), context.cancel)
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
}

#[cfg(test)]
mod tests;
