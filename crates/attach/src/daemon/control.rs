//! The control socket: the owner's side, and the side of `status` and `detach`.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::message::{Ask, LINE_LEN_MAX, Reply};
use crate::growth::Asked;
use crate::health::Health;

/// Conversations at a time.
const CONVERSATIONS_MAX: usize = 8;
/// How long an asker may take to say what it wants.
const QUESTION_FOR: Duration = Duration::from_secs(5);
/// Questions to take it down that wait.
pub(super) const DETACHES_MAX: usize = 4;

/// A question to take the attachment down, and where the answer goes.
#[derive(Debug)]
pub(super) struct DetachAsked {
    pub(super) timeout: Duration,
    pub(super) force: bool,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// Where answers come from.
pub(super) struct Answers {
    pub(super) health: Box<dyn Fn() -> Health + Send + Sync>,
    pub(super) detach: mpsc::Sender<DetachAsked>,
    pub(super) grow: Option<mpsc::Sender<Asked>>,
}

/// Answers questions until it is dropped.
pub(super) async fn listen(listener: UnixListener, answers: Arc<Answers>) {
    let room = Arc::new(Semaphore::new(CONVERSATIONS_MAX));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let answers = answers.clone();
                drop(engine::spawn(async move {
                    if let Err(e) = converse(stream, &answers).await {
                        tracing::debug!("a conversation broke off: {e}");
                    }
                    drop(permit);
                }));
            }
            Err(e) => {
                tracing::warn!("the control socket failed: {e}");
                engine::clock::sleep(QUESTION_FOR).await;
            }
        }
    }
}

async fn converse(stream: UnixStream, answers: &Answers) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = Vec::new();
    let mut read = tokio::io::BufReader::new(read.take(LINE_LEN_MAX));
    engine::clock::timeout(QUESTION_FOR, read.read_until(b'\n', &mut line))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let reply = match serde_json::from_slice(&line)? {
        Ask::Status => Reply::Status((answers.health)()),
        Ask::Refresh => refresh(answers.grow.as_ref()).await,
        Ask::Detach { timeout_ms, force } => {
            let (reply, answer) = oneshot::channel();
            let timeout = Duration::from_millis(timeout_ms);
            let asked = DetachAsked {
                timeout,
                force,
                reply,
            };
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            answers.detach.send(asked).await.map_err(|_| gone(()))?;
            answer.await.map_err(|_| gone(()))?
        }
    };
    let mut bytes = serde_json::to_vec(&reply)?;
    bytes.push(b'\n');
    write.write_all(&bytes).await
}

async fn refresh(grow: Option<&mpsc::Sender<Asked>>) -> Reply {
    let Some(grow) = grow else {
        let why = "a disk of this machine keeps the size it was attached with; attach it again";
        return Reply::Refused(why.to_owned());
    };
    let (asked, answer) = oneshot::channel();
    drop(grow.send(asked).await);
    match answer.await {
        Ok(Ok(size)) => Reply::Size(size),
        Ok(Err(why)) => Reply::Refused(why),
        Err(_) => Reply::Refused("it is being detached".to_owned()),
    }
}

/// Asks the owner behind `socket`. Blocks, up to `patience` for the answer.
///
/// # Errors
/// If there is no owner, or no answer.
pub(crate) fn ask(socket: &Path, question: Ask, patience: Duration) -> io::Result<Reply> {
    let mut stream = StdStream::connect(socket)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(QUESTION_FOR))?;
    let mut bytes = serde_json::to_vec(&question)?;
    bytes.push(b'\n');
    stream.write_all(&bytes)?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_LEN_MAX)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
