//! Drivers that hold a node to the block contract: against the model, through power cuts, with
//! futures dropped.

mod cancel;
mod crash;
mod model;
#[cfg(test)]
mod tests;

use block::{BlockDevice, IoError, Range};

use crate::data::gather;
use crate::model::{Model, Op};

pub use cancel::check_dropped_futures;
pub use crash::check_crashes;
pub use model::{check_against_model, check_in_batches};

/// How a node broke the contract.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Mismatch {
    /// A byte is wrong.
    #[error("{what}: byte {offset} is {found:#04x}, not {expected:#04x}")]
    Content {
        /// What was being compared.
        what: String,
        /// Where.
        offset: u64,
        /// What the model holds.
        expected: u8,
        /// What the node gave.
        found: u8,
    },
    /// A read was answered with too many or too few bytes.
    #[error("{range} were read, and {found} bytes came")]
    Length {
        /// The requested range.
        range: Range,
        /// Length of the answer.
        found: usize,
    },
    /// A request failed that should not have.
    #[error("{op:?} failed: {error}")]
    Failed {
        /// The request.
        op: Op,
        /// Its error.
        #[source]
        error: IoError,
    },
    /// Extents are out of order, leave gaps, or call data zero.
    #[error("extents of {range}: {what}")]
    Extents {
        /// The requested range.
        range: Range,
        /// What is wrong.
        what: String,
    },
    /// After a power cut a sector holds neither its durable content nor anything newer.
    #[error("crash seed {seed}, after {ops_done} requests: sector {sector} lost what was flushed")]
    Lost {
        /// Seed of the cut.
        seed: u64,
        /// Requests that had been reported done.
        ops_done: usize,
        /// The sector's number.
        sector: u64,
    },
    /// The node could not be opened on what a power cut left.
    #[error("crash seed {seed}: the node cannot be opened again: {error}")]
    NotOpened {
        /// Seed of the cut.
        seed: u64,
        /// Why.
        #[source]
        error: IoError,
    },
    /// A change was still held below after `settle` had resolved.
    #[error("{op:?}, dropped after {released} child requests: {left} changes were not settled")]
    NotSettled {
        /// The dropped request.
        op: Op,
        /// Child requests that had been let go.
        released: usize,
        /// Changes that still waited.
        left: usize,
    },
}

impl Mismatch {
    /// `op` failed.
    fn failed(op: Op) -> impl Fn(IoError) -> Self {
        move |error| Self::Failed { op, error }
    }
}

/// Reads `range` and checks the length of the answer.
async fn read(node: &dyn BlockDevice, range: Range) -> Result<Vec<u8>, Mismatch> {
    let data = node.read(range).await;
    let data = gather(&data.map_err(Mismatch::failed(Op::Read { range }))?);
    if data.len() as u64 == range.len {
        return Ok(data);
    }
    Err(Mismatch::Length {
        range,
        found: data.len(),
    })
}

fn compare(model: &Model, range: Range, found: &[u8], what: &str) -> Result<(), Mismatch> {
    model.first_wrong(range, found).map_or(Ok(()), |wrong| {
        Err(Mismatch::Content {
            what: what.to_owned(),
            offset: wrong.offset,
            expected: wrong.expected,
            found: wrong.found,
        })
    })
}

fn whole(node: &dyn BlockDevice) -> Range {
    Range::new(0, node.geometry().size)
}

/// Sends the part of `op` that changes the disk, the waiting way.
async fn change(node: &dyn BlockDevice, op: &Op) -> Result<(), IoError> {
    match *op {
        Op::Read { range } => node.read(range).await.map(drop),
        Op::Write {
            range, fill, flags, ..
        } => {
            let data = crate::single(crate::pattern(fill, range));
            node.write(range, data, flags).await
        }
        Op::WriteZeroes { range, flags } => node.write_zeroes(range, flags).await,
        Op::Trim { range } => node.trim(range).await,
        Op::Flush => node.flush().await,
    }
}
