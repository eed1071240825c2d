//! [`AttachError`]: one line a failure: what failed, on what, what to do next.

use std::io;
use std::path::PathBuf;

use engine::loopdev::LoopError;

use crate::fuse::FuseError;
use crate::kernel::KernelError;
use crate::mount::MountError;
use crate::probe::MkfsError;
use crate::state::StateError;
use crate::teardown::TeardownRefusal;

/// Why something was not attached or not detached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The request contradicts itself.
    #[error("{0}")]
    Request(String),
    /// Not root.
    #[error("a block device takes root: run it again with sudo")]
    NotRoot,
    /// The runtime directory.
    #[error(transparent)]
    State(#[from] StateError),
    /// The disk could not be opened: which one and why.
    #[error("{0}")]
    Disk(String),
    /// The server could not be reached, or would not serve the disk.
    #[error("{0}")]
    Server(String),
    /// The disk has a size or a block size that no block device can have.
    #[error("{source_text}: {why}")]
    Shape {
        /// As requested.
        source_text: String,
        /// Which.
        why: String,
    },
    /// No FUSE.
    #[error(transparent)]
    Fuse(#[from] FuseError),
    /// The process that holds the device could not set it up.
    #[error("{0}")]
    Device(String),
    /// No loop device.
    #[error("{0}; the loop module is needed (modprobe loop), in a container its devices too")]
    Loop(#[from] LoopError),
    /// No nbd in the kernel, or it refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The mount point.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The filesystem was not made.
    #[error(transparent)]
    Mkfs(#[from] MkfsError),
    /// The engine did not start.
    #[error(transparent)]
    Engine(#[from] engine::StartError),
    /// Another attachment of this machine writes to the disk.
    #[error(
        "{source_text}: already attached for writing by process {process}{} since {since}; one writer per \
         filesystem: use that one, or --read-only, or --shared if a cluster filesystem or an application \
         coordinates",
        device.as_ref().map(|device| format!(" as {}", device.display())).unwrap_or_default()
    )]
    AlreadyAttached {
        /// The disk.
        source_text: String,
        /// The other attachment's process.
        process: u32,
        /// Its device.
        device: Option<PathBuf>,
        /// Since when.
        since: String,
    },
    /// The background process could not be started.
    #[error("the background process cannot be started: {0}")]
    Launch(#[source] io::Error),
    /// The parent process has ended.
    #[error("the process that started this attachment has ended: nothing is attached")]
    Abandoned,
    /// The background process reported why it failed.
    #[error("{0}")]
    Background(String),
    /// It ended without a word.
    #[error("the background process ended before the disk was attached; its log ends with: {0}")]
    Ended(String),
    /// There is no such attachment.
    #[error("{}: not attached here; `outboard status` lists what is", .0.display())]
    NotAttached(PathBuf),
    /// No attachment has this name.
    #[error("{0}: nothing with this name is attached here; `outboard status` lists what is")]
    NoSuchName(String),
    /// The attachment is not complete yet.
    #[error("{0} is being attached just now; try again in a moment")]
    Starting(String),
    /// It may not be detached now.
    #[error("{device}: {refusal}")]
    Refused {
        /// Which.
        device: String,
        /// Why.
        refusal: TeardownRefusal,
    },
    /// The background process refused.
    #[error("{device}: {why}")]
    RefusedThere {
        /// Which.
        device: String,
        /// Why.
        why: String,
    },
}

impl AttachError {
    /// Whether it is the server's, so that another attempt may go better.
    pub(crate) const fn is_of_the_server(&self) -> bool {
        matches!(self, Self::Server(_) | Self::Kernel(KernelError::Server(_)))
    }
}
