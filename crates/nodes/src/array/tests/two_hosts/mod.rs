//! Worlds of a mirror with one half on a backup server, and two hosts: the primary, which has the other half, and a second one
//! that takes the backup's half over.
//!
//! One seed is one world: users write, flush and read; hosts are paused and wake up, crash and start again; their ways to the
//! backup are cut; its server is restarted with its own disk, a blank one, an old copy or another array's member; a takeover
//! is ordered while the primary runs, sleeps, is cut off or is gone; and the primary returns. In half of the worlds the server
//! fences older writers, in the others it knows nothing of them.
//!
//! # What must hold
//!
//! * What was acknowledged and flushed is there, unless a takeover was ordered while the half lacked it.
//! * Two halves that both count as in sync hold the same.
//! * The superblock that records a takeover is not overwritten by the host that was taken over from, nor the data: never where
//!   the server fences; where it does not, by no request that was sent later than [`VALID_FOR`](crate::array::VALID_FOR) after
//!   that superblock was written.
//! * A disk that is not the array's half is never written.
//!
//! `OUTBOARD_WORLD=SEED`, `OUTBOARD_WORLDS=COUNT` and `OUTBOARD_WORLDS_FROM=SEED` are those of [`super::worlds`].
//!
//! # What they do not have
//!
//! A client that sends again what was not flushed, a server that loses power: the client has worlds of its own.

pub(in crate::array) mod backup;
mod end;
pub(in crate::array) mod halves;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use testkit::{WorldSeeds, block_on};

use self::world::World;
use crate::array::external_input::given::Given;
use crate::array::member_guard::tests::OFF;

/// Worlds of each test, by default.
const WORLDS: u64 = 250;
/// How long a world may last by its own clock.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Plays a world: its story, and what is wrong with it.
fn play(seed: u64, fences: bool) -> (String, Option<String>) {
    let mut world = World::new(seed, fences);
    let play = async {
        let _given = Given::by(seed);
        tokio::time::timeout(LONGEST, world.run()).await
    };
    let wrong = match catch_unwind(AssertUnwindSafe(|| block_on(play))) {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(wrong))) => Some(wrong),
        Ok(Err(_)) => Some("it hangs".to_owned()),
        Err(_) => Some("it panicked".to_owned()),
    };
    (world.story(), wrong)
}

/// Plays worlds; those that fail are reported, the first one with its log.
fn worlds(fences: bool) {
    let selected = WorldSeeds::from_env();
    let (from, count) = match selected.only {
        Some(seed) => (seed, 1),
        None => (selected.from, selected.count.unwrap_or(WORLDS)),
    };
    let mut bad = Vec::new();
    let mut first = None;
    for seed in from..from + count {
        let (story, wrong) = play(seed, fences);
        if let Some(wrong) = wrong {
            bad.push(format!("world {seed}: {wrong}"));
            first.get_or_insert((seed, story));
        }
    }
    if let Some((seed, story)) = first {
        let bad = bad.join("\n");
        panic!(
            "{bad}\nin {seed}:\n  {story}\nagain: OUTBOARD_WORLD={seed} cargo test -p nodes two_hosts"
        );
    }
}

#[test]
fn a_host_that_was_taken_over_from_loses_where_the_server_fences() {
    worlds(true);
}

#[test]
fn a_host_that_was_taken_over_from_loses_within_the_window_where_the_server_does_not_fence() {
    worlds(false);
}

#[test]
fn a_seed_is_the_same_world_whenever_it_is_played() {
    for seed in 0..20 {
        assert_eq!(play(seed, true), play(seed, true), "world {seed}");
        assert_eq!(play(seed, false), play(seed, false), "world {seed}");
    }
}

/// The worlds find what the guard is for: without it some of the first ones end badly.
#[test]
fn worlds_without_the_guard_end_badly() {
    for fences in [true, false] {
        OFF.set(true);
        let bad = (0..WORLDS).find(|seed| play(*seed, fences).1.is_some());
        OFF.set(false);
        assert!(bad.is_some(), "fencing server: {fences}");
    }
}
