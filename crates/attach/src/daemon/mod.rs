//! The background process: it owns one attachment from the first look at the disk to the last
//! file removed.
//!
//! ```text
//! parent: folder, record, log -> child: disk, device, mkfs, mount -> "ready" -> parent prints and goes
//!                                child: serves, answers `status`, until `detach`, SIGTERM or the device's end
//! ```
//!
//! # Invariants
//!
//! * The owner reports success to its parent after everything that was requested exists, and failure after everything
//!   that it made has been removed.
//! * What must be taken down is in the record before it exists.

pub(crate) mod control;
mod device;
mod events;
pub(crate) mod message;
mod session;
mod start;

use std::future::Future;
use std::io::{self, Read as _, Write as _};

use rustix::mm::MlockAllFlags;

use crate::error::AttachError;
use crate::local::{LocalDisk, LocalDiskError};
use crate::state::Folder;
use message::{LINE_LEN_MAX, Launch, LaunchResult};
use session::Session;
use start::FOLDER_VARIABLE;
pub(crate) use start::ROOT_NAME;
pub use start::start;

/// Runtimes of the background process. One: a request is read, sent, answered and written by one thread,
/// and hopping to another costs more than it gains.
const CORES: usize = 1;

/// Runs the background process: reads its [`Launch`] from standard input, writes its [`LaunchResult`] to standard
/// output, and returns when the disk is detached.
///
/// `open_local` opens a disk expression on the engine, writable if its second argument says so.
///
/// # Errors
/// [`AttachError`], which was also reported to the parent.
pub fn run<F, Fut>(open_local: F) -> Result<(), AttachError>
where
    F: Fn(String, bool) -> Fut,
    Fut: Future<Output = Result<LocalDisk, LocalDiskError>>,
{
    let launch = match read_launch() {
        Ok(launch) => launch,
        Err(e) => {
            // The parent that created the folder has ended before it sent the request.
            if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
                Folder::at(folder.into()).remove()?;
            }
            return Err(AttachError::Launch(e));
        }
    };
    if let Err(e) = rustix::process::setsid() {
        tracing::info!("it leads a session already ({e})");
    }
    // Memory must not be freed by writing to the disk that this process serves.
    if let Err(e) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::info!("not marked as an I/O flusher: {e}");
    }
    if launch.request.for_root {
        lock_in_memory();
    }
    let config = engine::Config {
        cores: CORES,
        ..engine::Config::default()
    };
    let folder = Folder::at(launch.folder.clone());
    engine::run(&config, |_| run_session(launch, folder, open_local))?
}

/// Locks this process into memory, and exempts it from the OOM killer: its pages would be read back from the disk
/// that it serves.
pub(crate) fn lock_in_memory() {
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(e) = rustix::mm::mlockall(flags) {
        tracing::warn!("not locked into memory: {e}");
    }
    if let Err(e) = std::fs::write("/proc/self/oom_score_adj", "-1000") {
        tracing::warn!("not kept from being ended when memory is short: {e}");
    }
}

fn read_launch() -> io::Result<Launch> {
    let mut bytes = Vec::new();
    io::stdin().take(LINE_LEN_MAX).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn report_launch(started: &LaunchResult) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(started)?;
    bytes.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&bytes)?;
    out.flush()
}

async fn run_session<F, Fut>(
    launch: Launch,
    folder: Folder,
    open_local: F,
) -> Result<(), AttachError>
where
    F: Fn(String, bool) -> Fut,
    Fut: Future<Output = Result<LocalDisk, LocalDiskError>>,
{
    let mut session = match Session::new(folder, launch.request) {
        Ok(session) => session,
        Err(e) => {
            drop(report_launch(&LaunchResult::Failed(e.to_string())));
            return Err(e);
        }
    };
    match session.bring_up(open_local).await {
        Ok(attached) => {
            // The parent may send a request as soon as it has the result.
            let control = session.answer();
            if let Err(e) = report_launch(&LaunchResult::Ready(attached)) {
                tracing::warn!("the parent process has ended ({e}): detaching");
                session.abandon().await;
                return Ok(());
            }
            // Keeps no directory busy. The disk's files are open by now.
            drop(std::env::set_current_dir("/"));
            session.serve(control).await;
            Ok(())
        }
        Err(e) => {
            session.abandon().await;
            drop(report_launch(&LaunchResult::Failed(e.to_string())));
            Err(e)
        }
    }
}
