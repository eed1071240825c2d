//! Rows that were written since the open of an array that is not in sync: they are there without a member.

use block::{BlockDevice, Errno, Node, Operation, Range, WriteFlags};
use proptest::prelude::*;
use testkit::{Effect, Fault, FaultDisk, block_on, pattern};

use super::super::fitting_columns::{FittingColumns, RANGES_MAX};
use super::kit::{DATA, DISK, MEMBER, Recipe, name, open, options, put, read, try_open, write};
use crate::array::format::Level;
use crate::array::redundant::RedundantArray;

const CHUNK: u64 = 4096;
const UNTRUSTED: &str = "parity cannot be trusted here";
/// Bytes of each partial parity log.
const LOG: u64 = 16 << 10;

fn recipes() -> Vec<Recipe> {
    vec![
        Recipe::parity(Level::Raid4, 0, 3),
        Recipe::parity(Level::Raid5, 2, 4),
        Recipe::parity(Level::Raid5, 2, 6).without_bitmap(),
        Recipe::parity(Level::Raid5, 2, 4).with_ppl(LOG),
        Recipe::parity(Level::Raid6, 2, 5),
        Recipe::parity(Level::Raid6, 8, 6).without_bitmap(),
    ]
}

fn row_len(recipe: &Recipe) -> u64 {
    (u64::from(recipe.parts) - recipe.level.parities() as u64) * CHUNK
}

/// Disks of an array that was full when the power was cut; parity does not fit anywhere.
async fn unsynced(recipe: &Recipe) -> Vec<Node> {
    let sizes = (0..recipe.parts).map(|_| DISK + recipe.ppl.unwrap_or(0));
    let disks: Vec<Node> = sizes
        .map(|size| std::sync::Arc::new(testkit::MemDisk::new(size)) as Node)
        .collect();
    let array = recipe.open(&disks).await;
    let whole = Range::new(0, array.geometry().size);
    write(&array, whole, 1).await.unwrap();
    array.flush().await.unwrap();
    drop(array);
    for row in 0..MEMBER / CHUNK {
        for (part, disk) in disks.iter().enumerate() {
            let torn = vec![u8::try_from(part * 16 + 3).unwrap(); 4096];
            put(disk, DATA + row * CHUNK, torn).await;
        }
    }
    disks
}

/// Whole rows, some of a row, and zeroes.
async fn change(recipe: &Recipe, array: &RedundantArray) -> Vec<(Range, Vec<u8>)> {
    let row = row_len(recipe);
    let whole = Range::new(0, row);
    let some = Range::new(row + CHUNK + 512, 1024);
    let zeroed = Range::new(2 * row, 2 * row);
    write(array, whole, 2).await.unwrap();
    write(array, some, 3).await.unwrap();
    let empty = WriteFlags::empty();
    array.write_zeroes(zeroed, empty).await.unwrap();
    let zeroes = vec![0; zeroed.len_usize()];
    vec![
        (whole, pattern(2, whole)),
        (some, pattern(3, some)),
        (zeroed, zeroes),
    ]
}

#[test]
fn what_is_written_before_a_resync_comes_to_it_is_there_without_a_member_and_the_rest_is_refused() {
    for recipe in recipes() {
        for lost in 0..usize::try_from(recipe.parts).unwrap() {
            block_on(async {
                let disks = unsynced(&recipe).await;
                let array = open(&disks).await;
                assert!(array.needed(0).is_some());
                let written = change(&recipe, &array).await;
                array.flush().await.unwrap();
                for gone in (lost..).take(recipe.level.parities()) {
                    let gone = gone % disks.len();
                    array.fail_member(&name(gone)).await.unwrap();
                }
                for (range, expected) in &written {
                    let found = read(&array, *range).await;
                    assert!(found == *expected, "{recipe:?} without {lost}: {range}");
                }
                let size = array.geometry().size;
                let rest = Range::new(size / 2, size / 2);
                if recipe.level != Level::Raid4 || lost + 1 < disks.len() {
                    // Data are missing, not only parity.
                    let Err(error) = array.read(rest).await else {
                        panic!("{recipe:?} without {lost}: {rest} was read");
                    };
                    assert!(error.to_string().contains(UNTRUSTED), "{error}");
                }
                // What is written without the members is there, too.
                let more = Range::new(5 * row_len(&recipe), row_len(&recipe));
                write(&array, more, 4).await.unwrap();
                write(&array, Range::new(512, 512), 5).await.unwrap();
                assert!(read(&array, more).await == pattern(4, more));
                let second = Range::new(512, 512);
                assert!(read(&array, second).await == pattern(5, second));
            });
        }
    }
}

#[test]
fn what_fits_is_known_to_the_process_that_wrote_it_alone() {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 4);
        let disks = unsynced(&recipe).await;
        let array = open(&disks).await;
        change(&recipe, &array).await;
        array.fail_member(&name(0)).await.unwrap();
        array.flush().await.unwrap();
        drop(array);
        let why = try_open(&disks[1..], &options()).await.unwrap_err();
        let why = why.to_string();
        assert!(why.contains("was being written when it stopped"), "{why}");
    });
}

#[test]
fn a_write_that_fails_takes_back_that_parity_fits() {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 4);
        let below = unsynced(&recipe).await;
        let mut disks = below.clone();
        let faults = FaultDisk::new(below[1].clone(), 1, Vec::new());
        disks[1] = faults.clone();
        let array = open(&disks).await;
        change(&recipe, &array).await;
        array.fail_member(&name(0)).await.unwrap();
        let (first, second) = (Range::new(0, CHUNK), Range::new(CHUNK, CHUNK));
        assert_eq!(read(&array, first).await, pattern(2, first));
        faults.inject(Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write));
        write(&array, second, 7).await.unwrap_err();
        faults.heal();
        let error = array.read(first).await.unwrap_err().to_string();
        assert!(error.contains(UNTRUSTED), "{error}");
    });
}

#[test]
fn once_all_is_in_sync_nothing_is_remembered() {
    block_on(async {
        let recipe = Recipe::parity(Level::Raid5, 2, 4);
        let disks = unsynced(&recipe).await;
        let array = open(&disks).await;
        change(&recipe, &array).await;
        assert!(array.lock().state.fitting.len() > 0);
        array.synced(Range::new(0, CHUNK));
        let row = Range::new(0, CHUNK);
        assert_eq!(array.lock().state.fitting.outside(row), [row]);
        array.synced(Range::new(0, MEMBER));
        assert_eq!(array.needed(0), None);
        assert_eq!(array.lock().state.fitting.len(), 0);
        write(&array, Range::new(0, row_len(&recipe)), 9)
            .await
            .unwrap();
        assert_eq!(array.lock().state.fitting.len(), 0, "bits say that it fits");
    });
}

#[test]
fn more_ranges_than_there_is_room_for_are_forgotten() {
    let mut fitting = FittingColumns::default();
    let ranges = RANGES_MAX as u64;
    for n in 0..ranges + 2 {
        fitting.add(Range::new(n * 8, 4));
    }
    assert_eq!(fitting.len(), RANGES_MAX);
    let last = Range::new((ranges + 1) * 8, 4);
    assert_eq!(fitting.outside(last), [last]);
    // One that is cut in two keeps what there is room for.
    fitting.remove(Range::new(1, 1));
    assert_eq!(fitting.len(), RANGES_MAX);
    assert_eq!(fitting.outside(Range::new(0, 4)), [Range::new(1, 3)]);
    fitting.remove(Range::new(0, 64));
    fitting.add(last);
    assert_eq!(fitting.outside(last), []);
}

fn steps() -> impl Strategy<Value = Vec<(bool, u64, u64)>> {
    prop::collection::vec((any::<bool>(), 0..60_u64, 0..12_u64), 0..60)
}

proptest! {
    #[test]
    fn ranges_are_those_of_a_model(steps in steps(), at in 0..64_u64, len in 0..64_u64) {
        let mut fitting = FittingColumns::default();
        let mut model = [false; 128];
        for (adds, start, len) in steps {
            let range = Range::new(start, len);
            match adds {
                true => fitting.add(range),
                false => fitting.remove(range),
            }
            let (from, to) = (usize::try_from(start).unwrap(), usize::try_from(start + len).unwrap());
            model[from..to].fill(adds);
        }
        let range = Range::new(at, len);
        let mut outside = [false; 128];
        for gap in fitting.outside(range) {
            prop_assert!(!gap.is_empty());
            for byte in gap.offset..gap.end() {
                outside[usize::try_from(byte).unwrap()] = true;
            }
        }
        for (byte, is_outside) in outside.iter().enumerate() {
            let is_within = (at..at + len).contains(&(byte as u64));
            prop_assert_eq!(*is_outside, is_within && !model[byte]);
        }
    }
}
