//! The members of an array that is only read: asking them, and which of them are in doubt.
//!
//! Nothing is written, so that no member is failed for good: one that does not answer in time, or that
//! fails again and again, is *in doubt*. Others are read in its place while they have its bytes, it is
//! read where they do not, and once in a while to see whether it is back.
//!
//! # Invariants
//!
//! * While no member is in doubt, a read takes no clock and no lock, but for an answer that is not
//!   there at once: that has a deadline.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use block::{Errno, IoBufs, IoError, Node, Operation, Range};
use tokio::sync::broadcast;

use super::super::ArrayEvent;
use super::super::member::Member;
use super::plan::Bytes;

/// Read errors in a row after which a member is in doubt.
const ERRORS_MAX: u32 = 16;
/// A member in doubt is tried again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Events that are kept for listeners that are slow to take them.
const EVENTS_MAX: usize = 64;

/// The members by their parts.
#[derive(Debug)]
pub(super) struct Members {
    held: Vec<Option<Held>>,
    timeout: Duration,
    in_doubt: AtomicUsize,
    events: broadcast::Sender<ArrayEvent>,
}

/// A member, and how it fared since the array was opened.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) member: Member,
    /// Up to where it holds its part; `None`: all of it.
    pub(super) rebuilt_to: Option<u64>,
    /// Failed reads of bytes that others had.
    corrected: AtomicU64,
    /// Reads that failed since the last that did not.
    in_a_row: AtomicU32,
    doubt: Mutex<Option<Doubt>>,
}

#[derive(Debug, Clone)]
struct Doubt {
    why: String,
    /// When it was tried the last time.
    tried: Instant,
}

impl Held {
    pub(super) fn new(member: Member, rebuilt_to: Option<u64>) -> Self {
        Self {
            member,
            rebuilt_to,
            corrected: AtomicU64::new(0),
            in_a_row: AtomicU32::new(0),
            doubt: Mutex::new(None),
        }
    }

    fn doubt(&self) -> MutexGuard<'_, Option<Doubt>> {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why it is in doubt, if it is.
    pub(super) fn why(&self) -> Option<String> {
        self.doubt().as_ref().map(|doubt| doubt.why.clone())
    }

    /// Failed reads of bytes that others had.
    pub(super) fn corrected(&self) -> u64 {
        self.corrected.load(Ordering::Relaxed)
    }
}

impl Members {
    pub(super) fn new(held: Vec<Option<Held>>, timeout: Duration) -> Self {
        Self {
            held,
            timeout,
            in_doubt: AtomicUsize::new(0),
            events: broadcast::Sender::new(EVENTS_MAX),
        }
    }

    pub(super) fn events(&self) -> broadcast::Receiver<ArrayEvent> {
        self.events.subscribe()
    }

    /// All of them, by their parts.
    pub(super) fn held(&self) -> &[Option<Held>] {
        &self.held
    }

    /// What a part is called in messages.
    pub(super) fn name(&self, part: usize) -> &str {
        let held = self.held[part].as_ref();
        held.map_or("missing", |held| &held.member.name)
    }

    /// The disk with `bytes`, and where.
    pub(super) fn place(&self, bytes: Bytes) -> Option<(&Node, Range)> {
        let held = self.held[bytes.part].as_ref()?;
        Some((&held.member.disk, held.member.place(bytes.range)))
    }

    /// Whether any member is in doubt.
    #[inline]
    pub(super) fn any_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed) != 0
    }

    /// The parts that are in doubt, but for those that are to be tried again now.
    pub(super) fn in_doubt(&self) -> Vec<usize> {
        if !self.any_in_doubt() {
            return Vec::new();
        }
        let now = engine::clock::now();
        let held = self.held.iter().enumerate();
        let doubted = held.filter(|(_, held)| {
            let Some(held) = held else { return false };
            match &mut *held.doubt() {
                Some(doubt) if now - doubt.tried >= AGAIN_AFTER => {
                    doubt.tried = now;
                    false
                }
                doubt => doubt.is_some(),
            }
        });
        doubted.map(|(part, _)| part).collect()
    }

    /// Reads from a member, which must answer in time.
    pub(super) async fn ask(&self, bytes: Bytes) -> Result<IoBufs, IoError> {
        let held = self.held[bytes.part].as_ref();
        let held = held.expect("a part without a member is lost, and not asked");
        let range = held.member.place(bytes.range);
        let mut reading = held.member.disk.read(range);
        let at_once = std::future::poll_fn(|context| match reading.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => Poll::Ready(None),
        });
        let answer = match at_once.await {
            Some(answer) => answer,
            None => match engine::clock::timeout(self.timeout, reading).await {
                Ok(answer) => answer,
                Err(_) => {
                    let seconds = self.timeout.as_secs_f64();
                    let why = format!("it did not answer within {seconds} s");
                    self.begin_doubt(held, &why);
                    let late = IoError::new(Errno::Io, Operation::Read, Some(range));
                    return Err(late.because(why));
                }
            },
        };
        match &answer {
            Ok(_) => self.succeeded(held),
            Err(error) => self.failed(held, error),
        }
        answer
    }

    /// Counts a failed read of a part; others had the bytes.
    pub(super) fn corrected(&self, part: usize) {
        if let Some(held) = &self.held[part] {
            held.corrected.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn succeeded(&self, held: &Held) {
        if held.in_a_row.load(Ordering::Relaxed) != 0 {
            held.in_a_row.store(0, Ordering::Relaxed);
        }
        if self.any_in_doubt() && held.doubt().take().is_some() {
            self.in_doubt.fetch_sub(1, Ordering::Relaxed);
            let member = held.member.name.clone();
            tracing::info!("{member} answers again");
            // There may be no listener.
            drop(self.events.send(ArrayEvent::MemberBack { member }));
        }
    }

    fn failed(&self, held: &Held, error: &IoError) {
        if held.in_a_row.fetch_add(1, Ordering::Relaxed) + 1 >= ERRORS_MAX {
            self.begin_doubt(held, &error.to_string());
        }
    }

    fn begin_doubt(&self, held: &Held, why: &str) {
        let doubt = Doubt {
            why: why.to_owned(),
            tried: engine::clock::now(),
        };
        if held.doubt().replace(doubt).is_some() {
            return;
        }
        self.in_doubt.fetch_add(1, Ordering::Relaxed);
        let (member, why) = (held.member.name.clone(), why.to_owned());
        tracing::warn!("{member} is read no more while others have its bytes: {why}");
        drop(self.events.send(ArrayEvent::Fail { member, why }));
    }
}
