//! [`StatusFeed`]: the snapshots that all listeners share.
//!
//! # Invariants
//!
//! * At most one snapshot is made in [`INTERVAL`], however many pages are open, and none while no page is.
//! * What waits for another process (attachments) is queried on a thread of its own, and never delays a snapshot.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use attach::AttachmentStatus;
use axum::body::Bytes;
use engine::clock;
use tokio::task::JoinHandle;

use super::PageSource;
use super::status::{AttachmentLine, StatusHistory, Surroundings};
use crate::event_log::EventLog;

/// Time between two snapshots.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// A snapshot that is as old as this is replaced: timers are not exact.
const REPLACED_AFTER: Duration = Duration::from_millis(900);
/// Time between two queries of the attachments.
const ATTACHMENTS_EVERY: Duration = Duration::from_secs(5);
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
    attachments: Arc<Mutex<Vec<AttachmentLine>>>,
}

#[derive(Default)]
struct Latest {
    history: StatusHistory,
    snapshot: Option<(Instant, Snapshot)>,
    queried: Option<(Instant, JoinHandle<()>)>,
}

impl<S: PageSource> StatusFeed<S> {
    pub(super) fn new(source: Arc<S>, events: EventLog, has_actions: bool) -> Self {
        Self {
            source,
            events,
            has_actions,
            latest: tokio::sync::Mutex::default(),
            attachments: Arc::default(),
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
        self.query_attachments(&mut latest, now);
        let attachments = &self.attachments;
        let since = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let surroundings = Surroundings {
            attachments: attachments
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            events: self.events.latest_first(),
            at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            has_actions: self.has_actions,
        };
        let status = latest
            .history
            .next(now, self.source.page_input(), surroundings);
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

    /// Starts a query, unless one is running or the last one is recent.
    fn query_attachments(&self, latest: &mut Latest, now: Instant) {
        if let Some((at, query)) = &latest.queried
            && (!query.is_finished() || now.saturating_duration_since(*at) < ATTACHMENTS_EVERY)
        {
            return;
        }
        let attachments = self.attachments.clone();
        let query = tokio::task::spawn_blocking(move || {
            let found = attach::status().unwrap_or_else(|error| {
                tracing::debug!("live page: attachments: {error}");
                Vec::new()
            });
            let lines = found.iter().map(line).collect();
            *attachments.lock().unwrap_or_else(PoisonError::into_inner) = lines;
        });
        latest.queried = Some((now, query));
    }
}

fn line(attachment: &AttachmentStatus) -> AttachmentLine {
    let mount = attachment.mount.as_ref();
    AttachmentLine {
        device: attachment.device.clone(),
        mounted_on: mount.map(|place| place.dir.clone()),
        size: attachment.size,
        via: attachment.via.to_string(),
        disk: attachment.source.clone(),
        read_only: attachment.read_only,
        state: attachment.health.to_string(),
    }
}
