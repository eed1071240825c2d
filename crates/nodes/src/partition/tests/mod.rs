//! Tests of `partition`: tables in memory, and those of other programs.

mod grow;
mod hostile;
mod interop;
mod layout;
mod open;
mod read;

use std::sync::Arc;

use block::Node;
use gpt_disk_types::GptHeader;
use testkit::{MemDisk, block_on};

use super::encode::TableStep;
use super::gpt::{HEADER, crc32};
use super::{
    DiskId, Guid, NewPartition, NewTable, PartitionKind, PartitionTable, Scheme, TableError,
    lay_out, steps,
};

const MIB: u64 = 1 << 20;

fn guid(number: u8) -> Guid {
    Guid::from_random_bytes([number; 16])
}

fn kind(name: &str, scheme: Scheme) -> PartitionKind {
    PartitionKind::parse(name, scheme).expect("a known type")
}

/// Linux partitions of these sizes; `None` is the rest.
fn partitions(sizes: &[Option<u64>], scheme: Scheme) -> Vec<NewPartition> {
    let numbered = (1..).zip(sizes);
    let partition = |(number, size): (u8, &Option<u64>)| NewPartition {
        size: *size,
        kind: kind("linux", scheme),
        label: String::new(),
        id: guid(number),
    };
    numbered.map(partition).collect()
}

fn new_gpt(block_size: u32, sizes: &[Option<u64>]) -> NewTable {
    NewTable {
        id: DiskId::Guid(guid(0xd1)),
        block_size,
        partitions: partitions(sizes, Scheme::Gpt),
    }
}

fn new_mbr(block_size: u32, sizes: &[Option<u64>]) -> NewTable {
    NewTable {
        id: DiskId::Signature(0xcafe_f00d),
        block_size,
        partitions: partitions(sizes, Scheme::Mbr),
    }
}

/// A disk of `size` zeroes with `new` on it.
fn image(size: u64, new: &NewTable) -> Vec<u8> {
    let table = lay_out(size, new).expect("it fits");
    let mut bytes = vec![0; usize::try_from(size).expect("test disks are small")];
    for step in steps(&table) {
        put(&mut bytes, &step);
    }
    bytes
}

/// Carries out one step on bytes.
fn put(bytes: &mut [u8], step: &TableStep) {
    if let TableStep::Write { offset, data } = step {
        let at = usize::try_from(*offset).expect("test disks are small");
        bytes[at..at + data.len()].copy_from_slice(data);
    }
}

/// A GPT disk of 16 MiB with a partition of 4 MiB and one of the rest.
fn two_partitions(block_size: u32) -> Vec<u8> {
    image(16 * MIB, &new_gpt(block_size, &[Some(4 * MIB), None]))
}

/// A valid header again after `change`.
fn with_header(mut bytes: Vec<u8>, at: usize, change: impl FnOnce(&mut GptHeader)) -> Vec<u8> {
    let header = &mut bytes[at..at + HEADER];
    let mut raw: GptHeader = bytemuck::pod_read_unaligned(header);
    change(&mut raw);
    raw.update_header_crc32();
    header.copy_from_slice(bytemuck::bytes_of(&raw));
    bytes
}

/// Both sums of the copy at `at` again right.
fn summed(mut bytes: Vec<u8>, at: usize, entries: usize) -> Vec<u8> {
    let sum = crc32(&bytes[entries..entries + 128 * 128]);
    bytes[at + 88..at + 92].copy_from_slice(&sum.to_le_bytes());
    with_header(bytes, at, |_| {})
}

/// A disk in memory.
fn disk(bytes: &[u8]) -> Node {
    Arc::new(MemDisk::from_bytes(bytes.to_vec()))
}

fn read(bytes: &[u8]) -> Result<Option<PartitionTable>, TableError> {
    block_on(PartitionTable::read(&disk(bytes)))
}

/// The table that must be there.
fn table(bytes: &[u8]) -> PartitionTable {
    read(bytes).expect("it is readable").expect("it is there")
}

fn remarks(table: &PartitionTable) -> Vec<String> {
    table.remarks().iter().map(ToString::to_string).collect()
}

/// Numbers and places in MiB: number, begin, length.
fn places(table: &PartitionTable) -> Vec<(u32, u64, u64)> {
    let entries = table.partitions.iter();
    entries
        .map(|entry| {
            (
                entry.number,
                entry.range.offset / MIB,
                entry.range.len / MIB,
            )
        })
        .collect()
}
