//! Changes of the arrays of a running server.
//!
//! # Invariants
//!
//! * An array is named by its export and its UUID: nothing is done to another one that has come to be
//!   called the same.
//! * One change at a time, beside no reload.

use std::sync::Arc;

use nbd::server::ChangeError;
use nodes::array::{AddOptions, Array, ArrayError, Candidate, SyncKind};

use super::live::{Live, Running};
use super::opened::Opening;
use crate::arrays::report::ArrayReport;
use crate::arrays::taking;
use crate::control::{Answer, ArrayAsk, ArrayStep};
use crate::failure::Failure;
use crate::graph::{NamedDisk, resolve};

impl Live {
    /// Does what is asked of an array.
    pub(super) async fn array(&self, ask: ArrayAsk) -> Result<Answer, String> {
        let mut running = self.running.lock().await;
        let ArrayAsk { export, uuid, step } = ask;
        let array = self.arrays.find(&export, &uuid);
        let array = array.ok_or_else(|| format!("export {export:?} has no array {uuid} now"))?;
        tracing::info!("array {}: {step:?} is asked for", array.status().name);
        match step {
            ArrayStep::Stop { force } => {
                let last = ArrayReport::of(Some(&export), &array.status());
                drop(array);
                self.stop_array(&mut running, &export, force).await?;
                return Ok(Answer::Array(Box::new(last)));
            }
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
                let (named, candidate) = member(&mut running, &export, &array, &disk).await?;
                if let (false, Some(disk)) = (force, &candidate.disk) {
                    let empty = taking::refuse_full(&named.text, disk, Some(&uuid)).await;
                    empty.map_err(|failure| failure.line())?;
                }
                array.add(candidate, options).await.map_err(told)?;
            }
            ArrayStep::ReAdd { disk } => {
                let (_, candidate) = member(&mut running, &export, &array, &disk).await?;
                array.re_add(candidate).await.map_err(told)?;
            }
            ArrayStep::Fail { member } => array.fail(&member).await.map_err(told)?,
            ArrayStep::Remove { member } => array.remove(&member).await.map_err(told)?,
            ArrayStep::Grow { parts } => array.grow(parts).await.map_err(told)?,
            ArrayStep::Scrub { repair } => {
                let kind = if repair {
                    SyncKind::Repair
                } else {
                    SyncKind::Check
                };
                array.scrub(kind).map_err(told)?;
            }
            ArrayStep::StopScrub => array.stop_scrub(),
        }
        let report = ArrayReport::of(Some(&export), &array.status());
        Ok(Answer::Array(Box::new(report)))
    }

    /// Ends the export, then the arrays below it.
    async fn stop_array(
        &self,
        running: &mut Running,
        export: &str,
        force: bool,
    ) -> Result<(), String> {
        let control = self.control.clone();
        let figures = engine::blocking(move || control.figures()).await;
        let served = figures.exports.iter().find(|one| one.name == export);
        let clients = served.map_or(0, |one| one.clients.len());
        if clients > 0 && !force {
            let are = if clients == 1 {
                "client is"
            } else {
                "clients are"
            };
            return Err(format!(
                "{clients} {are} connected to export {export:?}; --force ends them"
            ));
        }
        let ended = self.control.remove(export).await;
        if let Err(error @ ChangeError::Busy { .. }) = &ended {
            return Err(error.to_string());
        }
        let problems = self.arrays.stop(export).await;
        running.open.retain(|open| open.name != export);
        // The next reload serves it again.
        running.plan.exports.retain(|plan| plan.name != export);
        ended.map_err(|error| error.to_string())?;
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems.join("; ")),
        }
    }
}

fn told(error: ArrayError) -> String {
    Failure::from(error).line()
}

/// Opens a disk that is to be a member. One of its name that the array has failed is forgotten first.
async fn member(
    running: &mut Running,
    export: &str,
    array: &Arc<Array>,
    disk: &str,
) -> Result<(NamedDisk, Candidate), String> {
    let named = resolve(disk).map_err(|error| Failure::from(error).line())?;
    let forgotten = taking::forget(array, &named.text).await;
    forgotten.map_err(|failure| failure.line())?;
    let opened = Opening::member(&mut running.open, export, &named).await;
    let candidate = opened.map_err(|error| Failure::from(error).line())?;
    taking::refuse_unreached(&candidate).map_err(|failure| failure.line())?;
    Ok((named, candidate))
}
