//! The parent's part: starts the background process and waits for its result.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::UNIX_EPOCH;

use super::message::{Attachment, LINE_LEN_MAX, Launch, LaunchResult};
use crate::error::AttachError;
use crate::request::AttachRequest;
use crate::state::{
    DeviceDriver, Folder, Record, RuntimeDir, StateError, VERSION, current_process,
};
use crate::writers;

/// The name of a process that the root filesystem needs: at shutdown systemd does not kill processes whose name begins
/// with `@` (`systemd.io/ROOT_STORAGE_DAEMONS`).
pub(crate) const ROOT_NAME: &str = "@outboard";

/// Attaches a disk: runs this program again with `background_args`, which must lead to
/// [`run`](super::run), and returns when the disk is there.
///
/// # Errors
/// [`AttachError`]; nothing is left behind then.
pub fn start(
    request: &AttachRequest,
    background_args: &[OsString],
) -> Result<Attachment, AttachError> {
    request.check()?;
    if !rustix::process::geteuid().is_root() {
        return Err(AttachError::NotRoot);
    }
    let runtime = RuntimeDir::of_user()?;
    let folder = runtime.create()?;
    let result = folder
        .write(&first_record(&folder, request)?)
        .map_err(AttachError::from)
        .and_then(|()| writers::refuse_second(&runtime, &folder, request))
        .and_then(|()| launch(request, background_args, &folder));
    if result.is_err() {
        folder.remove()?;
    }
    result
}

/// The record before the background process completes it. It names this process, so that an interrupted start is
/// distinguished from one in progress.
pub(super) fn first_record(
    folder: &Folder,
    request: &AttachRequest,
) -> Result<Record, AttachError> {
    let process = current_process().ok_or_else(|| {
        AttachError::Launch(io::Error::other("/proc is not mounted, or not readable"))
    })?;
    let since = engine::clock::wall().duration_since(UNIX_EPOCH);
    Ok(Record {
        version: VERSION,
        id: folder.id().to_owned(),
        process,
        source: request.source.to_string(),
        cached: request.cached.clone(),
        driver: DeviceDriver::Fuse,
        name: request.name.clone(),
        device: None,
        mount: None,
        fuse_connection: None,
        read_only: request.read_only,
        shared: request.shared,
        size: 0,
        since: since.map_or(0, |since| since.as_secs()),
        ready: false,
    })
}

/// Passes the folder to the background process, which removes it where no request arrives.
pub(super) const FOLDER_VARIABLE: &str = "OUTBOARD_ATTACHMENT";

fn launch(
    request: &AttachRequest,
    background_args: &[OsString],
    folder: &Folder,
) -> Result<Attachment, AttachError> {
    let log_path = folder.log_path();
    let log = File::create(&log_path).map_err(|source| StateError::Io {
        path: log_path,
        what: "create",
        source,
    })?;
    let program = std::env::current_exe().map_err(AttachError::Launch)?;
    let mut command = Command::new(program);
    if request.for_root {
        command.arg0(ROOT_NAME);
    }
    let mut child = command
        .args(background_args)
        .env(FOLDER_VARIABLE, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(AttachError::Launch)?;
    match hand_over(&mut child, request, folder).map_err(AttachError::Launch)? {
        Some(LaunchResult::Ready(attached)) => Ok(Attachment {
            warnings: warnings(&read_log(folder)),
            ..attached
        }),
        Some(LaunchResult::Failed(why)) => {
            child.wait().map_err(AttachError::Launch)?;
            Err(AttachError::Background(why))
        }
        None => {
            child.wait().map_err(AttachError::Launch)?;
            Err(AttachError::Ended(last_line(folder)))
        }
    }
}

/// Sends the request and waits for the result; `None` if the child ended without one.
fn hand_over(
    child: &mut Child,
    request: &AttachRequest,
    folder: &Folder,
) -> io::Result<Option<LaunchResult>> {
    let launch = Launch {
        folder: folder.path().to_owned(),
        request: request.clone(),
    };
    if let Some(mut input) = child.stdin.take() {
        let bytes = serde_json::to_vec(&launch)?;
        match input.write_all(&bytes) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => return Err(e),
            _ => {}
        }
    }
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output.take(LINE_LEN_MAX)).read_line(&mut line)?;
    }
    if line.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(line.as_bytes())?))
}

fn read_log(folder: &Folder) -> String {
    std::fs::read_to_string(folder.log_path()).unwrap_or_default()
}

/// The warnings in a log, without time and level.
fn warnings(log: &str) -> Vec<String> {
    let lines = log.lines().filter_map(|line| line.split_once(' '));
    let warnings = lines.filter_map(|(_, rest)| rest.trim_start().strip_prefix("WARN "));
    warnings.map(|text| text.trim().to_owned()).collect()
}

fn last_line(folder: &Folder) -> String {
    let log = read_log(folder);
    let last = log.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("(nothing)").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_background_process_warned_of_is_found_in_its_log() {
        let log = "2026-11-23T10:55:30Z  INFO attached device=/dev/loop0\n\
                   2026-11-23T10:55:30Z  WARN a.img: the last 64 bytes are not served\nrubbish\n";
        assert_eq!(warnings(log), ["a.img: the last 64 bytes are not served"]);
    }
}
