//! [`MemberGuard`]: a member on another machine is a member by its superblock, for as long as it is used.
//!
//! A server may come back with another disk, an old copy or an empty one, and another host may take a member over while
//! this one is paused. Neither NBD nor md has anything against that, so the array reads the superblock again:
//!
//! ```text
//! a change           ─► seen to be ours over this connection, less than VALID_FOR ago? ── yes ─► sent
//!                                          │ no: read the superblock, compare
//!                                          ├─ as this array wrote it            ─► sent
//!                                          ├─ blank, another one's, an old copy ─► the member has failed
//!                                          └─ written by another host           ─► the array stops (`fence`)
//! a superblock       ─► read and compared each time, before it is overwritten
//! ```
//!
//! `superblock_check` compares (pure); `fence` ends the array. Nothing here knows a level.
//!
//! # Invariants
//!
//! * Nothing is sent to a remote member later than [`VALID_FOR`] after its superblock was read and was what this array wrote
//!   last, and nothing over connections over which it was not read.
//! * A superblock is overwritten only right after it was read and found to be ours.
//! * An answer that came over other connections than those that its request was sent on counts only once the superblock was
//!   found to be ours there.
//! * While a member is used all the time no request waits for this: the superblock is read again, concurrently, when half
//!   of [`VALID_FOR`] is over.
//!
//! # What it does not do
//!
//! It is no fence: what another host writes within [`VALID_FOR`] of the last look is not seen, unless the server refuses one of
//! the two ([`block::Fenced`]). It does not read data.

mod fence;
mod superblock_check;
#[cfg(test)]
pub(in crate::array) mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::{Errno, IoError, Node, Operation, Range};
use bytes::Bytes;
use engine::clock;
use smallvec::SmallVec;

pub(in crate::array) use self::fence::ArrayFence;
pub use self::fence::Takeover;
use self::superblock_check::{SuperblockCheck, check};
use super::format::{PLACE_LEN, Version};
use crate::read_within;

/// How long a remote member may be written after its superblock was last seen to be ours.
pub const VALID_FOR: Duration = Duration::from_secs(5);

/// Looks before something is sent, at most.
const LOOKS_MAX: usize = 4;

/// The superblock of a member is not what this array wrote: the disk is another one now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in crate::array) struct NotOurs(String);

/// Whether `error` says that the disk is no member any more.
pub(in crate::array) fn is_not_ours(error: &IoError) -> bool {
    let source = error.source.as_deref();
    source.is_some_and(|source| source.is::<NotOurs>())
}

/// What this array wrote to the superblock of a member, and when it was last seen there.
#[derive(Debug)]
pub(in crate::array) struct MemberGuard {
    name: String,
    disk: Node,
    version: Version,
    at: u64,
    fence: Arc<ArrayFence>,
    known: Mutex<Known>,
    /// One reads or writes the superblock at a time.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Known {
    /// What the superblock may be: as it was written last, or as well what was sent and not acknowledged. None: nothing of
    /// ours was written yet.
    images: SmallVec<[Bytes; 2]>,
    /// When the read began that found one of them; `None`: the last one found something else.
    seen: Option<Instant>,
    /// Over which connections.
    epoch: u64,
    /// It is being read concurrently with requests.
    refreshing: bool,
}

/// How much the last look is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freshness {
    Fresh,
    /// It is time to read it again, concurrently with requests.
    Aging,
    /// Nothing may be sent before it was looked again.
    Over,
}

impl MemberGuard {
    /// That of a member with its superblock at byte `at` of `disk`, which was just read, or is about to be written for the first
    /// time (`image` is `None`).
    pub(in crate::array) fn new(
        name: &str,
        disk: &Node,
        (version, at): (Version, u64),
        image: Option<&[u8]>,
        fence: Arc<ArrayFence>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            disk: disk.clone(),
            version,
            at,
            fence,
            known: Mutex::new(Known {
                images: image.map(Bytes::copy_from_slice).into_iter().collect(),
                seen: Some(clock::now()),
                epoch: disk.connection_epoch(),
                refreshing: false,
            }),
            turn: tokio::sync::Mutex::default(),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections that requests go over now.
    pub(in crate::array) fn epoch(&self) -> u64 {
        self.disk.connection_epoch()
    }

    fn freshness(&self) -> Freshness {
        let epoch = self.epoch();
        let known = self.known();
        if known.images.is_empty() || is_off() {
            return Freshness::Fresh;
        }
        let age = |seen| clock::now().saturating_duration_since(seen);
        let Some(age) = known.seen.map(age).filter(|age| *age < VALID_FOR) else {
            return Freshness::Over;
        };
        if known.epoch != epoch {
            return Freshness::Over;
        }
        match age >= VALID_FOR / 2 && !known.refreshing {
            true => Freshness::Aging,
            false => Freshness::Fresh,
        }
    }

    /// Whether a change may be sent without looking.
    pub(in crate::array) fn may_try_change(&self) -> bool {
        self.freshness() != Freshness::Over
    }

    /// Whether a read may be sent without looking.
    pub(in crate::array) fn may_try_read(&self) -> bool {
        let known = self.known();
        let is_unwritten = known.images.is_empty();
        is_unwritten || is_off() || known.seen.is_some() && known.epoch == self.epoch()
    }

    /// Resolves once a change may be sent. Reads of the superblock have this timeout each.
    ///
    /// # Errors
    /// The disk is not ours any more, or cannot be read.
    pub(in crate::array) async fn admit_change(
        self: &Arc<Self>,
        timeout: Duration,
    ) -> Result<(), IoError> {
        self.fence.check(Operation::Write, None)?;
        match self.freshness() {
            Freshness::Fresh => return Ok(()),
            Freshness::Aging => {
                self.refresh(timeout);
                return Ok(());
            }
            Freshness::Over => {}
        }
        let _one = self.turn.lock().await;
        self.look_until_fresh(timeout).await
    }

    /// Resolves once a read may be sent, or an answer of these connections be believed.
    ///
    /// # Errors
    /// The disk is not ours any more, or cannot be read.
    pub(in crate::array) async fn admit_read(&self, timeout: Duration) -> Result<(), IoError> {
        if self.may_try_read() {
            return Ok(());
        }
        let _one = self.turn.lock().await;
        if self.may_try_read() {
            return Ok(());
        }
        self.look(timeout).await
    }

    /// Reads the superblock and compares it, however fresh the last look is.
    ///
    /// # Errors
    /// The disk is not ours any more, or cannot be read.
    pub(in crate::array) async fn verify(&self, timeout: Duration) -> Result<(), IoError> {
        let _one = self.turn.lock().await;
        self.look(timeout).await
    }

    /// Carries out `write`, which writes `image` as the superblock.
    ///
    /// # Errors
    /// The disk is not ours any more, or those of `write`: the superblock is the one before then, or this one.
    pub(in crate::array) async fn write(
        &self,
        image: Bytes,
        timeout: Duration,
        write: impl Future<Output = Result<(), IoError>>,
    ) -> Result<(), IoError> {
        let _one = self.turn.lock().await;
        // The host may have been paused since the commit looked.
        self.look_until_fresh(timeout).await?;
        let epoch = self.epoch();
        {
            let mut known = self.known();
            if known.images.is_empty() {
                known.seen = Some(clock::now());
                known.epoch = epoch;
            }
            known.images.push(image.clone());
        }
        write.await?;
        let mut known = self.known();
        known.images.clear();
        known.images.push(image);
        Ok(())
    }

    /// Reads it again concurrently with requests.
    fn refresh(self: &Arc<Self>, timeout: Duration) {
        self.known().refreshing = true;
        let guard = self.clone();
        drop(engine::spawn(async move {
            // The next request reads it itself, and gets the error.
            drop(guard.verify(timeout).await);
            guard.known().refreshing = false;
        }));
    }

    /// Reads until it is fresh: the answer to the first read may have come to a host that was paused meanwhile. By the holder of
    /// the turn.
    async fn look_until_fresh(&self, timeout: Duration) -> Result<(), IoError> {
        for _ in 0..LOOKS_MAX {
            if self.may_try_change() {
                return Ok(());
            }
            self.look(timeout).await?;
        }
        if self.may_try_change() {
            return Ok(());
        }
        let place = Range::new(self.at, PLACE_LEN);
        let why = format!("each read of its superblock took more than {VALID_FOR:?}");
        Err(IoError::new(Errno::Io, Operation::Read, Some(place)).because(why))
    }

    /// Reads the superblock and compares it. By the holder of the turn.
    async fn look(&self, timeout: Duration) -> Result<(), IoError> {
        self.fence.check(Operation::Read, None)?;
        let images = self.known().images.clone();
        if images.is_empty() || is_off() {
            return Ok(());
        }
        let (epoch, begun) = (self.epoch(), clock::now());
        let place = Range::new(self.at, PLACE_LEN);
        let found = read_in_time(&self.disk, place, timeout).await;
        let found = found.map_err(|error| self.fence.notice(&self.name, error))?;
        match check(self.version, self.at, &images, &found) {
            SuperblockCheck::Ours => {
                let mut known = self.known();
                (known.epoch, known.seen) = (epoch, Some(begun));
                Ok(())
            }
            SuperblockCheck::NotOurs(why) => {
                self.known().seen = None;
                let failed = IoError::new(Errno::Io, Operation::Read, Some(place));
                Err(failed.because(NotOurs(why)))
            }
            SuperblockCheck::TakenOver(by) => {
                self.fence.close(by.takeover(&self.name));
                self.fence.check(Operation::Read, Some(place))
            }
        }
    }

    /// Whether a member that the array went on without is as it was when it left: the superblock that was `found` on it.
    ///
    /// # Errors
    /// It is not: why. Where another host wrote it since, the array ends.
    pub(in crate::array) fn check_returned(&self, found: &[u8]) -> Result<(), String> {
        let images = self.known().images.clone();
        if images.is_empty() || is_off() {
            return Ok(());
        }
        match check(self.version, self.at, &images, found) {
            SuperblockCheck::Ours => Ok(()),
            SuperblockCheck::NotOurs(why) => Err(why),
            SuperblockCheck::TakenOver(by) => {
                let takeover = by.takeover(&self.name);
                self.fence.close(takeover.clone());
                Err(takeover.to_string())
            }
        }
    }
}

async fn read_in_time(disk: &Node, place: Range, timeout: Duration) -> Result<Vec<u8>, IoError> {
    let read = read_within(disk, place);
    if timeout == Duration::MAX {
        return read.await;
    }
    let failed = |elapsed| IoError::new(Errno::Io, Operation::Read, Some(place)).because(elapsed);
    clock::timeout(timeout, read).await.map_err(failed)?
}

/// Whether a test turned the looks off, to see that its worlds notice.
#[cfg(test)]
fn is_off() -> bool {
    tests::OFF.get()
}

#[cfg(not(test))]
const fn is_off() -> bool {
    false
}
