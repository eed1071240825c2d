//! What of a failed write a member cannot write, for its log of bad blocks.
//!
//! # Invariants
//!
//! * Only an answer of a disk that works is a bad place: one that did not answer in time, is not ours any more or has no log is to
//!   fail. So is one that could not be flushed: what it lacks then may be anywhere.
//! * Of a write that was to be durable all that is not bad is durable when its places are known.

use block::{IoBufs, IoError, Operation, Range, WriteFlags};

use super::RedundantArray;
use super::members::{Target, is_over};
use crate::blocks::slice;

/// A write that failed is tried again in so many steps, to see what of it cannot be written.
const STEPS_MAX: u64 = 256;
/// The smallest step, bytes.
const STEP_MIN: u64 = 4096;
/// After so many steps that failed, and none that did not, the rest is not tried.
const HOPELESS: usize = 4;

/// A change that a member could not carry out.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailedChange<'a> {
    pub(super) target: &'a Target,
    /// Bytes of its data.
    pub(super) within: Range,
    /// `None`: zeroes.
    pub(super) data: Option<&'a IoBufs>,
    pub(super) flags: WriteFlags,
    pub(super) error: &'a IoError,
}

impl RedundantArray {
    /// What a member cannot write of a change. `None`: the member is to fail.
    pub(super) async fn bad_places(&self, failed: FailedChange<'_>) -> Option<Vec<Range>> {
        let FailedChange { target, error, .. } = failed;
        let is_flush = error.operation == Operation::Flush;
        if is_flush || !target.may_log(error) {
            return None;
        }
        let has_log = self.lock().state.members.slots[target.slot.0].log.is_some();
        if !has_log {
            return None;
        }
        let bad = failed.narrow().await?;
        if failed.flags.contains(WriteFlags::FUA) {
            // One that was written this time may have failed as it was made durable, with more than this.
            let is_durable = !bad.is_empty() && target.flush().await.is_ok();
            return is_durable.then_some(bad);
        }
        Some(bad)
    }
}

impl FailedChange<'_> {
    /// Writes it again in steps; those that failed.
    async fn narrow(&self) -> Option<Vec<Range>> {
        let Some(data) = self.data else {
            return Some(vec![self.within]);
        };
        let steps = self.within.len.div_ceil(STEPS_MAX);
        let step = steps.next_multiple_of(STEP_MIN);
        let mut bad = Vec::new();
        let mut good = false;
        let mut rest = self.within;
        while !rest.is_empty() {
            let part = Range::new(rest.offset, rest.len.min(step));
            let start = Range::new(0, part.offset - self.within.offset).len_usize();
            let data = slice(data, start, part.len_usize());
            match self.target.write(part, data, WriteFlags::empty()).await {
                Ok(()) => good = true,
                Err(error) if is_over(&error) => return None,
                Err(_) if !good && bad.len() == HOPELESS => {
                    bad.push(rest);
                    break;
                }
                Err(_) => bad.push(part),
            }
            rest = Range::new(part.end(), rest.end() - part.end());
        }
        Some(bad)
    }
}
