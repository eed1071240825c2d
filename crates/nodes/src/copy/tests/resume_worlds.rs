//! Worlds: a copy to a disk that loses power again and again, resumed each time where the last checkpoint was.
//!
//! The target keeps any part of what no flush made durable, torn at sectors. In each world the finished copy is durable and
//! equals the source, nothing behind it has changed, and what a checkpoint covered was not read again. Between the runs the
//! source is written where no checkpoint covers it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Errno, Node, Operation, Range, WriteFlags};
use testkit::{
    CrashDisk, Effect, Fault, FaultDisk, MemDisk, WorldSeeds, block_on, moments, pattern, single,
};

use crate::copy::{CopyError, CopyOptions, CopyProgress, checkpoints, copy, verify};

/// Worlds that `cargo xtask test` plays.
const WORLDS: u64 = 300;
/// Losses of power in one world, at most.
const CUTS_MAX: u32 = 6;
/// Disks are up to so many sectors long.
const SECTORS_MAX: u64 = 3072;

/// A disk with runs of data, of written zeroes and of holes.
fn source(rng: &mut fastrand::Rng) -> MemDisk {
    let size = rng.u64(1..=SECTORS_MAX) * 512;
    let disk = MemDisk::new(size);
    for _ in 0..rng.u32(4..40) {
        change(&disk, 0, rng);
    }
    disk
}

/// Writes data or zeroes somewhere from byte `from` on, or makes a hole.
fn change(disk: &MemDisk, from: u64, rng: &mut fastrand::Rng) {
    let size = disk.geometry().size;
    let start = rng.u64(from..size);
    let range = Range::new(start, rng.u64(1..=60_000).min(size - start));
    let flags = WriteFlags::empty();
    let changed = match rng.u8(0..5) {
        0 => block_on(disk.write_zeroes(range, flags)),
        1 => block_on(disk.write(range, single(vec![0; range.len_usize()]), flags)),
        _ => block_on(disk.write(range, single(pattern(rng.u8(..), range)), flags)),
    };
    changed.unwrap();
}

/// What is known of a copy after a loss of power.
struct Copied {
    /// All below is durable; `None` before the first checkpoint.
    position: Option<u64>,
    image: Vec<u8>,
}

/// Copies until power is lost after `polls`, or to the end. Returns whether it came to its end.
async fn run(
    copied: &mut Copied,
    from: &Arc<MemDisk>,
    rng: &mut fastrand::Rng,
    polls: Option<u32>,
) -> bool {
    let size = from.geometry().size;
    let target = CrashDisk::from_bytes(copied.image.clone()).interleaved(rng.u64(..));
    let target = Arc::new(target);
    let onto: Node = target.clone();
    // Bytes that a checkpoint covers must not be read again.
    let covered = copied
        .position
        .filter(|&at| at > 0)
        .map(|at| Range::new(0, at));
    let fault = |range| {
        Fault::new(Effect::Fail(Errno::Io))
            .on(Operation::Read)
            .at(range)
    };
    let source: Node = FaultDisk::new(from.clone(), 1, covered.map(fault).into_iter().collect());
    let is_new = copied.image.iter().all(|&byte| byte == 0);
    let options = CopyOptions {
        target_is_zero: copied.position.is_none() && is_new,
        detect_zeroes: rng.bool(),
        ranges: copied.position.map(|at| vec![Range::new(at, size - at)]),
        in_flight: rng.usize(1..5),
        ..CopyOptions::default()
    };
    // Once a target was written to it is no new one any more.
    copied.position.get_or_insert(0);
    let progress = CopyProgress::default();
    let recorded = Cell::new(copied.position);
    let mut pauses = rng.fork();
    let mut records = rng.fork();
    let pause = async |_: Duration| moments(pauses.u8(0..12)).await;
    let record = async |position| {
        moments(records.u8(0..8)).await;
        recorded.set(Some(position));
        Ok::<_, CopyError>(())
    };
    let power = async {
        for _ in 0..polls.unwrap_or(u32::MAX) {
            moments(1).await;
        }
    };
    let ended = tokio::select! {
        biased;
        () = power => None,
        error = checkpoints(&onto, &progress, Duration::ZERO, pause, record) => Some(Err(error)),
        done = copy(source, onto.clone(), &options, &progress) => Some(done),
    };
    copied.position = recorded.get();
    let is_done = match ended {
        None => false,
        Some(done) => {
            done.unwrap();
            let all = CopyOptions::default();
            verify(from.clone(), onto, &all, &progress).await.unwrap();
            true
        }
    };
    copied.image = target.crash(rng.u64(..));
    is_done
}

/// Plays one world; how many of its bytes were durable when the last run began.
fn play(seed: u64) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let from = Arc::new(source(&mut rng));
    let size = from.geometry().size;
    let room = size + rng.u64(0..8) * 512;
    let mut image = pattern(9, Range::new(0, room));
    if rng.bool() {
        image.fill(0);
    }
    let behind = image.split_off(Range::new(0, size).len_usize());
    image.extend(&behind);
    let mut copied = Copied {
        position: None,
        image,
    };
    for _ in 0..rng.u32(0..=CUTS_MAX) {
        let polls = rng.u32(0..80);
        if block_on(run(&mut copied, &from, &mut rng, Some(polls))) {
            break;
        }
        let position = copied.position.unwrap_or(0);
        assert!(position <= size);
        // What no checkpoint covers is copied as it is then, also where some of it had reached the target.
        if position < size && rng.bool() {
            change(&from, position, &mut rng);
        }
    }
    let resumed = copied.position.unwrap_or(0);
    assert!(block_on(run(&mut copied, &from, &mut rng, None)));
    let mut expected = from.snapshot();
    expected.extend(behind);
    assert!(copied.image == expected, "another content");
    resumed
}

#[test]
fn a_copy_that_is_resumed_after_losses_of_power_is_whole() {
    let selected = WorldSeeds::from_env();
    let (from, count) = match selected.only {
        Some(seed) => (seed, 1),
        None => (selected.from, selected.count.unwrap_or(WORLDS)),
    };
    let mut resumed = 0;
    for seed in from..from + count {
        let played = std::panic::catch_unwind(|| play(seed));
        resumed += u64::from(
            played.unwrap_or_else(|_| {
                panic!(
                    "world {seed}; again: OUTBOARD_WORLD={seed} cargo test -p nodes resume_worlds"
                )
            }) > 0,
        );
    }
    let enough = count / 2;
    assert!(
        count == 1 || resumed > enough,
        "only {resumed} copies were resumed in their midst"
    );
}
