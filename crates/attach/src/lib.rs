//! A block device on this machine from a disk that is elsewhere, or made of others.
//!
//! [`start`] attaches: through the kernel's nbd client, or as a FUSE file under a loop device. A background
//! process of its own owns each attachment ([`daemon`]); [`mod@status`] and [`mod@detach`] find it by what it
//! wrote into the runtime directory, also when it is dead.
//!
//! # Invariants
//!
//! * What attach makes, detach removes: device, mount, directory, process, socket, log, files.
//! * A device is touched only after it was seen to be ours (a label that loop and nbd devices keep).
//! * Data that may not have reached the disk is reported, and the exit status shows it.
//! * The process that serves a FUSE file makes no call that waits for an answer of that file, and no other
//!   process has its `/dev/fuse` open: its end, by any signal, aborts the connection. Workers (`worker`) make
//!   the calls that may block.
//! * Root acts only on records in a directory that belongs to root and that no other user can write to.
//! * A device that another process uses is never taken without an option that says so.
//! * The kernel gets another size only while the connections of the device live.
//! * The caller hands in an opener of disks; a disk with a state of its own comes with a manager, which ends
//!   it after the last request.
//!
//! # What this crate does not do
//!
//! It opens no disk expression (the binary does, see [`daemon::run`]) and speaks no NBD (`nbd` does).

mod alignment;
pub mod daemon;
mod detach;
mod error;
mod facts;
mod faults;
mod fuse;
mod growth;
mod health;
mod kernel;
mod local;
mod mount;
mod probe;
mod refresh;
mod remote;
mod report;
mod request;
mod state;
mod status;
mod sysfs;
mod teardown;
mod users;
mod worker;
mod writers;

pub use daemon::message::{Attachment, Leftovers};
pub use daemon::start;
pub use detach::{DetachReport, detach};
pub use error::AttachError;
pub use fuse::FuseError;
pub use health::{Health, ServerUse};
pub use kernel::KernelError;
pub use local::{CacheCounts, DiskSupervisor, LocalDisk, LocalDiskError};
pub use mount::MountError;
pub use probe::MkfsError;
pub use refresh::refresh;
pub use request::{
    AttachRequest, CONNECTIONS_DEFAULT, CONNECTIONS_MAX, DETACH_TIMEOUT, DetachOptions,
    DetachTarget, Source, TIMEOUT, TIMEOUT_MAX, Via,
};
pub use state::{
    DeviceDriver, MountPlace, ProcessId, RUNTIME_DIR_VARIABLE, StateError, attach_dir, runtime_dir,
};
pub use status::{AttachmentStatus, hidden_attachments, status};
pub use sysfs::Partition;
pub use teardown::TeardownRefusal;
pub use worker::{WORKER, run as run_worker};
