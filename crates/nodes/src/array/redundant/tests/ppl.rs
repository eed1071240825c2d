//! Arrays with partial parity logs: in what order members get what, what a log says, and what replay makes of it.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Errno, IoError, Node, Operation, Range, WriteFlags};
use futures_util::future::join_all;
use proptest::prelude::*;
use testkit::{
    Effect, Fault, FaultDisk, MemDisk, OpSpace, block_on, check_crashes, check_dropped_futures,
    check_in_batches, one_of_each, ops, pattern, single,
};

use super::kit::{
    DATA, DISK, Heard, MEMBER, RING, Recipe, heard, put, recorded, superblock, unbounded,
};
use super::logged_rows::{CHUNK, column, sum_of, without_trims};
use crate::array::format::ppl::{self, PplHeader, PplProblem};
use crate::array::format::{Level, Role};
use crate::array::{AddOptions, Array, ArrayError, ArrayOptions, Candidate, MemberState, open};
use crate::{Delay, DelayTimes};

/// What each request to a member takes, where that counts.
const REQUEST: Duration = Duration::from_millis(10);
/// The smallest log: one header, and partial parity of 4 KiB.
pub(super) const SMALL: u64 = 8192;
pub(super) const FIRST: Range = Range::new(0, CHUNK);
const SIGNED: [u8; 16] = [7; 16];

fn four(len: u64) -> Recipe {
    Recipe::parity(Level::Raid5, 2, 4).with_ppl(len)
}

fn disk(len: u64) -> Node {
    Arc::new(MemDisk::new(DISK + len))
}

fn disks(len: u64, count: usize) -> Vec<Node> {
    (0..count).map(|_| disk(len)).collect()
}

async fn try_open(disks: &[Node]) -> Result<Arc<Array>, ArrayError> {
    let candidate =
        |(index, disk): (usize, &Node)| Candidate::local(super::kit::name(index), disk.clone());
    let candidates = disks.iter().enumerate().map(candidate).collect();
    open(candidates, unbounded()).await
}

pub(super) async fn opened(disks: &[Node]) -> Arc<Array> {
    try_open(disks).await.unwrap()
}

pub(super) async fn write(array: &Array, range: Range, fill: u8) -> Result<(), IoError> {
    let data = single(pattern(fill, range));
    array.write(range, data, WriteFlags::empty()).await
}

async fn read(array: &Array, range: Range) -> Vec<u8> {
    array.read(range).await.unwrap().concat()
}

/// The header at a byte of a member's log.
async fn header(disk: &Node, at: u64) -> Result<PplHeader, PplProblem> {
    let bytes = disk.read(Range::new(DISK + at, 4096)).await.unwrap();
    PplHeader::decode(&bytes.concat(), ppl::signature(&SIGNED))
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

fn recipes() -> [Recipe; 4] {
    [
        Recipe::parity(Level::Raid5, 2, 3).with_ppl(SMALL),
        Recipe::parity(Level::Raid5, 0, 4).with_ppl(5 * 4096),
        Recipe::parity(Level::Raid5, 3, 5).with_ppl(RING),
        Recipe::parity(Level::Raid5, 5, 4).with_ppl(SMALL),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn arrays_with_logs_keep_what_is_written_also_without_a_member(
        list in ops(SPACE, 0..50),
        which in 0..4_usize,
        width in 1..12_usize,
        lost in 0..4_usize,
    ) {
        let recipe = recipes()[which].clone();
        let mut disks = disks(recipe.ppl.unwrap(), usize::try_from(recipe.parts).unwrap());
        block_on(async {
            recipe.make(&disks).await;
            if lost < disks.len() && lost > 0 {
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
        which in 0..4_usize,
        seed: u64,
    ) {
        let recipe = recipes()[which].clone();
        let size = DISK + recipe.ppl.unwrap();
        let sizes = vec![size; usize::try_from(recipe.parts).unwrap()];
        let open = |disks: Vec<Node>| open_or_make(recipe.clone(), disks);
        block_on(check_crashes(open, &sizes, &without_trims(list), seed)).unwrap();
    }
}

#[test]
fn dropped_futures_leave_nothing_that_lands_late() {
    for recipe in recipes() {
        let size = DISK + recipe.ppl.unwrap();
        let sizes = vec![size; usize::try_from(recipe.parts).unwrap()];
        let open = |disks: Vec<Node>| open_or_make(recipe.clone(), disks);
        let list = without_trims(one_of_each(Range::new(4096, 8192), MEMBER));
        block_on(check_dropped_futures(open, &sizes, &list)).unwrap();
    }
}

#[test]
fn what_is_logged_is_durable_on_the_member_with_the_parity_before_data_are_sent() {
    for len in [SMALL, RING] {
        block_on(async {
            let below = disks(len, 4);
            four(len).make(&below).await;
            let (disks, journal) = recorded(&below);
            let array = opened(&disks).await;
            write(&array, Range::new(0, 12 * CHUNK), 9).await.unwrap();
            heard(&journal);
            // Row 0 has its data on parts 0 to 2, and parity on part 3.
            write(&array, Range::new(CHUNK + 512, 1024), 1)
                .await
                .unwrap();
            let all = heard(&journal);
            let is_log = |heard: &Heard| heard.range.is_some_and(|range| range.offset >= DISK);
            let is_data = |heard: &Heard| heard.is_data() && !is_log(heard);
            let first = all.iter().position(is_data).unwrap();
            let logged: Vec<&Heard> = all[..first].iter().filter(|h| is_log(h)).collect();
            assert_eq!(logged.len(), 2, "{all:?}");
            let (sent, done) = (logged[0], logged[1]);
            assert!(
                !sent.done && done.done && done.fua && done.member == 3,
                "{done:?}"
            );
            // What the header before was of is flushed first: all members that its row changed.
            let before = all.iter().position(is_log).unwrap();
            let flushed = all[..before].iter().filter(|h| h.done && h.is_flush());
            assert_eq!(flushed.count(), 4);
            let range = done.range.unwrap();
            let header = header(&below[3], range.offset - DISK).await.unwrap();
            let [entry] = header.entries[..] else {
                panic!("{header:?}");
            };
            assert_eq!((entry.data_sector, entry.parity_part), (9, 3));
            assert_eq!((entry.parity_len, entry.data_len), (1024, 1024));
            let pp = below[3]
                .read(Range::new(range.offset + 4096, 1024))
                .await
                .unwrap();
            let sum = sum_of(&[below[0].clone(), below[2].clone()], 0).await;
            assert_eq!(pp.concat(), sum[512..1536]);
            assert_eq!(ppl::checksum([&sum[512..1536]]), entry.checksum);
        });
    }
}

#[test]
fn rows_that_arrive_together_share_a_header_and_generations_go_up() {
    block_on(async {
        let below = disks(RING, 4);
        four(RING).make(&below).await;
        let array = opened(&below).await;
        write(&array, FIRST, 1).await.unwrap();
        let first = header(&below[3], 4096).await.unwrap();
        assert_eq!((first.generation, first.entries.len()), (1, 1));
        // Rows 4, 8 and 12 have their parity on part 3, too.
        let pieces = [0, 4, 8, 12].map(|row| Range::new(row * 3 * CHUNK, CHUNK));
        let writes = pieces.map(|piece| write(&array, piece, 2));
        join_all(writes).await.into_iter().for_each(Result::unwrap);
        let (mut at, mut generation, mut entries) = (4096 + first.footprint(), 1, 0);
        while let Ok(next) = header(&below[3], at).await {
            generation += 1;
            assert_eq!(next.generation, generation);
            entries += next.entries.len();
            at += next.footprint();
        }
        assert_eq!(entries, 4);
        assert!(generation < 5, "{generation} headers");
        // Every other member has an empty one, behind which there is nothing.
        for disk in &below[..3] {
            assert_eq!(header(disk, 0).await.unwrap().entries, []);
            assert_eq!(header(disk, 4096).await, Err(PplProblem::Blank));
        }
    });
}

/// Row 0 as a cut leaves it: data of part 1 are new, parity is old.
pub(super) async fn torn(len: u64) -> (Vec<Node>, Vec<u8>) {
    let disks = disks(len, 4);
    four(len).make(&disks).await;
    let array = opened(&disks).await;
    let whole = Range::new(0, 12 * CHUNK);
    write(&array, whole, 1).await.unwrap();
    array.flush().await.unwrap();
    let parity = column(&disks, 3, 0).await;
    write(&array, Range::new(CHUNK, CHUNK), 2).await.unwrap();
    drop(array);
    put(&disks[3], DATA, parity).await;
    assert!(sum_of(&disks, 0).await.iter().any(|byte| *byte != 0));
    let mut expected = pattern(1, whole);
    expected[4096..8192].copy_from_slice(&pattern(2, Range::new(CHUNK, CHUNK)));
    (disks, expected)
}

#[test]
fn parity_that_a_cut_left_old_fits_once_the_array_is_opened_and_nothing_is_resynced() {
    for len in [SMALL, RING] {
        block_on(async {
            let (disks, expected) = torn(len).await;
            assert_eq!(superblock(&disks[0]).await.synced_to, Some(0));
            let array = opened(&disks).await;
            assert_eq!(array.by_hand().array.needed(0), None);
            assert!(sum_of(&disks, 0).await.iter().all(|byte| *byte == 0));
            assert_eq!(read(&array, Range::new(0, 12 * CHUNK)).await, expected);
            assert!(array.status().ppl && !array.status().resync_pending);
            array.stop().await.unwrap();
            assert_eq!(superblock(&disks[0]).await.synced_to, None);
        });
    }
}

#[test]
fn what_was_not_written_on_a_member_that_is_lost_with_the_power_is_there() {
    for (len, lost) in [(SMALL, 0), (RING, 0), (SMALL, 2), (RING, 3)] {
        block_on(async {
            let (mut disks, expected) = torn(len).await;
            disks.remove(lost);
            let array = opened(&disks).await;
            assert_eq!(read(&array, Range::new(0, 12 * CHUNK)).await, expected);
            // It is used on, and written.
            write(&array, FIRST, 5).await.unwrap();
            assert_eq!(read(&array, FIRST).await, pattern(5, FIRST));
            array.stop().await.unwrap();
        });
    }
}

#[test]
fn a_dirty_array_without_a_member_is_refused_read_only_and_nothing_is_written() {
    block_on(async {
        let (mut disks, _) = torn(SMALL).await;
        disks.remove(0);
        let before = sum_of(&disks, 0).await;
        let candidates = disks.iter().cloned().zip(0..);
        let candidates = candidates.map(|(disk, n)| Candidate::local(super::kit::name(n), disk));
        let read_only = ArrayOptions {
            read_only: true,
            ..unbounded()
        };
        let error = open(candidates.collect(), read_only)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("was being written when it stopped"),
            "{error}"
        );
        assert_eq!(sum_of(&disks, 0).await, before);
    });
}

#[test]
fn logs_are_paused_while_parity_is_resynced_and_kept_again_behind_that() {
    block_on(async {
        let (disks, _) = torn(SMALL).await;
        // A header that cannot be read: what was being written there is not known.
        put(&disks[3], DISK + 512, vec![0x55; 512]).await;
        let array = opened(&disks).await;
        assert!(array.by_hand().array.needed(0).is_some());
        write(&array, FIRST, 3).await.unwrap();
        for disk in &disks {
            assert_eq!(header(disk, 0).await, Err(PplProblem::Blank));
        }
        // A cut now, and a member lost: no log says what was being written.
        let error = try_open(&disks[1..]).await.unwrap_err().to_string();
        assert!(error.contains("kept no partial parity log"), "{error}");
        array.by_hand().work().await.unwrap();
        write(&array, FIRST, 4).await.unwrap();
        for (part, disk) in disks.iter().enumerate() {
            let entries = header(disk, 0).await.unwrap().entries.len();
            assert_eq!(entries, usize::from(part == 3));
        }
        assert!(sum_of(&disks, 0).await.iter().all(|byte| *byte == 0));
        array.stop().await.unwrap();
    });
}

#[test]
fn a_member_that_does_not_take_its_log_has_failed_durably_before_data_are_sent_without_one() {
    block_on(async {
        let below = disks(SMALL, 4);
        four(SMALL).make(&below).await;
        let faults = FaultDisk::new(below[3].clone(), 1, Vec::new());
        let mut failing = below.clone();
        failing[3] = faults.clone();
        let (disks, journal) = recorded(&failing);
        let array = opened(&disks).await;
        write(&array, Range::new(0, 3 * CHUNK), 1).await.unwrap();
        heard(&journal);
        faults.inject(Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write));
        write(&array, FIRST, 2).await.unwrap();
        let all = heard(&journal);
        let data = all
            .iter()
            .position(|h| h.is_data() && h.member == 0)
            .unwrap();
        let told = all[..data].iter().filter(|h| h.done && h.is_superblock());
        assert!(told.count() >= 3, "{all:?}");
        assert_eq!(superblock(&below[0]).await.roles[3], Role::Faulty);
        assert_eq!(read(&array, FIRST).await, pattern(2, FIRST));
    });
}

#[test]
fn a_member_that_comes_has_an_empty_log_before_it_holds_a_part() {
    block_on(async {
        let mut disks = disks(SMALL, 4);
        four(SMALL).make(&disks).await;
        let spare = disks.pop().unwrap();
        let array = opened(&disks).await;
        let whole = Range::new(0, 12 * CHUNK);
        write(&array, whole, 1).await.unwrap();
        // It has one of before, of this array.
        put(
            &spare,
            DISK,
            PplHeader {
                generation: 99,
                ..PplHeader::empty(ppl::signature(&SIGNED))
            }
            .encode(),
        )
        .await;
        let overwrite = AddOptions {
            overwrite: true,
            ..AddOptions::default()
        };
        let comes = Candidate::local("new".to_owned(), spare.clone());
        array.add(comes, overwrite).await.unwrap();
        array.by_hand().work().await.unwrap();
        assert_eq!(header(&spare, 0).await.unwrap().generation, 0);
        let states = array.status().members;
        assert!(
            states
                .iter()
                .all(|member| member.state == MemberState::InSync)
        );
        write(&array, FIRST, 2).await.unwrap();
        assert_eq!(header(&spare, 0).await.unwrap().entries.len(), 1);
        assert_eq!(read(&array, whole).await[..4096], pattern(2, FIRST));
        array.stop().await.unwrap();
        disks.push(spare);
        for row in 0..16 {
            assert!(
                sum_of(&disks, row).await.iter().all(|byte| *byte == 0),
                "row {row}"
            );
        }
    });
}

/// Where the new header is torn, and partial parity of it lies on headers of before, the oldest of these would count.
#[test]
fn old_headers_are_never_found_behind_one_that_is_torn() {
    block_on(async {
        let below = disks(RING, 4);
        four(RING).make(&below).await;
        let (disks, journal) = recorded(&below);
        let array = opened(&disks).await;
        let logged = |all: Vec<Heard>| {
            let is_log = |heard: &Heard| !heard.done && heard.member == 3;
            let of_log = all.into_iter().filter(is_log).filter_map(|heard| {
                let range = heard.range.filter(|range| range.offset >= DISK)?;
                Some((range.offset - DISK, range.len, heard.fua))
            });
            of_log.collect::<Vec<_>>()
        };
        write(&array, FIRST, 0).await.unwrap();
        let begun = [
            (0, 4096, true),
            (4096, RING - 4096, false),
            (0, 4096, true),
            (4096, 8192, true),
        ];
        assert_eq!(logged(heard(&journal)), begun);
        // A header with its partial parity takes 8 KiB of 264.
        for fill in 1..32 {
            write(&array, FIRST, fill).await.unwrap();
        }
        heard(&journal);
        write(&array, FIRST, 32).await.unwrap();
        assert_eq!(logged(heard(&journal)), [(0, 4096, true), (0, 8192, true)]);
        assert_eq!(header(&below[3], 0).await.unwrap().generation, 33);
    });
}

/// Each log flushed all members that its own rows had changed, so that four logs flushed every member four times.
#[test]
fn logs_of_all_members_share_one_flush_of_each() {
    block_on(async {
        let below = disks(RING, 4);
        four(RING).make(&below).await;
        let delay = |disk| Arc::new(Delay::new(disk, DelayTimes::all(REQUEST))) as Node;
        let (nodes, journal) = recorded(&below.into_iter().map(delay).collect::<Vec<_>>());
        let array = opened(&nodes).await;
        // Their parity is on four members.
        let rows = || {
            let writes = (0..4).map(|row| write(&array, Range::new(row * 3 * CHUNK, CHUNK), 7));
            join_all(writes)
        };
        rows().await.into_iter().collect::<Result<(), _>>().unwrap();
        heard(&journal);
        rows().await.into_iter().collect::<Result<(), _>>().unwrap();
        let all = heard(&journal);
        let count = |member, is_it: &dyn Fn(&Heard) -> bool| {
            let own = all.iter().filter(|one| one.member == member && !one.done);
            own.filter(|one| is_it(one)).count()
        };
        let is_header = |one: &Heard| one.fua && one.range.is_some_and(|at| at.offset >= DISK);
        for member in 0..4 {
            assert_eq!(count(member, &is_header), 1, "headers of member {member}");
            assert_eq!(
                count(member, &Heard::is_flush),
                1,
                "flushes of member {member}"
            );
        }
    });
}
