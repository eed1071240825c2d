//! Reshapes that meet what no member has any more: they go on, and what is lost stays an error, and nothing else. Where that cannot be noted they
//! wait, say why, and keep no spare from being rebuilt.

use std::sync::Arc;

use block::{BlockDevice, Errno, Node, Operation, Range};
use testkit::{Effect, Fault, FaultDisk, MemDisk, block_on, pattern};

use super::super::format::{self, Level, Version};
use super::super::redundant::tests::kit::{BITMAP, DATA, DISK, Recipe, SUPERBLOCK};
use super::super::redundant::tests::kit::{options, put, superblock};
use super::super::{
    AddOptions, Array, ArrayEvent, Candidate, ConsistencyChoice, MemberState, NewShape,
    ReshapeLosses, SyncKind, open,
};
use super::open::candidates;
use super::reshape::{Case, Content, assert_fits, one_step, write};
use super::unreadable::{CHUNK, Five, KIB, MEMBER, UNIT, whole};

const TO_FIVE: NewShape = NewShape {
    parts: Some(5),
    layout: None,
    chunk: None,
};

/// The array, written whole, that is to become one of all five disks; and what was written.
async fn growing() -> (Five, Arc<Array>, Range) {
    let bitmap = ConsistencyChoice::Bitmap(Some(16 * KIB));
    let five = Five::new(5, Version::V1_2, bitmap).await;
    let array = five.open().await;
    let old = whole(&array);
    write(&array, old, 1).await;
    array.reshape(TO_FIVE, None).await.unwrap();
    (five, array, old)
}

/// Units that cannot be read, of the first `len` bytes; all others hold the pattern.
async fn unreadable(array: &Array, len: u64) -> Vec<Range> {
    let mut lost = Vec::new();
    for at in (0..len).step_by(4096) {
        let unit = Range::new(at, UNIT);
        match array.read(unit).await {
            Ok(data) => assert!(data.concat() == pattern(1, unit), "byte {at}"),
            Err(error) => {
                assert_eq!(error.errno, Errno::Io);
                lost.push(unit);
            }
        }
    }
    lost
}

/// Reshapes to the end, while a sector of b and of d cannot be read: until rows that lie there are moved.
async fn reshape_with_losses(five: &Five, mut array: Arc<Array>, reopens: bool) -> Arc<Array> {
    let is_behind = |array: &Array| {
        let come_to = array.by_hand().array.reshaped_to();
        come_to.is_none_or(|(position, _)| position >= 30 * CHUNK)
    };
    while one_step(&array).await {
        if is_behind(&array) {
            five.faults.heal();
            five.faults_of_d.heal();
        }
        if reopens {
            array.stop().await.expect("it is stopped");
            array = five.open().await;
        }
    }
    array
}

#[test]
fn a_reshape_goes_on_past_what_no_member_has_and_what_is_lost_stays_an_error() {
    for reopens in [false, true] {
        block_on(async {
            let (five, array, old) = growing().await;
            five.spoil_two();
            let mut events = array.events();
            let array = reshape_with_losses(&five, array, reopens).await;
            assert_eq!(whole(&array).len, 4 * MEMBER, "the reshape has ended");
            let lost = unreadable(&array, old.len).await;
            assert_eq!(lost.len(), 2, "{lost:?}");
            if !reopens {
                let named = std::iter::from_fn(|| events.try_recv().ok());
                let named = named.filter_map(|event| match event {
                    ArrayEvent::BadBlocks { place } => Some(place),
                    _ => None,
                });
                assert_eq!(named.collect::<Vec<_>>(), lost);
                let losses = ReshapeLosses {
                    places: 2,
                    bytes: 2 * UNIT,
                };
                assert_eq!(array.status().reshape_losses, losses);
            }
            // It is known when it is opened again.
            array.stop().await.unwrap();
            let array = five.open().await;
            assert_eq!(array.status().working, 5);
            assert_eq!(unreadable(&array, old.len).await, lost);
            assert_fits(&array, "but for what is lost").await;
            // A cut next to it: parity is resynced, and that of what is lost is not waited for.
            for unit in &lost {
                write(&array, Range::new(unit.offset + UNIT, UNIT), 1).await;
            }
            drop(array);
            let array = five.open().await;
            assert!(array.by_hand().array.needed(0).is_some());
            array.by_hand().work().await.unwrap();
            assert_eq!(array.by_hand().array.needed(0), None);
            assert_eq!(unreadable(&array, old.len).await, lost);
            array.stop().await.unwrap();
        });
    }
}

#[test]
fn what_a_missing_member_has_next_to_it_is_not_lost_with_it_but_waits_for_a_spare() {
    block_on(async {
        let (five, array, old) = growing().await;
        array.fail("d").await.unwrap();
        five.spoil();
        let why = array.by_hand().work().await.unwrap_err().to_string();
        assert!(why.contains("add a disk"), "{why}");
        // Of b, and of d, which is computed from it.
        let lost = unreadable(&array, old.len).await;
        assert_eq!(lost.len(), 2, "{lost:?}");
        let new = Arc::new(MemDisk::new(6 << 20)) as Node;
        let new = Candidate::local("new", new);
        array.add(new, AddOptions::default()).await.unwrap();
        array.by_hand().work().await.unwrap();
        assert_eq!(array.status().reshape_pause, None);
        assert_eq!((array.status().working, array.status().parts), (5, 5));
        assert_eq!(whole(&array).len, 4 * MEMBER, "the reshape has ended");
        assert_eq!(unreadable(&array, old.len).await, lost);
        assert_fits(&array, "but for what is lost").await;
    });
}

#[test]
fn what_a_reshape_lost_can_be_written_again_and_data_next_to_it_as_well() {
    block_on(async {
        let (five, array, old) = growing().await;
        five.spoil_two();
        let array = reshape_with_losses(&five, array, false).await;
        let lost = unreadable(&array, old.len).await;
        // All data of the columns of which parity is noted as bad, one after the other: what is lost last.
        for unit in &lost {
            let row = unit.offset / (4 * CHUNK) * 4 * CHUNK;
            let others = (0..4).map(|index| row + index * CHUNK + unit.offset % CHUNK);
            for at in others.filter(|at| lost.iter().all(|unit| unit.offset != *at)) {
                write(&array, Range::new(at, UNIT), 1).await;
            }
        }
        assert_eq!(unreadable(&array, old.len).await, lost);
        for unit in &lost {
            write(&array, *unit, 1).await;
        }
        array.flush().await.unwrap();
        // Cut here: what was flushed is there.
        drop(array);
        let array = five.open().await;
        assert_eq!(unreadable(&array, old.len).await, []);
    });
}

/// A RAID 5 of a, b and c that becomes one of four: a alone has a log of bad blocks, and a chunk of b cannot be read, while c
/// is missing.
async fn paused() -> (Case, Vec<Node>, Arc<FaultDisk>, Arc<Array>) {
    let case = Case::devices(Recipe::parity(Level::Raid5, 2, 3).without_bitmap(), 4);
    let mut disks = case.disks();
    let faults = FaultDisk::new(disks[1].clone(), 1, Vec::new());
    disks[1] = faults.clone();
    case.recipe.make(&disks[..3]).await;
    let mut of = superblock(&disks[0]).await;
    of.bad_blocks = Some(Range::new(BITMAP, 512));
    put(&disks[0], SUPERBLOCK, format::encode(&of, SUPERBLOCK)).await;
    put(&disks[0], BITMAP, vec![0xff; 512]).await;
    let array = open(candidates(&disks[..3]), options()).await.unwrap();
    write(&array, Range::new(0, case.sizes()[0]), 1).await;
    let spare = Candidate::local("spare", disks[3].clone());
    array.add(spare, AddOptions::default()).await.unwrap();
    array.reshape(case.shape, None).await.unwrap();
    array.fail("c").await.unwrap();
    let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Read);
    faults.inject(fault.at(Range::new(DATA + 9 * 4096, 512)));
    (case, disks, faults, array)
}

#[test]
fn a_reshape_that_cannot_note_what_is_lost_waits_and_a_spare_is_rebuilt_meanwhile() {
    block_on(async {
        let (case, mut disks, faults, array) = paused().await;
        let mut events = array.events();
        let why = array.by_hand().work().await.unwrap_err().to_string();
        assert!(why.contains("reshape cannot go on"), "{why}");
        let pause = array.status().reshape_pause.expect("it waits");
        assert!(pause.done > 0 && pause.done < pause.of, "{pause:?}");
        assert!(pause.why.contains("no member has it"), "{pause:?}");
        let losses = array.status().reshape_losses;
        assert!(losses.places > 0 && losses.bytes >= 512, "{losses:?}");
        let sent = std::iter::from_fn(|| events.try_recv().ok());
        let is_it = |event| matches!(event, ArrayEvent::ReshapePaused { .. });
        assert_eq!(sent.filter(|event| is_it(event.clone())).count(), 1);
        // It is tried again: what is lost counts once.
        array.reshape(NewShape::default(), None).await.unwrap();
        array.by_hand().work().await.unwrap_err();
        assert_eq!(array.status().reshape_losses, losses);
        let new: Node = Arc::new(MemDisk::new(DISK));
        disks[2] = new.clone();
        let new = Candidate::local("new", new);
        array.add(new, AddOptions::default()).await.unwrap();
        let why = array.by_hand().work().await.unwrap_err().to_string();
        assert!(why.contains("no log of bad blocks"), "{why}");
        let members = array.status().members;
        let new = members.iter().find(|member| member.name == "new").unwrap();
        assert_eq!(new.state, MemberState::InSync);
        assert_eq!(array.status().working, 4);
        assert!(array.status().reshape_pause.is_some());
        // Another form, or a scrub, has to wait.
        let chunk = NewShape {
            layout: Some(0),
            ..NewShape::default()
        };
        let refused = array.reshape(chunk, None).await.unwrap_err().to_string();
        assert!(refused.contains("is being reshaped"), "{refused}");
        array.scrub(SyncKind::Check).unwrap_err();
        // Both forms were rebuilt, and what was lost can be read again.
        array.stop().await.unwrap();
        let array = open(candidates(&disks), options()).await.unwrap();
        assert_eq!(array.status().working, 4);
        faults.heal();
        array.reshape(NewShape::default(), None).await.unwrap();
        array.by_hand().work().await.unwrap();
        assert_eq!(array.status().reshape_pause, None);
        assert_eq!(array.status().reshape_losses, ReshapeLosses::default());
        case.has_ended(&array).await;
        array.fail("a").await.unwrap();
        Content::of(&case).check(&array, "without a").await;
    });
}

#[test]
fn a_member_that_is_rebuilt_in_the_midst_of_a_reshape_counts_as_blank_until_it_is_whole() {
    block_on(async {
        let (case, mut disks, faults, array) = paused().await;
        array.by_hand().work().await.unwrap_err();
        let new: Node = Arc::new(MemDisk::new(DISK));
        disks[2] = new.clone();
        let new = Candidate::local("new", new);
        array.add(new, AddOptions::default()).await.unwrap();
        let redundant = array.by_hand().array.clone();
        let (vacant, spares) = redundant.vacancies();
        redundant
            .give_part(spares[0], vacant[0], false)
            .await
            .unwrap();
        redundant.rebuilt(vacant[0], 20 << 10);
        redundant.checkpoint().await.unwrap();
        assert_eq!(superblock(&disks[2]).await.rebuilt_to, Some(0));
        array.stop().await.unwrap();
        drop(array);
        faults.heal();
        let array = open(candidates(&disks), options()).await.unwrap();
        assert_eq!(array.status().working, 3);
        array.by_hand().work().await.unwrap();
        case.has_ended(&array).await;
        assert_eq!(array.status().working, 4);
        assert_fits(&array, "rebuilt").await;
        array.fail("a").await.unwrap();
        Content::of(&case).check(&array, "without a").await;
    });
}

#[test]
fn no_reshape_is_continued_where_none_goes_on() {
    block_on(async {
        let case = Case::devices(Recipe::parity(Level::Raid5, 2, 3), 4);
        let disks = case.disks();
        case.recipe.make(&disks[..3]).await;
        let array = open(candidates(&disks[..3]), options()).await.unwrap();
        let refused = array.reshape(NewShape::default(), None).await.unwrap_err();
        assert!(refused.to_string().contains("no reshape is going on"));
    });
}
