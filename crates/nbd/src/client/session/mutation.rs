//! [`Mutation`]: faults of the client that the worlds of `tests/worlds` turn on, to show that they find
//! them. Only in tests; a product has none of it.
//!
//! A mutation is on for one thread, and so for one world.

use std::cell::Cell;

/// A fault of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) enum Mutation {
    /// It goes on with any disk that is at the address.
    AnyDisk,
    /// It takes requests before it knows which disk it has.
    OpenBeforeVerification,
    /// Requests that fail because of time end nothing: the journal is kept, and flushes succeed.
    TimeoutKeepsThePast,
    /// A flush that failed is forgotten.
    FailedFlushIsForgotten,
    /// A flush is reported while another one is in flight that may have taken its error.
    FlushesInAnyOrder,
    /// The journal is written again in any order.
    ReplayBackwards,
    /// What newer entries of the journal cover is written again before them.
    OlderWritesAreReplayed,
    /// New requests are sent before the journal is written again.
    NewBeforeReplay,
    /// A server that refuses the journal is used on.
    RefusedReplayIsIgnored,
    /// Nothing is kept to be written again.
    NoJournal,
    /// Durable writes are not kept.
    JournalWithoutDurableWrites,
    /// Zeroes are not kept.
    JournalWithoutZeroes,
    /// A flush covers what was acknowledged while it was under way.
    FlushCoversLaterWrites,
    /// What a connection had not sent yet when it was given up is still sent.
    AbandonedBytesAreSent,
    /// A request without an answer is waited for forever.
    NoTimeLimits,
    /// A client that was fenced tries again as if the server were unreachable.
    FencedIsUnreachable,
    /// Another server is used although the one before may still write.
    ServersAreNotDoubted,
    /// A server that takes no connection any more counts as ended, although it has not ended those that it has.
    RefusalIsTheEnd,
    /// Connections of one client lead to several servers.
    ConnectionsAnywhere,
}

thread_local! {
    static ON: Cell<Option<Mutation>> = const { Cell::new(None) };
    static JOURNAL_MAX: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Whether a mutation is on.
pub(super) fn is_on(mutation: Mutation) -> bool {
    ON.get() == Some(mutation)
}

/// Turns a mutation on, or all of them off.
pub(in crate::client) fn set(mutation: Option<Mutation>) {
    ON.set(mutation);
}

/// Bytes of the journals of clients that are made from now on, instead of the product's limit.
pub(in crate::client) fn set_journal_max(max: Option<u64>) {
    JOURNAL_MAX.set(max);
}

/// Bytes of a journal.
pub(super) fn journal_max() -> Option<u64> {
    JOURNAL_MAX.get()
}
