//! Tests of looking for superblocks on disks; [`opening`] of arrays, [`striped`] ones; what becomes of mirrors ([`life`]),
//! which may not become a member ([`coming`]), and [`worlds`] of them; [`two_hosts`] at one member; what [`unreadable`]
//! places cost.

mod absent_spares;
mod divergence;
mod growth_refusals;
mod in_place;
mod level;
mod level_in_use;
mod level_races;
mod level_refusals;
mod level_zeroes;
mod life;
mod noted_blocks;
mod open;
mod parity_trust;
mod policy;
mod policy_races;
mod replace;
mod reshape;
mod reshape_limits;
mod reshape_losses;
mod restored_logs;
mod size;
mod slow;
mod striped;
pub(in crate::array) mod two_hosts;
mod unreadable;
mod watched_disks;
pub(in crate::array) mod worlds;

use std::sync::Arc;

use block::{BlockDevice, Node, Range, WriteFlags};
use testkit::{block_on, single};

use super::format::tests::encode::superblock;
use super::format::tests::{DISK_LEN, mirror, place};
use super::format::{Problem, Superblock, Version};
use super::{examine, newest};
use crate::Memory;

/// A disk with these superblocks.
fn disk(superblocks: &[Superblock]) -> Memory {
    let disk = Memory::new(DISK_LEN);
    for of in superblocks {
        put(&disk, place(of.version), superblock(of, place(of.version)));
    }
    disk
}

fn put(disk: &Memory, at: u64, bytes: Vec<u8>) {
    let range = Range::new(at, bytes.len() as u64);
    block_on(disk.write(range, single(bytes), WriteFlags::empty())).unwrap();
}

fn node(disk: Memory) -> Node {
    Arc::new(disk)
}

#[test]
fn a_superblock_of_each_kind_is_found() {
    let versions = [
        Version::V0_90 { big_endian: false },
        Version::V0_90 { big_endian: true },
        Version::V1_0,
        Version::V1_1,
        Version::V1_2,
    ];
    for version in versions {
        let of = mirror(version, 1);
        let found = block_on(examine(&node(disk(std::slice::from_ref(&of))))).unwrap();
        let [only] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((only.version, only.at), (version, place(version)));
        assert_eq!(only.superblock, Ok(of));
    }
}

#[test]
fn of_several_superblocks_the_last_made_counts() {
    let mut old = mirror(Version::V0_90 { big_endian: false }, 0);
    old.created -= 1000;
    let new = mirror(Version::V1_2, 0);
    let found = block_on(examine(&node(disk(&[old.clone(), new.clone()])))).unwrap();
    assert_eq!(found.len(), 2);
    let (_, counts) = newest(&found).unwrap();
    assert_eq!(*counts, new);
}

#[test]
fn a_damaged_superblock_is_reported_and_does_not_count() {
    let of = mirror(Version::V1_2, 0);
    let damaged = disk(&[of]);
    put(&damaged, 4096 + 200, vec![0xff]);
    let found = block_on(examine(&node(damaged))).unwrap();
    let [only] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(matches!(only.superblock, Err(Problem::Checksum { .. })));
    assert_eq!(newest(&found), None);
}

#[test]
fn the_bitmap_is_looked_at_where_the_superblock_says() {
    let mut of = mirror(Version::V1_2, 0);
    of.features = super::format::features::BITMAP;
    of.bitmap_at = Some(8192);
    let disk = disk(&[of]);
    let found = |disk: &Node| block_on(examine(disk)).unwrap().remove(0).bitmap;
    let mut header = vec![0; 256];
    header[..4].copy_from_slice(b"bitm");
    header[4] = 4;
    header[54] = 1;
    put(&disk, 8192, header);
    let disk = node(disk);
    assert_eq!(found(&disk).unwrap().unwrap().chunk, 65_536);
    let zeroes = Range::new(8192, 4096);
    block_on(disk.write_zeroes(zeroes, WriteFlags::empty())).unwrap();
    assert!(found(&disk).unwrap().is_err());
}

#[test]
fn a_disk_that_is_too_small_for_a_superblock_has_none() {
    for size in [0, 512, 4096, 8192] {
        let found = block_on(examine(&node(Memory::new(size)))).unwrap();
        assert_eq!(found, []);
    }
}
