//! `detach`: has the process that owns an attachment take it down, or does so itself when
//! that process is dead.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::daemon::control::send_request;
use crate::daemon::message::{ControlReply, ControlRequest, Leftovers};
use crate::error::AttachError;
use crate::facts;
use crate::fuse;
use crate::kernel::NbdTeardown;
use crate::request::{DetachOptions, DetachTarget};
use crate::state::{self, DeviceDriver, Folder, Record, RuntimeDir};
use crate::teardown::{DeviceTeardown, LoopTeardown, take_down};
use crate::worker;

/// Steps of a teardown that may each take the whole time allowed, and one to spare.
const STEPS: u32 = 4;
/// What an owner needs in addition.
const OWNER_FOR: Duration = Duration::from_secs(20);
/// How long an owner may take to end after its last reply, and after SIGKILL.
const END_FOR: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The result of one detach.
#[derive(Debug)]
pub struct DetachReport {
    /// Its device, or its short name where it had none.
    pub device: String,
    /// Where it was mounted.
    pub mount: Option<PathBuf>,
    /// What may be lost and what is left; or why it was not taken down.
    pub result: Result<Leftovers, AttachError>,
}

/// Takes attachments down.
///
/// # Errors
/// [`AttachError::NotAttached`], and what keeps the runtime directory from being read. What goes
/// wrong with one attachment is in its own result.
pub fn detach(
    which: &DetachTarget,
    options: &DetachOptions,
) -> Result<Vec<DetachReport>, AttachError> {
    let mut detached = Vec::new();
    for folder in RuntimeDir::of_user()?.list()? {
        let record = match folder.read() {
            Ok(record) => record,
            Err(e) if *which == DetachTarget::All => {
                detached.push(DetachReport {
                    device: format!("attachment {}", folder.id()),
                    mount: None,
                    result: Err(e.into()),
                });
                continue;
            }
            Err(_) => continue,
        };
        let Some(record) = record else {
            // The process that created the folder died before it wrote a record.
            if *which == DetachTarget::All {
                folder.remove()?;
            }
            continue;
        };
        if !is_target(which, &record) {
            continue;
        }
        detached.push(DetachReport {
            device: name(&record),
            mount: record.mount.as_ref().map(|place| place.dir.clone()),
            result: detach_one(&folder, &record, options),
        });
    }
    match which {
        DetachTarget::Path(path) if detached.is_empty() => {
            Err(AttachError::NotAttached(path.clone()))
        }
        DetachTarget::Name(name) if detached.is_empty() => {
            Err(AttachError::NoSuchName(name.clone()))
        }
        _ => Ok(detached),
    }
}

pub(crate) fn name(record: &Record) -> String {
    match &record.device {
        Some(device) => device.display().to_string(),
        None => record.source.clone(),
    }
}

pub(crate) fn is_target(which: &DetachTarget, record: &Record) -> bool {
    let path = match which {
        DetachTarget::All => return true,
        DetachTarget::Name(name) => return record.name.as_ref() == Some(name),
        DetachTarget::Path(path) => path,
    };
    // A dead mount cannot be resolved, so the path is also compared as it was given.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let resolved = std::fs::canonicalize(path).unwrap_or_else(|_| absolute.clone());
    let is = |known: &Path| known == absolute || known == resolved;
    record.device.as_deref().is_some_and(is)
        || record.mount.as_ref().is_some_and(|place| is(&place.dir))
}

fn detach_one(
    folder: &Folder,
    record: &Record,
    options: &DetachOptions,
) -> Result<Leftovers, AttachError> {
    if !state::is_alive(record.process) {
        return take_down_orphan(folder, record, options, "the process behind it had died");
    }
    if !record.ready {
        return Err(AttachError::Starting(name(record)));
    }
    let timeout_ms = u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX);
    let request = ControlRequest::Detach {
        timeout_ms,
        force: options.force,
    };
    // An owner that does not report its health will not detach either. It gets the time of a step: on a busy machine, killing
    // it earlier would lose data that it still writes.
    let status = send_request(
        &folder.socket_path(),
        ControlRequest::Status,
        options.timeout,
    );
    if let Err(e) = status {
        return replace_unresponsive(folder, record, options, &e.to_string());
    }
    let reply_timeout = options.timeout.saturating_mul(STEPS) + OWNER_FOR;
    match send_request(&folder.socket_path(), request, reply_timeout) {
        Ok(ControlReply::Detached(leftovers)) => {
            wait_for_end(record);
            Ok(leftovers)
        }
        Ok(ControlReply::Refused(why)) => Err(AttachError::RefusedThere {
            device: name(record),
            why,
        }),
        Ok(ControlReply::Status(_) | ControlReply::Size(_)) => {
            replace_unresponsive(folder, record, options, "it sent an unexpected reply")
        }
        Err(e) => replace_unresponsive(folder, record, options, &e.to_string()),
    }
}

/// Kills an owner that does not reply, and detaches in its place; unless it has taken everything down itself meanwhile.
fn replace_unresponsive(
    folder: &Folder,
    record: &Record,
    options: &DetachOptions,
    why: &str,
) -> Result<Leftovers, AttachError> {
    if matches!(folder.read(), Ok(None)) {
        wait_for_end(record);
        return Ok(Leftovers::default());
    }
    state::kill(record.process);
    wait_for_end(record);
    let why = format!("the process behind it did not answer ({why}) and was ended");
    take_down_orphan(folder, record, options, &why)
}

fn wait_for_end(record: &Record) {
    let mut left = END_FOR;
    while state::is_alive(record.process) && !left.is_zero() {
        std::thread::sleep(LOOK_EVERY);
        left = left.saturating_sub(LOOK_EVERY);
    }
}

/// Takes down what a process has left that is dead, and `why`.
fn take_down_orphan(
    folder: &Folder,
    record: &Record,
    options: &DetachOptions,
    why: &str,
) -> Result<Leftovers, AttachError> {
    let config = engine::Config {
        backend: engine::BackendChoice::Threads,
        cores: 1,
    };
    abort(record);
    let report = engine::run(&config, |_| async {
        let mut device_teardown = orphan_teardown(record, options.timeout).await;
        let device = device_teardown.device();
        let mut facts = facts::gather(record, device.as_deref(), None, options.force).await;
        // Its device may be gone already, with what its page cache held.
        let ends_with_process = record.driver == DeviceDriver::Fuse && record.device.is_some();
        facts.cut = ends_with_process.then(|| why.to_owned());
        take_down(facts, &mut device_teardown, options.timeout).await
    })?;
    let report = report.map_err(|refusal| AttachError::Refused {
        device: name(record),
        refusal,
    })?;
    let leftovers = Leftovers {
        lost: report.lost,
        left: report.left,
    };
    if let (Some(name), Some(device)) = (&record.name, &record.device) {
        folder.unlink(name, device);
    }
    folder.remove()?;
    Ok(leftovers)
}

/// Aborts the FUSE connection of an owner that serves nothing any more. That of a dead one is gone.
fn abort(record: &Record) {
    let (Some(number), Some(device)) = (record.fuse_connection, &record.device) else {
        return;
    };
    if !state::is_alive(record.process) || !fuse::is_backed_by(device, &record.label()) {
        return;
    }
    if let Err(e) = fuse::abort_connection(number) {
        tracing::info!("FUSE connection {number} is not aborted: {e}");
    }
}

async fn orphan_teardown(record: &Record, timeout: Duration) -> DeviceTeardown {
    let Some(path) = record.device.clone() else {
        return DeviceTeardown::None;
    };
    let label = record.label();
    match record.driver {
        DeviceDriver::Kernel => {
            NbdTeardown::orphan(&path, label).map_or(DeviceTeardown::None, DeviceTeardown::Nbd)
        }
        DeviceDriver::Fuse if worker::is_ours(&path, &label, timeout).await => {
            DeviceTeardown::Loop(LoopTeardown::orphan(path, label))
        }
        DeviceDriver::Fuse => DeviceTeardown::None,
    }
}
