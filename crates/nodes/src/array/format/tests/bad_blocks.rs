//! Tests of logs of bad blocks, against a list of booleans.

use block::Range;
use proptest::prelude::*;

use crate::array::format::bad_blocks::{BadBlocks, Problem, RUNS_MAX, from_data, of_data};

fn sectors(first: u64, count: u64) -> Range {
    Range::new(first * 512, count * 512)
}

fn none() -> BadBlocks {
    BadBlocks::none(4096, 0).expect("the usual log")
}

#[test]
fn a_log_has_runs_as_linux_writes_them() {
    let mut bad = none();
    bad.add(sectors(100, 8));
    let log = bad.encode().expect("there is room");
    assert_eq!(log.len(), 4096);
    assert_eq!(log[..8], (100_u64 << 10 | 8).to_le_bytes());
    assert!(log[8..].iter().all(|byte| *byte == 0xff));
    assert_eq!(BadBlocks::decode(&log, 0), Ok(bad));
}

/// Linux adds the data offset before it notes a run.
#[test]
fn runs_are_counted_from_the_beginning_of_the_disk() {
    let (data_at, within) = (2048 * 512, sectors(16, 8));
    let mut bad = none();
    bad.add(from_data(data_at, within));
    let log = bad.encode().expect("there is room");
    assert_eq!(log[..8], (2064_u64 << 10 | 8).to_le_bytes());
    assert_eq!(of_data(data_at, bad.runs()[0]), Some(within));
    assert_eq!(of_data(data_at, sectors(2047, 2)), Some(sectors(0, 1)));
    assert_eq!(of_data(data_at, sectors(2040, 8)), None);
}

#[test]
fn a_long_run_takes_several_entries_and_is_one() {
    let mut bad = none();
    bad.add(sectors(0, 1300));
    let log = bad.encode().expect("there is room");
    let lens: Vec<u8> = log.chunks(8).take(4).map(|entry| entry[1] & 3).collect();
    assert_eq!(lens, [2, 2, 1, 3], "512, 512, 276, the end");
    assert_eq!(BadBlocks::decode(&log, 0), Ok(bad));
}

#[test]
fn a_log_without_room_is_reported() {
    let mut bad = none();
    for run in 0..RUNS_MAX as u64 {
        bad.add(sectors(run * 2, 1));
    }
    assert!(bad.encode().is_some());
    bad.add(sectors(9999, 1));
    assert_eq!(bad.encode(), None);
    let mut short = BadBlocks::none(512, 0).expect("a log");
    short.add(sectors(0, 64 * 512));
    assert!(short.encode().is_some());
    short.add(sectors(0, 64 * 512 + 1));
    assert_eq!(short.encode(), None);
}

#[test]
fn units_of_several_sectors_are_widened_when_set_and_kept_when_half_cleared() {
    let mut bad = BadBlocks::none(4096, 3).expect("a log");
    bad.add(sectors(7, 2));
    assert_eq!(bad.runs(), [sectors(0, 16)]);
    bad.remove(sectors(1, 14));
    assert_eq!(bad.runs(), [sectors(0, 16)]);
    bad.remove(sectors(1, 15));
    assert_eq!(bad.runs(), [sectors(0, 8)]);
    let log = bad.encode().expect("there is room");
    assert_eq!(log[..8], 1_u64.to_le_bytes());
    assert_eq!(BadBlocks::decode(&log, 3), Ok(bad));
}

#[test]
fn logs_that_cannot_be_are_refused() {
    assert_eq!(BadBlocks::decode(&[], 21), Err(Problem::Shift(21)));
    assert_eq!(BadBlocks::decode(&[0; 4104], 0), Err(Problem::Len(4104)));
    let far = (u64::MAX - 2).to_le_bytes();
    assert!(matches!(BadBlocks::decode(&far, 20), Err(Problem::Run(_))));
    assert!(BadBlocks::decode(&[0; 4096], 0).is_ok(), "runs of nothing");
    // A fuzzer's: it begins where a disk may be, and its second half came back as sector 511.
    let last = (1_u64 << 54) - 1;
    let ends_behind = (last << 10 | 513).to_le_bytes();
    assert_eq!(BadBlocks::decode(&ends_behind, 0), Err(Problem::Run(last)));
}

proptest! {
    #[test]
    fn a_log_is_a_list_of_booleans(
        steps in prop::collection::vec((0_usize..200, 0_usize..60, any::<bool>()), 0..60),
        asked in (0_u64..260, 1_u64..60),
    ) {
        let mut model = [false; 320];
        let mut bad = none();
        for (first, count, set) in steps {
            let range = sectors(first as u64, count as u64);
            if set { bad.add(range) } else { bad.remove(range) }
            model[first..first + count].fill(set);
        }
        let mut told = [false; 320];
        for run in bad.runs() {
            for sector in run.offset / 512..run.end() / 512 {
                told[usize::try_from(sector).expect("few")] = true;
            }
        }
        prop_assert_eq!(told, model);
        let apart = bad.runs().windows(2).all(|two| two[0].end() < two[1].offset);
        prop_assert!(apart);
        let log = bad.encode().expect("there is room");
        let (first, count) = asked;
        let found = bad.first_in(sectors(first, count));
        let expected = (first..first + count).find(|at| model[usize::try_from(*at).expect("few")]);
        prop_assert_eq!(found.map(|run| run.offset / 512), expected);
        if let Some(found) = found {
            let inside = found.end() / 512;
            prop_assert!(found.end() <= sectors(first, count).end());
            prop_assert!((found.offset / 512..inside).all(|at| model[usize::try_from(at).expect("few")]));
        }
        prop_assert_eq!(BadBlocks::decode(&log, 0), Ok(bad));
    }

    #[test]
    fn any_log_is_read_or_refused(log in prop::collection::vec(any::<u8>(), 0..4200), shift: u8) {
        if let Ok(bad) = BadBlocks::decode(&log, shift) {
            prop_assert!(bad.runs().len() <= RUNS_MAX);
            let _told = (bad.encode(), bad.first_in(Range::new(0, 1 << 40)));
        }
    }
}
