//! New arrays with a journal: what is on its disk, what is refused, and that they are used.

use block::{BlockDevice as _, Range};
use testkit::block_on;

use super::parity::{CHUNK, all_of, opened_with, options, write};
use super::{MIB, NewMember, disks, found, made, missing};
use crate::array::create::{ConsistencyChoice, ConsistencyPolicy, CreateOptions};
use crate::array::format::r5l::{JournalKey, JournalSpace, MetaBlock, PAGE};
use crate::array::format::{Level, Role, Version, features};
use crate::read_within;

const VERSIONS: [Version; 3] = [Version::V1_0, Version::V1_1, Version::V1_2];

fn with_journal(level: Level, version: Version, journal: NewMember) -> CreateOptions {
    CreateOptions {
        consistency: ConsistencyChoice::Default,
        journal: Some(journal),
        ..options((level, if level == Level::Raid4 { 0 } else { 2 }), version)
    }
}

/// One more disk than members, of another size.
fn with_disk(members: usize, size: u64) -> (Vec<NewMember>, NewMember) {
    let mut sizes = vec![4 * MIB; members];
    sizes.push(size);
    let mut members = disks(&sizes);
    let journal = members.pop().expect("there is one");
    (members, journal)
}

#[test]
fn all_say_that_there_is_a_journal_and_one_disk_has_it() {
    for version in VERSIONS {
        for (level, count) in [(Level::Raid4, 3), (Level::Raid5, 3), (Level::Raid6, 4)] {
            let (members, journal) = with_disk(count, 3 * MIB);
            let of = with_journal(level, version, journal.clone());
            let created = made(&members, &[], &of).expect("it can be made");
            assert_eq!(created.policy, ConsistencyPolicy::Journal);
            for member in members.iter().chain([&journal]) {
                let superblock = found(member).1;
                assert_eq!(superblock.features, features::JOURNAL);
                assert_eq!(superblock.roles[count], Role::Journal);
                assert!(superblock.bitmap_at.is_none() && superblock.ppl.is_none());
            }
            let (found, superblock) = found(&journal);
            assert_eq!(superblock.role, Role::Journal);
            assert!(superblock.bad_blocks.is_none() && superblock.fits(3 * MIB));
            let space = JournalSpace::of(&superblock);
            assert!(found.at + PAGE <= space.place.offset || found.at >= space.place.end());
            let disk = journal.disk.as_ref().expect("it is there");
            let first = block_on(read_within(disk, Range::new(space.place.offset, PAGE)));
            let key = JournalKey::of(superblock.array);
            let first = MetaBlock::decode(&first.expect("it can be read"), key, 0);
            assert_eq!(first.expect("it has a block").payloads, []);
        }
    }
}

#[test]
fn they_are_synced_and_written_and_replayed_without_members() {
    for (level, version) in [Level::Raid5, Level::Raid6].iter().zip(VERSIONS) {
        let (members, journal) = with_disk(4, 2 * MIB);
        let of = with_journal(*level, version, journal.clone());
        made(&members, &[], &of).expect("it can be made");
        let all = [&members[..], std::slice::from_ref(&journal)].concat();
        let data = block_on(async {
            let array = opened_with(&all, false).await.expect("it can be opened");
            assert!(array.status().resync_pending && array.status().journal);
            write(&array, Range::new(3 * CHUNK - 512, 5 * CHUNK), 1).await;
            array.work().await;
            write(&array, Range::new(9 * CHUNK, CHUNK + 512), 2).await;
            array.flush().await.expect("members work");
            all_of(&array).await
        });
        // It was not stopped, and lacks as many members as it can.
        let mut here = all.clone();
        here[1] = missing();
        if *level == Level::Raid6 {
            here[2] = missing();
        }
        block_on(async {
            let array = opened_with(&here, true).await.expect("it is replayed");
            assert!(all_of(&array).await == data, "{version} {level:?}");
            array.stop().await.expect("members work");
        });
    }
}

#[test]
fn what_cannot_have_a_journal_is_refused() {
    let refused = |level: Level, change: &dyn Fn(&mut CreateOptions), size: u64| {
        let (members, journal) = with_disk(4, size);
        let mut of = with_journal(level, Version::V1_2, journal);
        change(&mut of);
        let refused = made(&members, &[], &of).expect_err("it cannot be made");
        refused.to_string()
    };
    let why = refused(
        Level::Raid5,
        &|of| of.consistency = ConsistencyChoice::Ppl,
        MIB * 4,
    );
    assert!(why.contains("no other consistency policy"), "{why}");
    let old = Version::V0_90 { big_endian: false };
    let why = refused(Level::Raid5, &|of| of.version = old, MIB * 4);
    assert!(why.contains("superblocks 0.90 have no journal"), "{why}");
    let raid10 = |of: &mut CreateOptions| {
        (of.level, of.layout) = (Level::Raid10, None);
    };
    let why = refused(Level::Raid5, &raid10, MIB * 4);
    assert!(why.contains("raid10 has no journal"), "{why}");
    let none = |of: &mut CreateOptions| {
        (of.consistency, of.journal) = (ConsistencyChoice::Journal, None);
    };
    let why = refused(Level::Raid6, &none, MIB * 4);
    assert!(why.contains("a journal needs a disk of its own"), "{why}");
    let why = refused(Level::Raid6, &|_| {}, MIB + (16 << 10));
    assert!(why.contains("too small"), "{why}");
}
