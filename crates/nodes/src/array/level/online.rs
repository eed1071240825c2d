//! Another level of an array that is open, while it is used.
//!
//! ```text
//! between levels with parity          the engine locks all rows: requests wait for their turns
//! others: the gate is held            no request is under way
//!         ─► the array is at rest     settled, flushed, clean: members know
//!         ─► superblocks: durable     one commit
//!         ─► the gate is open         requests go on, by the new level
//! ```
//!
//! # Invariants
//!
//! * What is refused is refused before the gate is held, and checked again behind it.
//! * Requests wait for a bounded time until nothing is under way; where that takes longer the level stays as it is.
//! * A change goes on to its end in a task of the array: a caller that leaves does not end it.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::ArrayError;
use super::super::engine_cell::HeldGate;
use super::super::format::Level;
use super::super::node::{Array, EnginePath, Kind};
use super::is_changed_in_use;
use crate::lent_files::wait_for_returns;

/// How long requests that are under way are waited for, while others wait for them.
const REQUESTS_MAX: Duration = Duration::from_secs(20);

/// No regions of files are handed out until this is dropped.
struct LendsNothing<'a>(&'a AtomicBool);

impl<'a> LendsNothing<'a> {
    fn new(flag: &'a AtomicBool) -> Self {
        flag.store(true, Ordering::Release);
        Self(flag)
    }
}

impl Drop for LendsNothing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// An array without requests under way, until this is dropped.
struct HeldArray<'a> {
    _gate: HeldGate<'a, Kind>,
    _lends_nothing: LendsNothing<'a>,
}

impl Array {
    /// Gives the array another level while it is used, as mdadm does with `--layout=preserve`: no data move. A spare becomes the
    /// member that comes. Durable when it resolves; what is rebuilt then is rebuilt in the background.
    ///
    /// # Errors
    /// It does not become one of that level, something is missing or under way, or requests do not end.
    pub async fn change_level(&self, level: Level) -> Result<(), ArrayError> {
        let array = self.own.upgrade().expect("an array that is used is there");
        let changed = engine::spawn(async move { array.change_level_here(level).await }).await;
        changed.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    async fn change_level_here(&self, level: Level) -> Result<(), ArrayError> {
        let form = self.form.read().await;
        if let Kind::Redundant(array) = &*self.engine()
            && is_changed_in_use(array.array.facts().level, level)
        {
            self.must_be_md()?;
            return array.change_level(level).await;
        }
        drop(form);
        let _form = self.form.write().await;
        match &*self.engine() {
            Kind::Striped(striped) => Err(striped.refuse_level(level)),
            Kind::Parity(_) => Err(self.refused("its level stays as it is")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.check_level(level)?;
                let _held = self.hold().await?;
                array.change_level(level).await
            }
        }
    }

    /// Waits until no request is under way, and keeps new ones waiting.
    async fn hold(&self) -> Result<HeldArray<'_>, ArrayError> {
        let EnginePath::Gated(cell, _) = &self.path else {
            return Err(self.refused("its level stays as it is"));
        };
        let lends_nothing = LendsNothing::new(&self.lends_nothing);
        loop {
            let next = "disconnect it, or change the level later";
            let returned = wait_for_returns(|| self.engine().are_returned()).await;
            returned.map_err(|why| ArrayError::refused(why, next))?;
            let Some(gate) = cell.hold(REQUESTS_MAX).await else {
                let seconds = REQUESTS_MAX.as_secs();
                return Err(ArrayError::refused(
                    format!(
                        "requests under way have not ended for {seconds} s: the level stays as it is"
                    ),
                    "see which member does not answer with: outboard array status",
                ));
            };
            // The last region may have been handed out just before none were any more.
            if self.engine().are_returned() {
                return Ok(HeldArray {
                    _gate: gate,
                    _lends_nothing: lends_nothing,
                });
            }
        }
    }
}
