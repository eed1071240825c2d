//! What an array knows when it is opened again.

use block::{BlockDevice, Node, Range};
use testkit::{MemDisk, block_on, pattern};

use super::disks;
use super::kit::{
    BITMAP, DATA, MEMBER, Recipe, bits, name, open, options, put, read, superblock, try_open, write,
};
use crate::array::MemberState;
use crate::array::format::{Changes, Role, Version};

const FIRST: Range = Range::new(0, 4096);
const CHUNK: Range = Range::new(8192, 4096);

#[test]
fn after_a_crash_what_the_bits_say_is_read_from_the_first_member_until_it_is_made_alike() {
    block_on(async {
        let disks = disks(2);
        let mirror = Recipe::mirror(2).open(&disks).await;
        write(&mirror, Range::new(0, MEMBER), 1).await.unwrap();
        mirror.stop().await.unwrap();
        let mirror = open(&disks).await;
        for _ in 0..3 {
            mirror.sweep().await.unwrap();
        }
        write(&mirror, CHUNK, 2).await.unwrap();
        drop(mirror);
        // A write that only one member got.
        put(&disks[1], DATA + CHUNK.offset, vec![9; 512]).await;
        let mirror = open(&disks).await;
        assert!(!mirror.status().clean);
        let mut needed = Vec::new();
        let mut from = 0;
        while let Some(next) = mirror.needed(from) {
            from = next.end();
            needed.push(next);
        }
        assert!(
            needed.contains(&CHUNK) || needed[0].overlaps(&CHUNK),
            "{needed:?}"
        );
        for _ in 0..4 {
            assert_eq!(read(&mirror, CHUNK).await, pattern(2, CHUNK));
        }
        // Sweeps do not take it for clean.
        write(&mirror, CHUNK, 3).await.unwrap();
        for _ in 0..4 {
            mirror.sweep().await.unwrap();
        }
        assert_eq!(
            mirror.needed(0).map(|next| next.offset),
            Some(needed[0].offset)
        );
        mirror.synced(Range::new(0, MEMBER));
        assert_eq!(mirror.needed(0), None);
        assert!(mirror.mark_clean().await.unwrap());
        assert_eq!(superblock(&disks[0]).await.synced_to, None);
    });
}

#[test]
fn a_dirty_array_that_is_alike_is_clean_when_asked_though_nothing_was_written() {
    block_on(async {
        let disks = disks(2);
        let recipe = Recipe {
            dirty: true,
            ..Recipe::mirror(2)
        };
        let mirror = recipe.open(&disks).await;
        assert_eq!(mirror.needed(0), None);
        assert!(mirror.mark_clean().await.unwrap());
        let told = superblock(&disks[1]).await;
        assert_eq!((told.synced_to, told.events), (None, 11));
    });
}

#[test]
fn without_a_bitmap_everything_is_to_be_made_alike_and_how_far_it_came_is_kept() {
    block_on(async {
        let disks = disks(2);
        let recipe = Recipe {
            dirty: true,
            ..Recipe::mirror(2).without_bitmap()
        };
        let mirror = recipe.open(&disks).await;
        assert_eq!(mirror.needed(0), Some(Range::new(0, MEMBER)));
        mirror.synced(FIRST);
        write(&mirror, CHUNK, 1).await.unwrap();
        mirror.stop().await.unwrap();
        assert_eq!(superblock(&disks[0]).await.synced_to, Some(4096));
        let mirror = open(&disks).await;
        assert_eq!(mirror.needed(0), Some(Range::new(4096, MEMBER - 4096)));
        mirror.synced(Range::new(4096, MEMBER - 4096));
        assert!(mirror.mark_clean().await.unwrap());
        assert_eq!(superblock(&disks[1]).await.synced_to, None);
    });
}

#[test]
fn a_bitmap_that_is_behind_its_superblock_says_nothing() {
    block_on(async {
        let disks = disks(2);
        let recipe = Recipe {
            dirty: true,
            ..Recipe::mirror(2)
        };
        recipe.make(&disks).await;
        // Its events.
        put(&disks[1], BITMAP + 24, 9_u64.to_le_bytes().to_vec()).await;
        let mirror = open(&disks).await;
        assert_eq!(mirror.needed(0), Some(Range::new(0, MEMBER)));
        mirror.synced(Range::new(0, MEMBER));
        write(&mirror, FIRST, 1).await.unwrap();
        let (header, set) = bits(&disks[1]).await;
        assert_eq!((header.events, set.len()), (11, 16));
    });
}

#[test]
fn the_first_commit_makes_the_bitmaps_of_all_members_equal() {
    block_on(async {
        let disks = disks(2);
        Recipe::mirror(2).make(&disks).await;
        // A commit that only one member got.
        put(&disks[0], BITMAP + 256, vec![0b1000]).await;
        let mirror = open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        assert_eq!(bits(&disks[0]).await.1, [0, 3]);
        assert_eq!(bits(&disks[1]).await.1, [0, 3]);
    });
}

#[test]
fn every_version_of_superblocks_is_written() {
    let versions = [
        Version::V0_90 { big_endian: false },
        Version::V1_0,
        Version::V1_1,
        Version::V1_2,
    ];
    for version in versions {
        for bitmap in [true, false] {
            block_on(async {
                let disk = |_| std::sync::Arc::new(MemDisk::new(192 << 10)) as Node;
                let disks: Vec<Node> = (0..3).map(disk).collect();
                let recipe = Recipe {
                    version,
                    bitmap,
                    ..Recipe::mirror(3)
                };
                let mirror = recipe.open(&disks).await;
                assert_eq!(mirror.status().version, version);
                write(&mirror, FIRST, 1).await.unwrap();
                mirror.fail_member(&name(1)).await.unwrap();
                write(&mirror, FIRST, 2).await.unwrap();
                mirror.stop().await.unwrap();
                drop(mirror);
                let mirror = open(&disks).await;
                assert_eq!(read(&mirror, FIRST).await, pattern(2, FIRST));
                let status = mirror.status();
                assert!(status.clean, "{version} {bitmap}");
                assert_eq!(status.working, 2);
                assert_eq!(status.members[1].state, MemberState::Missing);
                let old = mirror.status().members;
                let old = old.iter().find(|member| member.name == name(1)).unwrap();
                assert!(matches!(
                    old.state,
                    MemberState::Failed | MemberState::Stale
                ));
                // Without the one that was failed.
                drop(mirror);
                let mirror = open(&[disks[0].clone(), disks[2].clone()]).await;
                write(&mirror, FIRST, 3).await.unwrap();
                mirror.stop().await.unwrap();
                let mirror = open(&disks[2..]).await;
                assert_eq!(read(&mirror, FIRST).await, pattern(3, FIRST));
            });
        }
    }
}

#[test]
fn a_member_that_is_not_there_counts_as_failed_once_something_is_written() {
    block_on(async {
        let disks = disks(2);
        Recipe::mirror(2).make(&disks).await;
        let mirror = open(&disks[..1]).await;
        write(&mirror, FIRST, 1).await.unwrap();
        assert_eq!(superblock(&disks[0]).await.roles[1], Role::Faulty);
    });
}

#[test]
fn what_is_not_understood_is_not_written() {
    block_on(async {
        let disks = disks(2);
        Recipe::mirror(2).make(&disks).await;
        for disk in &disks {
            put(disk, BITMAP + 4, vec![6, 0, 0, 0]).await;
        }
        let refused = try_open(&disks, &options()).await.unwrap_err();
        assert!(refused.to_string().contains("bitmap"), "{refused}");
        let mut read_only = options();
        read_only.read_only = true;
        let mirror = try_open(&disks, &read_only).await.unwrap();
        assert!(mirror.geometry().read_only);
        assert_eq!(mirror.read(FIRST).await.unwrap().concat(), [0; 4096]);
    });
}

#[test]
fn superblocks_that_put_one_thing_on_another_are_not_written_by() {
    block_on(async {
        let disks = disks(2);
        let recipe = Recipe {
            log: true,
            ..Recipe::mirror(2)
        };
        // The bitmap and the log on data, the log on the bitmap, and behind the end.
        let cases = [
            (96, 24_u32, "bitmap"),
            (188, 24, "log"),
            (188, 8, "log"),
            (188, 10_000, "log"),
        ];
        for (field, sectors, what) in cases {
            recipe.make(&disks).await;
            for disk in &disks {
                let place = Range::new(4096, 4096);
                let mut bytes = disk.read(place).await.unwrap().concat();
                bytes[field..field + 4].copy_from_slice(&sectors.to_le_bytes());
                let bytes = crate::array::format::patch(&bytes, Version::V1_2, &Changes::default());
                put(disk, 4096, bytes).await;
            }
            let refused = try_open(&disks, &options()).await.unwrap_err().to_string();
            assert!(refused.contains(what), "{refused}");
        }
    });
}
