//! Tests of arrays with parity: against a writer of their own, straight from the table of layouts.

mod errors;
mod gather;
mod layouts;
mod open;
mod plan;
mod ppl;
mod read;
mod stripe;
pub(crate) mod writer;

use std::sync::Arc;

use block::{Node, Range};
use testkit::MemDisk;

use self::writer::Sample;
use super::Parity;
use crate::array::ArrayOptions;
use crate::array::assembly::{Assembly, Facts, Part};
use crate::array::format::Version;
use crate::array::format::tests::mirror;
use crate::array::member::Member;

/// Where members of tests keep their data.
pub(super) const DATA_AT: u64 = 8192;

/// An assembly of disks that hold `sample`: `None` is missing.
pub(super) fn assembly(sample: &Sample, disks: Vec<Option<Node>>) -> Assembly {
    let member_size = sample.member_size();
    let part = |(number, disk): (u16, Option<Node>)| {
        let member = disk.map(|disk| {
            let mut superblock = mirror(Version::V1_2, number);
            superblock.data = Range::new(DATA_AT, member_size);
            Member {
                name: format!("disk{number}"),
                disk,
                remote: false,
                reopen: None,
                at: 4096,
                superblock,
                bytes: Vec::new(),
                bitmap: None,
                bad: Vec::new(),
            }
        });
        Part {
            member,
            rebuilt_to: None,
        }
    };
    Assembly {
        facts: Facts {
            uuid: [7; 16],
            name: "nas:media".to_owned(),
            version: Version::V1_2,
            level: sample.level,
            layout: sample.layout,
            chunk: sample.chunk as u64,
            parts: u32::try_from(sample.parts).unwrap(),
            member_size,
            size: sample.data.len() as u64,
            reshape: None,
        },
        parts: (0..).zip(disks).map(part).collect(),
        others: Vec::new(),
        absent: Vec::new(),
        events: 12,
        synced_to: None,
        bitmap: None,
        remarks: Vec::new(),
    }
}

/// A disk of a member: something before its data, and something behind.
pub(super) fn member_disk(data: &[u8]) -> MemDisk {
    let mut bytes = vec![0xee; usize::try_from(DATA_AT).unwrap()];
    bytes.extend(data);
    bytes.extend([0xdd; 4096]);
    MemDisk::from_bytes(bytes)
}

/// The members of `sample` as disks.
pub(super) fn disks(sample: &Sample) -> Vec<Option<Node>> {
    let disk = |data: Vec<u8>| Some(Arc::new(member_disk(&data)) as Node);
    sample.members().into_iter().map(disk).collect()
}

/// All of them but those of `missing`.
pub(super) fn without(sample: &Sample, missing: &[usize]) -> Assembly {
    let mut disks = disks(sample);
    for part in missing {
        disks[*part] = None;
    }
    assembly(sample, disks)
}

pub(super) fn open(assembly: Assembly) -> Parity {
    Parity::with_bits(assembly, &ArrayOptions::default(), None).unwrap()
}

/// All of an array.
pub(super) fn whole(sample: &Sample) -> Range {
    Range::new(0, sample.data.len() as u64)
}
