//! Exports that commands add to a running server, and remove from it.
//!
//! # Invariants
//!
//! * A disk is opened with the claims of all others, as at a reload: bytes that another export writes are refused.
//! * What is refused changes nothing.
//! * An export ends as at a reload: its clients are disconnected, its disk is flushed, caches are closed, and arrays are
//!   marked clean.
//! * A reload keeps what a command added, until the configuration names it.
//!
//! # What it does not do
//!
//! It writes no configuration: the next start knows nothing of these changes.

use super::exports::plan_added;
use super::live::{ActiveConfig, Live, forget, offer};
use super::open_export::{OpenExport, OpenFailure, Opening};
use crate::config::ExportPlan;
use crate::control::{ExportRequest, Reloaded};
use crate::failure::Failure;

impl Live {
    /// Adds or removes an export, as requested.
    pub(super) async fn change_exports(&self, request: ExportRequest) -> Result<Reloaded, String> {
        let mut running = self.running.lock().await;
        match request {
            ExportRequest::Add(added) => {
                let plan = plan_added(&added);
                let plan = plan.map_err(|failure| failure.line())?;
                self.add_export(&mut running, plan).await
            }
            ExportRequest::Remove { name } => self.remove_export(&mut running, &name).await,
        }
    }

    async fn add_export(
        &self,
        running: &mut ActiveConfig,
        plan: ExportPlan,
    ) -> Result<Reloaded, String> {
        running.plan.validate_new(&plan)?;
        let mut opening = Opening::with_claims_of(&running.open, &[]);
        let opened = Box::pin(opening.open(&plan)).await;
        opened.map_err(|error| refusal(error, &running.plan.exports))?;
        let mut opened = opening.done();
        let disk = opened.first_mut().and_then(OpenExport::take);
        let (export, rules) = offer(&plan, disk.expect("what was opened has a disk"));
        self.control.add(export, rules).map_err(|e| e.to_string())?;
        self.watch(&mut opened);
        running.open.append(&mut opened);
        tracing::info!("export {:?} was added: {}", plan.name, plan.disk.text);
        let added = vec![plan.name.clone()];
        running.plan.exports.push(plan);
        Ok(Reloaded {
            added,
            ..Reloaded::default()
        })
    }

    /// Ends an export, its caches and its arrays. The next reload serves it again if it is in the configuration.
    pub(super) async fn remove_export(
        &self,
        running: &mut ActiveConfig,
        name: &str,
    ) -> Result<Reloaded, String> {
        self.control.clients(name).map_err(|e| e.to_string())?;
        let mut done = Reloaded::default();
        let ending = self.control.remove(name);
        self.end_export(name, running, ending, &mut done).await;
        let removed = vec![name.to_owned()];
        forget(&mut running.open, &removed);
        running.plan.exports.retain(|plan| plan.name != name);
        tracing::info!("export {name:?} was removed");
        Ok(Reloaded { removed, ..done })
    }
}

/// Why a disk was not opened, with the export that has its bytes.
fn refusal(error: OpenFailure, exports: &[ExportPlan]) -> String {
    let rival = error.rival().map(str::to_owned);
    let mut exports = exports.iter();
    let rival = exports.find(|export| Some(&export.disk.text) == rival.as_ref());
    let line = Failure::from(error).line();
    match rival {
        Some(rival) => format!("{line}; it is in use by export {:?}", rival.name),
        None => line,
    }
}
