//! Tests of when a checkpoint is made.

use std::sync::Arc;
use std::time::Duration;

use block::{Errno, Node, Operation};
use engine::clock;
use testkit::{Effect, Fault, FaultDisk, MemDisk, block_on};

use crate::copy::{CopyError, CopyProgress, checkpoints};

const SECOND: Duration = Duration::from_secs(1);

/// A target of which each flush fails.
fn unflushable() -> Node {
    let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Flush);
    FaultDisk::new(Arc::new(MemDisk::new(4096)), 1, vec![fault])
}

#[test]
fn a_pause_is_ten_times_as_long_as_the_checkpoint_before() {
    let target: Node = Arc::new(MemDisk::new(4096));
    let progress = CopyProgress::default();
    let mut pauses = Vec::new();
    let pause = async |pause| {
        pauses.push(pause);
        progress.set_position(pauses.len() as u64);
    };
    let record = async |position| {
        clock::sleep(SECOND * u32::try_from(4 - position).unwrap()).await;
        match position {
            4 => Err(CopyError::Ending),
            _ => Ok(()),
        }
    };
    let ended = block_on(checkpoints(&target, &progress, 15 * SECOND, pause, record));
    assert!(matches!(ended, CopyError::Ending));
    assert_eq!(pauses, [15, 30, 20, 15].map(|n| SECOND * n));
}

#[test]
fn without_progress_nothing_is_flushed() {
    let target = unflushable();
    let progress = CopyProgress::default();
    let mut pauses = 0;
    let pause = async |_| {
        pauses += 1;
        if pauses == 5 {
            progress.set_position(1);
        }
    };
    let record = async |_| Ok(());
    let ended = block_on(checkpoints(&target, &progress, SECOND, pause, record));
    assert!(matches!(ended, CopyError::Target(error) if error.errno == Errno::Io));
    assert_eq!(pauses, 5);
}
