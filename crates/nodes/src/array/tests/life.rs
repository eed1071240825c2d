//! What becomes of mirrors: members that come back, grow, scrub, halves that went apart, and the driver under an engine.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Node, Range, WriteFlags};
use engine::clock;
use testkit::{MemDisk, block_on, pattern};

use super::super::format::Version;
use super::super::redundant::tests::kit::{
    BIT, DATA, DISK, MEMBER, Recipe, heard, options, put, recorded, superblock,
};
use super::super::{
    AddOptions, Array, ArrayEvent, ArrayOptions, Candidate, MemberState, SyncKind, SyncRates, open,
};
use super::open::candidates;
use super::reshape::write;
use crate::test_runtime::{on_each_backend, timed};

const ALL: Range = Range::new(0, MEMBER);

fn disks(count: usize) -> Vec<Node> {
    let disk = |_| Arc::new(MemDisk::new(DISK)) as Node;
    (0..count).map(disk).collect()
}

async fn data(disk: &Node) -> Vec<u8> {
    disk.read(Range::new(DATA, MEMBER)).await.unwrap().concat()
}

/// The members' states by their names, those that were not forgotten.
fn states(array: &Array) -> Vec<(String, MemberState)> {
    let members = array.status().members.into_iter();
    members.map(|member| (member.name, member.state)).collect()
}

#[test]
fn a_member_that_comes_back_is_written_only_where_the_bitmap_says() {
    for chunks in [1, 3, 7] {
        block_on(async {
            let below = disks(2);
            let (disks, journal) = recorded(&below);
            Recipe::mirror(2).make(&disks).await;
            let array = open(candidates(&disks), options()).await.unwrap();
            write(&array, ALL, 1).await;
            array.by_hand().array.mark_clean().await.unwrap();
            for _ in 0..3 {
                array.by_hand().array.sweep().await.unwrap();
            }
            array.fail("b").await.unwrap();
            let bit = u64::from(BIT);
            // Every other chunk, a sector each, twice.
            for round in 0..2 {
                for chunk in 0..chunks {
                    let sector = Range::new(chunk * 2 * bit + 512 * round, 512);
                    write(&array, sector, 9).await;
                }
            }
            array.remove("b").await.unwrap();
            heard(&journal);
            array
                .re_add(Candidate::local("b", disks[1].clone()))
                .await
                .unwrap();
            array.by_hand().work().await.unwrap();
            let copied = heard(&journal).into_iter();
            let copied = copied.filter(|heard| heard.member == 1 && heard.done && heard.is_data());
            let copied: Vec<Range> = copied.filter_map(|heard| heard.range).collect();
            let bytes: u64 = copied.iter().map(|range| range.len).sum();
            assert!(bytes > 0 && bytes <= chunks * bit, "{chunks}: {copied:?}");
            let chunk = |at: u64| (at - DATA) / bit;
            let is_dirty = |at: u64| chunk(at).is_multiple_of(2) && chunk(at) < 2 * chunks;
            assert!(
                copied
                    .iter()
                    .all(|range| is_dirty(range.offset) && is_dirty(range.end() - 1))
            );
            assert!(data(&below[0]).await == data(&below[1]).await);
        });
    }
}

#[test]
fn a_mirror_grows_and_shrinks_and_is_found_so_by_who_opens_it_next() {
    block_on(async {
        let disks = disks(3);
        Recipe::mirror(2).make(&disks[..2]).await;
        let array = open(candidates(&disks[..2]), options()).await.unwrap();
        write(&array, ALL, 1).await;
        array.grow(3).await.unwrap();
        assert_eq!((array.status().parts, array.status().working), (3, 2));
        array
            .add(
                Candidate::local("c", disks[2].clone()),
                AddOptions::default(),
            )
            .await
            .unwrap();
        array.by_hand().work().await.unwrap();
        assert_eq!(array.status().working, 3);
        assert!(data(&disks[0]).await == data(&disks[2]).await);
        array.stop().await.unwrap();
        // Each of them knows; the new one alone has everything.
        for disk in &disks {
            assert_eq!(superblock(disk).await.members, 3);
        }
        let alone = open(candidates(&disks[2..]), options()).await.unwrap();
        assert_eq!(alone.read(ALL).await.unwrap().concat(), pattern(1, ALL));
        drop(alone);
        let array = open(candidates(&disks), options()).await.unwrap();
        array.fail("c").await.unwrap();
        array.grow(2).await.unwrap();
        write(&array, ALL, 2).await;
        array.stop().await.unwrap();
        let array = open(candidates(&disks[..2]), options()).await.unwrap();
        assert_eq!((array.status().parts, array.status().working), (2, 2));
        assert_eq!(array.read(ALL).await.unwrap().concat(), pattern(2, ALL));
        let reads = states(&array);
        assert!(
            reads.iter().all(|(_, state)| *state == MemberState::InSync),
            "{reads:?}"
        );
    });
}

/// A spare was away when another disk came, which got its number, and then a part. Once it was back, the other one was
/// away for a while, and came back by the bitmap under the number that both had: what was written to the holder of the part
/// was written to the spare, too, and the array could not be opened any more.
#[test]
fn a_member_whose_number_is_another_ones_by_now_comes_back_under_a_new_one() {
    block_on(async {
        let all = disks(4);
        let (a, spare, new) = (&all[0], &all[2], &all[3]);
        Recipe::mirror(2).make(&all[..3]).await;
        let array = open(candidates(&all[..2]), options()).await.unwrap();
        write(&array, ALL, 1).await;
        array.fail("b").await.unwrap();
        let added = array.add(Candidate::local("new", new.clone()), AddOptions::default());
        added.await.unwrap();
        array.by_hand().work().await.unwrap();
        array.stop().await.unwrap();
        let number = superblock(new).await.number;
        assert_eq!(number, superblock(spare).await.number);
        let without = [a.clone(), spare.clone()];
        let array = open(candidates(&without), options()).await.unwrap();
        write(&array, Range::new(0, 4096), 2).await;
        array.stop().await.unwrap();
        let three = [a.clone(), spare.clone(), new.clone()];
        let array = open(candidates(&three), options()).await.unwrap();
        array.by_hand().work().await.unwrap();
        array.stop().await.unwrap();
        assert_ne!(superblock(new).await.number, superblock(spare).await.number);
        let array = open(candidates(&three), options()).await.unwrap();
        let state = |name: &str, state| (name.to_owned(), state);
        let expected = [
            state("a", MemberState::InSync),
            state("c", MemberState::InSync),
            state("b", MemberState::Spare),
        ];
        assert_eq!(states(&array), expected);
        assert!(data(a).await == data(new).await);
    });
}

/// Of two members one had seen the last commit alone, and then was away: the other one went on without it, and counted as
/// many changes as it after its own next commit. Both looked as if they had always been together, and what was written
/// and flushed without the first one was gone.
#[test]
fn who_goes_on_without_a_member_that_may_be_one_commit_ahead_counts_past_it() {
    block_on(async {
        let disks = disks(2);
        let all = Range::new(0, DISK);
        Recipe::mirror(2).make(&disks).await;
        let array = open(candidates(&disks), options()).await.unwrap();
        write(&array, ALL, 1).await;
        array.flush().await.unwrap();
        let before = disks[1].read(all).await.unwrap();
        array.by_hand().array.mark_clean().await.unwrap();
        drop(array);
        // The second one did not get that any more.
        let plain = WriteFlags::empty();
        disks[1].write(all, before, plain).await.unwrap();
        let ahead = superblock(&disks[0]).await.events;
        assert_eq!(superblock(&disks[1]).await.events + 1, ahead);
        let array = open(candidates(&disks[1..]), options()).await.unwrap();
        write(&array, ALL, 2).await;
        array.flush().await.unwrap();
        drop(array);
        assert_eq!(superblock(&disks[1]).await.events, ahead + 1);
        let array = open(candidates(&disks), options()).await.unwrap();
        assert_eq!(array.read(ALL).await.unwrap().concat(), pattern(2, ALL));
        let away = |(_, state): &(String, MemberState)| *state == MemberState::Stale;
        assert_eq!(
            states(&array).iter().filter(|member| away(member)).count(),
            1
        );
    });
}

/// World 3141, as it was once. With superblocks 0.90 a newcomer gets the lowest number that no member here has: that of a
/// member that is away. That one came back by the bitmap and kept it; both were recorded as holders of its part, counted as
/// the same member, and the array could not be opened any more.
#[test]
fn a_member_with_a_superblock_0_90_comes_back_beside_who_came_new_with_its_number() {
    block_on(async {
        let disk = |_| Arc::new(MemDisk::new(MEMBER + (64 << 10))) as Node;
        let all: Vec<Node> = (0..3).map(disk).collect();
        let recipe = Recipe {
            version: Version::V0_90 { big_endian: false },
            ..Recipe::mirror(2)
        };
        recipe.make(&all[..2]).await;
        let array = open(candidates(&all[..1]), options()).await.unwrap();
        write(&array, ALL, 1).await;
        let new = Candidate::local("c", all[2].clone());
        array.add(new, AddOptions::default()).await.unwrap();
        let back = Candidate::local("b", all[1].clone());
        array.re_add(back).await.unwrap();
        array.by_hand().work().await.unwrap();
        array.stop().await.unwrap();
        drop(array);
        let array = open(candidates(&all), options()).await.unwrap();
        let state = |name: &str, state| (name.to_owned(), state);
        let expected = [
            state("a", MemberState::InSync),
            state("b", MemberState::InSync),
            state("c", MemberState::Spare),
        ];
        assert_eq!(states(&array), expected);
        for disk in &all[..2] {
            assert_eq!(disk.read(ALL).await.unwrap().concat(), pattern(1, ALL));
        }
    });
}

#[test]
fn a_scrub_reports_where_copies_differ_and_a_repair_makes_them_identical() {
    block_on(async {
        let disks = disks(2);
        Recipe::mirror(2).make(&disks).await;
        let array = open(candidates(&disks), options()).await.unwrap();
        write(&array, ALL, 1).await;
        // A sector, two that touch, one over the edge of a window, and the last one of all.
        let spoilt = [
            (512, 512),
            (8192, 1024),
            (4096 * 7 - 512, 1024),
            (MEMBER - 512, 512),
        ];
        for (at, len) in spoilt {
            put(
                &disks[1],
                DATA + at,
                vec![0xee; usize::try_from(len).unwrap()],
            )
            .await;
        }
        array.scrub(SyncKind::Check).unwrap();
        array.by_hand().work().await.unwrap();
        let found = array.status().scrubbed.unwrap();
        assert_eq!(
            (found.mismatches, found.repaired, found.finished),
            (6, false, true)
        );
        let told: u64 = found.places.iter().map(|place| place.len).sum();
        assert_eq!(told, 6 * 512);
        let is_spoilt = |place: &Range| {
            let mut spoilt = spoilt.iter();
            spoilt.any(|(at, len)| *at <= place.offset && place.end() <= at + len)
        };
        assert!(found.places.iter().all(is_spoilt), "{:?}", found.places);
        assert!(
            data(&disks[0]).await != data(&disks[1]).await,
            "a check changes nothing"
        );
        array.scrub(SyncKind::Repair).unwrap();
        array.by_hand().work().await.unwrap();
        let found = array.status().scrubbed.unwrap();
        assert_eq!((found.mismatches, found.repaired), (6, true));
        assert!(data(&disks[0]).await == data(&disks[1]).await);
        assert_eq!(array.read(ALL).await.unwrap().concat(), pattern(1, ALL));
        array.scrub(SyncKind::Check).unwrap();
        array.by_hand().work().await.unwrap();
        assert_eq!(array.status().scrubbed.unwrap().mismatches, 0);
    });
}

#[test]
fn halves_that_went_apart_are_refused_and_the_one_that_is_preferred_is_copied_whole() {
    for prefer in [0, 1] {
        block_on(async {
            let memory: Vec<_> = (0..2).map(|_| Arc::new(MemDisk::new(DISK))).collect();
            let disks: Vec<Node> = memory.iter().map(|disk| disk.clone() as Node).collect();
            Recipe::mirror(2).make(&disks).await;
            let array = open(candidates(&disks), options()).await.unwrap();
            write(&array, ALL, 1).await;
            array.stop().await.unwrap();
            drop(array);
            for (half, fill) in [(0, 2), (1, 3)] {
                let array = open(candidates(&disks[half..=half]), options())
                    .await
                    .unwrap();
                write(&array, Range::new(16_384 * u64::from(fill), 4096), fill).await;
                array.stop().await.unwrap();
            }
            // A byte that neither bitmap speaks of shows that all of it is copied.
            put(&disks[1 - prefer], DATA + 512, vec![0xee; 512]).await;
            let before: Vec<_> = memory.iter().map(|disk| disk.snapshot()).collect();
            let refused = open(candidates(&disks), options()).await.unwrap_err();
            let line = refused.to_string();
            assert!(
                line.contains("used in two ways") && line.contains("a without the rest"),
                "{line}"
            );
            assert!(refused.next().unwrap().contains("prefer="), "{refused:?}");
            let after: Vec<_> = memory.iter().map(|disk| disk.snapshot()).collect();
            assert!(before == after, "nothing is written");
            let decided = ArrayOptions {
                prefer: Some(prefer),
                ..options()
            };
            let array = open(candidates(&disks), decided).await.unwrap();
            let counts = data(&disks[prefer]).await;
            assert!(array.read(ALL).await.unwrap().concat() == counts);
            array.by_hand().work().await.unwrap();
            assert_eq!(array.status().working, 2, "{:?}", array.status());
            assert!(data(&disks[0]).await == counts && data(&disks[1]).await == counts);
            array.stop().await.unwrap();
            // It is settled: they open together, unasked.
            let array = open(candidates(&disks), options()).await.unwrap();
            assert_eq!(array.status().working, 2);
        });
    }
}

/// All that is done by the clock, by the clock: the test does not call the sync manager.
#[test]
fn under_an_engine_a_spare_takes_over_bits_are_cleared_and_the_array_goes_clean_by_itself() {
    on_each_backend(|| async {
        let disks = disks(3);
        Recipe::mirror(2).make(&disks).await;
        let by_itself = ArrayOptions {
            run: true,
            ..ArrayOptions::default()
        };
        let array = open(candidates(&disks), by_itself).await.unwrap();
        let mut events = array.events();
        write(&array, ALL, 1).await;
        assert!(
            superblock(&disks[0]).await.synced_to.is_some(),
            "it is dirty"
        );
        array.fail("b").await.unwrap();
        clock::timeout(Duration::from_secs(20), array.synced())
            .await
            .unwrap()
            .unwrap();
        let mut told = Vec::new();
        while let Ok(event) = events.try_recv() {
            told.push(event);
        }
        let kind = SyncKind::Recovery;
        for wanted in [
            ArrayEvent::RebuildStarted(kind),
            ArrayEvent::SpareActive {
                member: "c".to_owned(),
            },
            ArrayEvent::RebuildFinished {
                kind,
                mismatches: 0,
            },
        ] {
            assert!(told.contains(&wanted), "{wanted:?} is not among {told:?}");
        }
        assert_eq!(array.status().working, 2);
        assert!(data(&disks[0]).await == data(&disks[2]).await);
        let mut looks = 0;
        while !array.status().clean {
            looks += 1;
            assert!(looks < 200, "it does not go clean");
            clock::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(superblock(&disks[0]).await.synced_to, None);
        array.stop().await.unwrap();
        assert_eq!(array.status().bitmap.unwrap().dirty, 0);
    });
}

#[test]
fn a_recovery_that_is_ended_early_goes_on_where_it_was() {
    timed(async {
        let below = disks(2);
        let (disks, journal) = recorded(&below);
        Recipe::mirror(2).without_bitmap().make(&disks).await;
        let slow = ArrayOptions {
            rates: SyncRates {
                min: 1,
                max: 16 << 10,
            },
            ..options()
        };
        let array = open(candidates(&disks), slow).await.unwrap();
        write(&array, ALL, 1).await;
        array.fail("b").await.unwrap();
        array.remove("b").await.unwrap();
        let second = Candidate::local("b", disks[1].clone());
        array.add(second, AddOptions::default()).await.unwrap();
        let half_way = async {
            let is_far = |state| matches!(state, MemberState::Rebuilding(to) if to >= MEMBER / 4);
            while !states(&array).iter().any(|(_, state)| is_far(*state)) {
                clock::sleep(Duration::from_millis(10)).await;
            }
            array.stop().await.unwrap();
        };
        let (worked, ()) = futures_util::future::join(array.by_hand().work(), half_way).await;
        worked.unwrap();
        drop(array);
        let reached = superblock(&below[1]).await.rebuilt_to.unwrap();
        assert!((MEMBER / 4..MEMBER).contains(&reached), "{reached}");
        heard(&journal);
        let array = open(candidates(&disks), options()).await.unwrap();
        array.by_hand().work().await.unwrap();
        assert_eq!(array.status().working, 2);
        let written = heard(&journal).into_iter();
        let written = written.filter(|heard| heard.member == 1 && heard.is_data());
        let places = written.filter_map(|heard| heard.range);
        let first = places.map(|range| range.offset).min();
        assert!(first.unwrap() >= DATA + reached, "{first:?} {reached}");
        assert!(data(&below[0]).await == data(&below[1]).await);
    });
}
