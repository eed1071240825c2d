//! Metadata with wrong bytes: an error or the right data, never a panic.

use std::sync::Arc;

use block::{IoError, Node, Range};
use fastrand::Rng;
use proptest::prelude::*;
use testkit::{MemDisk, block_on, gather};

use super::super::format::{BLOCK_LEN, BlockKind};
use super::super::{ThinError, ThinPool};
use super::image::{MetadataImage, TestPool};

/// Chunks of a volume, at most.
const CHUNKS: u64 = 30;

/// All of a volume, by way of every interface.
fn read_all(
    pool: &TestPool,
    image: &MetadataImage,
    device: u64,
) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let metadata = Arc::new(MemDisk::from_bytes(image.bytes.clone()));
    let opened = block_on(ThinPool::open(metadata, pool.data_disk(), pool.spec()))?;
    let checked: Result<u64, ThinError> = block_on(opened.check_volume(device));
    let size = CHUNKS * pool.chunk;
    let whole = Range::new(0, size);
    let volume: Node = block_on(opened.volume(device, size, None))?;
    let found: Result<_, IoError> = block_on(volume.read(whole));
    let extents = block_on(volume.extents(whole));
    if let Ok(extents) = &extents {
        assert_eq!(
            extents.iter().map(|extent| extent.range.len).sum::<u64>(),
            size
        );
    }
    assert!(
        checked.is_err() || (found.is_ok() && extents.is_ok()),
        "what was checked is good"
    );
    Ok(gather(&found?).to_vec())
}

/// Changes up to `count` bytes; returns the blocks that they are in.
fn change_bytes(rng: &mut Rng, image: &mut MetadataImage, count: usize) -> Vec<u64> {
    let mut blocks = Vec::new();
    for _ in 0..rng.usize(1..=count) {
        // Headers, keys and values are where most harm is done.
        let len = image.bytes.len() / BLOCK_LEN;
        let within = if rng.bool() {
            rng.usize(0..64)
        } else {
            rng.usize(0..BLOCK_LEN)
        };
        let block = rng.usize(0..len);
        image.bytes[block * BLOCK_LEN + within] =
            if rng.bool() { rng.u8(..) } else { rng.u8(0..4) };
        blocks.push(block as u64);
    }
    blocks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn wrong_bytes_give_an_error_or_the_right_data(seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let pool = TestPool::random(&mut rng, CHUNKS, 24);
        let mut image = pool.metadata();
        change_bytes(&mut rng, &mut image, 3);
        for device in pool.volumes.keys() {
            if let Ok(found) = read_all(&pool, &image, *device) {
                prop_assert!(found == pool.expected(*device, CHUNKS * pool.chunk, &[]));
            }
        }
    }

    #[test]
    fn wrong_bytes_with_right_checksums_do_no_harm(seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let pool = TestPool::random(&mut rng, CHUNKS, 24);
        let mut image = pool.metadata();
        for block in change_bytes(&mut rng, &mut image, 6) {
            let kind = if block == 0 { BlockKind::PoolSuperblock } else { BlockKind::Node };
            image.seal(block, kind);
        }
        for device in pool.volumes.keys() {
            if let Err(error) = read_all(&pool, &image, *device) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}

#[test]
fn damage_fails_the_reads_that_need_it_and_no_others() {
    let many: Vec<(u64, u64)> = (0..2000).map(|chunk| (chunk, chunk % 4)).collect();
    let pool = TestPool::new(4).volume(1, &many);
    let mut image = pool.metadata();
    // The leaves are first, in order: this one has chunks 1008 to 1259.
    image.block(5)[2000] ^= 1;
    let metadata = Arc::new(MemDisk::from_bytes(image.bytes));
    let opened = block_on(ThinPool::open(metadata, pool.data_disk(), pool.spec())).unwrap();
    let volume = block_on(opened.volume(1, 2000 * pool.chunk, None)).unwrap();
    let read = |chunk: u64| block_on(volume.read(Range::new(chunk * pool.chunk, 512)));
    assert!(read(0).is_ok() && read(1700).is_ok());
    let error = read(1100).unwrap_err().to_string();
    assert!(
        error.contains("metadata block 5 is damaged: checksum mismatch"),
        "{error}"
    );
    assert!(block_on(opened.check_volume(1)).is_err());
}
