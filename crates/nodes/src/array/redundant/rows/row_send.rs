//! What is written of a row, on its way to members.
//!
//! A short write of a member in the page cache is a call on the fast path: a request to the ring costs several times that, for the
//! kernel hands it to a worker thread. Long ones are the ring's: workers copy them while this core computes the next row's
//! parity.
//!
//! # Invariants
//!
//! * Every write reaches the holder of its part and the replacement of that, and each of them answers for all of it.
//! * What is to be durable, what is long, and what is written in the background never takes the fast path.
//! * A member that would block gets the same bytes again, in one request for each run of them.
//!
//! # Looked at, and not taken
//!
//! Long rows on the fast path, too, in windows of 64 KiB of each member while these are in the processor's cache: RAID 5 of 6 in the page
//! cache, 1 MiB sequential writes, 1,020 MB/s instead of 1,202 on two cores, of which the workers use the other one.

use block::{TryIo, WriteFlags};
use futures_util::future::join_all;

use super::super::super::parity::stripe_compute::{MemberWrite, join_writes};
use super::columns::Columns;
use super::row_answers::RowAnswer;

/// What is written of a row on the fast path, bytes of all members: a row of this length takes about as long as ten requests to
/// the ring.
const TRY_WRITE_MAX: u64 = 64 << 10;

/// Sends what is written of a row to all holders at once.
pub(super) async fn send_row(
    columns: &Columns<'_>,
    writes: Vec<MemberWrite>,
    flags: WriteFlags,
) -> Vec<RowAnswer> {
    let len: u64 = writes.iter().map(|write| write.bytes.range.len).sum();
    let is_fast = flags.is_empty() && len <= TRY_WRITE_MAX;
    send(columns, writes, flags, is_fast).await
}

/// The same in the background, which leaves the core to users.
pub(super) async fn send_in_background(
    columns: &Columns<'_>,
    writes: Vec<MemberWrite>,
) -> Vec<RowAnswer> {
    send(columns, writes, WriteFlags::empty(), false).await
}

async fn send(
    columns: &Columns<'_>,
    writes: Vec<MemberWrite>,
    flags: WriteFlags,
    is_fast: bool,
) -> Vec<RowAnswer> {
    let sends = join_writes(writes).into_iter().flat_map(|write| {
        columns.written(write.bytes.part).map(move |target| {
            let (within, data) = (columns.place(write.bytes.range), write.data.clone());
            async move {
                let result = match is_fast && target.try_write(within, &data) == TryIo::Done {
                    true => Ok(()),
                    false => target.write(within, data.clone(), flags).await,
                };
                RowAnswer {
                    target,
                    within,
                    data: Some(data),
                    flags,
                    result,
                }
            }
        })
    });
    join_all(sends).await
}
