//! Changes of the arrays of a running server.
//!
//! # Invariants
//!
//! * An array is named by its export and its UUID: nothing is done to another one that has come to be
//!   called the same.
//! * One change at a time, and none during a reload.

use nodes::array::Candidate;

use super::live::{ActiveConfig, Live};
use super::open_export::{OpenExport, Opening};
use crate::arrays::change::{self, Opener};
use crate::arrays::report::ArrayReport;
use crate::control::{ArrayRequest, ArrayStep, ControlAnswer};
use crate::failure::Failure;
use crate::graph::NamedDisk;

impl Live {
    /// Applies a requested change to an array.
    pub(super) async fn array(&self, ask: ArrayRequest) -> Result<ControlAnswer, String> {
        let mut running = self.running.lock().await;
        let ArrayRequest { export, uuid, step } = ask;
        let array = self.arrays.find(&export, &uuid);
        let array = array.ok_or_else(|| format!("export {export:?} has no array {uuid} now"))?;
        if let ArrayStep::Stop { force } = step {
            let last = ArrayReport::of(Some(&export), &array.status());
            drop(array);
            self.stop_array(&mut running, &export, force).await?;
            return Ok(ControlAnswer::Array(Box::new(last)));
        }
        let mut opener = ServerOpener {
            open: &mut running.open,
            export: &export,
        };
        change::apply_request(&array, step, &mut opener).await?;
        let report = ArrayReport::of(Some(&export), &array.status());
        Ok(ControlAnswer::Array(Box::new(report)))
    }

    /// Ends the export, then the arrays below it.
    async fn stop_array(
        &self,
        running: &mut ActiveConfig,
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
        let done = self.remove_export(running, export).await?;
        match done.warnings.is_empty() {
            true => Ok(()),
            false => Err(done.warnings.join("; ")),
        }
    }
}

/// Opens a member next to the disks of the server.
struct ServerOpener<'a> {
    open: &'a mut [OpenExport],
    export: &'a str,
}

impl Opener for ServerOpener<'_> {
    async fn open(&mut self, disk: &NamedDisk) -> Result<Candidate, Failure> {
        Ok(Opening::member(self.open, self.export, disk).await?)
    }
}
