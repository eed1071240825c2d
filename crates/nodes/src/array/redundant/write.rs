//! Changes: writes, zeroes and trims, on all holders.
//!
//! ```text
//! turn ─► dirty and bits durable ─► all members at once ─► failures are recorded ─► acknowledged
//! ```
//!
//! # Invariants
//!
//! * A change goes to all members that hold a part, in sync or being rebuilt, and to their replacements, and is acknowledged once all of these that have
//!   not failed have it.
//! * What was cancelled in flight keeps its turn, and its bits, until [`settle`](block::BlockDevice::settle) made the
//!   copies identical.
//! * What is answered on the fast path allocates nothing.

use block::{Errno, IoBufs, IoError, Operation, Range, TryIo, WriteFlags};
use futures_util::future::join_all;

use super::RedundantArray;
use super::answers::{Answer, Answers};
use super::layout::{Copy, Piece};
use super::members::{SlotId, Target, is_over};
use super::range_locks::{Cancelled, Kind, Turn, TurnState};
use super::state::State;
use super::view::{Holder, View};
use crate::blocks::slice;
use crate::zeroes::zero_pieces;

/// Changes under way, or waiting for their turns; more of them wait for these, in order.
pub(super) const CHANGES_MAX: usize = 256;
/// Changes that were cancelled; with more of them the next one settles first.
const CANCELLED_MAX: usize = 64;

/// What is done to a range.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Data(IoBufs),
    Zeroes,
    Trim,
}

impl Change {
    pub(super) const fn operation(&self) -> Operation {
        match self {
            Self::Data(_) => Operation::Write,
            Self::Zeroes => Operation::WriteZeroes,
            Self::Trim => Operation::Trim,
        }
    }

    const fn cancelled(&self) -> Cancelled {
        match self {
            Self::Data(_) => Cancelled::Data { landed: false },
            Self::Zeroes => Cancelled::Zeroes,
            Self::Trim => Cancelled::Trim,
        }
    }

    /// The same for one piece of `range`.
    fn piece(&self, range: Range, piece: Range) -> Self {
        match self {
            Self::Data(data) if piece != range => {
                let start = Range::new(0, piece.offset - range.offset).len_usize();
                Self::Data(slice(data, start, piece.len_usize()))
            }
            other => other.clone(),
        }
    }
}

/// A turn; over when it is dropped. Where that is in flight, the range is cancelled.
#[derive(Debug)]
pub(in crate::array) struct Changing<'a> {
    array: &'a RedundantArray,
    pub(super) turn: Turn,
    range: Range,
    kind: Kind,
    /// What is under way below, or must not be left as it is.
    pub(super) in_flight: Option<Cancelled>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut guarded = self.array.lock();
        let wakers = match self.in_flight {
            Some(what) => guarded.state.cancel(self.turn, what),
            None => guarded.state.end(self.turn, self.range, self.kind),
        };
        drop(guarded);
        wakers.into_iter().for_each(std::task::Waker::wake);
        if self.in_flight.is_some() {
            self.array.work.notify_waiters();
        }
    }
}

impl Changing<'_> {
    /// The turn, which goes on: the caller ends it.
    pub(super) fn keep(self) -> (Turn, Range) {
        let this = std::mem::ManuallyDrop::new(self);
        (this.turn, this.range)
    }
}

impl RedundantArray {
    /// Carries out a change.
    pub(super) async fn change(
        &self,
        range: Range,
        what: Change,
        flags: WriteFlags,
    ) -> Result<(), IoError> {
        let place = self.places.acquire().await;
        let _place = place.expect("the semaphore is never closed");
        if self.lock().state.locks.cancelled_count() > CANCELLED_MAX {
            self.settle_all().await?;
        }
        let mut changing = self.turn(what.operation(), range, Kind::Change).await?;
        self.record(|state| state.is_ready(range)).await?;
        changing.in_flight = Some(what.cancelled());
        let answers = self.send(range, &what, flags, None).await;
        let failed = self.conclude(range, &answers).await;
        // What was not answered may land at any time, on a member that goes on.
        changing.in_flight = changing
            .in_flight
            .filter(|_| failed.is_err() && answers.are_late());
        self.record(State::is_recorded).await?;
        failed
    }

    /// Waits for a turn on `range`.
    pub(super) async fn turn(
        &self,
        operation: Operation,
        range: Range,
        kind: Kind,
    ) -> Result<Changing<'_>, IoError> {
        let changing = self.take_turn(operation, range, kind)?;
        self.wait_for(changing.turn).await?;
        Ok(changing)
    }

    /// Waits for a turn to read `range` in one state of it, also while the array is being stopped: changes that began
    /// before that go on. `None`: nothing changes any more.
    pub(super) async fn turn_to_read(&self, range: Range) -> Result<Option<Changing<'_>>, IoError> {
        self.fence.check(Operation::Read, Some(range))?;
        if self.read_only() {
            return Ok(None);
        }
        let changing = {
            let mut guarded = self.lock();
            if guarded.state.stopped && !guarded.state.locks.has_changes() {
                return Ok(None);
            }
            self.changing(&mut guarded.state, range, Kind::Window)
        };
        self.wait_for(changing.turn).await?;
        Ok(Some(changing))
    }

    /// Takes a turn on `range`, which may have to wait for others.
    pub(super) fn take_turn(
        &self,
        operation: Operation,
        range: Range,
        kind: Kind,
    ) -> Result<Changing<'_>, IoError> {
        self.fence.check(operation, Some(range))?;
        let mut guarded = self.lock();
        if guarded.state.stopped {
            return Err(IoError::new(Errno::ShuttingDown, operation, Some(range)));
        }
        Ok(self.changing(&mut guarded.state, range, kind))
    }

    /// A change of `range`, or a window, arrives.
    fn changing(&self, state: &mut State, range: Range, kind: Kind) -> Changing<'_> {
        let turn = state.begin(range, kind);
        let over = kind == Kind::Change && state.go_over(turn);
        Changing {
            array: self,
            turn,
            range,
            kind,
            in_flight: over.then_some(Cancelled::Data { landed: true }),
        }
    }

    /// Waits until `turn` may go on, and repairs what was cancelled before it.
    pub(super) async fn wait_for(&self, turn: Turn) -> Result<(), IoError> {
        loop {
            let place = std::future::poll_fn(|context| {
                match self.lock().state.locks.place(turn, context.waker()) {
                    TurnState::Waiting => std::task::Poll::Pending,
                    place => std::task::Poll::Ready(place),
                }
            });
            if place.await == TurnState::Ready {
                return Ok(());
            }
            self.settle_all().await?;
        }
    }

    /// Sends a change to all holders but `without`, and waits for all of them.
    pub(super) async fn send(
        &self,
        range: Range,
        what: &Change,
        flags: WriteFlags,
        without: Option<SlotId>,
    ) -> Answers {
        let view = self.view();
        let mut requests = Vec::new();
        for (index, piece) in view.pieces(range).into_iter().enumerate() {
            let what = what.piece(range, piece.range);
            for (holder, within) in holders(&view, &piece) {
                let target = holder.target.clone();
                if Some(target.slot) == without {
                    continue;
                }
                let what = what.clone();
                requests.push(async move {
                    let result = send_to(&target, within, what.clone(), flags).await;
                    Answer {
                        piece: index,
                        target,
                        within,
                        what,
                        flags,
                        result,
                    }
                });
            }
        }
        Answers {
            answers: join_all(requests).await,
            everybody: without.is_none(),
        }
    }

    /// Carries out a write on the fast path, where nothing has to be waited for.
    pub(super) fn try_change(&self, range: Range, data: &[u8]) -> TryIo {
        let mut guarded = self.lock();
        let view = guarded.state.members.view.clone();
        if view.layout.parity().is_some()
            || !view.written().all(|holder| holder.target.answers_now())
        {
            return TryIo::WouldBlock;
        }
        let Some(turn) = guarded.state.begin_now(range) else {
            return TryIo::WouldBlock;
        };
        drop(guarded);
        let mut changing = Changing {
            array: self,
            turn,
            range,
            kind: Kind::Change,
            in_flight: None,
        };
        let done = try_send(range, data, &view);
        if done == TryIo::WouldBlock {
            // The caller writes it again, and goes over what is there now.
            changing.in_flight = Some(Cancelled::Data { landed: true });
        }
        done
    }
}

/// The members that get what is written of a piece, and where: the holders of its copies, and their replacements.
pub(super) fn holders<'a>(
    view: &'a View,
    piece: &'a Piece,
) -> impl Iterator<Item = (&'a Holder, Range)> {
    let copies = piece.copies.iter();
    copies.flat_map(|copy: &Copy| {
        let holders = [view.holder(copy.part), view.replacement(copy.part)];
        let within = piece.within(*copy);
        holders
            .into_iter()
            .flatten()
            .map(move |holder| (holder, within))
    })
}

/// Writes on the fast path, to all holders.
fn try_send(range: Range, data: &[u8], view: &View) -> TryIo {
    for piece in view.layout.pieces(range) {
        let start = Range::new(0, piece.range.offset - range.offset).len_usize();
        let data = &data[start..start + piece.range.len_usize()];
        for (holder, within) in holders(view, &piece) {
            let target = &holder.target;
            if target.disk.try_write(target.place(within), data) == TryIo::WouldBlock {
                target.would_wait();
                return TryIo::WouldBlock;
            }
        }
    }
    TryIo::Done
}

pub(super) async fn send_to(
    target: &Target,
    within: Range,
    what: Change,
    flags: WriteFlags,
) -> Result<(), IoError> {
    match what {
        Change::Data(data) => target.write(within, data, flags).await,
        Change::Zeroes => write_zeroes(target, within, flags).await,
        // No user relies on a trim; but a member that does not even answer has failed.
        Change::Trim => match target.trim(within).await {
            Err(error) if !is_over(&error) => Ok(()),
            answer => answer,
        },
    }
}

/// Zeroes, in the way that the member supports: one that came later may have fewer than the array reported.
async fn write_zeroes(target: &Target, within: Range, flags: WriteFlags) -> Result<(), IoError> {
    let ways = [flags, flags - WriteFlags::FAST_ZERO];
    for flags in ways {
        match target.write_zeroes(within, flags).await {
            Err(error) if error.errno == Errno::NotSupported => {}
            answer => return answer,
        }
    }
    let (flags, flush) = target.durably(flags & WriteFlags::FUA);
    for (part, data) in zero_pieces(within) {
        target.write(part, data, flags).await?;
    }
    match flush {
        true => target.flush().await,
        false => Ok(()),
    }
}
