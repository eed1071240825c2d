//! Any btree nodes, with the checksums that they should have, as the metadata of a thin pool. What is opened is read to
//! its end: every request gets an answer, and a volume that was checked reads as a second, simple walk says.
#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{ExtentKind, Node, Range};
use libfuzzer_sys::fuzz_target;
use nodes::volume::thin::{ThinError, ThinPool, ThinPoolSpec};
use testkit::{MemDisk, block_on};

const BLOCK: usize = 4096;
const CHUNK: u64 = 64 << 10;
/// Chunks of the data, and of a volume that is read.
const DATA_CHUNKS: u64 = 12;
const CHUNKS: u64 = 600;
/// Those of which the data are read, too.
const READ_CHUNKS: u64 = 40;
/// Metadata blocks.
const BLOCKS: usize = 12;
/// Of each entry: two bytes of the key, one of the value.
const ENTRY: usize = 3;
const VOLUME: u64 = 1;
const INTERNAL: u8 = 1;
const LEAF: u8 = 2;

fuzz_target!(|input: &[u8]| {
    let image = image(input);
    block_on(judge(&image));
});

/// Metadata with the trees in block 1 (mappings) and 2 (details), and nodes of the input in the others.
fn image(input: &[u8]) -> Vec<u8> {
    let mut image = vec![0; BLOCK * BLOCKS];
    let mut rest = input;
    for number in 1..BLOCKS {
        let (header, later) = rest.split_at(rest.len().min(2));
        let count = usize::from(header.get(1).copied().unwrap_or(0));
        let (entries, later) = later.split_at(later.len().min(count * ENTRY));
        rest = later;
        let flags = header.first().copied().unwrap_or(1);
        let block = &mut image[number * BLOCK..(number + 1) * BLOCK];
        match number {
            1 => single(block, 8, 3 + flags % 4),
            2 => single(block, 24, flags),
            // Mostly one of the two kinds.
            _ if flags < 0xf0 => node(block, flags % 2 + 1, 8, entries),
            _ => node(block, flags, 8, entries),
        }
        seal(block, number as u64, 121_107);
    }
    superblock(&mut image[..BLOCK]);
    image
}

/// Encodes a node. Mappings lie above 24 bits of time, so theirs go to the fourth byte of a value.
fn node(block: &mut [u8], flags: u8, value_size: usize, entries: &[u8]) {
    let max = (BLOCK - 32) / (8 + value_size) / 3 * 3;
    let entries = entries.chunks_exact(ENTRY).take(max);
    (block[4], block[16]) = (flags, entries.len() as u8);
    (block[20], block[24]) = (max as u8, value_size as u8);
    let value_at = if flags == LEAF { 3 } else { 0 };
    for (index, entry) in entries.enumerate() {
        block[32 + index * 8..][..2].copy_from_slice(&entry[..2]);
        block[32 + max * 8 + index * value_size + value_at] = entry[2];
    }
}

/// Encodes a leaf with one entry, of device 1.
fn single(block: &mut [u8], value_size: usize, value: u8) {
    node(block, LEAF, value_size, &[1, 0, 0]);
    let values = 32 + usize::from(block[20]) * 8;
    block[values] = value;
}

fn superblock(block: &mut [u8]) {
    let numbers = [
        (32, 27_022_010),
        (64, DATA_CHUNKS),
        (192, BLOCKS as u64),
        (320, 1),
        (328, 2),
    ];
    for (at, number) in numbers {
        block[at..at + 8].copy_from_slice(&u64::to_le_bytes(number));
    }
    (block[40], block[336], block[340]) = (2, 128, 8);
    seal(block, 0, 160_774);
}

/// Writes the number of a block and its checksum.
fn seal(block: &mut [u8], number: u64, constant: u32) {
    block[8..16].copy_from_slice(&number.to_le_bytes());
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            sum >> 1 ^ (0x82f6_3b78 & (sum & 1).wrapping_neg())
        })
    };
    let sum = block[4..].iter().fold(u32::MAX, step) ^ constant;
    block[..4].copy_from_slice(&sum.to_le_bytes());
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The mappings below a node, by a reading that trusts it.
fn walk(image: &[u8], block: u64, mappings: &mut BTreeMap<u64, u64>) {
    let node = &image[block as usize * BLOCK..][..BLOCK];
    for index in 0..usize::from(node[16]) {
        let (key, value) = (
            number(node, 32 + index * 8),
            number(node, 32 + (252 + index) * 8),
        );
        if node[4] == INTERNAL {
            walk(image, value, mappings);
        } else {
            mappings.insert(key, value >> 24);
        }
    }
}

async fn judge(image: &[u8]) {
    let metadata = Arc::new(MemDisk::from_bytes(image.to_vec()));
    let data = MemDisk::new(DATA_CHUNKS * CHUNK);
    let data = Arc::new(data.with_geometry(|geometry| geometry.read_only = true));
    let spec = ThinPoolSpec {
        transaction_id: 0,
        chunk_size: CHUNK,
        pending_messages: false,
    };
    let pool = ThinPool::open(metadata, data, spec)
        .await
        .expect("the superblock is good");
    let checked = pool.check_volume(VOLUME).await;
    let is_sound = matches!(checked, Ok(_) | Err(ThinError::Mapped { .. }));
    let opened: Result<Node, ThinError> = pool.volume(VOLUME, CHUNKS * CHUNK, None).await;
    let Ok(volume) = opened else {
        assert!(!is_sound);
        return;
    };
    let whole = Range::new(0, CHUNKS * CHUNK);
    let extents = volume.extents(whole).await;
    let read = volume.read(Range::new(0, READ_CHUNKS * CHUNK)).await;
    if !is_sound {
        return;
    }
    assert!(read.is_ok(), "what was checked can be read");
    let root = number(image, BLOCK + 32 + 252 * 8);
    let mut mappings = BTreeMap::new();
    walk(image, root, &mut mappings);
    let extents = extents.expect("what was checked has extents");
    for chunk in 0..CHUNKS {
        let at = Range::new(chunk * CHUNK, CHUNK);
        let place = volume.remap(at).map(|(_, there)| there.offset / CHUNK);
        assert_eq!(place, mappings.get(&chunk).copied());
        let extent = extents.iter().find(|extent| extent.range.end() > at.offset);
        let is_data = extent.map(|extent| extent.kind) == Some(ExtentKind::Data);
        assert_eq!(is_data, mappings.contains_key(&chunk));
    }
}
