//! Another level of an array that is open, while it is used.
//!
//! ```text
//! between levels with parity          the engine locks all rows: requests wait for their turns
//! others: the gate is held            no request is under way
//!         ─► the array is at rest     settled, flushed, clean: members know
//!         ─► superblocks: durable     one commit of the engine (1 and 5), or written here (0)
//!         ─► another engine           where the level needs one
//!         ─► the gate is open         requests go on, by the new level
//! ```
//!
//! # Invariants
//!
//! * What is refused is refused before the gate is held, and checked again behind it.
//! * Requests wait for a bounded time until nothing is under way; where that takes longer the level stays as it is.
//! * An engine takes over only when all members have its level, durably, and was opened from what they say.
//! * Superblocks that are written here are read once the engine of before writes none any more: no commit is under way, and none begins.
//! * A change goes on to its end in a task of the array: a caller that leaves does not end it.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::super::assembly::Assembly;
use super::super::engine_cell::HeldGate;
use super::super::format::Level;
use super::super::interface::ArrayInterface;
use super::super::node::{Array, EnginePath, Kind};
use super::super::open::{assembled, open_engine};
use super::super::striped::Striped;
use super::super::sync::Kept;
use super::super::{ArrayError, ArrayEvent, ArrayOptions, Candidate, SyncKind};
use super::superblocks::{LevelChange, WrittenLevel};
use super::{is_changed_in_use, wipe_member};
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
    gate: HeldGate<'a, Kind>,
    /// What callers see, and keep where another engine takes over.
    interface: &'a ArrayInterface,
    _lends_nothing: LendsNothing<'a>,
}

impl Array {
    /// Gives the array another level while it is used, as mdadm does with `--layout=preserve`: no data move. A spare becomes the
    /// member that comes. Durable when it resolves; what is rebuilt then is rebuilt in the background. Where level 5 becomes a stripe and
    /// parity is not on the last member, a reshape moves it there first, and the level changes at its end; where such a reshape is going on
    /// already, since a restart interrupted the change, the level changes at the end of that.
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
        if self.is_stopped.load(Ordering::Acquire) {
            return Err(ArrayError::refused("the array was stopped", None));
        }
        match &*self.engine() {
            Kind::Striped(striped) => self.take_parity(striped, level).await,
            Kind::Parity(_) => Err(self.refused("its level stays as it is")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                if let Some(shape) = array.shape_before(level) {
                    let events = self.events();
                    array.reshape(shape, None).await?;
                    self.follow_reshape(events, level);
                    return Ok(());
                }
                let events = self.events();
                if array.is_shaped_for(level) {
                    self.follow_reshape(events, level);
                    return Ok(());
                }
                array.check_level(level)?;
                let held = self.hold().await?;
                match level {
                    Level::Raid0 => self.give_up_parity(&held, array).await,
                    _ => array.change_level(level).await,
                }
            }
        }
    }

    /// A stripe gets parity: its members get superblocks of that level, and another engine takes over. The member with parity is missing
    /// at first.
    async fn take_parity(&self, striped: &Striped, level: Level) -> Result<(), ArrayError> {
        let mut opened = striped.assembly();
        LevelChange::plan(&opened, level)?;
        let held = self.hold().await?;
        striped.come_to_rest().await?;
        let members = opened.members_mut().map(|member| member.candidate());
        let mut assembly = self.read_again(members.collect()).await?;
        let change = LevelChange::plan(&assembly, level)?;
        // Where it fails the stripe goes on: all data lie where they did.
        let (_, engine) = self.write_level(&held, change, &mut assembly).await?;
        self.take_over(&held, engine).await?;
        // There may be no listener.
        drop(held.interface.events.send(ArrayEvent::DegradedArray));
        Ok(())
    }

    /// Gives members their superblocks, and opens the engine of that level. Where it fails they have those of before.
    async fn write_level(
        &self,
        held: &HeldArray<'_>,
        change: LevelChange,
        assembly: &mut Assembly,
    ) -> Result<(WrittenLevel, Kind), ArrayError> {
        let written = change.write(assembly).await?;
        let members = assembly.members_mut().map(|member| member.candidate());
        match self.open_engine(held, members.collect()).await {
            Ok(engine) => Ok((written, engine)),
            Err(error) => {
                written.undo(assembly).await;
                Err(error)
            }
        }
    }

    /// Changes the level once the reshape that is going on has ended. An array that is stopped before keeps its level.
    fn follow_reshape(&self, mut events: Receiver<ArrayEvent>, level: Level) {
        let own = self.own.clone();
        drop(engine::spawn(async move {
            loop {
                let may_be_finished = match events.recv().await {
                    Ok(ArrayEvent::RebuildFinished { kind, .. }) => kind == SyncKind::Reshape,
                    Ok(_) => false,
                    // Its end may be among the events that were missed.
                    Err(RecvError::Lagged(_)) => true,
                    Err(RecvError::Closed) => return,
                };
                let Some(array) = own.upgrade() else {
                    return;
                };
                if array.is_stopped.load(Ordering::Acquire) {
                    return;
                }
                if !may_be_finished || array.is_reshaping() {
                    continue;
                }
                let name = array.status().name;
                match array.change_level_here(level).await {
                    Ok(()) => tracing::info!("array {name} is {level}"),
                    // It was requested twice.
                    Err(_) if array.status().level == level => {}
                    Err(error) => tracing::error!("array {name} does not become {level}: {error}"),
                }
                return;
            }
        }));
    }

    /// Whether rows are moved, or the job that moved them has not ended.
    fn is_reshaping(&self) -> bool {
        match &*self.engine() {
            Kind::Redundant(array) => {
                let sync = array.status().sync;
                let is_running = sync.is_some_and(|sync| sync.kind == SyncKind::Reshape);
                is_running || array.array.is_reshaping()
            }
            Kind::Striped(_) | Kind::Parity(_) => false,
        }
    }

    /// An array with parity becomes a stripe: members with data get superblocks of that level, another engine takes over, and the member with
    /// parity and spares are released.
    async fn give_up_parity(&self, held: &HeldArray<'_>, array: &Kept) -> Result<(), ArrayError> {
        let level = Level::Raid0;
        // From here on superblocks are written here, and by no commit: what is read of them is what they say.
        let at_rest = array.at_rest(level).await?;
        let mut assembly = self.read_again(array.candidates()).await?;
        let change = LevelChange::plan(&assembly, level)?;
        let (written, engine) = match self.write_level(held, change, &mut assembly).await {
            Ok(done) => done,
            Err(error) => {
                at_rest.resume().await;
                return Err(error);
            }
        };
        array.leave();
        at_rest.retire();
        self.take_over(held, engine).await?;
        if let Some(what) = written.dropped {
            tracing::warn!("members keep no {what} any more: {level} has none");
        }
        for member in &written.released {
            // Where that fails the next open does it.
            match wipe_member(member).await {
                Ok(()) => tracing::info!("{} is no member any more", member.name),
                Err(error) => tracing::error!("{error}"),
            }
        }
        Ok(())
    }

    /// The members by their superblocks, which must be what the array wrote last, or found.
    async fn read_again(&self, members: Vec<Candidate>) -> Result<Assembly, ArrayError> {
        let assembly = Box::pin(assembled(members, &self.reopening())).await?;
        let status = self.status();
        if (assembly.facts.uuid, assembly.events) == (status.uuid, status.events) {
            return Ok(assembly);
        }
        Err(ArrayError::refused(
            "superblocks of members are not what they were: another process has written them",
            "look at them: outboard inspect",
        ))
    }

    /// How its members are opened again.
    fn reopening(&self) -> ArrayOptions {
        ArrayOptions {
            prefer: None,
            ..self.options.clone()
        }
    }

    /// What carries out the requests of the array that these are the members of, and keeps what callers see.
    async fn open_engine(
        &self,
        held: &HeldArray<'_>,
        members: Vec<Candidate>,
    ) -> Result<Kind, ArrayError> {
        let options = self.reopening();
        let assembly = Box::pin(assembled(members, &options)).await?;
        let (engine, remarks) = open_engine(assembly, &options, Some(held.interface)).await?;
        for remark in remarks {
            tracing::warn!("{remark}");
        }
        Ok(engine)
    }

    /// Another engine carries out requests from now on.
    async fn take_over(&self, held: &HeldArray<'_>, engine: Kind) -> Result<(), ArrayError> {
        let engine = Arc::new(engine);
        held.gate.replace(engine.clone());
        match self.is_stopped.load(Ordering::Acquire) {
            // It was stopped meanwhile, but this one was not.
            true => engine.stop().await,
            false => Ok(()),
        }
    }

    /// Waits until no request is under way, and keeps new ones waiting.
    async fn hold(&self) -> Result<HeldArray<'_>, ArrayError> {
        let EnginePath::Gated(cell, interface) = &self.path else {
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
                    gate,
                    interface,
                    _lends_nothing: lends_nothing,
                });
            }
        }
    }
}
