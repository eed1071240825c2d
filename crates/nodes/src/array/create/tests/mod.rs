//! Tests of new arrays: what is written is examined again by our own code, by mdadm, and held against the
//! figures of mdadm's own arrays.

mod crashes;
mod figures;
mod journal;
mod mdadm;
mod member_addition;
mod parity;
mod ppl;
mod round_trip;

mod refusals;

use std::sync::Arc;

use block::Node;
use testkit::block_on;

use super::{ConsistencyChoice, CreateOptions, Created, NewMember, Stamp, make};
use crate::Memory;
use crate::array::format::{Level, Superblock, Version};
use crate::array::{ArrayError, Found, examine, newest};

const MIB: u64 = 1 << 20;

/// How an array of this level is made, by default.
fn usual(level: Level, version: Version) -> CreateOptions {
    CreateOptions {
        journal: None,
        level,
        layout: None,
        chunk: None,
        version,
        name: "nas:photos".to_owned(),
        consistency: ConsistencyChoice::Default,
        assume_clean: false,
        size: None,
    }
}

fn member(name: &str, disk: Node) -> NewMember {
    NewMember {
        name: name.to_owned(),
        disk: Some(disk),
        write_mostly: false,
        fail_fast: false,
    }
}

fn missing() -> NewMember {
    NewMember {
        name: "missing".to_owned(),
        disk: None,
        write_mostly: false,
        fail_fast: false,
    }
}

/// Disks a, b, c… of these sizes.
fn disks(sizes: &[u64]) -> Vec<NewMember> {
    let names = ["a", "b", "c", "d", "e", "f"].iter();
    names
        .zip(sizes)
        .map(|(name, size)| member(name, Arc::new(Memory::new(*size))))
        .collect()
}

/// The same numbers each time.
fn stamp(members: usize) -> Stamp {
    let device = |n: usize| [u8::try_from(n % 0xe0).expect("less than 224") + 0x10; 16];
    Stamp {
        uuid: *b"\x3a\xaa\x01\x22\x29\x82\x7c\xfa\x53\x31\xad\x66\xca\x76\x73\x71",
        devices: (0..=members).map(device).collect(),
        now: 1_795_288_091,
    }
}

fn made(
    parts: &[NewMember],
    spares: &[NewMember],
    options: &CreateOptions,
) -> Result<Created, ArrayError> {
    let stamp = stamp(parts.len() + spares.len());
    block_on(make(parts, spares, options, &stamp))
}

/// What is on a disk that must have one superblock.
fn found(member: &NewMember) -> (Found, Superblock) {
    let disk = member.disk.as_ref().expect("it is there");
    let all = block_on(examine(disk)).expect("it can be read");
    assert_eq!(all.len(), 1, "{}: {all:?}", member.name);
    let (found, superblock) = newest(&all).expect("it is good");
    (found.clone(), superblock.clone())
}
