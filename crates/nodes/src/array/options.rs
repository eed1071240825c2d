//! How an array is opened. Plain data.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use block::Node;

/// A disk that is to be a member, and what is known of it from outside.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its name in messages and commands: a path, a URI.
    pub name: String,
    /// The disk. `None`: it cannot be reached now.
    pub disk: Option<Node>,
    /// It is on another machine: reads prefer others.
    pub remote: bool,
    /// How it is opened (again), for a member that was away. `None`: it is not tried.
    pub reopen: Option<Arc<dyn Reopen>>,
}

impl Candidate {
    /// A disk of this machine, or one that cannot be reached and is not tried again.
    #[must_use]
    pub fn local(name: impl Into<String>, disk: impl Into<Option<Node>>) -> Self {
        Self {
            name: name.into(),
            disk: disk.into(),
            remote: false,
            reopen: None,
        }
    }
}

/// Opens a disk that could not be reached, or that was away.
pub trait Reopen: Debug + Send + Sync {
    /// Cuts off the disk as it was opened before. When this resolves, no request that was sent is
    /// sent to it any more, whenever it comes back: the array went on without it, and what reached it
    /// late would be older than what it is brought up to date with.
    fn sever(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    /// Severs it, and tries once to open it again.
    fn reopen(&self) -> Pin<Box<dyn Future<Output = Result<Node, ReopenError>> + Send + '_>>;
}

/// A file outside an array in which rows are backed up before a reshape writes over them: what mdadm's `--backup-file` names.
pub trait BackupFile: Debug + Send + Sync {
    /// Its name in messages.
    fn name(&self) -> &str;

    /// Opens it to be read and written; `None`: it is not there. `Err`: why it cannot be.
    fn open(&self) -> BackupFuture<'_, Option<Node>>;

    /// The same, made if it is not there, and with so many bytes at least, which nothing else can take away.
    fn create(&self, len: u64) -> BackupFuture<'_, Node>;

    /// Removes it: no reshape needs it any more.
    fn remove(&self) -> BackupFuture<'_, ()>;
}

/// What is done with a [`BackupFile`]; `Err`: why it cannot be.
pub type BackupFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Why a disk is not opened again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReopenError {
    /// It cannot be reached, or is not what it was.
    #[error("{0}")]
    Unreachable(String),
    /// Another host took over writing to it: this one is refused for good.
    #[error("{0}")]
    Fenced(String),
}

/// How an array is opened.
#[derive(Debug, Clone)]
pub struct ArrayOptions {
    /// Write nothing at all, no superblock either.
    pub read_only: bool,
    /// Start although members are missing that worked when the array was used last.
    pub run: bool,
    /// So many members are known to be missing: that they are is no reason not to start.
    pub missing: usize,
    /// After a split brain: the candidate (by its place among them) with the side that counts. The other side
    /// is copied in full.
    pub prefer: Option<usize>,
    /// How RAID 0 of unequal members lies, where its superblocks do not say.
    pub raid0_layout: Option<Raid0Layout>,
    /// Open RAID 4, 5, 6 for reading although it is dirty and degraded: what was being written when
    /// it stopped may be wrong.
    pub force_dirty_degraded: bool,
    /// RAID 4, 5, 6: the backup file of an array that was stopped while rows of a reshape were moved to where others lie, made here or by mdadm. It is read
    /// where that is needed, and goes on to be written where all rows are moved so.
    pub backup: Option<Arc<dyn BackupFile>>,
    /// RAID 4, 5, 6: compute parity from all data of a row, not from parity that is there: it may never have been computed.
    pub reconstruct_writes: bool,
    /// How long a request to a member may take before that member has failed.
    pub member_timeout: Duration,
    /// Bounds of resync, recovery and scrub.
    pub rates: SyncRates,
    /// Work in the background by itself (clean after idle, clearing of bits, resync, recovery, members
    /// that come back). Without, the caller requests each step: tests do.
    pub background: bool,
}

/// Bounds of resync, recovery and scrub, bytes a second: as md's `sync_speed_min` and `_max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncRates {
    /// What it takes although users wait.
    pub min: u64,
    /// What it takes when there are no users.
    pub max: u64,
}

/// How RAID 0 lies behind its shortest member (md's layouts).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raid0Layout {
    /// 1: as kernels before 3.14 did.
    Original,
    /// 2: as those since do.
    Alternate,
}

/// The usual time for a member's answer.
pub const MEMBER_TIMEOUT: Duration = Duration::from_secs(5);

impl Default for SyncRates {
    /// The kernel's own bounds are 1 MiB/s and 200 MiB/s; its upper one is from spinning disks, ours is above
    /// any disk: work in the background yields to users by itself.
    fn default() -> Self {
        Self {
            min: 1 << 20,
            max: 16 << 30,
        }
    }
}

impl Default for ArrayOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            run: false,
            missing: 0,
            prefer: None,
            raid0_layout: None,
            force_dirty_degraded: false,
            backup: None,
            reconstruct_writes: false,
            member_timeout: MEMBER_TIMEOUT,
            rates: SyncRates::default(),
            background: true,
        }
    }
}

/// Another form of an array with parity; `None`: as it is. Without any a reshape that waits is continued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewShape {
    /// Members of the complete array.
    pub parts: Option<u32>,
    /// Layout, by the level's own numbers.
    pub layout: Option<u32>,
    /// Chunk, bytes.
    pub chunk: Option<u64>,
}
