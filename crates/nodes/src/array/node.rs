//! [`Array`]: all operations on a running array. Its requests are in [`device`](super::device), changes of its level in
//! [`level`](super::level).
//!
//! # Invariants
//!
//! * A change of members or of the form is carried out by one engine: none takes over meanwhile.
//! * An array that is stopped has no engine that writes.

#[cfg(test)]
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use block::BlockDevice;
use tokio::sync::broadcast;

use super::engine_cell::EngineCell;
use super::format::{Level, Version};
use super::interface::ArrayInterface;
use super::parity::Parity;
use super::striped::Striped;
use super::sync::Kept;
#[cfg(test)]
use super::sync::SyncManager;
use super::{
    ArrayError, ArrayEvent, ArrayOptions, ArrayStatus, BackupFile, Candidate, ConsistencyPolicy,
    NewShape, SyncKind,
};

/// An array that is open.
#[derive(Debug)]
pub struct Array {
    pub(super) own: Weak<Self>,
    pub(super) path: EnginePath,
    remarks: Vec<String>,
    /// How it was opened.
    pub(super) options: ArrayOptions,
    /// Held for writing while the engine changes, for reading while members or the form do.
    pub(super) form: tokio::sync::RwLock<()>,
    /// No regions of files are handed out: the level is about to change.
    pub(super) lends_nothing: AtomicBool,
    /// No engine takes over any more.
    pub(super) is_stopped: AtomicBool,
}

/// How requests reach what carries them out.
#[derive(Debug)]
pub(super) enum EnginePath {
    /// At once: no level follows that of the array, or it is only read.
    Fixed(Arc<Kind>),
    /// Through a gate.
    Gated(EngineCell<Kind>, ArrayInterface),
}

/// What carries out its requests, by level.
#[derive(Debug)]
pub(super) enum Kind {
    /// Linear, RAID 0.
    Striped(Striped),
    /// RAID 4, 5, 6 that are only read.
    Parity(Parity),
    /// RAID 1, 10, and 4, 5, 6 that are written.
    Redundant(Kept),
}

/// How a member is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddOptions {
    /// Reads prefer others.
    pub write_mostly: bool,
    /// Errors fail it at once.
    pub fail_fast: bool,
    /// A member of this array that has data of its own, which no other member has, is overwritten, too.
    pub overwrite: bool,
}

/// Why an operation is not possible on an array.
fn no_copies(level: Level, what: &str) -> ArrayError {
    let next = "only arrays with copies or parity can do that";
    ArrayError::refused(format!("{level} keeps no copies: {what}"), next)
}

impl Kind {
    /// It, as a disk.
    pub(super) fn disk(&self) -> &dyn BlockDevice {
        match self {
            Self::Striped(striped) => striped,
            Self::Parity(parity) => parity,
            Self::Redundant(array) => &*array.array,
        }
    }

    /// Ends what it does: later changes fail.
    pub(super) async fn stop(&self) -> Result<(), ArrayError> {
        match self {
            Self::Striped(striped) => striped.stop().await,
            // It is only read.
            Self::Parity(_) => Ok(()),
            Self::Redundant(array) => array.end().await,
        }
    }

    /// Whether no region of a file that it handed out is still read.
    pub(super) fn are_returned(&self) -> bool {
        match self {
            Self::Striped(striped) => striped.are_returned(),
            Self::Parity(_) => true,
            Self::Redundant(array) => array.array.are_returned(),
        }
    }

    /// What callers see of it that another engine would keep; `None`: the level stays as it is while the array is open.
    fn interface(&self) -> Option<ArrayInterface> {
        match self {
            Self::Striped(striped) => striped.interface(),
            Self::Parity(_) => None,
            Self::Redundant(array) => array.array.interface(),
        }
    }
}

impl Array {
    pub(super) fn of(kind: Kind, remarks: Vec<String>, options: ArrayOptions) -> Arc<Self> {
        let interface = kind.interface();
        let kind = Arc::new(kind);
        let path = match interface {
            None => EnginePath::Fixed(kind),
            Some(interface) => EnginePath::Gated(EngineCell::new(kind), interface),
        };
        Arc::new_cyclic(|own| Self {
            own: own.clone(),
            path,
            remarks,
            options,
            form: tokio::sync::RwLock::default(),
            lends_nothing: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        })
    }

    /// What carries out its requests now.
    pub(super) fn engine(&self) -> Arc<Kind> {
        match &self.path {
            EnginePath::Fixed(kind) => kind.clone(),
            EnginePath::Gated(cell, _) => cell.engine(),
        }
    }

    /// What the caller should know: members that are stale, or that could not be reached.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// How it is now.
    #[must_use]
    pub fn status(&self) -> ArrayStatus {
        match &*self.engine() {
            Kind::Striped(striped) => striped.status(),
            Kind::Parity(parity) => parity.status(),
            Kind::Redundant(array) => array.status(),
        }
    }

    /// Its events from now on. A listener that is too slow misses the oldest.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<ArrayEvent> {
        // An engine that takes over sends its events to the same listeners.
        match &*self.engine() {
            Kind::Striped(striped) => striped.events(),
            Kind::Parity(parity) => parity.events(),
            Kind::Redundant(array) => array.array.events(),
        }
    }

    /// Makes a disk a spare; recovery begins at once where a part is missing. What the disk held is
    /// lost, unless it is a member that can come back by the bitmap. A member that has data of its own is refused
    /// ([`AddOptions::overwrite`]).
    ///
    /// # Errors
    /// Why it cannot be a member.
    pub async fn add(&self, disk: Candidate, options: AddOptions) -> Result<(), ArrayError> {
        let _form = self.form.read().await;
        match &*self.engine() {
            Kind::Striped(_) | Kind::Parity(_) => Err(self.refused("no member can be added")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.add(disk, options).await
            }
        }
    }

    /// Takes a member back that was away: only what the bitmap says is copied.
    ///
    /// # Errors
    /// Why that is not enough for it; [`add`](Self::add) copies all.
    pub async fn re_add(&self, disk: Candidate) -> Result<(), ArrayError> {
        let _form = self.form.read().await;
        match &*self.engine() {
            Kind::Striped(_) | Kind::Parity(_) => Err(self.refused("no member can come back")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.re_add(disk).await
            }
        }
    }

    /// Declares a member failed, by its name.
    ///
    /// # Errors
    /// There is none of that name, or it is the last one that holds its part.
    pub async fn fail(&self, member: &str) -> Result<(), ArrayError> {
        match &*self.engine() {
            Kind::Redundant(array) => array.fail(member).await,
            Kind::Striped(_) | Kind::Parity(_) => {
                Err(self.refused("no member can fail without the array"))
            }
        }
    }

    /// Forgets a spare or a failed member, by its name.
    ///
    /// # Errors
    /// There is none of that name, or it works.
    pub async fn remove(&self, member: &str) -> Result<(), ArrayError> {
        let _form = self.form.read().await;
        match &*self.engine() {
            Kind::Striped(_) | Kind::Parity(_) => Err(self.refused("no member can be removed")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.remove(member).await
            }
        }
    }

    /// Makes a spare a copy of a member, in the background, while both get what is written; the spare takes its place then. `with`:
    /// the spare's name, or any.
    ///
    /// # Errors
    /// There are none of these names, the member is not in sync, or superblocks cannot record it (0.90).
    pub async fn replace(&self, member: &str, with: Option<&str>) -> Result<(), ArrayError> {
        let _form = self.form.read().await;
        match &*self.engine() {
            Kind::Striped(_) | Kind::Parity(_) => Err(self.refused("no member can be replaced")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.replace(member, with).await
            }
        }
    }

    /// Changes how many parts a mirror has.
    ///
    /// # Errors
    /// It is no mirror, or working members would be left over.
    pub async fn grow(&self, parts: u32) -> Result<(), ArrayError> {
        let _form = self.form.read().await;
        match &*self.engine() {
            Kind::Striped(_) | Kind::Parity(_) => Err(self.refused("it cannot have more of them")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.grow(parts).await
            }
        }
    }

    /// Gives an array with parity another form in the background, while it is used: more members (spares take the new parts), another
    /// chunk or layout. It has its new size once that has ended. Partial parity logs are dropped. `backup`: made and used where there is no room in front
    /// of the data of a member, and rows get as much data as before; removed in the end.
    ///
    /// # Errors
    /// It cannot have that form, something is missing, or there is no room and no backup file.
    pub async fn reshape(
        &self,
        shape: NewShape,
        backup: Option<Arc<dyn BackupFile>>,
    ) -> Result<(), ArrayError> {
        let _form = self.form.read().await;
        match &*self.engine() {
            Kind::Striped(_) | Kind::Parity(_) => Err(self.refused("it cannot be reshaped")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.reshape(shape, backup).await
            }
        }
    }

    /// Gives a redundant array another consistency policy while it is used, as `mdadm --grow --consistency-policy`: partial parity logs
    /// (level 5), a bitmap, or neither ([`ConsistencyPolicy::Resync`]).
    ///
    /// # Errors
    /// It cannot have that one, there is no room for it, members are missing, or something is under way.
    pub async fn change_policy(&self, policy: ConsistencyPolicy) -> Result<(), ArrayError> {
        let _form = self.form.read().await;
        match &*self.engine() {
            Kind::Striped(striped) => Err(striped.refuse_policy()),
            Kind::Parity(_) => Err(self.refused("its consistency policy stays as it is")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.change_policy(policy).await
            }
        }
    }

    /// The array uses all of its members, which were enlarged before it was opened; what is new is resynced in the background, or with
    /// `assume_clean` taken to be in sync.
    ///
    /// # Errors
    /// They are not larger, something is missing or under way, or superblocks lie at the end of members.
    pub async fn resize(&self, assume_clean: bool) -> Result<(), ArrayError> {
        let _form = self.form.read().await;
        match &*self.engine() {
            Kind::Striped(_) | Kind::Parity(_) => Err(self.refused("it does not get larger")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.resize(assume_clean).await
            }
        }
    }

    /// Begins a scrub ([`SyncKind::Check`] or [`SyncKind::Repair`]) in the background.
    ///
    /// # Errors
    /// There are no copies to compare, or it resyncs already.
    pub fn scrub(&self, kind: SyncKind) -> Result<(), ArrayError> {
        match &*self.engine() {
            Kind::Striped(_) | Kind::Parity(_) => Err(self.refused("there is nothing to compare")),
            Kind::Redundant(array) => array.scrub(kind),
        }
    }

    /// Ends a scrub early.
    pub fn stop_scrub(&self) {
        match &*self.engine() {
            Kind::Striped(_) | Kind::Parity(_) => {}
            Kind::Redundant(array) => array.stop_scrub(),
        }
    }

    /// Resolves once nothing is being done in the background.
    ///
    /// # Errors
    /// What it ended with, if not well.
    pub async fn synced(&self) -> Result<(), ArrayError> {
        loop {
            let engine = self.engine();
            let synced = match &*engine {
                Kind::Striped(_) | Kind::Parity(_) => Ok(()),
                Kind::Redundant(array) => array.synced().await,
            };
            if Arc::ptr_eq(&engine, &self.engine()) {
                return synced;
            }
        }
    }

    /// Waits for writes, marks the array clean and ends the work in the background; later changes
    /// fail.
    ///
    /// # Errors
    /// A member could not be written: the array is dirty then, not lost.
    pub async fn stop(&self) -> Result<(), ArrayError> {
        self.is_stopped.store(true, Ordering::Release);
        loop {
            let engine = self.engine();
            let stopped = engine.stop().await;
            if Arc::ptr_eq(&engine, &self.engine()) {
                return stopped;
            }
        }
    }

    /// Does what is to be done in the background, for callers of other modules that opened it without.
    #[cfg(test)]
    pub(crate) async fn work(&self) {
        if let Kind::Redundant(array) = &*self.engine() {
            array.work().await.expect("what is to be done can be done");
        }
    }

    /// Does what is done in the background by the clock, for callers that opened it without: see [`SyncManager`].
    #[cfg(test)]
    pub(super) fn by_hand(&self) -> ByHand {
        ByHand(self.engine())
    }

    /// The same, if there is anything to be done.
    #[cfg(test)]
    pub(super) fn by_hand_if_any(&self) -> Option<ByHand> {
        let engine = self.engine();
        matches!(*engine, Kind::Redundant(_)).then_some(ByHand(engine))
    }

    /// Refuses a change of members where LVM's metadata lists them.
    pub(super) fn must_be_md(&self) -> Result<(), ArrayError> {
        let status = self.status();
        if status.version != Version::DmRaid {
            return Ok(());
        }
        let what = format!("the images of {} are listed by LVM", status.name);
        Err(ArrayError::refused(what, "change them with lvconvert"))
    }

    pub(super) fn refused(&self, what: &str) -> ArrayError {
        match &*self.engine() {
            Kind::Striped(_) | Kind::Redundant(_) => no_copies(self.status().level, what),
            Kind::Parity(_) => {
                let level = self.status().level;
                ArrayError::refused(
                    format!("the array ({level}) is only read: {what}"),
                    "open it for writing, or do that with mdadm",
                )
            }
        }
    }
}

/// The background work of an array, done by a test.
#[cfg(test)]
pub(super) struct ByHand(Arc<Kind>);

#[cfg(test)]
impl Deref for ByHand {
    type Target = SyncManager;

    fn deref(&self) -> &SyncManager {
        match &*self.0 {
            Kind::Redundant(array) => array,
            other => panic!("{other:?} has nothing to do"),
        }
    }
}
