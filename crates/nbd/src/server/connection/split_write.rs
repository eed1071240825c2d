//! [`SplitWrite`]: a write that goes to the disk in pieces, answered when the last of them is done.

use std::sync::{Mutex, PoisonError};

use block::IoError;

/// What became of the pieces so far.
#[derive(Debug)]
pub(super) struct SplitWrite(Mutex<SplitWriteState>);

#[derive(Debug)]
struct SplitWriteState {
    left: u64,
    /// The first that was reported.
    error: Option<IoError>,
}

impl SplitWrite {
    /// A write of `count` pieces.
    pub(super) const fn new(count: u64) -> Self {
        Self(Mutex::new(SplitWriteState {
            left: count,
            error: None,
        }))
    }

    /// One piece is done. `None`: others are not; else what became of the whole.
    pub(super) fn done(&self, result: Result<(), IoError>) -> Option<Result<(), IoError>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.left -= 1;
        if let Err(error) = result {
            state.error.get_or_insert(error);
        }
        (state.left == 0).then(|| state.error.take().map_or(Ok(()), Err))
    }
}
