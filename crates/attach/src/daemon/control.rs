//! The control socket: the owner's side, and the side of `status` and `detach`.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::message::{ControlReply, ControlRequest, LINE_LEN_MAX, OwnerReport};
use crate::growth::SizeReply;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 8;
/// How long a client of the socket may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Pending requests to detach.
pub(super) const DETACHES_MAX: usize = 4;

/// A request to detach, and the channel for its reply.
#[derive(Debug)]
pub(super) struct DetachRequest {
    pub(super) timeout: Duration,
    pub(super) force: bool,
    pub(super) reply: oneshot::Sender<ControlReply>,
}

/// What handles requests.
pub(super) struct ControlHandlers {
    pub(super) report: Box<dyn Fn() -> OwnerReport + Send + Sync>,
    pub(super) detach: mpsc::Sender<DetachRequest>,
    pub(super) grow: Option<mpsc::Sender<SizeReply>>,
}

/// Serves requests until it is dropped.
pub(super) async fn listen(listener: UnixListener, handlers: Arc<ControlHandlers>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let handlers = handlers.clone();
                drop(engine::spawn(async move {
                    if let Err(e) = handle_connection(stream, &handlers).await {
                        tracing::debug!("a control connection failed: {e}");
                    }
                    drop(permit);
                }));
            }
            Err(e) => {
                tracing::warn!("the control socket failed: {e}");
                engine::clock::sleep(REQUEST_TIMEOUT).await;
            }
        }
    }
}

async fn handle_connection(stream: UnixStream, handlers: &ControlHandlers) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = Vec::new();
    let mut read = tokio::io::BufReader::new(read.take(LINE_LEN_MAX));
    engine::clock::timeout(REQUEST_TIMEOUT, read.read_until(b'\n', &mut line))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let reply = match serde_json::from_slice(&line)? {
        ControlRequest::Status => ControlReply::Status((handlers.report)()),
        ControlRequest::Refresh => refresh(handlers.grow.as_ref()).await,
        ControlRequest::Detach { timeout_ms, force } => {
            let (reply, answer) = oneshot::channel();
            let timeout = Duration::from_millis(timeout_ms);
            let request = DetachRequest {
                timeout,
                force,
                reply,
            };
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            handlers.detach.send(request).await.map_err(|_| gone(()))?;
            answer.await.map_err(|_| gone(()))?
        }
    };
    let mut bytes = serde_json::to_vec(&reply)?;
    bytes.push(b'\n');
    write.write_all(&bytes).await
}

async fn refresh(grow: Option<&mpsc::Sender<SizeReply>>) -> ControlReply {
    let Some(grow) = grow else {
        let why = "a disk of this machine keeps the size it was attached with; attach it again";
        return ControlReply::Refused(why.to_owned());
    };
    let (request, answer) = oneshot::channel();
    drop(grow.send(request).await);
    match answer.await {
        Ok(Ok(size)) => ControlReply::Size(size),
        Ok(Err(why)) => ControlReply::Refused(why),
        Err(_) => ControlReply::Refused("it is being detached".to_owned()),
    }
}

/// Sends a request to the owner behind `socket` and waits up to `timeout` for the reply.
///
/// # Errors
/// If there is no owner, or no answer.
pub(crate) fn send_request(
    socket: &Path,
    request: ControlRequest,
    timeout: Duration,
) -> io::Result<ControlReply> {
    let mut stream = StdStream::connect(socket)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut bytes = serde_json::to_vec(&request)?;
    bytes.push(b'\n');
    stream.write_all(&bytes)?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_LEN_MAX)).read_line(&mut line)?;
    Ok(serde_json::from_slice(line.as_bytes())?)
}
