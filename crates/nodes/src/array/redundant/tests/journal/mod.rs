//! Arrays with a journal: in what order members get what, what the journal says, and what replay makes of it.

mod failures;
mod found;
mod scrub;

use std::sync::Arc;

use block::{BlockDevice, IoError, Node, Operation, Range, WriteFlags};
use proptest::prelude::*;
use smallvec::smallvec;
use testkit::{
    MemDisk, OpSpace, block_on, check_crashes, check_dropped_futures, check_in_batches,
    one_of_each, ops, pattern, single,
};

use super::kit::{
    DATA, DISK, Heard, MEMBER, Recipe, SEQUENCE, heard, name, put, recorded, superblock, unbounded,
};
use super::logged_rows::{CHUNK, column, sum_of, without_trims};
use crate::array::format::Level;
use crate::array::format::r5l::{
    JournalKey, JournalSpace, MetaBlock, PAGE, Payload, SEQUENCE_STEP,
};
use crate::array::{Array, ArrayError, ArrayOptions, Candidate, open};

/// Bytes of the disk with the journal, behind its superblock: with little room, space is used again and again.
const SMALL: u64 = 40 * PAGE;
const LARGE: u64 = 1 << 20;
const FIRST: Range = Range::new(0, CHUNK);

fn five() -> Recipe {
    Recipe::parity(Level::Raid5, 2, 4).with_journal()
}

fn six() -> Recipe {
    Recipe::parity(Level::Raid6, 2, 5).with_journal()
}

/// Disks of members, and that of the journal.
fn disks(recipe: &Recipe, journal: u64) -> Vec<Node> {
    let sizes = sizes(recipe, journal).into_iter();
    sizes
        .map(|size| Arc::new(MemDisk::new(size)) as Node)
        .collect()
}

fn sizes(recipe: &Recipe, journal: u64) -> Vec<u64> {
    let mut sizes = vec![DISK; usize::try_from(recipe.parts).unwrap()];
    sizes.push(DATA + journal);
    sizes
}

async fn open_with(disks: &[Node], options: ArrayOptions) -> Result<Arc<Array>, ArrayError> {
    let candidate = |(index, disk): (usize, &Node)| Candidate::local(name(index), disk.clone());
    let candidates = disks.iter().enumerate().map(candidate).collect();
    open(candidates, options).await
}

async fn opened(disks: &[Node]) -> Arc<Array> {
    open_with(disks, unbounded()).await.unwrap()
}

async fn refused(disks: &[Node], read_only: bool) -> String {
    let options = ArrayOptions {
        read_only,
        ..unbounded()
    };
    open_with(disks, options).await.unwrap_err().to_string()
}

async fn write(array: &Array, range: Range, fill: u8) -> Result<(), IoError> {
    let data = single(pattern(fill, range));
    array.write(range, data, WriteFlags::empty()).await
}

async fn read(array: &Array, range: Range) -> Vec<u8> {
    array.read(range).await.unwrap().concat()
}

fn key() -> JournalKey {
    JournalKey::of([7; 16])
}

async fn bytes_of(disk: &Node, at: u64) -> Vec<u8> {
    disk.read(Range::new(at, PAGE)).await.unwrap().concat()
}

/// The meta block at a byte of the journal.
async fn block(disk: &Node, at: u64) -> Option<MetaBlock> {
    MetaBlock::decode(&bytes_of(disk, DATA + at).await, key(), at).ok()
}

/// Where its superblock says that it begins.
async fn tail(disk: &Node) -> u64 {
    JournalSpace::of(&superblock(disk).await).tail(&bytes_of(disk, 4096).await)
}

const SPACE: OpSpace = OpSpace {
    size: 2 * MEMBER,
    block_size: 512,
    len_max: 40 << 10,
};

/// A disk of zeroes is new; else what is there is opened.
async fn open_or_make(recipe: Recipe, disks: Vec<Node>) -> Result<Node, IoError> {
    let head = disks[0].read(Range::new(4096, 4)).await?.concat();
    if head == [0; 4] {
        recipe.make(&disks).await;
    }
    let array: Arc<Array> = opened(&disks).await;
    Ok(array)
}

fn recipes() -> [(Recipe, u64); 5] {
    [
        (five(), SMALL),
        (six(), SMALL),
        (Recipe::parity(Level::Raid4, 0, 3).with_journal(), LARGE),
        (Recipe::parity(Level::Raid6, 3, 6).with_journal(), LARGE),
        (Recipe::parity(Level::Raid5, 0, 5).with_journal(), SMALL),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn arrays_with_a_journal_keep_what_is_written_also_without_a_member(
        list in ops(SPACE, 0..50),
        which in 0..5_usize,
        width in 1..12_usize,
        lost in 0..4_usize,
    ) {
        let (recipe, journal) = recipes()[which].clone();
        let mut disks = disks(&recipe, journal);
        block_on(async {
            recipe.make(&disks).await;
            if lost + 1 < disks.len() && lost > 0 {
                disks.remove(lost);
            }
            let array = opened(&disks).await;
            check_in_batches(&*array, &without_trims(list), width).await.unwrap();
            array.stop().await.unwrap();
        });
    }

    #[test]
    fn what_was_flushed_is_there_after_a_crash(
        list in ops(SPACE, 0..20),
        which in 0..5_usize,
        seed: u64,
    ) {
        let (recipe, journal) = recipes()[which].clone();
        let open = |disks: Vec<Node>| open_or_make(recipe.clone(), disks);
        let sizes = sizes(&recipe, journal);
        block_on(check_crashes(open, &sizes, &without_trims(list), seed)).unwrap();
    }
}

#[test]
fn dropped_futures_leave_nothing_that_lands_late() {
    for (recipe, journal) in recipes() {
        let open = |disks: Vec<Node>| open_or_make(recipe.clone(), disks);
        let list = without_trims(one_of_each(Range::new(4096, 8192), MEMBER));
        let sizes = sizes(&recipe, journal);
        block_on(check_dropped_futures(open, &sizes, &list)).unwrap();
    }
}

#[test]
fn data_and_parity_are_durable_in_the_journal_before_members_get_them() {
    block_on(async {
        let below = disks(&five(), LARGE);
        five().make(&below).await;
        let (disks, journal) = recorded(&below);
        let array = opened(&disks).await;
        assert!(
            heard(&journal)
                .iter()
                .all(|h| h.operation == Operation::Read)
        );
        // Row 0 has its data on parts 0 to 2, and parity on part 3; a part of a page is written.
        write(&array, Range::new(CHUNK + 512, 1024), 1)
            .await
            .unwrap();
        let all = heard(&journal);
        let is_data = |heard: &&Heard| heard.is_data() && heard.member < 4;
        let first = all.iter().position(|heard| is_data(&heard)).unwrap();
        let logged: Vec<&Heard> = all[..first]
            .iter()
            .filter(|heard| heard.is_data() && heard.done)
            .collect();
        let places: Vec<_> = logged.iter().map(|h| (h.range.unwrap(), h.fua)).collect();
        let empty = Range::new(DATA + PAGE, PAGE);
        let batch = Range::new(DATA + 2 * PAGE, 3 * PAGE);
        assert_eq!(places, [(empty, true), (batch, true)]);
        // The tail is the empty block, and members are not dirty: what is under way is in the journal.
        assert_eq!(tail(&below[4]).await, PAGE);
        for disk in &below {
            assert_eq!(superblock(disk).await.synced_to, None);
        }
        let begun = block(&below[4], PAGE).await.unwrap();
        assert_eq!(begun, MetaBlock::empty(SEQUENCE + 1 + SEQUENCE_STEP, PAGE));
        let block = block(&below[4], 2 * PAGE).await.unwrap();
        assert_eq!(block.sequence, begun.sequence + 1);
        let pages = [
            bytes_of(&below[1], DATA).await,
            bytes_of(&below[3], DATA).await,
        ];
        let sums = pages.each_ref().map(|page| key().checksum([&page[..]]));
        let data = Payload::Data {
            at: CHUNK,
            checksum: sums[0],
        };
        let parity = Payload::Parity {
            at: 0,
            checksums: smallvec![sums[1]],
        };
        assert_eq!(block.payloads, [data, parity]);
        assert_eq!(bytes_of(&below[4], DATA + 3 * PAGE).await, pages[0]);
        assert!(array.status().journal);
        array.stop().await.unwrap();
        assert!(tail(&below[4]).await > 2 * PAGE);
    });
}

/// Row 0 as a cut leaves it: data of part 1 are new, parity is old; or data are old, too.
async fn torn(recipe: &Recipe, journal: u64, data_too: bool) -> (Vec<Node>, Vec<u8>) {
    let disks = disks(recipe, journal);
    recipe.make(&disks).await;
    let array = opened(&disks).await;
    let whole = Range::new(0, 12 * CHUNK);
    write(&array, whole, 1).await.unwrap();
    array.flush().await.unwrap();
    let mut before = Vec::new();
    for part in 0..disks.len() - 1 {
        before.push(column(&disks, part, 0).await);
    }
    write(&array, Range::new(CHUNK, CHUNK), 2).await.unwrap();
    drop(array);
    let mut expected = pattern(1, whole);
    expected[4096..8192].copy_from_slice(&pattern(2, Range::new(CHUNK, CHUNK)));
    for (part, old) in before.into_iter().enumerate() {
        let is_data = bytes_of(&disks[part], DATA).await == expected[4096..8192];
        if data_too || !is_data {
            put(&disks[part], DATA, old).await;
        }
    }
    (disks, expected)
}

#[test]
fn what_a_cut_left_half_written_is_whole_once_the_array_is_opened_and_nothing_is_resynced() {
    for (recipe, journal) in [(five(), SMALL), (five(), LARGE), (six(), LARGE)] {
        for data_too in [false, true] {
            block_on(async {
                let (disks, expected) = torn(&recipe, journal, data_too).await;
                assert_eq!(superblock(&disks[0]).await.synced_to, None);
                let array = opened(&disks).await;
                assert_eq!(array.by_hand().array.needed(0), None);
                assert_eq!(read(&array, Range::new(0, 12 * CHUNK)).await, expected);
                if recipe.level == Level::Raid5 {
                    assert!(sum_of(&disks[..4], 0).await.iter().all(|byte| *byte == 0));
                }
                array.stop().await.unwrap();
            });
        }
    }
}

#[test]
fn nothing_is_lost_with_members_that_are_lost_with_the_power() {
    for (recipe, losts) in [(five(), vec![0]), (five(), vec![1]), (six(), vec![3, 1])] {
        block_on(async {
            let (mut disks, expected) = torn(&recipe, LARGE, true).await;
            for lost in losts {
                disks.remove(lost);
            }
            let whole = Range::new(0, 12 * CHUNK);
            let array = opened(&disks).await;
            // What was being written on the member that is missing is there, too.
            assert_eq!(read(&array, whole).await, expected);
            write(&array, FIRST, 5).await.unwrap();
            drop(array);
            let array = opened(&disks).await;
            assert_eq!(read(&array, FIRST).await, pattern(5, FIRST));
            array.stop().await.unwrap();
        });
    }
}

#[test]
fn an_array_that_is_only_read_is_refused_while_members_lack_what_the_journal_has() {
    block_on(async {
        let (disks, expected) = torn(&five(), LARGE, true).await;
        let why = refused(&disks, true).await;
        assert!(
            why.contains("its journal m4 has what members lack"),
            "{why}"
        );
        opened(&disks).await.stop().await.unwrap();
        let read_only = ArrayOptions {
            read_only: true,
            ..unbounded()
        };
        let array = open_with(&disks, read_only).await.unwrap();
        assert_eq!(read(&array, Range::new(0, 12 * CHUNK)).await, expected);
        assert!(array.status().journal);
    });
}

#[test]
fn an_array_without_its_journal_is_only_read_and_without_a_member_too_only_by_force() {
    block_on(async {
        let (mut disks, expected) = torn(&five(), LARGE, true).await;
        opened(&disks).await.stop().await.unwrap();
        disks.pop();
        let why = refused(&disks, false).await;
        assert!(
            why.contains("the journal of array test is missing"),
            "{why}"
        );
        let mut options = ArrayOptions {
            read_only: true,
            ..unbounded()
        };
        let array = open_with(&disks, options.clone()).await.unwrap();
        assert_eq!(read(&array, Range::new(0, 12 * CHUNK)).await, expected);
        disks.remove(1);
        let why = refused(&disks, true).await;
        assert!(
            why.contains("the journal of array test is missing"),
            "{why}"
        );
        options.force_dirty_degraded = true;
        open_with(&disks, options).await.unwrap();
    });
}

#[test]
fn space_is_used_again_around_the_end_and_a_cut_at_any_time_is_replayed() {
    block_on(async {
        let recipe = six();
        let disks = disks(&recipe, SMALL);
        recipe.make(&disks).await;
        let mut tails = Vec::new();
        for fill in 1..60 {
            let array = opened(&disks).await;
            let range = Range::new(u64::from(fill) % 7 * 1536, 5 * CHUNK + 512);
            write(&array, range, fill).await.unwrap();
            write(&array, FIRST, fill).await.unwrap();
            drop(array);
            // Without the last member each third time.
            let here = match fill % 3 {
                0 => [&disks[..4], &disks[5..]].concat(),
                _ => disks.clone(),
            };
            let read_only = ArrayOptions {
                read_only: true,
                ..unbounded()
            };
            let array = open_with(&here, read_only).await.unwrap();
            assert_eq!(read(&array, FIRST).await, pattern(fill, FIRST));
            tails.push(tail(&disks[5]).await);
        }
        tails.dedup();
        assert!(tails.len() > 40, "{tails:?}");
        assert!(tails.windows(2).any(|pair| pair[1] < pair[0]), "{tails:?}");
    });
}
