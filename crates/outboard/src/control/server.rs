//! The server of the control socket.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::place::ControlSocket;
use super::{ASK_MAX, ControlAnswer, ControlRequest, Reply, parse_request};
use crate::failure::Failure;

/// Connections at once; more must wait.
const CONNECTIONS_MAX: usize = 16;
/// Timeout for reading a request, and again for writing the answer.
const TALK_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The future of an answer.
pub(crate) type AnswerFuture = Pin<Box<dyn Future<Output = Result<ControlAnswer, String>> + Send>>;

/// Handles the requests of a control socket.
pub(crate) trait ControlHandler: Send + Sync + 'static {
    /// Handles one request.
    fn handle(self: Arc<Self>, request: ControlRequest) -> AnswerFuture;
}

/// Starts to accept connections on this core.
pub(crate) fn start(
    socket: &ControlSocket,
    handler: Arc<impl ControlHandler>,
) -> Result<(), Failure> {
    let failed = |e: io::Error| {
        let what = format!("cannot use the control socket {}", socket.path().display());
        Failure::because(what, &e)
    };
    let listener = socket.listener().try_clone().map_err(failed)?;
    let listener = UnixListener::from_std(listener).map_err(failed)?;
    drop(engine::spawn(accept(listener, handler)));
    Ok(())
}

async fn accept(listener: UnixListener, handler: Arc<impl ControlHandler>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Never closed.
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let handler = handler.clone();
                drop(engine::spawn(async move {
                    if let Err(e) = serve_request(stream, handler).await {
                        tracing::debug!("control socket: {e}");
                    }
                    drop(place);
                }));
            }
            Err(e) => {
                tracing::warn!("control socket: accept: {e}");
                engine::clock::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_request(stream: UnixStream, handler: Arc<impl ControlHandler>) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = Vec::new();
    let mut bounded = BufReader::new(read.take(ASK_MAX as u64));
    let received = engine::clock::timeout(TALK_TIMEOUT, bounded.read_until(b'\n', &mut line));
    received.await.map_err(io::Error::other)??;
    if line.is_empty() {
        // A client only checked whether a process listens.
        return Ok(());
    }
    let result = if line.ends_with(b"\n") {
        match parse_request(&line) {
            Ok(request) => handler.handle(request).await,
            Err(why) => Err(why),
        }
    } else {
        Err(format!("not a line of at most {ASK_MAX} bytes"))
    };
    let mut bytes = serde_json::to_vec(&Reply::new(result))?;
    bytes.push(b'\n');
    let written = engine::clock::timeout(TALK_TIMEOUT, write.write_all(&bytes));
    written.await.map_err(io::Error::other)?
}
