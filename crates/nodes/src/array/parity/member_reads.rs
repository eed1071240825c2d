//! Reads of several members, and of members that are not there.
//!
//! A request is cut into spans, each is planned and read, and planned again without what could not be
//! read. Where that leaves too little, the span is halved until the blocks that are really lost are
//! known: two members with a bad sector each are no loss while these lie in different rows.
//!
//! # Invariants
//!
//! * A span of a complete array is the request; nothing is read that was not requested.
//! * Spans in which something is computed read [`SPAN_BYTES_MAX`] at most, [`SPANS_AT_ONCE`] of a
//!   request run at once, and all of an array hold [`BYTES_AT_ONCE_MAX`] at most.
//! * Nothing is ever written: what was repaired is counted and forgotten.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use block::{Errno, IoBufs, IoError, Operation, Range};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Parity;
use super::plan::{Bytes, Gone, Plan, footprint, plan, spans};
use super::rebuild::{Found, assemble};
use super::unreadable::Lost;

/// Bytes of all members in a span in which something is computed.
pub(super) const SPAN_BYTES_MAX: u64 = 8 << 20;
/// Spans of one request that are read at once.
const SPANS_AT_ONCE: usize = 4;
/// Bytes of members that all such spans hold at once.
pub(super) const BYTES_AT_ONCE_MAX: u32 = 64 << 20;
/// Reads of members for one span that are under way at once.
const READS_AT_ONCE: usize = 64;
/// Smallest part of a span that is looked at alone to find what is lost, bytes.
const FINEST: u64 = 4096;

/// Bytes that all spans in which something is computed may hold, as the room is counted.
pub(super) fn room() -> usize {
    usize::try_from(BYTES_AT_ONCE_MAX).unwrap_or(Semaphore::MAX_PERMITS)
}

/// Why a span was not read: what is lost, and the errors of members.
struct Refused {
    gone: Gone,
    failed: Vec<(Bytes, IoError)>,
}

impl Parity {
    /// Reads what does not lie on one member, or on one that cannot be read.
    pub(super) async fn read_spans(&self, range: Range) -> Result<IoBufs, IoError> {
        let footprint = footprint(&self.layout, range);
        let is_complete = !self.members.any_in_doubt() && !self.lost.touches_any(footprint);
        let found = if is_complete {
            self.read_span(range, footprint).await?
        } else {
            let spans = spans(&self.layout, footprint, self.span_len());
            let reads = stream::iter(spans).map(|span| self.read_span(range, span));
            let reads = reads.buffered(SPANS_AT_ONCE);
            let mut found: Vec<Found> = reads.try_concat().await?;
            // Columns of a row are not in order of the request.
            found.sort_unstable_by_key(|(at, _)| *at);
            found
        };
        let data: IoBufs = found.into_iter().flat_map(|(_, data)| data).collect();
        Ok(data)
    }

    /// Bytes of each member in a span.
    fn span_len(&self) -> u64 {
        let each = SPAN_BYTES_MAX / self.layout.parts as u64;
        let unit = self.unit();
        (each / unit).max(1) * unit
    }

    /// The smallest bytes that are read alone: whole blocks.
    fn unit(&self) -> u64 {
        FINEST.max(self.geometry.block_size.into())
    }

    /// Reads a span; what members fail to read is narrowed down.
    async fn read_span(&self, request: Range, span: Range) -> Result<Vec<Found>, IoError> {
        let mut open = vec![span];
        let mut found = Vec::new();
        while let Some(span) = open.pop() {
            match self.try_span(request, span).await {
                Ok(more) => found.extend(more),
                Err(refused) => {
                    let half = (span.len / 2).next_multiple_of(self.unit());
                    if refused.failed.is_empty() || half >= span.len {
                        return Err(self.refusal(request, &refused));
                    }
                    open.push(Range::new(span.offset + half, span.len - half));
                    open.push(Range::new(span.offset, half));
                }
            }
        }
        found.sort_unstable_by_key(|(at, _)| *at);
        Ok(found)
    }

    /// Reads a span, again without what fails as long as that is enough.
    async fn try_span(&self, request: Range, span: Range) -> Result<Vec<Found>, Refused> {
        let mut doubted = self.members.in_doubt();
        let mut failed: Vec<(Bytes, IoError)> = Vec::new();
        let mut permit = None;
        loop {
            let lost = self.lost_with(span, &doubted, &failed);
            let plan = match plan(&self.layout, &lost, request, span) {
                Ok(plan) => plan,
                // Better a member that failed before than none.
                Err(_) if !doubted.is_empty() => {
                    doubted.clear();
                    continue;
                }
                Err(gone) => return Err(Refused { gone, failed }),
            };
            if !plan.rebuilds.is_empty() && permit.is_none() {
                permit = Some(self.permit(span).await);
            }
            let answers = self.ask_all(&plan).await;
            let before = failed.len();
            let answers = answers.into_iter().zip(&plan.reads);
            let answers = answers.filter_map(|(answer, asked)| match answer {
                Ok(data) => Some(data),
                Err(error) => {
                    failed.push((*asked, error));
                    None
                }
            });
            let answers: Vec<IoBufs> = answers.collect();
            if failed.len() == before {
                let mut reckoned = 0;
                let found = assemble(&plan, &answers, &mut reckoned);
                self.count(reckoned, &failed);
                return Ok(found);
            }
        }
    }

    /// What is lost of `span`, with members that are in doubt and what failed just now.
    fn lost_with(
        &self,
        span: Range,
        doubted: &[usize],
        failed: &[(Bytes, IoError)],
    ) -> Cow<'_, Lost> {
        if doubted.is_empty() && failed.is_empty() {
            return Cow::Borrowed(&self.lost);
        }
        let mut lost = self.lost.cut(span);
        for part in doubted {
            lost.add(*part, span);
        }
        for (bytes, _) in failed {
            lost.add(bytes.part, bytes.range);
        }
        Cow::Owned(lost)
    }

    /// Room for what is read of a span.
    async fn permit(&self, span: Range) -> SemaphorePermit<'_> {
        let bytes = span.len.saturating_mul(self.layout.parts as u64);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let permit = self.room.acquire_many(bytes.min(BYTES_AT_ONCE_MAX));
        permit.await.expect("the room is never closed")
    }

    async fn ask_all(&self, plan: &Plan) -> Vec<Result<IoBufs, IoError>> {
        let reads = plan.reads.clone().into_iter();
        let reads = reads.map(|bytes| self.members.ask(bytes));
        stream::iter(reads).buffered(READS_AT_ONCE).collect().await
    }

    fn count(&self, reckoned: u64, failed: &[(Bytes, IoError)]) {
        if reckoned > 0 {
            self.rebuilt.fetch_add(reckoned, Ordering::Relaxed);
        }
        for (bytes, _) in failed {
            self.members.corrected(bytes.part);
        }
    }

    /// Reports why bytes cannot be had, with all members that lack them.
    fn refusal(&self, request: Range, refused: &Refused) -> IoError {
        let Refused { gone, failed } = refused;
        let of_part = |part: &usize| {
            let said = failed.iter().rev().find(|(bytes, _)| bytes.part == *part);
            let why = match said {
                Some((_, error)) => format!(" ({error})"),
                None => self.why_lost(*part, gone.columns),
            };
            format!("part {part} {}{why}", self.members.name(*part))
        };
        let parts: Vec<String> = gone.parts.iter().map(of_part).collect();
        let head = if gone.unsynced {
            "parity cannot be trusted here, since the array was not stopped cleanly, and these \
             cannot be read"
        } else {
            "too many members cannot be read here"
        };
        let why = format!(
            "{head}: {}; {} can do without {}",
            parts.join(", "),
            self.facts.level,
            self.layout.parities()
        );
        let start = gone.range.offset.max(request.offset);
        let end = gone.range.end().min(request.end());
        let range = Range::new(start, end - start);
        IoError::new(Errno::Io, Operation::Read, Some(range)).because(why)
    }

    /// Why a part cannot be read at `columns`, if it has a member.
    fn why_lost(&self, part: usize, columns: Range) -> String {
        match self.members.held()[part].as_ref() {
            None => String::new(),
            Some(held) => match held.rebuilt_to {
                Some(to) if columns.offset >= to => format!(" (rebuilt only up to byte {to})"),
                _ => " (a bad block)".to_owned(),
            },
        }
    }
}
