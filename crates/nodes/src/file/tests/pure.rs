//! Tests of plans, states and parsers: no engine, no file but a made-up sysfs.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use block::{Errno, ExtentKind, Operation, Range, WriteFlags};
use proptest::prelude::*;

use crate::file::error::{FileHolder, OpenError};
use crate::file::lock;
use crate::file::open::FileKind;
use crate::file::plan::{self, EXTENTS_MAX, Search, Seek, Zeroing};
use crate::file::state::{Pace, SyncState, try_write_allowed};
use crate::file::topology::QueueLimits;

proptest! {
    #[test]
    fn parts_cover_a_range_once_and_the_middle_is_aligned(offset in 0_u64..10_000, len in 0_u64..10_000, shift in 0_u32..13) {
        let (range, align) = (Range::new(offset, len), 1 << shift);
        let parts = plan::split(range, align);
        prop_assert_eq!(parts.head.offset, offset);
        prop_assert_eq!(parts.head.end(), parts.middle.offset);
        prop_assert_eq!(parts.middle.end(), parts.tail.offset);
        prop_assert_eq!(parts.tail.end(), range.end());
        prop_assert!(parts.head.len < align && parts.tail.len < align);
        if !parts.middle.is_empty() {
            prop_assert!(parts.middle.offset.is_multiple_of(align) && parts.middle.end().is_multiple_of(align));
        }
    }

    /// `blocks` says which blocks of a file hold data; the file may end before or behind the range. However the search is cut.
    #[test]
    fn extents_report_the_allocation(blocks in prop::collection::vec(any::<bool>(), 0..20), offset in 0_u64..400, len in 0_u64..400, seeks in 1_usize..30) {
        const BLOCK: u64 = 16;
        let size = blocks.len() as u64 * BLOCK;
        let seek = |what, at: u64| {
            let wanted = what == Seek::Data;
            let first = usize::try_from(at / BLOCK).unwrap();
            let next = (first..blocks.len()).find(|&b| blocks[b] == wanted);
            // There is always a hole at the end of the file.
            let end = (what == Seek::Hole).then_some(size);
            Ok(next.map(|b| at.max(b as u64 * BLOCK)).or(end))
        };
        let range = Range::new(offset, len);
        let mut search = Search::new(range, size);
        let mut slices = 0;
        while !search.advance(seeks, seek).unwrap() {
            slices += 1;
            prop_assert!(search.seeks() <= slices * (seeks + 1), "a slice goes on and on");
        }
        let extents = search.finish();
        let mut at = offset;
        for extent in extents {
            prop_assert_eq!(extent.range.offset, at);
            at = extent.range.end();
            for byte in extent.range.offset..at {
                let block = blocks.get(usize::try_from(byte / BLOCK).unwrap());
                let kind = if block == Some(&false) { ExtentKind::Hole } else { ExtentKind::Data };
                prop_assert_eq!(extent.kind, kind);
            }
        }
        prop_assert_eq!(at, range.end());
    }
}

#[test]
fn endless_holes_are_reported_up_to_a_bound() {
    let range = Range::new(0, u64::MAX / 2);
    let next = |what, at| {
        let odd = at % 2 == 1;
        Ok(Some(if odd == (what == Seek::Data) {
            at
        } else {
            at + 1
        }))
    };
    let mut search = Search::new(range, u64::MAX / 2);
    assert!(search.advance(usize::MAX, next).unwrap());
    let extents = search.finish();
    assert!(extents.len() <= EXTENTS_MAX + 2);
    assert_eq!(extents.last().unwrap().range.end(), range.end());
}

#[test]
fn fast_zeroing_of_a_device_never_takes_the_way_that_may_be_slow() {
    let all = [Zeroing::Punch, Zeroing::Keep];
    let fast = WriteFlags::FAST_ZERO;
    let no_hole = WriteFlags::NO_HOLE;
    assert_eq!(plan::zeroing(FileKind::Regular, WriteFlags::FUA), all);
    assert_eq!(plan::zeroing(FileKind::Regular, fast), all);
    assert_eq!(
        plan::zeroing(FileKind::Regular, fast | no_hole),
        [Zeroing::Keep]
    );
    assert_eq!(plan::zeroing(FileKind::Device, WriteFlags::empty()), all);
    assert_eq!(plan::zeroing(FileKind::Device, no_hole), [Zeroing::Keep]);
    assert_eq!(plan::zeroing(FileKind::Device, fast), [Zeroing::Punch]);
    assert_eq!(plan::zeroing(FileKind::Device, fast | no_hole), []);
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}

#[test]
fn after_a_failed_sync_none_begins_and_the_first_failure_is_reported() {
    let mut state = SyncState::default();
    let first = state.begin().unwrap();
    let second = state.begin().unwrap();
    assert!(state.end(first, Err(eio())).is_some());
    assert!(
        state
            .end(second, Err(io::Error::from_raw_os_error(28)))
            .is_none()
    );
    let failure = state.begin().unwrap_err();
    let answer = failure.answer(Operation::Flush, None);
    assert_eq!(answer.errno, Errno::Io);
    assert!(answer.to_string().contains("data may be lost"), "{answer}");
}

/// The kernel reports to one of two syncs in flight that a page of the other one was lost.
#[test]
fn a_success_counts_only_when_all_concurrent_syncs_succeeded() {
    let mut state = SyncState::default();
    let lucky = state.begin().unwrap();
    let message = state.begin().unwrap();
    assert!(state.end(lucky, Ok(())).is_none());
    let horizon = state.horizon();
    assert!(state.verdict(horizon).is_none(), "the other one still runs");
    state.end(message, Err(eio()));
    assert!(state.verdict(horizon).unwrap().is_err());
}

#[test]
fn a_sync_that_starts_later_holds_no_earlier_success_back() {
    let mut state = SyncState::default();
    let done = state.begin().unwrap();
    assert!(state.end(done, Ok(())).is_none());
    let horizon = state.horizon();
    state.begin().unwrap();
    assert!(state.verdict(horizon).unwrap().is_ok());
}

fn after(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

#[test]
fn a_stalled_write_pauses_the_next_ones_longer_each_time() {
    let start = engine::clock::now();
    let pace = Pace::new(start);
    let page = try_write_allowed(4096);
    assert!(pace.allows(start));
    pace.took(page, start, after(start, 10));
    assert!(!pace.allows(after(start, 29)));
    assert!(pace.allows(after(start, 30)));
    pace.took(page, after(start, 30), after(start, 40));
    assert!(!pace.allows(after(start, 79)));
    assert!(pace.allows(after(start, 80)));
    pace.took(page, after(start, 80), after(start, 81));
    pace.took(page, after(start, 81), after(start, 91));
    assert!(
        pace.allows(after(start, 111)),
        "a quick write forgets the pauses before it"
    );
}

#[test]
fn a_large_write_is_not_taken_for_a_stall() {
    let start = engine::clock::now();
    let pace = Pace::new(start);
    pace.took(try_write_allowed(32 << 20), start, after(start, 40));
    assert!(pace.allows(after(start, 40)));
    pace.took(try_write_allowed(32 << 20), start, after(start, 41));
    assert!(!pace.allows(after(start, 41)));
}

const LOCKS: &str = "\
1: POSIX  ADVISORY  WRITE 77 08:01:500 0 EOF
1: -> POSIX  ADVISORY  WRITE 78 08:01:500 0 EOF
2: FLOCK  ADVISORY  READ 1234 fd:0a:500 0 EOF
3: FLOCK  ADVISORY  WRITE 4321 08:01:500 0 EOF
4: FLOCK  ADVISORY  WRITE -1 08:01:501 0 EOF
5: garbage
";

#[test]
fn the_holder_of_a_lock_is_found_in_the_kernels_list() {
    let writer = FileHolder {
        writes: true,
        process: Some(4321),
    };
    assert_eq!(lock::find(LOCKS, (8, 1), 500), Some(writer));
    let reader = FileHolder {
        writes: false,
        process: Some(1234),
    };
    assert_eq!(lock::find(LOCKS, (0xfd, 10), 500), Some(reader));
    let elsewhere = FileHolder {
        writes: true,
        process: None,
    };
    assert_eq!(lock::find(LOCKS, (8, 1), 501), Some(elsewhere));
    assert_eq!(lock::find(LOCKS, (8, 1), 502), None);
    assert_eq!(
        writer.to_string(),
        "already open for writing by process 4321"
    );
    assert_eq!(elsewhere.to_string(), "already open for writing");
}

#[test]
fn a_partition_turns_as_its_disk_does() {
    let sysfs = tempfile::tempdir().unwrap();
    let (disk, numbers) = (sysfs.path().join("devices/sda"), sysfs.path().join("block"));
    std::fs::create_dir_all(disk.join("queue")).unwrap();
    std::fs::create_dir_all(disk.join("sda1")).unwrap();
    std::fs::create_dir(&numbers).unwrap();
    std::fs::write(disk.join("queue/rotational"), "1\n").unwrap();
    std::fs::write(disk.join("queue/physical_block_size"), "4096\n").unwrap();
    std::fs::write(disk.join("queue/write_zeroes_max_bytes"), "0\n").unwrap();
    std::fs::write(disk.join("sda1/partition"), "1\n").unwrap();
    std::os::unix::fs::symlink(&disk, numbers.join("8:0")).unwrap();
    std::os::unix::fs::symlink(disk.join("sda1"), numbers.join("8:1")).unwrap();
    for minor in [0, 1] {
        let queue = QueueLimits::of(&numbers, rustix::fs::makedev(8, minor)).unwrap();
        assert!(queue.is_rotational());
        assert!(!queue.has_write_zeroes());
        assert_eq!(queue.physical_block_size(), Some(4096));
        assert_eq!(queue.logical_block_size(), None);
    }
    assert!(QueueLimits::of(&numbers, rustix::fs::makedev(0, 40)).is_none());
}

#[test]
fn each_refusal_of_the_system_says_what_to_do() {
    let message = |os, read_only, direct| {
        let error = io::Error::from_raw_os_error(os);
        OpenError::of_open(Path::new("/srv/a.img"), read_only, direct, error).to_string()
    };
    assert!(message(2, false, false).contains("outboard disk create /srv/a.img"));
    assert!(message(13, false, false).contains("open it read-only"));
    assert!(!message(13, true, false).contains("open it read-only"));
    assert!(message(30, false, false).contains("read-only filesystem"));
    assert!(message(16, false, false).contains("in use by the system"));
    assert!(message(22, false, true).contains("leave `direct` out"));
    assert!(message(22, false, false).contains("open failed"));
    for text in [2, 13, 16, 22, 30].map(|os| message(os, false, true)) {
        assert!(
            text.starts_with("/srv/a.img ") && !text.contains('\n'),
            "{text}"
        );
    }
}

#[test]
fn a_process_that_ends_is_known_by_its_state_its_flags_or_the_signal_that_waits_for_it() {
    use super::super::lock::is_ending;
    let status =
        |pending| format!("Name:\tx\nSigPnd:\t{pending:016x}\nShdPnd:\t0000000000000000\n");
    let stat = |name, state, flags| format!("12 ({name}) {state} 1 12 12 0 -1 {flags} 164 0 0");
    for (name, state, flags, pending, ends) in [
        ("outboard", "S", 4_194_560, 0, false),
        ("Z) Z", "D", 4_194_560, 0x80, false),
        ("outboard", "Z", 4_194_560, 0, true),
        ("a) b) R (c", "X", 4_194_560, 0, true),
        ("outboard", "D", 4_194_564, 0, true),
        ("outboard", "R", 4_194_560, 0x100, true),
    ] {
        let message = is_ending(&stat(name, state, flags), &status(pending));
        assert_eq!(message, ends, "{name} {state} {flags} {pending}");
    }
    assert!(!is_ending("", ""));
}
