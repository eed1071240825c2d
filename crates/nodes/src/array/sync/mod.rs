//! `sync`: what keeps the copies of an array alike: resync after a crash, recovery of members, scrub,
//! and the driver that does all of it in the background.
//!
//! # What it asks of the mirror
//!
//! ```text
//! lock(range)                  waits for writes there, holds new ones until it is dropped
//! pieces(range)                where copies are: (part, range of a member) for each
//! array_range(part, range)     the way back: which bytes of the array a member holds there
//! read_copy(part, range)       from that member alone; no repair; under member_timeout
//! write_copy(part, range, …)   to that member alone; an error fails it, durably, as a write does
//! needed(from) -> Range        the next range whose copies may differ: bits that were set when it was
//!                              opened, or all behind synced_to; writes do not clear them, sweeps neither
//! synced(range)                they are alike now: the bit is a usual one again, or synced_to goes on
//! give_part(member, part)      a spare or a member that comes back holds a part from now on, rebuilt
//!                              up to 0: it gets all writes; durable (feature 2, 0x80 by the bitmap)
//! rebuilt(part, to)            how far; durable by the next commit, behind a flush of that member
//! in_sync(part)                a commit: events + 1, roles; its bits may be cleared from now on
//! requests()                   how many requests users made so far, of all kinds
//! ```

mod plan;
mod progress;
mod rate;
#[cfg(test)]
mod tests;
