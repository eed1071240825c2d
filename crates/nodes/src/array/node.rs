//! [`Array`]: the disk, and all operations on a running array.

use block::{
    BlockDevice, Extent, FileRegion, Geometry, Identity, IoBufs, IoFuture, Node, Range, TryIo,
    WriteFlags,
};
use tokio::sync::broadcast;

use super::format::{Level, Version};
use super::parity::Parity;
use super::striped::Striped;
use super::sync::Kept;
#[cfg(test)]
use super::sync::SyncManager;
use super::{
    ArrayError, ArrayEvent, ArrayStatus, Candidate, ConsistencyPolicy, NewShape, SyncKind,
};

/// An array that is open.
#[derive(Debug)]
pub struct Array {
    kind: Kind,
    remarks: Vec<String>,
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

impl Array {
    pub(super) const fn of(kind: Kind, remarks: Vec<String>) -> Self {
        Self { kind, remarks }
    }

    /// What the caller should know: members that are stale, or that could not be reached.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// What carries out its requests.
    fn disk(&self) -> &dyn BlockDevice {
        match &self.kind {
            Kind::Striped(striped) => striped,
            Kind::Parity(parity) => parity,
            Kind::Redundant(array) => &*array.array,
        }
    }

    /// How it is now.
    #[must_use]
    pub fn status(&self) -> ArrayStatus {
        match &self.kind {
            Kind::Striped(striped) => striped.status(),
            Kind::Parity(parity) => parity.status(),
            Kind::Redundant(array) => array.status(),
        }
    }

    /// Its events from now on. A listener that is too slow misses the oldest.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<ArrayEvent> {
        match &self.kind {
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
        match &self.kind {
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
        match &self.kind {
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
        match &self.kind {
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
        match &self.kind {
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
        match &self.kind {
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
        match &self.kind {
            Kind::Striped(_) | Kind::Parity(_) => Err(self.refused("it cannot have more of them")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.grow(parts).await
            }
        }
    }

    /// Gives an array with parity another form in the background, while it is used: more members (spares take the new parts), another
    /// chunk or layout. It has its new size once that has ended. Partial parity logs are dropped.
    ///
    /// # Errors
    /// It cannot have that form, something is missing, or there is no room in front of the data of a member.
    pub async fn reshape(&self, shape: NewShape) -> Result<(), ArrayError> {
        match &self.kind {
            Kind::Striped(_) | Kind::Parity(_) => Err(self.refused("it cannot be reshaped")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.reshape(shape).await
            }
        }
    }

    /// Gives an array with parity another level while it is used, as mdadm does with `--layout=preserve`: no data move, and a spare
    /// becomes the member that comes. Other levels are changed where no process uses the array ([`change_level`](super::change_level)).
    ///
    /// # Errors
    /// It does not become one of that level, or not while it is used; something is missing or under way.
    pub async fn change_level(&self, level: Level) -> Result<(), ArrayError> {
        match &self.kind {
            Kind::Striped(striped) => Err(striped.refuse_level(level)),
            Kind::Parity(_) => Err(self.refused("its level stays as it is")),
            Kind::Redundant(array) => {
                self.must_be_md()?;
                array.change_level(level).await
            }
        }
    }

    /// Gives a redundant array another consistency policy while it is used, as `mdadm --grow --consistency-policy`: partial parity logs
    /// (level 5), a bitmap, or neither ([`ConsistencyPolicy::Resync`]).
    ///
    /// # Errors
    /// It cannot have that one, there is no room for it, members are missing, or something is under way.
    pub async fn change_policy(&self, policy: ConsistencyPolicy) -> Result<(), ArrayError> {
        match &self.kind {
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
        match &self.kind {
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
        match &self.kind {
            Kind::Striped(_) | Kind::Parity(_) => Err(self.refused("there is nothing to compare")),
            Kind::Redundant(array) => array.scrub(kind),
        }
    }

    /// Ends a scrub early.
    pub fn stop_scrub(&self) {
        match &self.kind {
            Kind::Striped(_) | Kind::Parity(_) => {}
            Kind::Redundant(array) => array.stop_scrub(),
        }
    }

    /// Resolves once nothing is being done in the background.
    ///
    /// # Errors
    /// What it ended with, if not well.
    pub async fn synced(&self) -> Result<(), ArrayError> {
        match &self.kind {
            Kind::Striped(_) | Kind::Parity(_) => Ok(()),
            Kind::Redundant(array) => array.synced().await,
        }
    }

    /// Waits for writes, marks the array clean and ends the work in the background; later changes
    /// fail.
    ///
    /// # Errors
    /// A member could not be written: the array is dirty then, not lost.
    pub async fn stop(&self) -> Result<(), ArrayError> {
        match &self.kind {
            Kind::Striped(striped) => striped.stop().await,
            // It is only read.
            Kind::Parity(_) => Ok(()),
            Kind::Redundant(array) => array.end().await,
        }
    }

    /// Does what is to be done in the background, for callers of other modules that opened it without.
    #[cfg(test)]
    pub(crate) async fn work(&self) {
        if let Kind::Redundant(array) = &self.kind {
            array.work().await.expect("what is to be done can be done");
        }
    }

    /// Does what is done in the background by the clock, for callers that opened it without: see [`SyncManager`].
    #[cfg(test)]
    pub(super) fn by_hand(&self) -> &SyncManager {
        match &self.kind {
            Kind::Redundant(array) => array,
            other => panic!("{other:?} has nothing to do"),
        }
    }

    /// Refuses a change of members where LVM's metadata lists them.
    fn must_be_md(&self) -> Result<(), ArrayError> {
        let status = self.status();
        if status.version != Version::DmRaid {
            return Ok(());
        }
        let what = format!("the images of {} are listed by LVM", status.name);
        Err(ArrayError::refused(what, "change them with lvconvert"))
    }

    fn refused(&self, what: &str) -> ArrayError {
        match &self.kind {
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

impl BlockDevice for Array {
    fn geometry(&self) -> &Geometry {
        self.disk().geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.disk().read(range)
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.disk().write(range, data, flags)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.disk().flush()
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.disk().write_zeroes(range, flags)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.disk().trim(range)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.disk().extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        self.disk().identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.disk().settle()
    }

    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        self.disk().remap(range)
    }

    fn remap_start(&self, range: Range) -> Option<(&Node, Range)> {
        self.disk().remap_start(range)
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        self.disk().try_read(range, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        self.disk().try_write(range, data)
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        self.disk().file_region(range)
    }

    fn file_region_start(&self, range: Range) -> Option<(FileRegion, u64)> {
        self.disk().file_region_start(range)
    }
}
