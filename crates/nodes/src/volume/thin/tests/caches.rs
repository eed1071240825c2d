//! Whether the origin of a cache has every byte.

use std::sync::Arc;

use proptest::prelude::*;
use testkit::{MemDisk, block_on};

use super::super::format::{BLOCK_LEN, BlockKind};
use super::super::{CacheMode, CacheState, ThinError, cache_is_clean};
use super::image::{Entries, MetadataImage, number, word};
use crate::fields::put;

/// Values in a block of an array.
const VALUES: usize = 509;
const VALID: u64 = 1;

/// A cache to encode.
#[derive(Debug, Clone)]
struct TestCache {
    version: u32,
    flags: u32,
    /// Of each chunk: is it dirty?
    dirty: Vec<bool>,
}

impl TestCache {
    fn new(version: u32, chunks: usize, dirty: &[usize]) -> Self {
        let is_dirty = |chunk| dirty.contains(&chunk);
        Self {
            version,
            flags: 1,
            dirty: (0..chunks).map(is_dirty).collect(),
        }
    }

    fn array(image: &mut MetadataImage, values: &[u64]) -> u64 {
        let mut blocks = Entries::new();
        for (index, part) in (0..).zip(values.chunks(VALUES)) {
            let mut block = vec![0; BLOCK_LEN];
            let header = [VALUES, part.len(), 8];
            for (at, field) in [4, 8, 12].into_iter().zip(header) {
                put(&mut block, at, word(field));
            }
            for (value, at) in part.iter().zip((24..).step_by(8)) {
                put(&mut block, at, value.to_le_bytes());
            }
            blocks.push((index, number(image.add(&block, BlockKind::Array))));
        }
        image.tree(8, &blocks, 3)
    }

    fn image(&self) -> MetadataImage {
        let mut image = MetadataImage::new();
        let mapping = |(chunk, dirty): (u64, &bool)| {
            chunk << 16 | VALID | u64::from(*dirty && self.version == 1) << 1
        };
        let mappings: Vec<u64> = (0..).zip(&self.dirty).map(mapping).collect();
        let packed = |bits: &[bool]| (0..).zip(bits).map(|(at, bit)| u64::from(*bit) << at).sum();
        let words: Vec<u64> = self.dirty.chunks(64).map(packed).collect();
        let mappings = Self::array(&mut image, &mappings);
        let bits = Self::array(&mut image, &words);
        let blocks = image.blocks();
        let block = image.block(0);
        let numbers = [(32, 1_623_043), (64, blocks), (192, mappings), (284, bits)];
        for (at, number) in numbers {
            put(block, at, u64::to_le_bytes(number));
        }
        let chunks = u32::from_le_bytes(word(self.dirty.len()));
        let numbers = [
            (4, self.flags),
            (40, self.version),
            (232, 128),
            (236, 8),
            (240, chunks),
        ];
        for (at, number) in numbers {
            put(block, at, number.to_le_bytes());
        }
        image.seal(0, BlockKind::CacheSuperblock);
        image
    }

    fn state(&self) -> Result<CacheState, ThinError> {
        state(&self.image())
    }
}

fn state(image: &MetadataImage) -> Result<CacheState, ThinError> {
    let disk: block::Node = Arc::new(MemDisk::from_bytes(image.bytes.clone()));
    block_on(cache_is_clean(&disk))
}

const MODES: [CacheMode; 3] = [
    CacheMode::Writethrough,
    CacheMode::Writeback,
    CacheMode::Passthrough,
];

#[test]
fn a_cache_without_dirty_chunks_leaves_the_origin_readable_in_every_mode() {
    for version in [1, 2] {
        for chunks in [0, 1, 64, 65, 5000] {
            let state = TestCache::new(version, chunks, &[]).state().unwrap();
            let expected = CacheState {
                clean_shutdown: true,
                dirty: 0,
            };
            assert_eq!(state, expected);
            assert!(MODES.iter().all(|mode| state.check_origin(*mode).is_ok()));
        }
    }
}

#[test]
fn dirty_chunks_are_counted_and_refused() {
    for version in [1, 2] {
        let cache = TestCache::new(version, 40_000, &[0, 63, 64, 20_000, 39_999]);
        let state = cache.state().unwrap();
        assert_eq!(state.dirty, 5);
        for mode in MODES {
            let error = state.check_origin(mode).unwrap_err().to_string();
            assert!(
                error.contains("the cache is dirty: 5 chunks are dirty"),
                "{error}"
            );
        }
    }
}

#[test]
fn a_writeback_cache_that_was_not_shut_down_cleanly_is_refused() {
    let mut cache = TestCache::new(2, 100, &[]);
    cache.flags = 0;
    let state = cache.state().unwrap();
    assert!(!state.clean_shutdown);
    assert!(state.check_origin(CacheMode::Writethrough).is_ok());
    let error = state.check_origin(CacheMode::Writeback).unwrap_err();
    assert!(error.to_string().contains("was not shut down cleanly"));
}

#[test]
fn a_cache_that_was_never_used_is_clean() {
    let image = MetadataImage {
        bytes: vec![0; 8 * BLOCK_LEN],
    };
    assert!(
        state(&image)
            .unwrap()
            .check_origin(CacheMode::Writeback)
            .is_ok()
    );
}

#[test]
fn a_cache_superblock_that_is_not_good_is_refused_by_name() {
    let text = |at: usize, byte: u8| {
        let mut image = TestCache::new(2, 100, &[]).image();
        image.block(0)[at] = byte;
        image.seal(0, BlockKind::CacheSuperblock);
        state(&image).unwrap_err().to_string()
    };
    assert!(text(4, 3).contains("the cache is marked needs_check"));
    assert!(text(4, 9).contains("cache metadata have unknown flags 0x8"));
    assert!(text(40, 3).contains("cache metadata version 3 is not supported"));
    assert!(text(252, 1).contains("unknown incompat_flags 0x1"));
    assert!(text(236, 4).contains("metadata block size"));
    assert!(text(32, 0).contains("this is not cache metadata"));
    assert!(text(64, 200).contains("a disk is too small"));
}

#[test]
fn an_array_that_is_damaged_or_too_short_is_refused() {
    let cache = TestCache::new(2, 100, &[]);
    // Block 1 has the mappings, block 3 the dirty bits; each has its tree behind it.
    let mut image = cache.image();
    image.block(3)[30] ^= 1;
    let error = state(&image).unwrap_err().to_string();
    assert!(
        error.contains("block 3 is damaged: checksum mismatch"),
        "{error}"
    );
    let mut image = cache.image();
    put(image.block(0), 240, 5000_u32.to_le_bytes());
    image.seal(0, BlockKind::CacheSuperblock);
    let error = state(&image).unwrap_err().to_string();
    assert!(
        error.contains("is damaged: 2 entries of 509 cannot be"),
        "{error}"
    );
    put(image.block(0), 240, 50_000_u32.to_le_bytes());
    put(image.block(3), 8, 509_u32.to_le_bytes());
    image.seal(0, BlockKind::CacheSuperblock);
    image.seal(3, BlockKind::Array);
    let error = state(&image).unwrap_err().to_string();
    assert!(error.contains("the array has 509 of 782 values"), "{error}");
}

proptest! {
    #[test]
    fn wrong_bytes_in_a_cache_do_no_harm(
        version in 1_u32..=2,
        changes in proptest::collection::vec((0_usize..6, 0_usize..64, any::<u8>()), 1..6),
        seal: bool,
    ) {
        let mut image = TestCache::new(version, 100, &[]).image();
        for (block, at, byte) in changes {
            let block = block as u64 % image.blocks();
            image.block(block)[at] = byte;
            let kind = match block {
                0 => BlockKind::CacheSuperblock,
                1 | 3 => BlockKind::Array,
                _ => BlockKind::Node,
            };
            if seal {
                image.seal(block, kind);
            }
        }
        if let Ok(found) = state(&image) {
            prop_assert!(seal || found.dirty == 0);
        }
    }
}
