//! [`FlushTimes`]: what a flush adds to a write, and what limits a program that flushes each write. Pure.
//!
//! The doctor's writes are not flushed one by one, so a slow flush is not what limits them; a database or a mail server is
//! limited by it, and by nothing else.
//!
//! # Invariants
//!
//! * The time of a write alone, which the flush of buffered data waits for, is no part of the flush's: a far disk with
//!   a long round trip is not reported for its flush.
//! * The flush is named only where it takes most of the time ([`FlushTimes::is_slow`]).

use serde::{Deserialize, Serialize};

use super::{Bound, Examination, Sign, Stage};
use crate::units::{Nanos, Rate};

/// A flush that takes so many times the write before it is slow.
const SLOW_TIMES: f64 = 2.0;
/// And that takes this long.
const SLOW: Nanos = Nanos(1_000_000);
/// A device that flushed for this part of the time was limited by that.
const BUSY: f64 = 0.7;

/// One request that is written, and the flush after it: the middle of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushTimes {
    /// The write.
    pub write: Nanos,
    /// The flush.
    pub flush: Nanos,
}

/// The flushes of a device while it was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceFlushes {
    /// `loop0`
    pub device: String,
    /// Flushes a second.
    pub per_second: f64,
    /// For which part of the time it flushed.
    pub busy: f64,
}

impl FlushTimes {
    /// Of several measurements, each a write into the page cache and its flush; none where there are none. `alone` is
    /// what one write takes past the page cache, which a flush waits for.
    #[must_use]
    pub fn middle(all: &[(Nanos, Nanos)], alone: Nanos) -> Option<Self> {
        let write = Nanos::middle(all.iter().map(|(write, _)| *write).collect())?;
        let flush = Nanos::middle(all.iter().map(|(_, flush)| *flush).collect())?;
        let alone = alone.min(flush);
        Some(Self {
            write: Nanos(write.0.saturating_add(alone.0)),
            flush: Nanos(flush.0.saturating_sub(alone.0)),
        })
    }

    /// Whether a program that flushes each write waits for flushes for most of the time.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.flush >= SLOW && self.flush.0 as f64 >= self.write.0 as f64 * SLOW_TIMES
    }

    /// What limits a program that flushes each write, where that is the flush. `writes` is the examination of writes
    /// that are not flushed.
    #[must_use]
    pub fn examination(&self, writes: &Examination) -> Option<Examination> {
        let size = writes.job.block_size;
        let both = Nanos(self.write.0.saturating_add(self.flush.0));
        let rate = Rate::of(size, both).filter(|_| self.is_slow())?;
        let how = format!("{} for one flush", self.flush);
        let alone = Rate::of(size, self.flush).map(|rate| Bound::alone(Stage::Flush, rate, how));
        let text = format!(
            "A flush takes {}, and the write of {size} before it {}.",
            self.flush, self.write
        );
        let mut way = writes.way.clone();
        way.retain(|part| *part != Stage::Flush);
        way.push(Stage::Flush);
        let mut flushed = Examination {
            way,
            is_flushed: true,
            rate,
            best: rate,
            in_flight_part: 0.0,
            bounds: alone
                .into_iter()
                .chain(Bound::in_flight(size, self.write))
                .collect(),
            substitutions: Vec::new(),
            signs: vec![Sign {
                part: Stage::Flush,
                text,
            }],
            connect: None,
            wire: None,
            served: None,
            readahead: None,
            flush: Some(*self),
            unmeasured: Vec::new(),
            remarks: Vec::new(),
            ..writes.clone()
        };
        flushed.job.depth = 1;
        Some(flushed)
    }
}

impl DeviceFlushes {
    /// What the device did between two readings of its flushes and of the milliseconds that they took.
    #[must_use]
    pub fn between(
        device: String,
        before: (u64, u64),
        after: (u64, u64),
        elapsed: Nanos,
    ) -> Option<Self> {
        let seconds = elapsed.seconds();
        (seconds > 0.0).then(|| Self {
            device,
            per_second: after.0.saturating_sub(before.0) as f64 / seconds,
            busy: Nanos::from_ms(after.1.saturating_sub(before.1)).seconds() / seconds,
        })
    }

    /// What points at the flush, where the device flushed for most of the time and `one_alone`, a write by itself,
    /// waits for one, too: other programs' flushes are no part of that.
    #[must_use]
    pub fn sign(&self, one_alone: Nanos) -> Option<Sign> {
        let each = self.busy / self.per_second.max(f64::MIN_POSITIVE);
        let waits = one_alone.seconds() >= each * BUSY;
        (self.busy >= BUSY && waits).then(|| Sign {
            part: Stage::Flush,
            text: format!(
                "{} flushed for {:.0} % of the time, {:.0} times a second: writes waited for that.",
                self.device,
                (self.busy * 100.0).min(100.0),
                self.per_second
            ),
        })
    }
}
