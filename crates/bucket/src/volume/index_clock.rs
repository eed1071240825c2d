//! [`IndexClock`]: the time of the index, which never decreases, also from one writer to the next.
//!
//! SlateDB refuses a change with a time before the last one, and a table before the last one; the index is out of use then. The clocks of two
//! servers differ, so a writer begins at the time of this machine or at that of the last change or table, whichever is later.
//!
//! # Invariants
//!
//! * It is set forward by at most [`AHEAD_MAX`]: the age of objects is measured by it, and none is deleted by its age alone before a day.

use std::pin::Pin;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use engine::clock;
use slatedb::{ErrorKind, VersionedManifest};
use slatedb_common::clock::{SystemClock, SystemClockTicker};

/// How far it may be ahead of this machine's.
const AHEAD_MAX: TimeDelta = TimeDelta::hours(1);

/// A clock that began at some time.
#[derive(Debug, Clone)]
pub(super) struct IndexClock {
    begin: DateTime<Utc>,
    instant: std::time::Instant,
}

impl IndexClock {
    /// The time of this machine.
    pub(super) fn new() -> Self {
        Self {
            begin: clock::wall().into(),
            instant: clock::now(),
        }
    }

    /// The same, from behind the change at `last`, in milliseconds, on. `None` if that is too far ahead.
    pub(super) fn set_behind(&self, last: i64) -> Option<Self> {
        let last = DateTime::from_timestamp_millis(last)?;
        let wall: DateTime<Utc> = clock::wall().into();
        (last - wall <= AHEAD_MAX).then(|| Self {
            begin: wall.max(last + TimeDelta::milliseconds(1)),
            instant: clock::now(),
        })
    }

    /// A clock behind the newest table of the index, where this one is before it: SlateDB publishes no table that is older than those which
    /// are there, and is out of use then.
    ///
    /// # Errors
    /// That is too far ahead: by how many seconds.
    pub(super) fn behind_tables(&self, manifest: &VersionedManifest) -> Option<Result<Self, u64>> {
        let tables = manifest.l0().iter().map(|table| table.sst.id.value());
        let newest = tables.chain(manifest.last_compacted_l0_sst_view_id());
        let newest = i64::try_from(newest.map(|id| id.timestamp_ms()).max()?).ok()?;
        let now = self.now().timestamp_millis();
        (newest > now).then(|| {
            let ahead = u64::try_from(newest - now).unwrap_or_default() / 1000;
            self.set_behind(newest).ok_or(ahead)
        })
    }
}

/// The time of the last change, in milliseconds, if `error` is that this one would be before it. SlateDB has no kind for that.
pub(super) fn last_tick(error: &slatedb::Error) -> Option<i64> {
    let text = error.to_string();
    let is_clock = error.kind() == ErrorKind::Invalid && text.contains("invalid clock tick");
    let (_, rest) = text.split_once("last_tick=`").filter(|_| is_clock)?;
    rest.split_once('`')?.0.parse().ok()
}

impl SystemClock for IndexClock {
    fn now(&self) -> DateTime<Utc> {
        self.begin + clock::now().saturating_duration_since(self.instant)
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(clock::sleep(duration))
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}
