//! The doctor: the bottleneck of an I/O path, with its evidence. Pure, but for [`cpu`] and
//! [`load`], which look and measure.
//!
//! ```text
//! program ── generator, queue ── cache ── client ── cipher, protocol ── wire ── server ── disk
//! ```
//!
//! An [`Examination`] is what was measured of such a way: its throughput, what each [`Stage`] carries
//! ([`Bound`]), and what came of replacing parts by something that costs nothing ([`Substitution`]).
//! [`diagnose`] makes a [`Verdict`] of it.
//!
//! # The law
//!
//! `throughput <= min(1 / greatest demand, in flight / latency when idle)`, where the demand of a part
//! is its utilisation over the throughput. Source: operational analysis (Denning and Buzen, 1978) and
//! Little's law.
//!
//! # Invariants
//!
//! * What does not move the result when it is replaced is ruled out, regardless of its bound.
//! * A target that is faster with parts replaced was not limited by what was left: the limiter is among what was replaced
//!   (`effect.rs`). A difference of a few percent counts only if it was measured in pairs.
//! * The load of a server's processor says nothing of how long the server waits by itself.
//! * A bound that the target itself passed is no bound, and the report says so.
//! * The part that is named is the one of the least bound among those under suspicion; where none is
//!   near, it is what is left. Where more than one is left, all of them are named.
//! * Where two measurements of the wire cannot both be right, both are reported.
//! * Only ratios count: a machine that is faster in everything gets the same verdict.
//!
//! # What it does not do
//!
//! It starts no server and opens no disk: the caller does.

mod bound;
mod cache_file;
mod cause;
mod connect;
pub mod cpu;
mod effect;
mod examination;
mod first_bytes;
mod flush;
pub mod load;
mod readahead;
mod server_report;
mod stage;
mod store_use;
mod suspects;
mod text;
mod verdict;
mod wire;
mod wording;

pub use bound::{Bound, CpuUse, Evidence, Pressure, Quota};
pub use cache_file::{CacheUse, ReadOrigin};
pub use cause::Cause;
pub use connect::ConnectTimes;
pub use effect::{PAIRS_MAX, PAIRS_MIN, needs_more_pairs, needs_pairs, queue_may_limit};
pub use examination::{DoctorJob, Examination, Sign, Substitution, Unmeasured};
pub use flush::{DeviceFlushes, FlushTimes};
pub use readahead::{ReadaheadTrial, ReadaheadTrials};
pub use server_report::{
    AnsweredRequests, ClientReading, ClientUse, ExportReading, MemberReading, MemberUse,
    OwnClients, ServedReading, ServedUse, StripeMember,
};
pub use stage::Stage;
pub use store_use::{CacheReads, StoreReading, StoreRequests, StoreUse};
pub use text::text;
pub use verdict::{NextBottleneck, Verdict, VerdictBasis, diagnose};
pub use wire::BareWire;

#[cfg(test)]
mod tests;
