//! [`Samples`]: what an agent's sensors say, taken in by a thread while fio runs.
//!
//! Invariants: an agent that disconnects is dialled again every [`AGAIN`] and is reported as lost meanwhile; it
//! never ends anything. At most [`LINES_MAX`] seconds wait to be collected, the latest ones. The thread
//! ends when this is dropped.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::client::{AgentAddress, understood};
use super::http::Lines;
use super::protocol::SampleLine;

/// Between two attempts to find a lost agent.
const AGAIN: Duration = Duration::from_secs(3);
/// Lines that wait to be collected: an hour.
const LINES_MAX: usize = 3600;

/// Samples of an agent's machine as they come.
#[derive(Debug)]
pub struct Samples {
    shared: Arc<Mutex<SharedSamples>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct SharedSamples {
    lines: VecDeque<SampleLine>,
    /// Why there are none at the moment.
    lost: Option<String>,
    /// What the thread reads from, to end that.
    socket: Option<TcpStream>,
    stopping: bool,
}

impl Samples {
    pub(super) fn start(
        agent: AgentAddress,
        port: Option<u16>,
        (lines, socket): (Lines, TcpStream),
    ) -> io::Result<Self> {
        let shared = Arc::new(Mutex::new(SharedSamples {
            socket: Some(socket),
            ..SharedSamples::default()
        }));
        let (stop, stopped) = mpsc::channel();
        let follow = Follow {
            agent,
            port,
            shared: shared.clone(),
            stopped,
        };
        let thread = engine::thread("agent", move || follow.run(lines))?;
        Ok(Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The seconds that came since the last call.
    pub fn collect(&mut self) -> Vec<SampleLine> {
        locked(&self.shared).lines.drain(..).collect()
    }

    /// Why no samples come at the moment.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        locked(&self.shared).lost.clone()
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        drop(self.stop.take());
        let mut shared = locked(&self.shared);
        shared.stopping = true;
        if let Some(socket) = shared.socket.take() {
            // It may have been closed by the other side.
            drop(socket.shutdown(Shutdown::Both));
        }
        drop(shared);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a bug ended the samples of an agent");
        }
    }
}

/// Nothing is left half done under this lock.
fn locked(shared: &Mutex<SharedSamples>) -> MutexGuard<'_, SharedSamples> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread.
struct Follow {
    agent: AgentAddress,
    port: Option<u16>,
    shared: Arc<Mutex<SharedSamples>>,
    stopped: Receiver<()>,
}

impl Follow {
    fn run(self, lines: Lines) {
        let mut lines = Some(lines);
        loop {
            let reason = match lines.take() {
                Some(lines) => self.take_in(lines),
                None => match self.agent.sample_lines(self.port) {
                    Ok((found, socket)) => {
                        if !self.found(socket) {
                            return;
                        }
                        lines = Some(found);
                        continue;
                    }
                    Err(error) => error.to_string(),
                },
            };
            if !self.lost(reason) {
                return;
            }
            if !matches!(
                self.stopped.recv_timeout(AGAIN),
                Err(RecvTimeoutError::Timeout)
            ) {
                return;
            }
        }
    }

    /// Takes lines in until they end, and says why they did.
    fn take_in(&self, mut lines: Lines) -> String {
        loop {
            let line = match lines.next_line().and_then(|line| understood(&line)) {
                Ok(line) => line,
                Err(error) => return error.to_string(),
            };
            let mut shared = locked(&self.shared);
            if shared.lines.len() == LINES_MAX {
                shared.lines.pop_front();
            }
            shared.lines.push_back(line);
        }
    }

    /// Whether to go on.
    fn found(&self, socket: TcpStream) -> bool {
        let mut shared = locked(&self.shared);
        shared.lost = None;
        shared.socket = Some(socket);
        !shared.stopping
    }

    fn lost(&self, reason: String) -> bool {
        let mut shared = locked(&self.shared);
        shared.socket = None;
        shared.lost = Some(reason);
        !shared.stopping
    }
}
