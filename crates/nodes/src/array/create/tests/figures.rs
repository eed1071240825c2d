//! Everything lies where mdadm put it for the same disks (`figures.txt`).

use std::sync::Arc;

use testkit::block_on;

use super::{made, member, usual};
use crate::array::create::{ConsistencyChoice, CreateOptions};
use crate::array::format::{Level, Superblock, Version};
use crate::array::{examine, newest};
use crate::{Memory, read_within};

const FIGURES: &str = include_str!("figures.txt");

/// A line of figures, and ours in its form.
fn compare(line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let [disk, version, level, bitmap, ..] = words[..] else {
        panic!("{line}")
    };
    let version = match version {
        "0.90" => Version::V0_90 { big_endian: false },
        "1.0" => Version::V1_0,
        "1.1" => Version::V1_1,
        _ => Version::V1_2,
    };
    let level = level.parse().map_or(Level::Linear, Level::of);
    let options = CreateOptions {
        consistency: match bitmap {
            "none" => ConsistencyChoice::Resync,
            _ => ConsistencyChoice::Default,
        },
        assume_clean: true,
        ..usual(level, version)
    };
    let size: u64 = disk.parse().expect("a number of sectors");
    let disks = [0, 1].map(|_| Arc::new(Memory::new(size * 512)));
    let parts = disks.map(|disk| member("a", disk));
    let ours = match made(&parts, &[], &options) {
        Ok(made) => {
            let disk = parts[0].disk.as_ref().expect("it is there");
            let all = block_on(examine(disk)).expect("it can be read");
            let (found, superblock) = newest(&all).expect("it is good");
            let chunk = found.bitmap.map(|bitmap| bitmap.expect("it is good").chunk);
            printed(superblock, found.at, made.size, chunk)
        }
        Err(_) => "refused".to_owned(),
    };
    assert_eq!(ours, words[4..].join(" "), "{line}");
}

/// In sectors, as in the file.
fn printed(of: &Superblock, at: u64, size: u64, bitmap_chunk: Option<u32>) -> String {
    let from = |place: u64| (place / 512).cast_signed() - (at / 512).cast_signed();
    let or_none = |number: Option<i64>| number.map_or("-".to_owned(), |n| n.to_string());
    let numbers = [
        size,
        of.member_size,
        of.chunk,
        u64::from(of.layout) * 512,
        u64::from(of.features) * 512,
        of.data.offset,
        of.data.len,
        at,
    ];
    let mut words: Vec<String> = numbers.iter().map(|n| (n / 512).to_string()).collect();
    words.push(or_none(of.bitmap_at.map(from)));
    words.push(or_none(of.bad_blocks.map(|log| from(log.offset))));
    words.push(or_none(bitmap_chunk.map(i64::from)));
    words.join(" ")
}

#[test]
fn everything_lies_where_mdadm_put_it() {
    let lines = FIGURES.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in lines {
        compare(line);
        count += 1;
    }
    assert_eq!(count, 104);
}

#[test]
fn bitmaps_grow_with_the_disk_and_no_further_than_their_room() {
    let chunk = |size: u64, asked| {
        let disks = [0, 1].map(|_| Arc::new(Memory::new(size)));
        let parts = disks.map(|disk| member("a", disk));
        let options = CreateOptions {
            consistency: asked,
            ..usual(Level::Raid1, Version::V1_2)
        };
        made(&parts, &[], &options).map(|_| {
            let disk = parts[0].disk.as_ref().expect("it is there");
            let place = block::Range::new(8192 + 52, 4);
            let bytes = block_on(read_within(disk, place)).expect("it can be read");
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        })
    };
    let gib = 1 << 30;
    // A page of bits for 8 GiB, 64 KiB of them up to 200 GiB, 128 KiB behind.
    assert!(
        matches!(chunk(gib, ConsistencyChoice::Bitmap(Some(64 << 10))), Ok(n) if n == 64 << 10)
    );
    let refused =
        chunk(gib, ConsistencyChoice::Bitmap(Some(16 << 10))).expect_err("there is no room");
    assert_eq!(refused.next(), Some("use a power of two from 65536 on"));
    assert!(chunk(100 * gib, ConsistencyChoice::Bitmap(Some(256 << 10))).is_ok());
    assert!(matches!(chunk(1024 * 1024 * gib, ConsistencyChoice::Default), Ok(n) if n == 1 << 31));
    let refused =
        chunk(300 * gib, ConsistencyChoice::Bitmap(Some(4096))).expect_err("there is no room");
    assert_eq!(refused.next(), Some("use a power of two from 524288 on"));
}
