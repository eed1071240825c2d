//! [`StoreUse`]: the object store behind a volume, and how long requests waited for it. Pure.
//!
//! # Invariants
//!
//! * A store is the limit of reads only while enough of the target's requests wait for it: a cache in front of it may answer nearly all
//!   of them.
//!
//! # What it does not do
//!
//! The data of a GET that comes behind the beginning of the answer is in no time: a store with little throughput is not named.

use serde::{Deserialize, Serialize};

use super::{AnsweredRequests, DoctorJob, ServedUse};
use crate::plan::Direction;
use crate::units::{Nanos, significant};

/// A store that has so many requests in flight on average has something to do most of the time.
const IN_FLIGHT_MIN: f64 = 0.5;
/// Where this part of the target's requests waits for the store, it is the limit.
const WAITED_FOR: f64 = 0.5;

/// What a volume has requested of its store since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreReading {
    /// The URI of the volume.
    pub volume: String,
    /// Its GETs.
    pub get: AnsweredRequests,
    /// Its PUTs.
    pub put: AnsweredRequests,
    /// The reads that reached a cache file in front of it, where there is one.
    pub cache: Option<CacheReads>,
}

/// Reads of a cache file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheReads {
    /// Those that the file answered by itself.
    pub hits: u64,
    /// Those that the disk behind it was read for.
    pub misses: u64,
}

/// Requests of one kind meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreRequests {
    /// How many were answered.
    pub requests: u64,
    /// How many were in flight on average.
    pub in_flight: f64,
    /// How long one took.
    pub latency: Option<Nanos>,
}

/// What a store did while the target was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreUse {
    /// The URI of the volume.
    pub volume: String,
    /// Its GETs.
    pub get: StoreRequests,
    /// Its PUTs.
    pub put: StoreRequests,
    /// The part of the reads that a cache file in front of it answered.
    pub cached: Option<f64>,
}

impl CacheReads {
    /// The part that the file answered since `before`.
    fn hit_ratio(self, before: Option<Self>) -> Option<f64> {
        let before = before.unwrap_or(Self { hits: 0, misses: 0 });
        let hits = self.hits.saturating_sub(before.hits);
        let all = hits.saturating_add(self.misses.saturating_sub(before.misses));
        (all > 0).then(|| hits as f64 / all as f64)
    }
}

impl StoreRequests {
    fn since(before: AnsweredRequests, now: AnsweredRequests, elapsed: f64) -> Self {
        let requests = now.requests.saturating_sub(before.requests);
        let time = now.time.0.saturating_sub(before.time.0);
        Self {
            requests,
            in_flight: time as f64 / elapsed,
            latency: time.checked_div(requests).map(Nanos),
        }
    }

    fn text(&self, kind: &str) -> Option<String> {
        let latency = self.latency?;
        let count = self.requests;
        Some(format!("{count} {kind}s of {latency} each"))
    }
}

impl StoreUse {
    /// What each volume did from `before` to `now`, where both have it.
    #[must_use]
    pub fn between(before: &[StoreReading], now: &[StoreReading], elapsed: Nanos) -> Vec<Self> {
        let nanos = elapsed.0.max(1) as f64;
        let used = now.iter().filter_map(|now| {
            let before = before.iter().find(|before| before.volume == now.volume)?;
            Some(Self {
                volume: now.volume.clone(),
                get: StoreRequests::since(before.get, now.get, nanos),
                put: StoreRequests::since(before.put, now.put, nanos),
                cached: now.cache.and_then(|now| now.hit_ratio(before.cache)),
            })
        });
        used.collect()
    }

    const fn of(&self, direction: Direction) -> (&'static str, &StoreRequests) {
        match direction {
            Direction::Read => ("GET", &self.get),
            Direction::Write => ("PUT", &self.put),
        }
    }

    /// The time of a request, and the requests, for a table.
    pub(super) fn row(&self, direction: Direction) -> (String, String) {
        let (kind, requests) = self.of(direction);
        let time = requests.latency;
        let time = time.map_or_else(|| "-".to_owned(), |time| format!("{time} a {kind}"));
        let texts = [self.get.text("GET"), self.put.text("PUT")];
        let mut texts: Vec<String> = texts.into_iter().flatten().collect();
        if texts.is_empty() {
            texts.push("no request".to_owned());
        }
        let percent = self.cached.map(|part| (part * 100.0).floor());
        texts.extend(percent.map(|part| format!("a cache file answered {part:.0} % of the reads")));
        (time, format!("{}: {}", self.volume, texts.join(", ")))
    }

    /// What speaks for it as the limit.
    pub(super) fn evidence(&self, job: &DoctorJob) -> String {
        let (kind, requests) = self.of(job.direction);
        let latency = requests.latency.unwrap_or_default();
        let in_flight = significant(requests.in_flight);
        let cached = self.cached.map(|part| (part * 100.0).floor());
        let cached = cached.map_or_else(String::new, |part| {
            format!(" A cache file in front of it answered {part:.0} % of the reads.")
        });
        format!(
            "The store of {} answered {} {kind}s in {latency} each, of which {in_flight} were in flight on average, while the \
             target had {} requests at once.{cached}",
            self.volume, requests.requests, job.depth
        )
    }

    /// As the object of a sentence.
    pub(super) fn noun(&self, direction: Direction) -> String {
        let (kind, requests) = self.of(direction);
        let latency = requests.latency.unwrap_or_default();
        format!(
            "the store of {}, where a {kind} takes {latency}",
            self.volume
        )
    }

    /// What to do about it.
    pub(super) fn advice(&self, direction: Direction) -> String {
        let first = match (direction, self.cached) {
            (Direction::Write, _) => {
                "Flush less often (several writes for each flush, or group commit: a flush waits for the store), and request more at once"
            }
            (Direction::Read, None) => {
                "Put a cache in front of the volume for what is read again (`cache(URI, FILE, size=SIZE)` at the server, `attach \
                 --cache FILE` at the client), request more at once"
            }
            (Direction::Read, Some(_)) => {
                "Give the cache file a larger size, if what is read does not fit into it (what was read now is in it), request more \
                 at once"
            }
        };
        format!("{first}, or serve the volume from a machine in the region of its bucket.")
    }
}

impl ServedUse {
    /// The store that requests waited for most of the time.
    pub(super) fn busy_store(&self, direction: Direction) -> Option<&StoreUse> {
        let in_flight = |store: &StoreUse| store.of(direction).1.in_flight;
        let busiest = self.stores.iter();
        let busiest = busiest.max_by(|a, b| in_flight(a).total_cmp(&in_flight(b)));
        busiest.filter(|store| in_flight(store) >= IN_FLIGHT_MIN)
    }

    /// The store that most of the target's reads waited for. Writes are acknowledged before.
    pub(super) fn awaited_store(&self, job: &DoctorJob) -> Option<&StoreUse> {
        let store = self.busy_store(job.direction)?;
        let is_awaited = store.get.in_flight >= f64::from(job.depth) * WAITED_FOR;
        (job.direction == Direction::Read && is_awaited).then_some(store)
    }
}
