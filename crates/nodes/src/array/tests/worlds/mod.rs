//! Worlds: arrays whose disks are cut from power at every point, break, hang, lie, go away and come back.
//!
//! One seed is one world: an array of some kind, users who write and read, steps of the work in the
//! background, people who fail and add members, and a few cuts of the power, each at some step of some
//! disk. A disk that is cut keeps any part of what it had not been told to keep, torn. Users leave before they are
//! answered, mirrors grow and shrink, disks are put in each other's places.
//!
//! # What must hold
//!
//! * What was acknowledged and flushed is there. What was not, is or is not, and stays so.
//! * What is read twice is the same, whether or not the copies are.
//! * After a resync all copies are alike.
//! * Superblocks and bitmaps are valid at any moment, and events never go back.
//! * A mirror has as many parts as it was told last, or was just being told.
//! * Where a disk lies about what is durable, only what others hold is owed.
//!
//! A world that ends badly is told with its seed. `OUTBOARD_WORLD=SEED` plays one world again,
//! `OUTBOARD_WORLDS=COUNT` plays so many.

mod acts;
mod copies;
mod disks;
mod end;
mod growth;
mod metadata;
mod owed;
mod shape;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use self::world::World;
use crate::timed::on_stopped_clock;

/// How long a world may last, by its own clock, which stands still while anything is done.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Worlds of each of the tests below, if nobody says otherwise.
const WORLDS: u64 = 500;

fn asked(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

/// Plays one world; what is wrong with it, and what had happened in it.
fn play(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed);
    let play = async { tokio::time::timeout(LONGEST, world.run()).await };
    let played = catch_unwind(AssertUnwindSafe(|| on_stopped_clock(play)));
    let wrong = match played {
        Ok(Ok(Ok(()))) => return Ok(()),
        Ok(Ok(Err(wrong))) => wrong,
        Ok(Err(_)) => "it hangs".to_owned(),
        Err(_) => "it panicked".to_owned(),
    };
    Err(format!("{wrong}\n  {}", world.story()))
}

/// Plays the worlds of one of `of` tests.
fn worlds(test: u64, of: u64) {
    if let Some(seed) = asked("OUTBOARD_WORLD") {
        if seed % of == test {
            play(seed).unwrap_or_else(|wrong| panic!("world {seed}: {wrong}"));
        }
        return;
    }
    let count = asked("OUTBOARD_WORLDS").map_or(WORLDS, |count| count / of);
    for seed in (0..count).map(|n| n * of + test) {
        play(seed).unwrap_or_else(|wrong| {
            panic!("world {seed}: {wrong}\nagain: OUTBOARD_WORLD={seed} cargo test -p nodes worlds")
        });
    }
}

#[test]
fn what_was_flushed_is_there_in_the_first_quarter_of_all_worlds() {
    worlds(0, 4);
}

#[test]
fn what_was_flushed_is_there_in_the_second_quarter() {
    worlds(1, 4);
}

#[test]
fn what_was_flushed_is_there_in_the_third_quarter() {
    worlds(2, 4);
}

#[test]
fn what_was_flushed_is_there_in_the_last_quarter() {
    worlds(3, 4);
}
