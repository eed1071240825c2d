//! The doctor: what holds a disk, an export or a directory back.
//!
//! What is measured is in the files here, by kind of target; what it means is in [`lab::doctor`].
//!
//! # Invariants
//!
//! * Disks and exports are only read. Into a directory a file of our own is written on request, and
//!   removed afterwards.
//! * What was started ends with the command, on every way out: processes of ours end with their
//!   parent.
//! * The time is bounded: what does not fit any more is left out and reported.

mod bare_wire;
mod cipher_share;
mod directory;
mod directory_info;
mod disk;
mod export;
mod expression;
mod null_export;
mod pairs;
mod read_load;
mod remote;
mod report;
mod server;
mod session;
mod stripe;
#[cfg(test)]
mod tests;
mod watcher;
mod wire;

use lab::Cancel;
use lab::doctor::{DoctorJob, Examination};
use lab::runner::AgentSpec;

use self::session::DoctorSession;
use crate::DriverError;

pub use self::disk::{DiskResolver, ExaminedDisk, OpenDisk, Opened, StripedDisk};

/// What to examine.
#[derive(Debug)]
pub enum DoctorTarget {
    /// The directory that the request names.
    Directory,
    /// An export.
    Export(nbd::client::Target),
    /// Another disk.
    Disk(ExaminedDisk),
}

/// How to examine it.
#[derive(Debug)]
pub struct DoctorRequest<'a> {
    /// The target as the user names it.
    pub target: String,
    /// The requests that are made.
    pub job: DoctorJob,
    /// Connections to an export.
    pub connections: usize,
    /// The most time for each verdict, seconds.
    pub seconds: u64,
    /// In a directory: measure a file of our own, writing too.
    pub write: bool,
    /// In a directory: go through the page cache.
    pub buffered: bool,
    /// The server's process, if the user gives it.
    pub server_pid: Option<u32>,
    /// The agent of the server's machine; one at most.
    pub agents: Vec<AgentSpec>,
    /// Whether to stop.
    pub cancel: Cancel,
    /// What a reader must know of the target besides what is measured, as sentences.
    pub remarks: Vec<String>,
    /// Reads the expressions of null exports and of other disks of the server.
    pub disks: &'a dyn DiskResolver,
}

/// Examines a target: one examination, or for a directory one for each direction.
///
/// # Errors
/// The target cannot be measured, or the user stopped it.
pub fn examine(
    request: &DoctorRequest<'_>,
    target: &DoctorTarget,
) -> Result<Vec<Examination>, DriverError> {
    let session = DoctorSession::begin(request)?;
    match target {
        DoctorTarget::Directory => directory::examine(&session),
        DoctorTarget::Export(export) => Ok(vec![export::examine(&session, export)?]),
        DoctorTarget::Disk(disk) => Ok(vec![expression::examine(&session, disk)?]),
    }
}
