//! The client of the control socket.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{
    ANSWER_MAX, ControlAnswer, ControlRequest, Reply, RequestLine, ServerStatus, VERSION, place,
};
use crate::failure::Failure;

/// Timeout of a status request, which a running server answers at once.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a change, which waits for clients and disks, each with timeouts of its own.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(600);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// No process listens there.
    #[error("no server answers at {}", .0.display())]
    NotListening(PathBuf),
    /// The connection failed or timed out.
    #[error("cannot reach the server at {}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The answer cannot be parsed.
    #[error("the answer of the server at {} cannot be parsed: {why}", path.display())]
    Answer {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The server refused the request.
    #[error("{0}")]
    Refused(String),
}

/// Sends a request to the server at `path` and waits for the answer.
pub(crate) fn request(path: &Path, request: ControlRequest) -> Result<ControlAnswer, ControlError> {
    let limit = match request {
        ControlRequest::Status
        | ControlRequest::Arrays
        | ControlRequest::VolumeGroups
        | ControlRequest::Moves => STATUS_TIMEOUT,
        ControlRequest::Reload
        | ControlRequest::Export(_)
        | ControlRequest::Resize { .. }
        | ControlRequest::Disconnect { .. }
        | ControlRequest::DropOverlay(_)
        | ControlRequest::Array(_)
        | ControlRequest::Snapshot(_)
        | ControlRequest::MoveExtents(_) => CHANGE_TIMEOUT,
    };
    let line = exchange(path, request, limit).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ControlError::NotListening(path.to_owned())
        }
        _ => ControlError::Io {
            path: path.to_owned(),
            source,
        },
    })?;
    let strange = |why: String| ControlError::Answer {
        path: path.to_owned(),
        why,
    };
    let reply: Reply = serde_json::from_slice(&line).map_err(|e| strange(e.to_string()))?;
    match (reply.answer, reply.error) {
        (Some(answer), None) => Ok(answer),
        (None, Some(error)) => Err(ControlError::Refused(error)),
        _ => Err(strange("neither an answer nor an error".to_owned())),
    }
}

fn exchange(path: &Path, request: ControlRequest, limit: Duration) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(STATUS_TIMEOUT))?;
    let version = VERSION;
    let mut line = serde_json::to_vec(&RequestLine {
        version,
        ask: request,
    })?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(ANSWER_MAX)).read_until(b'\n', &mut answer)?;
    Ok(answer)
}

/// The server that a command is about: the one that is named, or the only one.
pub(crate) fn choose(name: Option<&str>) -> Result<PathBuf, Failure> {
    if let Some(name) = name {
        return place::named(name);
    }
    let mut alive = place::all().into_iter().filter(|path| is_alive(path));
    match (alive.next(), alive.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Failure::new("no server runs here")
            .next("one that runs for another user, or elsewhere: --server PATH of its socket")),
        (Some(first), Some(second)) => {
            let names: Vec<String> = [first, second]
                .into_iter()
                .chain(alive)
                .map(|p| place::name(&p))
                .collect();
            let failure = Failure::new(format!("several servers run here: {}", names.join(", ")));
            Err(failure.next("choose one: --server NAME"))
        }
    }
}

fn is_alive(path: &Path) -> bool {
    let connected = UnixStream::connect(path);
    !connected.is_err_and(|e| {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        matches!(e.kind(), ConnectionRefused | NotFound)
    })
}

/// The status of each server of this user. A server that does not answer is logged.
pub(crate) fn statuses() -> Vec<ServerStatus> {
    let mut statuses = Vec::new();
    for path in place::all() {
        match request(&path, ControlRequest::Status) {
            Ok(ControlAnswer::Status(status)) => statuses.push(*status),
            // Left behind by a server that was killed.
            Err(ControlError::NotListening(_)) => place::sweep(&path),
            Ok(_) => tracing::warn!("the server at {} sent an unexpected answer", path.display()),
            Err(error) => tracing::warn!("{error}"),
        }
    }
    statuses
}
