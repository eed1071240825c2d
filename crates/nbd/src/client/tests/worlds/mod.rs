//! Seeded worlds: a client, its callers, servers with page cache and medium, and a network between them
//! that cuts, delays, loses and reorders. In worlds of two hosts, each has servers of the disk, and the client may use either.
//!
//! One seed is one world. It runs on one thread by a clock that is stopped while anything can be
//! done; neither time nor chance come from outside, so that a seed always plays the same events. The
//! client is the real one, from [`Client`](crate::client::Client) down to the socket; `network` takes the
//! place of the socket. Servers speak the real protocol.
//!
//! What must hold is in [`record::Invariant`]; `checker` holds requests, answers and media against it,
//! and names the one thing that no client can prevent.
//!
//! `OUTBOARD_WORLD=SEED` plays one world and prints its events, `OUTBOARD_WORLDS=COUNT` plays so many, from
//! `OUTBOARD_WORLDS_FROM=SEED` on:
//!
//! ```text
//! OUTBOARD_WORLDS=100000 cargo test --release -p nbd --lib client::tests::worlds
//! ```
//!
//! A seed is another world once these files change: what a world found becomes a test of its own.

mod callers;
mod checker;
mod disk;
mod faults;
mod fence;
mod handshake;
mod moves;
mod mutations;
pub(in crate::client) mod network;
mod pipe;
mod record;
mod sectors;
mod server;
mod shape;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use testkit::WorldSeeds;

use self::checker::Tally;
use self::record::{Record, Violation};
use self::world::World;
use crate::client::session::mutation::{self, Mutation};

/// Worlds that are played without another number in the environment.
const WORLDS: u64 = 500;
/// Worlds that are played twice.
const TWICE: u64 = 30;
/// Tests that share the worlds.
const SHARES: u64 = 4;

/// A world that was played.
#[derive(Debug, PartialEq, Eq)]
struct Played {
    violation: Option<Violation>,
    panicked: bool,
    tally: Tally,
    events: Vec<String>,
}

impl Played {
    fn failure(&self) -> Option<String> {
        let violation = self.violation.as_ref().map(ToString::to_string);
        violation.or_else(|| self.panicked.then(|| "it panicked".to_owned()))
    }
}

/// Which worlds are played: a seed makes one of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One address has servers of the disk.
    OneHost,
    /// Two have.
    TwoHosts,
    /// Two have, which stand by: the storage fences the one that another one took the disk over from.
    TwoStandbys,
    /// The same with servers that admit a client without looking whether they still have the disk.
    Unconfirmed,
}

fn play(kind: Kind, seed: u64) -> Played {
    play_with(None, kind, seed)
}

/// Plays a world with a fault of the client turned on.
fn play_with(mutation: Option<Mutation>, kind: Kind, seed: u64) -> Played {
    mutation::set(mutation);
    let record = Arc::new(Record::new());
    let world = async {
        let world = World::new(seed, kind, Arc::clone(&record)).await;
        world.run().await
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let played = catch_unwind(AssertUnwindSafe(|| runtime.block_on(world)));
    mutation::set(None);
    mutation::set_journal_max(None);
    Played {
        violation: record.violation(),
        panicked: played.is_err(),
        tally: played.unwrap_or_default(),
        events: record.events(),
    }
}

/// Plays every `SHARES`th world from `first` on, and reports all that violate an invariant, the first with
/// its events.
fn play_share(kind: Kind, first: u64) {
    let selected = WorldSeeds::from_env();
    let seeds: Vec<u64> = match selected.only {
        Some(seed) => (seed % SHARES == first)
            .then_some(seed)
            .into_iter()
            .collect(),
        None => {
            let count = selected.count.unwrap_or(WORLDS);
            let from = selected.from / SHARES * SHARES;
            let seeds = from + first..from + count;
            seeds.step_by(usize::try_from(SHARES).unwrap()).collect()
        }
    };
    let mut failed = Vec::new();
    let mut events = None;
    let (mut waits, waits_max) = (0, 1 + seeds.len() as u64 / 25);
    for seed in seeds {
        let played = play(kind, seed);
        waits += played.tally.waits_for_host;
        if let Some(failure) = played.failure() {
            failed.push(format!("world {seed} ({kind:?}): {failure}"));
            events.get_or_insert((seed, played.events));
        }
    }
    if let Some((seed, events)) = events {
        let (failed, events) = (failed.join("\n"), events.join("\n  "));
        panic!(
            "{failed}\nworld {seed}:\n  {events}\nagain: OUTBOARD_WORLD={seed} cargo test -p nbd --lib \
             client::tests::worlds"
        );
    }
    // Rare: a server that ended is known to have ended in most worlds.
    assert!(
        waits <= waits_max,
        "{waits} worlds wait for a host without a server"
    );
}

#[test]
fn a_seed_plays_the_same_events_each_time() {
    for seed in 0..TWICE {
        for kind in [Kind::OneHost, Kind::TwoHosts, Kind::TwoStandbys] {
            assert_eq!(play(kind, seed), play(kind, seed), "world {seed}, {kind:?}");
        }
    }
}

#[test]
fn the_first_share_of_the_worlds_keeps_every_invariant() {
    play_share(Kind::OneHost, 0);
}

#[test]
fn the_second_share_of_the_worlds_keeps_every_invariant() {
    play_share(Kind::OneHost, 1);
}

#[test]
fn the_third_share_of_the_worlds_keeps_every_invariant() {
    play_share(Kind::OneHost, 2);
}

#[test]
fn the_last_share_of_the_worlds_keeps_every_invariant() {
    play_share(Kind::OneHost, 3);
}

#[test]
fn the_first_share_of_the_worlds_of_two_hosts_keeps_every_invariant() {
    play_share(Kind::TwoHosts, 0);
}

#[test]
fn the_second_share_of_the_worlds_of_two_hosts_keeps_every_invariant() {
    play_share(Kind::TwoHosts, 1);
}

#[test]
fn the_third_share_of_the_worlds_of_two_hosts_keeps_every_invariant() {
    play_share(Kind::TwoHosts, 2);
}

#[test]
fn the_last_share_of_the_worlds_of_two_hosts_keeps_every_invariant() {
    play_share(Kind::TwoHosts, 3);
}

#[test]
fn the_first_share_of_the_worlds_of_two_standbys_keeps_every_invariant() {
    play_share(Kind::TwoStandbys, 0);
}

#[test]
fn the_second_share_of_the_worlds_of_two_standbys_keeps_every_invariant() {
    play_share(Kind::TwoStandbys, 1);
}

#[test]
fn the_third_share_of_the_worlds_of_two_standbys_keeps_every_invariant() {
    play_share(Kind::TwoStandbys, 2);
}

#[test]
fn the_last_share_of_the_worlds_of_two_standbys_keeps_every_invariant() {
    play_share(Kind::TwoStandbys, 3);
}
