//! Any bytes as a partition table on a small disk: boot records with their chains, and GPTs with
//! valid checksums, so that what they say is met too. What is read of them is opened, laid out for other
//! sizes and written, and the partitions' bytes must be what they were.
#![no_main]

use std::sync::Arc;

use block::{BlockDevice, Node, Range};
use libfuzzer_sys::fuzz_target;
use nodes::Partition;
use nodes::partition::{self, Growth, PartitionTable};
use testkit::{MemDisk, block_on, gather};

const SIZE: usize = 192 << 10;
/// What no table's bytes are, so that a change of it is seen.
const FILL: u8 = 0xd7;

/// Partitions that claim bytes of the table itself share its fate up to here.
const TABLE_END: usize = 24 << 10;

const GPT_512: u8 = 1;
const GPT_4096: u8 = 2;
/// The second header, at the disk's end.
const BACKUP: u8 = 4;
/// The first one is not there.
const NO_PRIMARY: u8 = 8;
const PROTECTED: u8 = 16;
const BLOCKS_OF_4096: u8 = 32;

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (how, number, bytes) = input;
    let mut image = vec![FILL; SIZE];
    if how & NO_PRIMARY != 0 {
        image[..16 << 10].fill(0);
    }
    if how & (GPT_512 | GPT_4096) != 0 {
        let block = if how & GPT_512 != 0 { 512 } else { 4096 };
        put_gpt(&mut image, block, how, bytes);
    } else {
        let len = bytes.len().min(SIZE);
        image[..len].copy_from_slice(&bytes[..len]);
        // Records of a chain, wherever one begins.
        for sector in image.chunks_exact_mut(512).take(64) {
            sector[510..].copy_from_slice(&[0x55, 0xaa]);
        }
    }
    block_on(judge(&image, how, number.into()));
});

/// Headers and entries as the bytes say, with the right checksums.
fn put_gpt(image: &mut [u8], block: usize, how: u8, bytes: &[u8]) {
    let last = image.len() / block - 1;
    if how & PROTECTED != 0 {
        image[..512].fill(0);
        image[446 + 4] = 0xee;
        image[446 + 8] = 1;
        image[446 + 12] = 0xff;
        image[510..512].copy_from_slice(&[0x55, 0xaa]);
    }
    let (fields, entries) = bytes.split_at(bytes.len().min(40));
    let count = entries.len().div_ceil(128).clamp(1, 64);
    let mut listed = entries[..entries.len().min(count * 128)].to_vec();
    listed.resize(count * 128, 0);
    let filled = listed.len().next_multiple_of(block) / block;
    let places = [(1, last, 2), (last, 1, last - filled)];
    let wanted = [how & NO_PRIMARY == 0, how & BACKUP != 0];
    for ((my, other, entries_at), wanted) in places.into_iter().zip(wanted) {
        if !wanted {
            continue;
        }
        let mut header = vec![0; 92];
        header[..8].copy_from_slice(b"EFI PART");
        header[8..16].copy_from_slice(&[0, 0, 1, 0, 92, 0, 0, 0]);
        for (at, number) in [(24, my), (32, other), (72, entries_at)] {
            header[at..at + 8].copy_from_slice(&(number as u64).to_le_bytes());
        }
        // First and last usable block, and the disk's name.
        header[40..40 + fields.len().min(32)].copy_from_slice(&fields[..fields.len().min(32)]);
        // Perhaps another place for the other header.
        if let Some(number) = fields.get(32..40) {
            header[32..40].copy_from_slice(number);
        }
        header[80..84].copy_from_slice(&u32::try_from(count).expect("few").to_le_bytes());
        header[84] = 128;
        header[88..92].copy_from_slice(&crc(&listed).to_le_bytes());
        let sum = crc(&header);
        header[16..20].copy_from_slice(&sum.to_le_bytes());
        image[my * block..my * block + 92].copy_from_slice(&header);
        let at = entries_at * block;
        image[at..at + listed.len()].copy_from_slice(&listed);
    }
}

fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

fn disk_of(image: &[u8], how: u8) -> Arc<MemDisk> {
    let block = if how & BLOCKS_OF_4096 != 0 { 4096 } else { 512 };
    Arc::new(MemDisk::from_bytes(image.to_vec()).with_geometry(|it| it.block_size = block))
}

async fn judge(image: &[u8], how: u8, number: u32) {
    let disk = disk_of(image, how);
    let node: Node = disk.clone();
    let read = PartitionTable::read(&node).await;
    assert!(disk.snapshot() == image, "reading changes nothing");
    let Ok(Some(table)) = read else { return };
    for remark in table.remarks() {
        let _ = remark.to_string();
    }
    for entry in &table.partitions {
        let opened = Partition::of(node.clone(), &table, entry.number);
        let Ok(partition) = opened else { continue };
        let range = partition.range();
        assert!(range.end() <= SIZE as u64 && !range.is_empty());
        let whole = Range::new(0, partition.geometry().size);
        let bytes = gather(&partition.read(whole).await.expect("memory"));
        let start = usize::try_from(range.offset).expect("on the disk");
        assert!(bytes == image[start..start + bytes.len()]);
    }
    for size in [SIZE / 2, SIZE, 2 * SIZE + (7 << 10)] {
        for number in [None, Some(number)] {
            if let Ok(growth) = partition::grow(&table, size as u64, number) {
                grow(image, how, size, &table, &growth).await;
            }
        }
    }
}

/// Growing touches no partition's bytes, and what is read then is what was promised.
async fn grow(image: &[u8], how: u8, size: usize, before: &PartitionTable, growth: &Growth) {
    let disk = disk_of(image, how & !BLOCKS_OF_4096);
    let node: Node = disk.clone();
    let restored = partition::carry_out(&node, &growth.before).await;
    restored.expect("steps lie on the disk");
    let mut larger = disk.snapshot();
    larger.resize(size, FILL);
    let disk = disk_of(&larger, how & !BLOCKS_OF_4096);
    let node: Node = disk.clone();
    partition::carry_out(&node, &growth.steps)
        .await
        .expect("steps lie on the disk");
    let changed = disk.snapshot();
    for entry in before.partitions.iter().filter(|it| it.fault.is_none()) {
        let range = entry.range;
        if range.end() > size as u64 || entry.kind.is_extended() {
            continue;
        }
        let end = usize::try_from(range.end()).expect("on the disk");
        let start = usize::try_from(range.offset).expect("on the disk");
        let part = start.max(TABLE_END).min(end)..end;
        assert!(
            changed[part.clone()] == larger[part],
            "{entry:?} was changed"
        );
    }
    if growth.steps.is_empty() {
        return;
    }
    let after = PartitionTable::read(&node).await;
    let after = after.expect("it can be read").expect("a table");
    assert_eq!(after.partitions.len(), before.partitions.len());
    if let Some(range) = growth.partition {
        assert!(after.partitions.iter().any(|entry| entry.range == range));
    }
}
