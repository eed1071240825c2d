//! [`Faults`]: what went wrong on the way to a disk, for `status`, for the log and for `detach`.
//!
//! # Invariants
//!
//! * A failed change of the disk is over at the next change that succeeds, a failed read at the next read.
//! * "No space left" is over only when all that it refused has been written after all: elsewhere a full disk
//!   goes on taking writes, to blocks that it has.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use block::{Errno, IoError, Operation, Range};

/// Refused ranges that are remembered. With more, "no space left" stays until the disk is detached.
const REFUSED_MAX: usize = 256;

/// Counts failed requests. A run of failures is logged once, not request by request.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Failed writes, flushes and zeroings: data that may not be there.
    unwritten: AtomicU64,
    failing: AtomicBool,
    state: Mutex<FaultState>,
}

#[derive(Debug, Default)]
struct FaultState {
    /// How the last change of the disk failed, until one succeeds.
    change: Option<String>,
    /// How the last read failed, until one succeeds.
    read: Option<String>,
    /// The last failure, whether or not it is over.
    last: Option<String>,
    /// What a full disk refused and nothing has written since.
    refused: Vec<Range>,
    /// Whether more than [`REFUSED_MAX`] ranges were refused.
    has_more: bool,
}

impl FaultState {
    fn is_full(&self) -> bool {
        self.has_more || !self.refused.is_empty()
    }

    fn refuse(&mut self, range: Range) {
        let is_known = |known: &Range| known.offset <= range.offset && range.end() <= known.end();
        if self.refused.iter().any(is_known) {
            return;
        }
        if self.refused.len() == REFUSED_MAX {
            self.has_more = true;
            return;
        }
        self.refused.push(range);
    }

    /// Takes what was written away from what was refused.
    fn written(&mut self, range: Range) {
        let refused = std::mem::take(&mut self.refused);
        for known in refused {
            let before = Range::new(
                known.offset,
                range.offset.clamp(known.offset, known.end()) - known.offset,
            );
            let after_at = range.end().clamp(known.offset, known.end());
            let after = Range::new(after_at, known.end() - after_at);
            let is_apart = range.end() <= known.offset || known.end() <= range.offset;
            match is_apart {
                true => self.refused.push(known),
                false => self
                    .refused
                    .extend([before, after].into_iter().filter(|rest| !rest.is_empty())),
            }
        }
    }
}

impl Faults {
    /// A failed request.
    pub(crate) fn note(&self, error: &IoError) {
        let is_read = error.operation == Operation::Read;
        if !is_read {
            self.unwritten.fetch_add(1, Ordering::AcqRel);
        }
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        if let (Errno::NoSpace, Some(range)) = (error.errno, error.range) {
            state.refuse(range);
        }
        let text = error.to_string();
        state.last = Some(text.clone());
        match is_read {
            true => state.read = Some(text),
            // Other failures do not hide that the disk is full.
            false if state.is_full() && error.errno != Errno::NoSpace => {}
            false => state.change = Some(text),
        }
        if !self.failing.swap(true, Ordering::AcqRel) {
            tracing::warn!("requests fail: {error}");
        }
    }

    /// A request that went well.
    pub(crate) fn passed(&self, operation: Operation, range: Option<Range>) {
        if !self.failing.load(Ordering::Acquire) {
            return;
        }
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        if operation == Operation::Read {
            state.read = None;
        } else {
            range.into_iter().for_each(|range| state.written(range));
            if !state.is_full() {
                state.change = None;
            }
        }
        let is_over = state.change.is_none() && state.read.is_none();
        if is_over && self.failing.swap(false, Ordering::AcqRel) {
            tracing::info!("requests succeed again");
        }
    }

    /// Failed writes, flushes and zeroings so far.
    pub(crate) fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Acquire)
    }

    /// The last failure, while requests fail.
    pub(crate) fn failing(&self) -> Option<String> {
        let state = self.state.lock().ok()?;
        state.change.clone().or_else(|| state.read.clone())
    }

    /// The last failure.
    pub(crate) fn last(&self) -> Option<String> {
        let state = self.state.lock();
        state.ok().and_then(|state| state.last.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(errno: Errno, operation: Operation, offset: u64) -> IoError {
        IoError::new(errno, operation, Some(Range::new(offset, 4096)))
    }

    fn wrote(faults: &Faults, offset: u64, len: u64) {
        faults.passed(Operation::Write, Some(Range::new(offset, len)));
    }

    // A full server refused a few writes of a filesystem; the next read, or an overwrite of a block that
    // the image had, made `status` say "connected" again.
    #[test]
    fn no_space_left_is_reported_until_all_refused_ranges_are_written() {
        let faults = Faults::default();
        faults.note(&error(Errno::NoSpace, Operation::Write, 8192));
        faults.note(&error(Errno::NoSpace, Operation::Write, 65536));
        faults.passed(Operation::Read, Some(Range::new(0, 4096)));
        wrote(&faults, 0, 4096);
        faults.passed(Operation::Flush, None);
        faults.note(&error(Errno::Io, Operation::Read, 0));
        let why = faults.failing().unwrap();
        assert!(why.contains("no space left"), "{why}");
        faults.passed(Operation::Read, Some(Range::new(0, 4096)));
        wrote(&faults, 8192, 2048);
        wrote(&faults, 60000, 20000);
        assert!(faults.failing().is_some(), "half of a range is missing");
        wrote(&faults, 10240, 2048);
        assert_eq!(faults.failing(), None);
        assert_eq!(faults.unwritten(), 2, "a report of what was lost stays");
    }

    #[test]
    fn a_disk_with_more_refused_ranges_than_the_maximum_stays_full() {
        let faults = Faults::default();
        for number in 0..=REFUSED_MAX as u64 {
            faults.note(&error(Errno::NoSpace, Operation::Write, number * 8192));
        }
        wrote(&faults, 0, u64::MAX);
        assert!(faults.failing().is_some());
    }

    #[test]
    fn a_read_does_not_clear_failed_writes_and_a_write_does_not_clear_failed_reads() {
        let faults = Faults::default();
        faults.note(&error(Errno::Io, Operation::Write, 0));
        faults.passed(Operation::Read, Some(Range::new(0, 4096)));
        assert!(faults.failing().is_some());
        wrote(&faults, 4096, 4096);
        assert_eq!(faults.failing(), None);
        faults.note(&error(Errno::Io, Operation::Read, 0));
        wrote(&faults, 0, 4096);
        assert!(faults.failing().is_some());
        faults.passed(Operation::Read, Some(Range::new(0, 4096)));
        assert_eq!(faults.failing(), None);
    }
}
