//! [`Progress`]: how far work in the background is, how fast it was lately, and how long it will take.
//! Pure.

use std::collections::VecDeque;
use std::time::Duration;

/// How far apart samples are, and how many are kept: the speed is that of the last ten seconds or so.
const EVERY: Duration = Duration::from_millis(500);
const SAMPLES_MAX: usize = 20;

/// How far work in the background is.
#[derive(Debug, Clone)]
pub(in crate::array) struct Progress {
    of: u64,
    done: u64,
    /// When, and how much was worked through by then; the first is the oldest.
    samples: VecDeque<(Duration, u64)>,
    /// What was looked at, wherever: places that are passed over do not count for the speed.
    worked: u64,
}

impl Progress {
    /// Begins at `now` with `done` of `of` bytes behind it.
    pub(in crate::array) fn new(now: Duration, done: u64, of: u64) -> Self {
        Self {
            of,
            done: done.min(of),
            samples: VecDeque::from([(now, 0)]),
            worked: 0,
        }
    }

    /// `worked` more bytes were copied or compared by `now`, and all below `done` is behind it.
    pub(in crate::array) fn advance(&mut self, now: Duration, worked: u64, done: u64) {
        self.worked += worked;
        self.done = done.min(self.of);
        let last = self.samples.back().expect("there is always one").0;
        if now.saturating_sub(last) < EVERY {
            return;
        }
        self.samples.push_back((now, self.worked));
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
    }

    /// Bytes that are behind it.
    pub(in crate::array) const fn done(&self) -> u64 {
        self.done
    }

    /// Of how many.
    pub(in crate::array) const fn of(&self) -> u64 {
        self.of
    }

    /// Bytes a second, over the last samples, at `now`.
    pub(in crate::array) fn speed(&self, now: Duration) -> u64 {
        let (since, worked) = *self.samples.front().expect("there is always one");
        let nanos = now.saturating_sub(since).as_nanos();
        let bytes = u128::from(self.worked - worked) * 1_000_000_000;
        let speed = bytes.checked_div(nanos).unwrap_or(0);
        u64::try_from(speed).unwrap_or(u64::MAX)
    }

    /// How long the rest takes at that speed; `None` while nothing moves.
    pub(in crate::array) fn left(&self, now: Duration) -> Option<Duration> {
        let rest = self.of - self.done;
        let seconds = rest.checked_div(self.speed(now))?;
        Some(Duration::from_secs(seconds))
    }
}
