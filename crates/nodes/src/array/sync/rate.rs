//! [`Rate`]: how fast work in the background may go, so that users hardly notice it. Pure.
//!
//! ```text
//! users sent requests in the last moment         the rate falls, quickly, down to the smallest, or to what a
//!                                                window is under way for in so small a part of the time that users
//!                                                do not see it
//! they did not                                   it rises, up to the largest
//! ```
//!
//! That is [`UserShare::Unnoticed`]: work that no user waits for. With [`UserShare::Turns`] the rate stays as it is, and a few short
//! windows take turns with the requests of users: one is read while another is written.
//!
//! # Invariants
//!
//! * The rate is never below the smallest that is allowed and never above the largest, so that work in
//!   the background always comes to its end.
//! * While it is not at the largest rate one window is under way at a time, and it is a small one at the smallest rate: what a user's
//!   request waits for is short. Between windows the time is left alone that they are paid with.
//! * With turns three short windows are under way at a time while users are there, without pauses: what a request of a user waits
//!   for is short.
//! * Where users have so much under way that one window at a time does not reach the smallest rate, there are more of
//!   them, but never more bytes than users have there themselves: a member that takes turns gives users half at least.
//!
//! # What it does not do
//!
//! It reads no clock and counts no requests: the worker passes both in.

use std::time::Duration;

use super::super::options::SyncRates;

/// How often it is looked whether users were there.
const MOMENT: Duration = Duration::from_millis(10);
/// How much of the rate is left after a moment with users.
const FALL: u64 = 4;
/// Shortest and longest window, bytes. A short one costs a slow card 10 ms, and there are four of them
/// in a second at the usual smallest rate: too few to be seen among the slowest hundredth of requests.
const WINDOW_MIN: u64 = 256 << 10;
const WINDOW_MAX: u64 = 1 << 20;
/// Windows in flight without users: each reads, then writes, and a fast disk wants eight
/// writes at any moment. Six of them copied at half the rate of such a disk, sixteen at its own. What a slow disk has
/// before it, though, is what the next user waits for: there are fewer where they take long. Three keep reader and
/// writer at work.
const WINDOWS_MIN: usize = 3;
const WINDOWS_MAX: usize = 16;
/// And with users, where these fill the members: short ones are 2 MiB together, as much as md has under way.
const BESIDE_MAX: u64 = 8;
/// And with turns, their length, bytes: with one alone the disk that is read stands still while the other one is written, and
/// a write of a longer one holds the lock of its file for longer.
const TURNS_WINDOWS: u64 = 3;
const TURNS_WINDOW: u64 = 128 << 10;
/// A window that takes longer than this, with those that are in flight, takes long.
const LONG: Duration = Duration::from_millis(20);
/// While users are there a window is under way in one of so many moments: less than one request in a hundred meets
/// one. On fast disks that is much more than the usual smallest rate, at which a large one takes weeks.
const SHARE: u64 = 128;
/// A window is what this time pays for, within its bounds.
const WINDOW_TIME: Duration = Duration::from_millis(20);

/// With turns, users are taken to be there for so long after a request of theirs.
const LINGER: Duration = Duration::from_millis(50);

/// How the time is shared with users that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UserShare {
    /// Users get all but so little that they do not notice.
    Unnoticed,
    /// Three short windows at a time, always.
    Turns,
}

/// How fast work in the background may go.
#[derive(Debug)]
pub(crate) struct Rate {
    bounds: SyncRates,
    share: UserShare,
    /// Bytes a second, now.
    rate: u64,
    /// Bytes a second of the last windows, while they were under way.
    speed: u64,
    /// Windows in flight without users.
    windows: usize,
    /// When everything that was taken is paid for.
    paid: Duration,
    /// When users were looked for the last time, and how many requests they had sent by then.
    looked: Duration,
    seen: u64,
    /// Bytes of users' requests under way.
    users_have: u64,
    /// With turns: until when users are taken to be there.
    users_until: Duration,
}

impl Rate {
    /// Begins at `now`, when users had sent so many `requests`.
    pub(crate) fn new(bounds: SyncRates, now: Duration, requests: u64) -> Self {
        let bounds = sane(bounds);
        Self {
            bounds,
            share: UserShare::Unnoticed,
            rate: bounds.max,
            speed: 0,
            windows: WINDOWS_MIN,
            paid: now,
            looked: now,
            seen: requests,
            users_have: 0,
            users_until: now,
        }
    }

    /// The same with another share for users.
    pub(crate) const fn with_share(self, share: UserShare) -> Self {
        Self { share, ..self }
    }

    /// Sets how many bytes of users' requests are under way.
    pub(crate) const fn users_have(&mut self, bytes: u64) {
        self.users_have = bytes;
    }

    /// Takes in how many requests users had sent by `now`.
    pub(crate) fn look(&mut self, now: Duration, requests: u64) {
        let moments = now.saturating_sub(self.looked).as_millis() / MOMENT.as_millis();
        if moments == 0 {
            return;
        }
        self.looked = now;
        // Where members are full requests come seldom, since users wait for those that they made.
        let busy = self.seen != requests || self.users_have >= 2 * self.window();
        self.seen = requests;
        if self.share == UserShare::Turns {
            if busy {
                self.users_until = now + LINGER;
            }
            return;
        }
        if busy {
            self.rate = (self.rate / FALL).max(self.floor());
            return;
        }
        for _ in 0..moments.min(64) {
            let more = self.rate.saturating_add(self.rate / 2 + 1);
            self.rate = more.min(self.bounds.max);
        }
    }

    /// A window of `bytes` took so long, from the moment that it was begun.
    pub(crate) fn took(&mut self, bytes: u64, time: Duration) {
        let nanos = time.as_nanos().max(1);
        let speed = u128::from(bytes) * 1_000_000_000 / nanos;
        let speed = u64::try_from(speed).unwrap_or(u64::MAX);
        // The last ones count most.
        self.speed = self.speed / 4 * 3 + speed / 4;
        let windows = if time > LONG {
            self.windows - 1
        } else {
            self.windows + 1
        };
        self.windows = windows.clamp(WINDOWS_MIN, WINDOWS_MAX);
    }

    /// The smallest rate: that of the options, or one that users do not notice.
    fn floor(&self) -> u64 {
        let unseen = self.speed / SHARE;
        unseen.clamp(self.bounds.min, self.bounds.max)
    }

    /// Bytes that the next window should have.
    pub(crate) fn window(&self) -> u64 {
        if self.takes_turns() {
            return TURNS_WINDOW;
        }
        let millis = u64::try_from(WINDOW_TIME.as_millis()).expect("a few");
        let len = self.rate / 1000 * millis;
        len.clamp(WINDOW_MIN, WINDOW_MAX) / WINDOW_MIN * WINDOW_MIN
    }

    /// Whether users were there lately.
    pub(crate) fn yields(&self) -> bool {
        self.rate < self.bounds.max || self.takes_turns()
    }

    /// Whether windows take turns with the requests of users now.
    fn takes_turns(&self) -> bool {
        self.users_until > self.looked
    }

    /// How many windows may be under way.
    pub(crate) fn windows(&self) -> usize {
        if !self.yields() {
            self.windows
        } else if self.rate > self.floor() && !self.takes_turns() {
            1
        } else {
            self.beside()
        }
    }

    /// How many windows may be in flight together with the requests of users.
    fn beside(&self) -> usize {
        let least = if self.takes_turns() { TURNS_WINDOWS } else { 1 };
        let windows = (self.users_have / self.window()).clamp(least, BESIDE_MAX);
        usize::try_from(windows).expect("a few")
    }

    /// How long to wait before another window begins.
    pub(crate) const fn wait(&self, now: Duration) -> Duration {
        self.paid.saturating_sub(now)
    }

    /// A window of `bytes` begins at `now`. What was not used before is lost: an idle time is not saved
    /// up for a burst.
    pub(crate) fn take(&mut self, now: Duration, bytes: u64) {
        self.paid = self.paid.max(now) + time_for(bytes, self.rate);
    }

    /// Bytes a second that it allows now.
    #[cfg(test)]
    pub(crate) const fn allowed(&self) -> u64 {
        self.rate
    }
}

/// Bounds that can be kept: at least a byte a second, and the smallest not above the largest.
fn sane(bounds: SyncRates) -> SyncRates {
    let max = bounds.max.max(1);
    SyncRates {
        min: bounds.min.clamp(1, max),
        max,
    }
}

/// How long `bytes` take at `rate` bytes a second.
fn time_for(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
