//! The disks of a world: crash disks on wires that break, hang and lose power at any step.

use std::fmt;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use block::{
    BlockDevice, Errno, Extent, Geometry, Identity, IoBufs, IoError, IoFuture, Node, Operation,
    Range, TryIo, WriteFlags,
};
use testkit::CrashDisk;
use tokio::sync::Notify;

use super::pace::Pace;
use super::record::Record;
use crate::array::{Reopen, ReopenError};

/// The power of all disks of a world. It goes out after so many steps: each request of a disk is two,
/// one when it begins and one when it is answered.
#[derive(Debug)]
pub(super) struct Power {
    left: AtomicU64,
    out: Notify,
    wires: AtomicU32,
    pace: Arc<Pace>,
    record: Arc<Record>,
}

impl Power {
    pub(super) fn new(steps: u64, pace: Arc<Pace>, record: Arc<Record>) -> Arc<Self> {
        let left = AtomicU64::new(steps);
        Arc::new(Self {
            left,
            out: Notify::new(),
            wires: AtomicU32::new(0),
            pace,
            record,
        })
    }

    /// Whether it has gone out.
    pub(super) fn is_out(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// Resolves when it has gone out.
    pub(super) async fn gone(&self) {
        let out = self.out.notified();
        let mut out = pin!(out);
        out.as_mut().enable();
        if !self.is_out() {
            out.await;
        }
    }

    /// One more step, if there is power for it.
    fn step(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        let next = left.saturating_sub(1);
        self.left.store(next, Ordering::Relaxed);
        if next == 0 {
            self.out.notify_waiters();
        }
        next > 0
    }
}

/// How a wire is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It works.
    Fine,
    /// Every request fails.
    Gone,
    /// Nothing is answered until it works again. Changes are carried out then, in order, whether
    /// a task still waits for them or not.
    Hung,
}

/// A change that hangs.
#[derive(Clone)]
enum Change {
    Write(Range, IoBufs, WriteFlags),
    Zeroes(Range, WriteFlags),
    Trim(Range),
}

impl Change {
    /// What it writes.
    fn data(&self) -> Option<Vec<u8>> {
        match self {
            Self::Write(_, data, _) => Some(data.concat()),
            Self::Zeroes(..) | Self::Trim(_) => None,
        }
    }
}

struct State {
    mode: Mode,
    hanging: Vec<(u64, Change)>,
    /// Changes that hung when the wire broke.
    lost: Vec<u64>,
    next: u64,
    /// What cannot be read until it is written.
    unreadable: Vec<Range>,
    /// What cannot be written, ever.
    unwritable: Vec<Range>,
}

/// A crash disk at a wire.
pub(super) struct Wire {
    /// Among all of its life.
    number: u32,
    disk: Arc<CrashDisk>,
    power: Arc<Power>,
    state: Mutex<State>,
    changed: Notify,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = self.state().mode;
        f.debug_struct("Wire").field("mode", &mode).finish()
    }
}

impl Wire {
    pub(super) fn new(disk: CrashDisk, power: Arc<Power>) -> Arc<Self> {
        Arc::new(Self {
            number: power.wires.fetch_add(1, Ordering::Relaxed),
            disk: Arc::new(disk),
            power,
            state: Mutex::new(State {
                mode: Mode::Fine,
                hanging: Vec::new(),
                lost: Vec::new(),
                next: 0,
                unreadable: Vec::new(),
                unwritable: Vec::new(),
            }),
            changed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn mode(&self) -> Mode {
        self.state().mode
    }

    /// Breaks the wire, or lets it hang.
    pub(super) fn set(&self, mode: Mode) {
        assert_ne!(mode, Mode::Fine, "what hangs is carried out first: mend()");
        let mut state = self.state();
        state.mode = mode;
        if mode == Mode::Gone {
            let hanging = std::mem::take(&mut state.hanging);
            state.lost.extend(hanging.into_iter().map(|(id, _)| id));
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// The wire works again.
    pub(super) async fn mend(&self) {
        loop {
            let next = self.state().hanging.first().cloned();
            let Some((id, change)) = next else { break };
            // Dropped or not, it lands.
            drop(self.carry_out(change).await);
            self.state().hanging.retain(|(other, _)| *other != id);
        }
        self.state().mode = Mode::Fine;
        self.changed.notify_waiters();
    }

    /// Sectors that cannot be read until they are written, or (`forever`) not written either.
    pub(super) fn damage(&self, range: Range, forever: bool) {
        let mut state = self.state();
        state.unreadable.push(range);
        if forever {
            state.unwritable.push(range);
        }
    }

    /// What a cut of its power now may leave.
    pub(super) fn crash(&self, seed: u64) -> Vec<u8> {
        self.disk.crash(seed)
    }

    /// What it holds.
    pub(super) fn live(&self) -> Vec<u8> {
        self.disk.live()
    }

    /// Waits while the wire hangs, and fails where it is broken. A change that hung and was carried out
    /// meanwhile is not to be carried out again.
    async fn enter(
        &self,
        operation: Operation,
        range: Option<Range>,
        change: Option<Change>,
    ) -> Result<bool, IoError> {
        let data = change.as_ref().and_then(Change::data);
        let asked = (self.number, operation, range, data);
        self.power.record.note(asked);
        if !self.power.step() {
            return pending().await;
        }
        self.power.pace.wait().await;
        let mut queued = None;
        loop {
            let changed = self.changed.notified();
            let mut changed = pin!(changed);
            changed.as_mut().enable();
            {
                let mut state = self.state();
                let lost = queued.is_some_and(|id| state.lost.contains(&id));
                match (state.mode, queued) {
                    _ if lost || state.mode == Mode::Gone => {
                        let error = IoError::new(Errno::Io, operation, range);
                        return Err(error.because("the wire is broken"));
                    }
                    (Mode::Fine, queued) => return Ok(queued.is_some()),
                    (Mode::Hung, None) => {
                        if let Some(change) = change.clone() {
                            let id = state.next;
                            state.next += 1;
                            state.hanging.push((id, change));
                            queued = Some(id);
                        }
                    }
                    (Mode::Hung | Mode::Gone, _) => {}
                }
            }
            changed.await;
        }
    }

    /// The answer is on its way: it arrives if the power lasts.
    async fn leave<T>(&self, answer: Result<T, IoError>) -> Result<T, IoError> {
        self.power.pace.wait().await;
        self.power.record.note((self.number, answer.is_ok()));
        if !self.power.step() {
            return pending().await;
        }
        answer
    }

    async fn carry_out(&self, change: Change) -> Result<(), IoError> {
        let (Change::Write(range, ..) | Change::Zeroes(range, _) | Change::Trim(range)) = change;
        {
            let mut state = self.state();
            if state.unwritable.iter().any(|bad| bad.overlaps(&range)) {
                let error = IoError::new(Errno::Io, Operation::Write, Some(range));
                return Err(error.because("the sector cannot be written"));
            }
            state.unreadable.retain(|bad| !bad.overlaps(&range));
        }
        match change {
            Change::Write(range, data, flags) => self.disk.write(range, data, flags).await,
            Change::Zeroes(range, flags) => self.disk.write_zeroes(range, flags).await,
            Change::Trim(range) => self.disk.trim(range).await,
        }
    }

    async fn change(&self, operation: Operation, change: Change) -> Result<(), IoError> {
        let (Change::Write(range, ..) | Change::Zeroes(range, _) | Change::Trim(range)) = change;
        let hung = self.enter(operation, Some(range), Some(change.clone()));
        if hung.await? {
            return self.leave(Ok(())).await;
        }
        let answer = self.carry_out(change).await;
        self.leave(answer).await
    }
}

/// How a member is opened again: as the wire is.
#[derive(Debug)]
pub(super) struct Again(pub(super) Arc<Wire>);

impl Reopen for Again {
    fn reopen(&self) -> Pin<Box<dyn Future<Output = Result<Node, ReopenError>> + Send + '_>> {
        Box::pin(async {
            match self.0.mode() {
                Mode::Fine => Ok(self.0.clone() as Node),
                mode => {
                    let why = format!("the wire is {mode:?}");
                    Err(ReopenError::Unreachable(why))
                }
            }
        })
    }
}

impl BlockDevice for Wire {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            self.enter(Operation::Read, Some(range), None).await?;
            let bad = self
                .state()
                .unreadable
                .iter()
                .any(|bad| bad.overlaps(&range));
            let answer = if bad {
                let error = IoError::new(Errno::Io, Operation::Read, Some(range));
                Err(error.because("the sector cannot be read"))
            } else {
                self.disk.read(range).await
            };
            self.leave(answer).await
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(self.change(Operation::Write, Change::Write(range, data, flags)))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.enter(Operation::Flush, None, None).await?;
            let answer = self.disk.flush().await;
            self.leave(answer).await
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(self.change(Operation::WriteZeroes, Change::Zeroes(range, flags)))
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(self.change(Operation::Trim, Change::Trim(range)))
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            self.enter(Operation::Extents, Some(range), None).await?;
            let answer = self.disk.extents(range).await;
            self.leave(answer).await
        })
    }

    fn identity(&self) -> Option<Identity> {
        self.disk.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            loop {
                let changed = self.changed.notified();
                let mut changed = pin!(changed);
                changed.as_mut().enable();
                if self.state().hanging.is_empty() {
                    return self.disk.settle().await;
                }
                changed.await;
            }
        })
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        let mut read = self.read(range);
        let mut context = Context::from_waker(Waker::noop());
        match read.as_mut().poll(&mut context) {
            Poll::Ready(Ok(data)) => {
                into.copy_from_slice(&data.concat());
                TryIo::Done
            }
            _ => TryIo::WouldBlock,
        }
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        if self.mode() != Mode::Fine {
            return TryIo::WouldBlock;
        }
        let data = testkit::single(data.to_vec());
        let mut write = self.write(range, data, WriteFlags::empty());
        let mut context = Context::from_waker(Waker::noop());
        match write.as_mut().poll(&mut context) {
            Poll::Ready(Ok(())) => TryIo::Done,
            _ => TryIo::WouldBlock,
        }
    }
}
