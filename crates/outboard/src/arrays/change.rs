//! Carries out a change of an array that runs in this process.

use nodes::array::{AddOptions, Array, ArrayError, Candidate, SyncKind};

use super::taking;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::graph::builder::BuildError;
use crate::graph::{NamedDisk, resolve};

/// Opens disks beside those that the process has open.
pub(crate) trait Opener: Send {
    /// Opens one that is to be a member.
    fn open(
        &mut self,
        disk: &NamedDisk,
    ) -> impl Future<Output = Result<Candidate, BuildError>> + Send;
}

/// Does it. To stop an array is not done here, for it ends what stands on it.
pub(crate) async fn carry_out(
    array: &Array,
    step: ArrayStep,
    opener: &mut impl Opener,
) -> Result<(), String> {
    let status = array.status();
    tracing::info!("array {}: {step} is asked for", status.name);
    match step {
        ArrayStep::Add {
            disk,
            write_mostly,
            fail_fast,
            force,
        } => {
            let options = AddOptions {
                write_mostly,
                fail_fast,
            };
            let candidate = member(array, &disk, opener).await?;
            if let (false, Some(open)) = (force, &candidate.disk) {
                let own = super::report::uuid(&status.uuid);
                let empty = taking::refuse_full(&disk, open, Some(&own)).await;
                empty.map_err(|failure| failure.line())?;
            }
            array.add(candidate, options).await
        }
        ArrayStep::ReAdd { disk } => array.re_add(member(array, &disk, opener).await?).await,
        ArrayStep::Fail { member } => array.fail(&member).await,
        ArrayStep::Remove { member } => array.remove(&member).await,
        ArrayStep::Grow { parts } => array.grow(parts).await,
        ArrayStep::Scrub { repair: true } => array.scrub(SyncKind::Repair),
        ArrayStep::Scrub { repair: false } => array.scrub(SyncKind::Check),
        ArrayStep::StopScrub => {
            array.stop_scrub();
            Ok(())
        }
        ArrayStep::Stop { .. } => unreachable!("who calls this has looked"),
    }
    .map_err(told)
}

fn told(error: ArrayError) -> String {
    Failure::from(error).line()
}

/// Opens a disk that is to be a member. One of its name that the array has failed is forgotten first.
async fn member(array: &Array, disk: &str, opener: &mut impl Opener) -> Result<Candidate, String> {
    let line = |failure: Failure| failure.line();
    let named = resolve(disk).map_err(|error| line(error.into()))?;
    taking::forget(array, &named.text).await.map_err(line)?;
    let candidate = opener.open(&named).await;
    let candidate = candidate.map_err(|error| line(error.into()))?;
    taking::refuse_unreached(&candidate).map_err(line)?;
    Ok(candidate)
}
