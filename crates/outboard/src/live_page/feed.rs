//! [`StatusFeed`]: the snapshots that all listeners share.
//!
//! # Invariants
//!
//! * At most one snapshot is made in [`INTERVAL`], however many pages are open, and none while no page is.
//! * What waits for another process or reads the user's files (`surroundings`) is queried on a thread of its own, and never
//!   delays a snapshot. The state itself may wait for the folder of overlays: on such a thread, too, so that the server stops
//!   all the same.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use axum::body::Bytes;
use engine::clock;

use super::PageSource;
use super::status::{StatusHistory, Surroundings};
use super::surroundings::{Known, SurroundingsQuery};
use crate::event_log::EventLog;

/// Time between two snapshots.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// A snapshot that is as old as this is replaced: timers are not exact.
const REPLACED_AFTER: Duration = Duration::from_millis(900);
/// How long a page waits before it reconnects, milliseconds.
const RECONNECT_MS: u32 = 1000;

/// One snapshot.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) number: u64,
    /// As JSON.
    pub(super) json: Bytes,
    /// As a server-sent event.
    pub(super) event: Bytes,
}

/// Makes snapshots on demand.
pub(super) struct StatusFeed<S> {
    source: Arc<S>,
    events: EventLog,
    has_actions: bool,
    latest: tokio::sync::Mutex<Latest>,
    surroundings: SurroundingsQuery,
}

#[derive(Default)]
struct Latest {
    history: StatusHistory,
    snapshot: Option<(Instant, Snapshot)>,
}

impl<S: PageSource> StatusFeed<S> {
    pub(super) fn new(source: Arc<S>, events: EventLog, has_actions: bool) -> Self {
        Self {
            source,
            events,
            has_actions,
            latest: tokio::sync::Mutex::default(),
            surroundings: SurroundingsQuery::default(),
        }
    }

    /// The latest snapshot; a new one if that is too old.
    pub(super) async fn current(&self) -> Result<Snapshot, serde_json::Error> {
        let mut latest = self.latest.lock().await;
        let now = clock::now();
        if let Some((at, snapshot)) = &latest.snapshot
            && now.saturating_duration_since(*at) < REPLACED_AFTER
        {
            return Ok(snapshot.clone());
        }
        let since = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Known {
            attachments,
            verdicts,
        } = self.surroundings.known(now);
        let surroundings = Surroundings {
            attachments,
            verdicts,
            events: self.events.latest_first(),
            at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            has_actions: self.has_actions,
        };
        // Overlays are counted in their folder, which may be another machine's.
        let source = self.source.clone();
        let input = engine::blocking(move || source.page_input()).await;
        let status = latest.history.next(now, input, surroundings);
        let number = status.number();
        let json = serde_json::to_string(&status)?;
        let event = format!("retry: {RECONNECT_MS}\nid: {number}\ndata: {json}\n\n");
        let snapshot = Snapshot {
            number,
            json: json.into(),
            event: event.into(),
        };
        latest.snapshot = Some((now, snapshot.clone()));
        Ok(snapshot)
    }
}
