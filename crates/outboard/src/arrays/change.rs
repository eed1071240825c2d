//! Applies a change to an array that is open in this process: in a server, below an attached device, or for the
//! duration of a command.

use nodes::array::format::Level;
use nodes::array::{AddOptions, Array, Candidate, NewShape, SyncKind};

use super::backup_file::BackupPath;
use super::member_checks;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::graph::builder::{BuildError, Builder, FileClaim};
use crate::graph::{NamedDisk, resolve};

/// Opens disks in addition to those that the process has open.
pub(crate) trait Opener: Send {
    /// Opens one that is to be a member.
    fn open(&mut self, disk: &NamedDisk)
    -> impl Future<Output = Result<Candidate, Failure>> + Send;
}

/// The byte ranges of files that open disks use. A disk that is opened later may use none of them.
#[derive(Debug)]
pub(crate) struct OpenClaims(Vec<FileClaim>);

impl OpenClaims {
    /// The claims of the disks of `builder`.
    pub(crate) fn by(builder: Builder) -> Self {
        Self(builder.claims())
    }

    /// Opens a disk that is to become a member, and adds its claims.
    pub(crate) async fn candidate(&mut self, disk: &NamedDisk) -> Result<Candidate, BuildError> {
        self.0.retain(FileClaim::is_alive);
        let mut builder = Builder::new(false).with_claims(self.0.clone());
        let candidate = Box::pin(builder.candidate(disk)).await?;
        self.0 = builder.claims();
        Ok(candidate)
    }
}

impl Opener for OpenClaims {
    async fn open(&mut self, disk: &NamedDisk) -> Result<Candidate, Failure> {
        Ok(self.candidate(disk).await?)
    }
}

/// Applies `step`, which is not [`ArrayStep::Stop`]: the caller handles that, since it ends the export as well.
pub(crate) async fn apply(
    array: &Array,
    step: ArrayStep,
    opener: &mut impl Opener,
) -> Result<(), Failure> {
    let done = match step {
        ArrayStep::Add {
            disk,
            write_mostly,
            fail_fast,
            force,
        } => {
            let options = AddOptions {
                write_mostly,
                fail_fast,
                overwrite: force,
            };
            let candidate = member(array, &disk, opener).await?;
            if let (false, Some(open)) = (force, &candidate.disk) {
                let own = super::report::uuid(&array.status().uuid);
                member_checks::refuse_full(&disk, open, Some(&own)).await?;
            }
            array.add(candidate, options).await
        }
        ArrayStep::ReAdd { disk } => array.re_add(member(array, &disk, opener).await?).await,
        ArrayStep::Fail { member } => array.fail(&member).await,
        ArrayStep::Remove { member } => array.remove(&member).await,
        ArrayStep::Replace { member, with } => array.replace(&member, with.as_deref()).await,
        ArrayStep::Grow { parts } => array.grow(parts).await,
        ArrayStep::Reshape {
            parts,
            layout,
            chunk,
            backup_file,
        } => {
            let backup = backup_file.as_deref().map(BackupPath::of);
            let shape = NewShape {
                parts,
                layout,
                chunk,
            };
            array.reshape(shape, backup.transpose()?).await
        }
        ArrayStep::Level { level } => array.change_level(Level::of(level)).await,
        ArrayStep::Policy { policy } => array.change_policy(policy.into()).await,
        ArrayStep::Resize { assume_clean } => array.resize(assume_clean).await,
        ArrayStep::Scrub { repair: true } => array.scrub(SyncKind::Repair),
        ArrayStep::Scrub { repair: false } => array.scrub(SyncKind::Check),
        ArrayStep::StopScrub => {
            array.stop_scrub();
            Ok(())
        }
        ArrayStep::Stop { .. } => unreachable!("who calls this has looked"),
    };
    Ok(done?)
}

/// [`apply`] for a request from another process: logs it, and returns an error of one line.
pub(crate) async fn apply_request(
    array: &Array,
    step: ArrayStep,
    opener: &mut impl Opener,
) -> Result<(), String> {
    tracing::info!("array {}: {step} requested", array.status().name);
    let done = apply(array, step, opener).await;
    done.map_err(|failure| failure.line())
}

/// Opens a disk that is to be a member. One of its name that the array has failed is forgotten first.
async fn member(array: &Array, disk: &str, opener: &mut impl Opener) -> Result<Candidate, Failure> {
    let named = resolve(disk)?;
    member_checks::forget(array, &named.text).await?;
    let candidate = opener.open(&named).await?;
    member_checks::refuse_unreached(&candidate)?;
    Ok(candidate)
}
