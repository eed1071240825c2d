//! [`LiveMove`]: a move of extents that is running or was: what it is, how far it is, and its end.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::volume::edit::EditStamp;

/// How a move is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveMoveOptions {
    /// Most bytes a second; without it as many as the disks take.
    pub bytes_per_second: Option<u64>,
    /// What the texts say about their writing.
    pub stamp: EditStamp,
}

/// How a move stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveMoveState {
    /// Extents are being copied.
    Running,
    /// All are at their new place.
    Done,
    /// It was ended: what was not moved is where it was.
    Aborted,
    /// It was interrupted, and can be resumed or ended.
    Stopped,
    /// It ended by itself, and why.
    Failed(String),
}

/// What the runner of a move is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum MoveCommand {
    Run,
    Stop,
    Abort,
}

impl From<MoveCommand> for AtomicU8 {
    fn from(command: MoveCommand) -> Self {
        Self::new(command as u8)
    }
}

/// A move of extents of volumes that are open.
#[derive(Debug)]
pub struct LiveMove {
    /// The disk that extents are moved away from.
    pub from: String,
    /// The disks that they are moved to.
    pub to: Vec<String>,
    /// Bytes to move in all.
    pub bytes: u64,
    /// The volumes that describe it.
    pub(super) names: Vec<String>,
    pub(super) options: LiveMoveOptions,
    pub(super) copied: AtomicU64,
    pub(super) command: AtomicU8,
    pub(super) state: Mutex<LiveMoveState>,
    pub(super) ended: Notify,
}

impl LiveMove {
    /// Bytes that were copied so far, with those of steps that were done before a resumption.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed).min(self.bytes)
    }

    /// How it stands.
    #[must_use]
    pub fn state(&self) -> LiveMoveState {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, LiveMoveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn command(&self) -> MoveCommand {
        match self.command.load(Ordering::Acquire) {
            run if run == MoveCommand::Run as u8 => MoveCommand::Run,
            stop if stop == MoveCommand::Stop as u8 => MoveCommand::Stop,
            _ => MoveCommand::Abort,
        }
    }

    pub(super) fn goes_on(&self) -> bool {
        self.command() == MoveCommand::Run
    }

    pub(super) async fn end_by(&self, command: MoveCommand) -> LiveMoveState {
        self.command.store(command as u8, Ordering::Release);
        self.wait().await
    }

    /// Waits for its end.
    pub async fn wait(&self) -> LiveMoveState {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            match self.state() {
                LiveMoveState::Running => ended.await,
                state => return state,
            }
        }
    }

    pub(super) fn set_ended(&self, state: LiveMoveState) {
        *self.lock() = state;
        self.ended.notify_waiters();
    }
}
