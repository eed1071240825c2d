//! What may not become a member, and what cannot be grown: one clear line each, and nothing written.

use std::sync::Arc;

use block::{BlockDevice, Node, Range, WriteFlags};
use testkit::{MemDisk, block_on, pattern, single};

use super::super::format::{Changes, Role, Version, features, patch};
use super::super::redundant::tests::kit::{
    BITMAP, DISK, MEMBER, Recipe, SUPERBLOCK, name, options, put, superblock,
};
use super::super::{AddOptions, Array, ArrayError, ArrayOptions, Candidate, open};

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Add,
    ReAdd,
}

/// A mirror of two of which the second one has failed and was forgotten.
struct Bench {
    disks: Vec<Arc<MemDisk>>,
    array: Arc<Array>,
}

fn node(disk: &Arc<MemDisk>) -> Node {
    disk.clone()
}

fn copy(disk: &MemDisk) -> Arc<MemDisk> {
    Arc::new(MemDisk::from_bytes(disk.snapshot()))
}

impl Bench {
    async fn new() -> Self {
        Self::with(&options()).await
    }

    async fn with(options: &ArrayOptions) -> Self {
        let disks: Vec<_> = (0..2).map(|_| Arc::new(MemDisk::new(DISK))).collect();
        let nodes: Vec<Node> = disks.iter().map(node).collect();
        Recipe::mirror(2).make(&nodes).await;
        let members = (0..).zip(&nodes);
        let members = members.map(|(at, disk)| Candidate::local(name(at), disk.clone()));
        let array = open(members.collect(), options.clone()).await.unwrap();
        if !options.read_only {
            array.fail(&name(1)).await.unwrap();
            array.remove(&name(1)).await.unwrap();
        }
        Self { disks, array }
    }

    /// Adds a disk: why it is refused, and that nothing was written.
    async fn refused(&self, ask: Ask, disk: &Arc<MemDisk>) -> String {
        let disks = || self.disks.iter().chain([disk]);
        let before: Vec<_> = disks().map(|disk| disk.snapshot()).collect();
        let asked = self.ask(ask, Candidate::local("x", node(disk))).await;
        let after: Vec<_> = disks().map(|disk| disk.snapshot()).collect();
        assert!(before == after, "{ask:?}: who is refused is not written");
        line(asked.expect_err("it is refused"))
    }

    async fn ask(&self, ask: Ask, disk: Candidate) -> Result<(), ArrayError> {
        match ask {
            Ask::Add => self.array.add(disk, AddOptions::default()).await,
            Ask::ReAdd => self.array.re_add(disk).await,
        }
    }
}

fn line(error: ArrayError) -> String {
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

/// A disk and what is changed in the bytes of its superblock; the checksum is put right.
async fn changed(disk: &MemDisk, change: impl FnOnce(&mut [u8])) -> Arc<MemDisk> {
    let changed = copy(disk);
    let at = usize::try_from(SUPERBLOCK).unwrap();
    let mut bytes = changed.snapshot()[at..at + 4096].to_vec();
    change(&mut bytes);
    let bytes = patch(&bytes, Version::V1_2, &Changes::default());
    put(&node(&changed), SUPERBLOCK, bytes).await;
    changed
}

/// Sets bits of the feature map.
async fn with_features(disk: &MemDisk, bits: u32) -> Arc<MemDisk> {
    changed(disk, |bytes| {
        let map = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) | bits;
        bytes[8..12].copy_from_slice(&map.to_le_bytes());
    })
    .await
}

fn with_blocks(disk: &MemDisk, size: u32) -> Arc<MemDisk> {
    let disk = MemDisk::from_bytes(disk.snapshot());
    Arc::new(disk.with_geometry(|geometry| geometry.block_size = size))
}

fn read_only(disk: &MemDisk) -> Arc<MemDisk> {
    let disk = MemDisk::from_bytes(disk.snapshot());
    Arc::new(disk.with_geometry(|geometry| geometry.read_only = true))
}

/// A disk that is refused both when it is added and when it is re-added.
#[test]
fn a_disk_that_cannot_be_a_member_is_refused_with_a_line_and_not_written() {
    block_on(async {
        let bench = Bench::new().await;
        let [first, second] = [&bench.disks[0], &bench.disks[1]];
        let cases = [
            (first.clone(), "x is a member already"),
            (copy(first), "x is the same member as m0, or a copy of it"),
            (read_only(second), "x is read-only"),
            (
                with_features(second, features::RESHAPE).await,
                "x is not taken in: it says that a reshape was going on",
            ),
            (
                with_features(second, 0x4000_0000).await,
                "x is not taken in: it says that it uses unknown features 0x40000000",
            ),
        ];
        for (disk, why) in cases {
            for ask in [Ask::Add, Ask::ReAdd] {
                assert_eq!(bench.refused(ask, &disk).await, why, "{ask:?}");
            }
        }
        for ask in [Ask::Add, Ask::ReAdd] {
            let unreached = bench.ask(ask, Candidate::local("x", None)).await;
            assert_eq!(line(unreached.unwrap_err()), "x cannot be reached");
            let same_name = bench.ask(ask, Candidate::local("m0", node(second))).await;
            assert_eq!(line(same_name.unwrap_err()), "m0 is a member already");
        }
        // What was refused is not in the way of what is not.
        bench
            .array
            .re_add(Candidate::local("x", node(second)))
            .await
            .unwrap();
    });
}

#[test]
fn a_member_that_the_bitmap_is_not_enough_for_is_not_taken_back_and_not_written() {
    block_on(async {
        let bench = Bench::new().await;
        let second = &bench.disks[1];
        let other = changed(second, |bytes| bytes[16] ^= 1).await;
        let damaged = copy(second);
        put(&node(&damaged), SUPERBLOCK + 200, vec![0xee; 8]).await;
        let spare = changed(second, |bytes| bytes[256 + 2..256 + 4].fill(0xff)).await;
        let half_made = changed(second, |bytes| {
            bytes[8] |= u8::try_from(features::RECOVERY_OFFSET).unwrap();
        })
        .await;
        let misplaced = changed(second, |bytes| {
            bytes[96..100].copy_from_slice(&24_u32.to_le_bytes())
        })
        .await;
        let larger = changed(second, |bytes| {
            bytes[80..88].copy_from_slice(&(MEMBER / 512 - 8).to_le_bytes());
        })
        .await;
        let old = changed(second, |bytes| {
            bytes[200..208].copy_from_slice(&3_u64.to_le_bytes())
        })
        .await;
        let cannot = "x cannot come back as it is";
        let cases = [
            (Arc::new(MemDisk::new(DISK)), "x was no member of the array"),
            (Arc::new(MemDisk::new(4096)), "x was no member of the array"),
            (other, "x is a member of another array: box:test"),
            (
                damaged,
                "the superblock 1.2 of x is damaged: its checksum is wrong",
            ),
            (spare, cannot),
            (half_made, cannot),
            (larger, cannot),
            (old, cannot),
            (misplaced, cannot),
        ];
        for (disk, why) in cases {
            let refused = bench.refused(Ask::ReAdd, &disk).await;
            assert!(refused.starts_with(why), "{refused}");
        }
        let torn = copy(second);
        put(&node(&torn), BITMAP, vec![0xee; 4]).await;
        let refused = bench.refused(Ask::ReAdd, &torn).await;
        assert!(refused.starts_with(cannot), "{refused}");
    });
}

#[test]
fn a_disk_without_room_is_not_added_and_not_written() {
    block_on(async {
        let bench = Bench::new().await;
        for size in [0, 512, 4096, MEMBER, DISK - 4096] {
            let refused = bench.refused(Ask::Add, &Arc::new(MemDisk::new(size))).await;
            assert!(refused.starts_with("x is too small: it has"), "{refused}");
        }
        // A larger one is good enough.
        let large = Arc::new(MemDisk::new(DISK + 12_345 * 512));
        bench
            .ask(Ask::Add, Candidate::local("x", node(&large)))
            .await
            .unwrap();
    });
}

/// A superblock that lies about where things are must not make us write one over the other.
#[test]
fn a_member_is_not_taken_back_that_would_be_written_over_itself() {
    block_on(async {
        let bench = Bench::new().await;
        // Its log of bad blocks lies on data, on its superblock, and behind its end.
        for (sectors, what) in [(40_i32, "data"), (-4, "superblock"), (100_000, "end")] {
            let lies = changed(&bench.disks[1], |bytes| {
                bytes[186..188].copy_from_slice(&8_u16.to_le_bytes());
                bytes[188..192].copy_from_slice(&sectors.to_le_bytes());
            })
            .await;
            let refused = bench.refused(Ask::ReAdd, &lies).await;
            assert!(refused.contains("its log of bad blocks"), "{refused}");
            assert!(refused.contains(what), "{refused}");
        }
    });
}

#[test]
fn an_array_that_is_only_read_or_was_stopped_takes_no_member_in() {
    block_on(async {
        let only_read = ArrayOptions {
            read_only: true,
            ..options()
        };
        let bench = Bench::with(&only_read).await;
        let blank = Arc::new(MemDisk::new(DISK));
        for ask in [Ask::Add, Ask::ReAdd] {
            let refused = bench.refused(ask, &blank).await;
            assert_eq!(refused, "the array is open read-only");
        }
        let grown = bench.array.grow(3).await.unwrap_err();
        assert_eq!(line(grown), "the array is open read-only");
        let bench = Bench::new().await;
        bench.array.stop().await.unwrap();
        for ask in [Ask::Add, Ask::ReAdd] {
            let refused = bench.refused(ask, &blank).await;
            assert_eq!(refused, "the array was stopped");
        }
    });
}

#[test]
fn an_array_does_not_grow_to_what_it_cannot_be() {
    block_on(async {
        let bench = Bench::new().await;
        let before: Vec<_> = bench.disks.iter().map(|disk| disk.snapshot()).collect();
        let cases = [
            (0, "a mirror has from 1 to 1920 parts, not 0"),
            (1921, "a mirror has from 1 to 1920 parts, not 1921"),
            (2, "the array has 2 parts already"),
        ];
        for (parts, why) in cases {
            let refused = bench.array.grow(parts).await.unwrap_err();
            assert_eq!(line(refused), why);
        }
        let after: Vec<_> = bench.disks.iter().map(|disk| disk.snapshot()).collect();
        assert!(before == after, "nothing is written");
        let second = Candidate::local("m1", node(&bench.disks[1]));
        bench.array.re_add(second).await.unwrap();
        bench.array.by_hand().work().await.unwrap();
        let refused = bench.array.grow(1).await.unwrap_err();
        assert_eq!(line(refused), "m1 holds a part that would be left over");
        // RAID 10 is grown by mdadm.
        let disks: Vec<Node> = (0..2)
            .map(|_| node(&Arc::new(MemDisk::new(DISK))))
            .collect();
        Recipe::raid10(0x102, 2).make(&disks).await;
        let members = (0..).zip(&disks);
        let members = members.map(|(at, disk)| Candidate::local(name(at), disk.clone()));
        let array = open(members.collect(), options()).await.unwrap();
        let refused = array.grow(3).await.unwrap_err();
        let why = "raid10 does not change its number of parts here";
        assert_eq!(line(refused), why);
    });
}

/// The story: a spare with 4 KiB blocks was given a part of an array with smaller ones, and failed at the first superblock
/// or bit that was written to it.
#[test]
fn a_disk_with_larger_blocks_takes_a_part_whether_it_was_a_spare_or_comes_later() {
    for comes_later in [false, true] {
        block_on(async {
            let disks: Vec<_> = (0..3).map(|_| Arc::new(MemDisk::new(DISK))).collect();
            let nodes: Vec<Node> = disks.iter().map(node).collect();
            Recipe::mirror(2).make(&nodes).await;
            let large = with_blocks(&disks[2], 4096);
            let mut members = vec![
                Candidate::local("m0", nodes[0].clone()),
                Candidate::local("m1", nodes[1].clone()),
            ];
            let third = Candidate::local("m2", node(&large));
            if !comes_later {
                members.push(third.clone());
            }
            let array = open(members, options()).await.unwrap();
            if comes_later {
                array.add(third, AddOptions::default()).await.unwrap();
            }
            array.fail("m1").await.unwrap();
            array.by_hand().work().await.unwrap();
            let sector = Range::new(512, 512);
            let data = single(pattern(5, sector));
            array
                .write(sector, data, WriteFlags::empty())
                .await
                .unwrap();
            assert_eq!(array.status().working, 2, "{:?}", array.status().members);
            array.stop().await.unwrap();
            // It holds everything by itself, in its own blocks.
            let alone = vec![Candidate::local("m2", node(&large))];
            let array = open(alone, options()).await.unwrap();
            assert_eq!(array.geometry().block_size, 4096);
            let read = array.read(Range::new(0, 4096)).await.unwrap().concat();
            assert_eq!(read[512..1024], pattern(5, sector));
        });
    }
}

/// Where a member has blocks of 4 KiB already, so have all that come, and everything is written in whole ones.
#[test]
fn a_disk_with_large_blocks_is_a_member_of_an_array_that_has_them() {
    block_on(async {
        let large = |disk: MemDisk| disk.with_geometry(|geometry| geometry.block_size = 4096);
        let disks: Vec<Node> = vec![
            Arc::new(large(MemDisk::new(DISK))),
            Arc::new(MemDisk::new(DISK)),
        ];
        Recipe::mirror(2).make(&disks).await;
        let members = (0..).zip(&disks);
        let members = members.map(|(at, disk)| Candidate::local(name(at), disk.clone()));
        let array = open(members.collect(), options()).await.unwrap();
        array.fail("m1").await.unwrap();
        let comes: Node = Arc::new(large(MemDisk::new(DISK)));
        let comes = Candidate::local("x", comes);
        array.add(comes, AddOptions::default()).await.unwrap();
        array.by_hand().work().await.unwrap();
        let status = array.status();
        assert_eq!(status.working, 2, "{:?}", status.members);
        array.stop().await.unwrap();
        assert_eq!(superblock(&disks[0]).await.roles[2], Role::Active(1));
    });
}
