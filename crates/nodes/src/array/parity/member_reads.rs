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
//! * Nothing is ever written: [`SpanSource::finish`] gets what could not be read.

use std::borrow::Cow;

use block::{Errno, IoBufs, IoError, Operation, Range};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::super::format::Level;
use super::layout::Layout;
use super::plan::{Bytes, Gone, Plan, footprint, plan, spans};
use super::rebuild::{Found, assemble};
use super::unreadable::Lost;

/// Bytes of all members in a span in which something is computed.
pub(super) const SPAN_BYTES_MAX: u64 = 8 << 20;
/// Spans of one request that are read at once.
const SPANS_AT_ONCE: usize = 4;
/// Bytes of members that all such spans hold at once.
pub(in crate::array) const BYTES_AT_ONCE_MAX: u32 = 64 << 20;
/// Reads of members for one span that are under way at once.
const READS_AT_ONCE: usize = 64;
/// Smallest part of a span that is looked at alone to find what is lost, bytes.
const FINEST: u64 = 4096;

/// Bytes that all spans in which something is computed may hold, as the room is counted.
pub(in crate::array) fn room() -> usize {
    usize::try_from(BYTES_AT_ONCE_MAX).unwrap_or(Semaphore::MAX_PERMITS)
}

/// A member could not be read there, and why.
pub(in crate::array) type FailedRead = (Bytes, IoError);

/// The members that spans are read of.
pub(in crate::array) trait SpanSource: Sync {
    fn layout(&self) -> &Layout;
    fn level(&self) -> Level;
    fn block_size(&self) -> u32;
    /// Bytes of members that may be read at once to compute from.
    fn room(&self) -> &Semaphore;
    /// What cannot be read from the beginning.
    fn lost(&self) -> &Lost;
    /// Parts that are read only where others do not have their bytes.
    fn doubted(&self) -> Vec<usize>;
    /// Reads of a member.
    fn ask(&self, bytes: Bytes) -> impl Future<Output = Result<IoBufs, IoError>> + Send;
    /// What a part is called in messages.
    fn name(&self, part: usize) -> &str;
    /// Why a part cannot be read at `columns`, if it has a member.
    fn why_lost(&self, part: usize, columns: Range) -> String;
    /// A span was read, `computed` bytes of it computed; others had what `failed`.
    fn finish(&self, computed: u64, failed: Vec<FailedRead>);
}

/// Why a span was not read: what is lost, and the errors of members.
struct Refused {
    gone: Gone,
    failed: Vec<FailedRead>,
}

/// Reads of members, span by span.
#[derive(Debug, Clone, Copy)]
pub(in crate::array) struct SpanReader<'a, S>(pub(in crate::array) &'a S);

impl<S: SpanSource> SpanReader<'_, S> {
    /// Reads what does not lie on one member, or on one that cannot be read. `is_complete`: nothing of it is lost.
    pub(in crate::array) async fn read(
        &self,
        range: Range,
        is_complete: bool,
    ) -> Result<IoBufs, IoError> {
        let layout = self.0.layout();
        let footprint = footprint(layout, range);
        let found = if is_complete {
            self.read_span(range, footprint).await?
        } else {
            let spans = spans(layout, footprint, self.span_len());
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
        let each = SPAN_BYTES_MAX / self.0.layout().parts as u64;
        let unit = self.unit();
        (each / unit).max(1) * unit
    }

    /// The smallest bytes that are read alone: whole blocks.
    fn unit(&self) -> u64 {
        FINEST.max(self.0.block_size().into())
    }

    /// Reads what `request` wants of a span; what members fail to read is narrowed down.
    pub(in crate::array) async fn read_span(
        &self,
        request: Range,
        span: Range,
    ) -> Result<Vec<Found>, IoError> {
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
        let mut doubted = self.0.doubted();
        let mut failed: Vec<FailedRead> = Vec::new();
        let mut permit = None;
        loop {
            let lost = self.lost_with(span, &doubted, &failed);
            let plan = match plan(self.0.layout(), &lost, request, span) {
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
                let mut computed = 0;
                let found = assemble(&plan, &answers, &mut computed);
                self.0.finish(computed, failed);
                return Ok(found);
            }
        }
    }

    /// What is lost of `span`, with members that are in doubt and what failed just now.
    fn lost_with(&self, span: Range, doubted: &[usize], failed: &[FailedRead]) -> Cow<'_, Lost> {
        if doubted.is_empty() && failed.is_empty() {
            return Cow::Borrowed(self.0.lost());
        }
        let mut lost = self.0.lost().cut(span);
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
        let bytes = span.len.saturating_mul(self.0.layout().parts as u64);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let permit = self.0.room().acquire_many(bytes.min(BYTES_AT_ONCE_MAX));
        permit.await.expect("the room is never closed")
    }

    async fn ask_all(&self, plan: &Plan) -> Vec<Result<IoBufs, IoError>> {
        let reads = plan.reads.clone().into_iter();
        let reads = reads.map(|bytes| self.0.ask(bytes));
        stream::iter(reads).buffered(READS_AT_ONCE).collect().await
    }

    /// Reports why bytes cannot be had, with all members that lack them.
    fn refusal(&self, request: Range, refused: &Refused) -> IoError {
        let Refused { gone, failed } = refused;
        let of_part = |part: &usize| {
            let said = failed.iter().rev().find(|(bytes, _)| bytes.part == *part);
            let why = match said {
                Some((_, error)) => format!(" ({error})"),
                None => self.0.why_lost(*part, gone.columns),
            };
            format!("part {part} {}{why}", self.0.name(*part))
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
            self.0.level(),
            self.0.layout().parities()
        );
        let start = gone.range.offset.max(request.offset);
        let end = gone.range.end().min(request.end());
        let range = Range::new(start, end - start);
        IoError::new(Errno::Io, Operation::Read, Some(range)).because(why)
    }
}
