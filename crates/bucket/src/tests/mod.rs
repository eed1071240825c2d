//! Tests of `bucket`: `dirty` and `plans` (pure, against a model), `prices`, `uri`; with the feature `store` `volume` (the contract), `commit_turns` (commits at the same time), `worlds`
//! (stores that fail, and crashes, by seed, also of a journal), `journal` (pure) and `journaled_volume`, `writers` (takeovers), `admin` (the commands), `snapshots`, `snapshot_cuts` and
//! `snapshot_worlds`, `clones`, `clone_cuts` and `clone_worlds`, `delete_cuts`, `collection` and `collection_cuts` (`collection_plans`: pure), `relocation` (`relocation_plans`: pure), `figures` (requests are
//! counted), `encoding` (compressed and encrypted volumes of all of these), `seal` (sealed bytes, pure), `sealed_volume` (keys, and what a store
//! shows), `s3` (servers of two makes).

#[cfg(feature = "store")]
mod admin;
#[cfg(feature = "store")]
mod clone_cuts;
#[cfg(feature = "store")]
mod clone_worlds;
#[cfg(feature = "store")]
mod clones;
#[cfg(feature = "store")]
mod collection;
#[cfg(feature = "store")]
mod collection_cuts;
mod collection_plans;
#[cfg(feature = "store")]
mod commit_turns;
#[cfg(feature = "store")]
mod delete_cuts;
mod dirty;
#[cfg(feature = "store")]
mod encoding;
#[cfg(feature = "store")]
mod figures;
mod journal;
#[cfg(feature = "store")]
mod journaled_volume;
mod plans;
mod prices;
#[cfg(feature = "store")]
mod relocation;
mod relocation_plans;
#[cfg(feature = "store")]
mod s3;
#[cfg(feature = "store")]
mod seal;
#[cfg(feature = "store")]
mod sealed_volume;
#[cfg(feature = "store")]
mod snapshot_cuts;
#[cfg(feature = "store")]
mod snapshot_worlds;
#[cfg(feature = "store")]
mod snapshots;
#[cfg(feature = "store")]
mod unstable_store;
mod uri;
#[cfg(feature = "store")]
mod volume;
#[cfg(feature = "store")]
mod worlds;
#[cfg(feature = "store")]
mod writers;

use block::Range;
use bytes::Bytes;

use crate::format::{BLOCK, BLOCK_LEN};

/// A block that holds `tag` everywhere; 0: zeroes.
fn block_of(tag: u32) -> Bytes {
    tag.to_le_bytes().repeat(BLOCK_LEN / 4).into()
}

/// The tag of a block that [`block_of`] made.
fn tag_of(block: &[u8]) -> u32 {
    let (first, _) = block.split_first_chunk().expect("a block has a tag");
    let tag = u32::from_le_bytes(*first);
    assert!(
        block == block_of(tag),
        "a block has parts of several writes"
    );
    tag
}

/// `count` blocks from block `first` on, as bytes.
const fn blocks(first: u64, count: u64) -> Range {
    Range::new(first * BLOCK, count * BLOCK)
}

/// Plays `count` seeded worlds, or those that the environment names. One of four has plain volumes, and the others encoded ones.
#[cfg(feature = "store")]
fn play_all(count: u64, play: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let seeds = testkit::WorldSeeds::from_env();
    let count = seeds.count.unwrap_or(count);
    let worlds = match seeds.only {
        Some(seed) => seed..seed + 1,
        None => seeds.from..seeds.from + count,
    };
    for seed in worlds {
        let encoding = encoding::TestEncoding::of_seed(seed);
        let played = std::panic::catch_unwind(|| encoding::with(encoding, || play(seed)));
        assert!(
            played.is_ok(),
            "world {seed} fails: OUTBOARD_WORLD={seed} plays it again"
        );
    }
}
