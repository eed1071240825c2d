//! [`RowSender`]: what is written of a row, on its way to members.
//!
//! ```text
//! window of columns ─► parity ─► members on the fast path, while all of it is in the processor's cache ─► next window
//!                                     └─ would block ─► all that is left for this member, together, at the end
//! ```
//!
//! # Invariants
//!
//! * Every write reaches the holder of its part and the replacement of that, and each of them answers for all of it.
//! * What is to be durable, and what is written in the background, never takes the fast path.
//! * A member that would block at one window gets that again, and what follows, in one request for each run of its bytes.
//! * A row never keeps a core for longer than [`YIELD_BYTES`] of it take.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{IoBufs, TryIo, WriteFlags};
use futures_util::future::join_all;

use super::super::super::parity::member_reads::SpanSource;
use super::super::super::parity::stripe_compute::{
    MemberWrite, join_writes, window_writes, windows,
};
use super::super::super::parity::stripe_plan::StripePlan;
use super::super::members::{SlotId, Target};
use super::columns::Columns;
use super::row_answers::RowAnswer;

/// Columns of a window, bytes of each member: a row of eight members takes half of a second-level cache of 1 MiB. Less in
/// tests, where chunks are short.
const WINDOW: u64 = if cfg!(test) { 1024 } else { 64 << 10 };
/// What is written on the fast path before other tasks of the core have a turn, bytes.
const YIELD_BYTES: u64 = 1 << 20;

/// Writes of one row, as they are sent.
struct RowSender<'a> {
    columns: &'a Columns<'a>,
    flags: WriteFlags,
    /// What members get at the end.
    later: BTreeMap<SlotId, (Arc<Target>, Vec<MemberWrite>)>,
    answers: Vec<RowAnswer>,
    /// Bytes that were written since other tasks had a turn.
    unyielded: u64,
}

/// Sends what a plan writes, window by window. `new`: the data, `answers`: what the plan reads.
pub(super) async fn send_planned(
    columns: &Columns<'_>,
    (plan, answers): (&StripePlan, &[IoBufs]),
    new: &[MemberWrite],
    flags: WriteFlags,
) -> Vec<RowAnswer> {
    let mut written = columns.view.written();
    let is_fast = flags.is_empty() && written.any(|holder| holder.target.may_answer_now());
    let window = match is_fast {
        true => WINDOW.max(columns.block_size().into()),
        false => u64::MAX,
    };
    let mut sender = RowSender::new(columns, flags);
    for window in windows(new, window) {
        let writes = window_writes(plan, answers, new, window);
        sender.send(writes).await;
    }
    sender.finish().await
}

/// Sends what is computed already. Rows that were logged before are sent so.
pub(super) async fn send_writes(
    columns: &Columns<'_>,
    writes: Vec<MemberWrite>,
    flags: WriteFlags,
) -> Vec<RowAnswer> {
    let mut sender = RowSender::new(columns, flags);
    sender.send(writes).await;
    sender.finish().await
}

/// The same in the background, which leaves the core to users.
pub(super) async fn send_in_background(
    columns: &Columns<'_>,
    writes: Vec<MemberWrite>,
) -> Vec<RowAnswer> {
    let mut sender = RowSender::new(columns, WriteFlags::empty());
    for write in &writes {
        for target in columns.written(write.bytes.part) {
            sender.send_later(target, write);
        }
    }
    sender.finish().await
}

impl<'a> RowSender<'a> {
    const fn new(columns: &'a Columns<'a>, flags: WriteFlags) -> Self {
        Self {
            columns,
            flags,
            later: BTreeMap::new(),
            answers: Vec::new(),
            unyielded: 0,
        }
    }

    /// Writes on the fast path what members take there.
    async fn send(&mut self, writes: Vec<MemberWrite>) {
        for write in &writes {
            for target in self.columns.written(write.bytes.part) {
                self.try_send(target, write);
            }
        }
        if self.unyielded >= YIELD_BYTES {
            self.unyielded = 0;
            tokio::task::yield_now().await;
        }
    }

    fn try_send(&mut self, target: Arc<Target>, write: &MemberWrite) {
        let within = self.columns.place(write.bytes.range);
        let is_fast = self.flags.is_empty() && !self.later.contains_key(&target.slot);
        if !is_fast || target.try_write(within, &write.data) == TryIo::WouldBlock {
            return self.send_later(target, write);
        }
        self.unyielded += within.len;
        self.answers.push(RowAnswer {
            target,
            within,
            // What went well is not sent again.
            data: None,
            flags: self.flags,
            result: Ok(()),
        });
    }

    fn send_later(&mut self, target: Arc<Target>, write: &MemberWrite) {
        let later = self.later.entry(target.slot);
        let (_, writes) = later.or_insert_with(|| (target, Vec::new()));
        writes.push(write.clone());
    }

    /// Sends the rest to all members at once.
    async fn finish(self) -> Vec<RowAnswer> {
        let Self { columns, flags, .. } = self;
        let of_member = |(target, writes): (Arc<Target>, Vec<MemberWrite>)| {
            let writes = join_writes(writes).into_iter();
            writes.map(move |write| (target.clone(), write))
        };
        let later = self.later.into_values().flat_map(of_member);
        let sends = later.map(async |(target, write)| {
            let within = columns.place(write.bytes.range);
            let result = target.write(within, write.data.clone(), flags).await;
            RowAnswer {
                target,
                within,
                data: Some(write.data),
                flags,
                result,
            }
        });
        let mut answers = self.answers;
        answers.extend(join_all(sends).await);
        answers
    }
}
