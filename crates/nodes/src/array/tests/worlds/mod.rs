//! Worlds: arrays on disks that are cut from power at every point, break, hang, ignore flushes, go away and come back.
//!
//! One seed is one world: an array of some kind, users that write and read, steps of the work in the
//! background, administrators that fail and add members, and a few cuts of the power, each at some step of some
//! disk. A disk that is cut keeps any part of what was not flushed, torn. Users leave before they are
//! answered, mirrors grow and shrink, disks are put in each other's places.
//!
//! # What must hold
//!
//! * What was acknowledged and flushed is there. What was not, is or is not, and stays so.
//! * What is read twice is the same, whether or not the copies are.
//! * After a resync all copies are identical.
//! * Superblocks and bitmaps are valid at any moment, and events never go back.
//! * A mirror has as many parts as was requested last, or was just being requested.
//! * With partial parity logs a dirty array that lacks a member is there, too, but for what was being written on that member; it
//!   is refused only while its parity was being resynced.
//! * With a journal all of it is there, too, and what was being written is, or is not, on all members.
//! * Where a member is lost while parity is not known to fit, what was written since the open is there ([`member_loss`]).
//! * Where members get another consistency policy, all that work have one in the end.
//! * Where a disk lies about what is durable, only what others hold is owed.
//!
//! A world is a function of its seed: nothing in it comes from outside, neither time nor chance ([`record`] proves it). One
//! that fails is reported with its seed. `OUTBOARD_WORLD=SEED` plays one world again, `OUTBOARD_WORLDS=COUNT` plays so
//! many of each kind, from `OUTBOARD_WORLDS_FROM=SEED` on.
//!
//! A seed is another world once these files change, or what an array requests of its disks: what a world found is kept as
//! a test of its own, not by its seed.

mod acts;
mod backup_files;
mod copies;
mod critical_sections;
mod disks;
mod end;
pub(super) mod expected_content;
mod growth;
mod member_loss;
mod metadata;
mod pace;
mod policies;
mod record;
mod reshape_cases;
mod reshape_end;
mod reshapes;
mod shape;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use testkit::{WorldSeeds, block_on};

use self::reshapes::ReshapeWorld;
use self::world::{World, Wrong};
use crate::array::external_input::given::Given;

/// How long a world may last, by its own clock, which stands still while anything is done.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Worlds of each kind by default, in all its tests together: about 1,000 of all kinds. `cargo xtask soak worlds` plays more.
const WORLDS: u64 = 160;
/// Those of each kind that are played twice.
const TWICE: u64 = 8;
/// Those that are looked through for what they have.
const SAMPLE: u64 = 40;
/// Seeds from here on are worlds with superblocks 0.90, which have several sectors; of those before it one in four is.
const OLD_FROM: u64 = 1 << 32;
/// Seeds from here on are worlds with parity, with superblocks of any kind.
const PARITY_FROM: u64 = 1 << 33;
/// Seeds from here on are worlds with partial parity logs.
const PPL_FROM: u64 = 1 << 34;
/// Seeds from here on are worlds with a journal.
const JOURNAL_FROM: u64 = 1 << 35;
/// Seeds from here on are worlds in which an array is reshaped.
const RESHAPE_FROM: u64 = 1 << 36;
/// Seeds from here on are worlds in which an array gets another level.
const LEVEL_FROM: u64 = 1 << 37;
/// Seeds from here on are worlds in which an array gets other consistency policies, and has bad sectors.
const POLICY_FROM: u64 = 1 << 38;
/// Seeds from here on are worlds in which an array is reshaped in place, with a backup file.
const BACKUP_FROM: u64 = 1 << 39;
/// Where the seeds of each kind begin.
const KINDS: [u64; 9] = [
    0,
    OLD_FROM,
    PARITY_FROM,
    PPL_FROM,
    JOURNAL_FROM,
    RESHAPE_FROM,
    LEVEL_FROM,
    POLICY_FROM,
    BACKUP_FROM,
];
/// Tests that share the seeds before.
const QUARTERS: u64 = 4;

/// A world that was played.
#[derive(Debug, PartialEq, Eq)]
struct Played {
    /// What is wrong with it.
    wrong: Option<String>,
    /// What had happened in it, for people.
    story: String,
    /// The same of its disks, as one number.
    record: u64,
}

fn play(seed: u64) -> Played {
    if seed >= RESHAPE_FROM {
        let mut world = match seed {
            BACKUP_FROM.. => ReshapeWorld::with_backup_file(seed),
            POLICY_FROM.. => ReshapeWorld::of_policies(seed),
            LEVEL_FROM.. => ReshapeWorld::of_levels(seed),
            _ => ReshapeWorld::new(seed),
        };
        let wrong = wrong_with(seed, world.run());
        return Played {
            wrong,
            story: world.story(),
            record: world.record(),
        };
    }
    let mut world = World::new(seed);
    let wrong = wrong_with(seed, world.run());
    Played {
        wrong,
        story: world.story(),
        record: world.record(),
    }
}

/// Plays a world; what is wrong with it.
fn wrong_with(seed: u64, run: impl Future<Output = Result<(), Wrong>>) -> Option<String> {
    let play = async {
        let _given = Given::by(seed);
        tokio::time::timeout(LONGEST, run).await
    };
    let played = catch_unwind(AssertUnwindSafe(|| block_on(play)));
    match played {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(wrong))) => Some(wrong),
        Ok(Err(_)) => Some("it hangs".to_owned()),
        Err(_) => Some("it panicked".to_owned()),
    }
}

/// Plays the worlds of one test: every `step`th from `first` on. All that fail are reported, the first with its log.
fn worlds(first: u64, step: u64) {
    worlds_of(first, step, WORLDS);
}

/// The same, by default of so many of their kind.
fn worlds_of(first: u64, step: u64, default: u64) {
    let kind = |seed: u64| KINDS.map(|from| seed >= from);
    let selected = WorldSeeds::from_env();
    let seeds: Vec<u64> = match selected.only {
        Some(seed) => {
            let is_ours = kind(seed) == kind(first) && seed % step == first % step;
            is_ours.then_some(seed).into_iter().collect()
        }
        None => {
            let count = selected.count.unwrap_or(default) / step;
            let from = first + selected.from / step * step;
            (0..count).map(|n| from + n * step).collect()
        }
    };
    let mut bad = Vec::new();
    let mut story = None;
    for seed in seeds {
        let played = play(seed);
        if let Some(wrong) = played.wrong {
            bad.push(format!("world {seed}: {wrong}"));
            story.get_or_insert((seed, played.story));
        }
    }
    if let Some((seed, story)) = story {
        let bad = bad.join("\n");
        panic!(
            "{bad}\nin {seed}:\n  {story}\nagain: OUTBOARD_WORLD={seed} cargo test -p nodes worlds"
        );
    }
}

#[test]
fn a_seed_is_the_same_world_whenever_it_is_played() {
    for seed in KINDS.into_iter().flat_map(|from| from..from + TWICE) {
        assert_eq!(play(seed), play(seed), "world {seed}");
    }
}

/// A promise about replacements is worth what worlds have of them.
#[test]
fn members_are_replaced_in_worlds_of_every_kind() {
    for first in [0, PARITY_FROM, PPL_FROM, JOURNAL_FROM] {
        let stories = (first..first + SAMPLE).map(|seed| play(seed).story);
        let of = |what: &str| stories.clone().filter(|story| story.contains(what)).count();
        let (begun, ended) = (of("replace "), of(acts::TAKEN));
        assert!(
            ended > 0,
            "of {SAMPLE} worlds from {first} on {begun} begin to replace, none ends it"
        );
    }
}

#[test]
fn what_was_flushed_is_there_in_the_first_quarter_of_all_worlds() {
    worlds(0, QUARTERS);
}

#[test]
fn what_was_flushed_is_there_in_the_second_quarter() {
    worlds(1, QUARTERS);
}

#[test]
fn what_was_flushed_is_there_in_the_third_quarter() {
    worlds(2, QUARTERS);
}

#[test]
fn what_was_flushed_is_there_in_the_last_quarter() {
    worlds(3, QUARTERS);
}

#[test]
fn what_was_flushed_is_there_in_worlds_with_superblocks_0_90() {
    worlds(OLD_FROM, 1);
}

#[test]
fn what_was_flushed_is_there_or_refused_by_name_in_the_first_half_of_worlds_with_parity() {
    worlds(PARITY_FROM, 2);
}

#[test]
fn what_was_flushed_is_there_or_refused_by_name_in_the_other_half_of_worlds_with_parity() {
    worlds(PARITY_FROM + 1, 2);
}

#[test]
fn what_was_flushed_is_there_also_without_a_member_in_the_first_half_of_worlds_with_logs() {
    worlds(PPL_FROM, 2);
}

#[test]
fn what_was_flushed_is_there_also_without_a_member_in_the_other_half_of_worlds_with_logs() {
    worlds(PPL_FROM + 1, 2);
}

#[test]
fn what_was_flushed_is_there_or_refused_by_name_in_the_first_half_of_worlds_with_a_reshape() {
    worlds(RESHAPE_FROM, 2);
}

#[test]
fn what_was_flushed_is_there_or_refused_by_name_in_the_other_half_of_worlds_with_a_reshape() {
    worlds(RESHAPE_FROM + 1, 2);
}

#[test]
fn what_was_flushed_is_there_or_refused_by_name_in_worlds_with_another_level() {
    worlds_of(LEVEL_FROM, 1, WORLDS / 2);
}

#[test]
fn what_was_flushed_is_there_or_refused_by_name_in_worlds_with_other_policies_and_bad_sectors() {
    worlds_of(POLICY_FROM, 1, WORLDS / 2);
}

#[test]
fn what_was_flushed_is_there_in_the_first_half_of_worlds_with_a_backup_file() {
    worlds(BACKUP_FROM, 2);
}

#[test]
fn what_was_flushed_is_there_in_the_other_half_of_worlds_with_a_backup_file() {
    worlds(BACKUP_FROM + 1, 2);
}

/// A promise about backup files is worth what worlds restore of them.
#[test]
fn arrays_are_cut_while_a_window_is_written_over_and_restored_from_the_file() {
    let stories = (BACKUP_FROM..BACKUP_FROM + SAMPLE).map(|seed| play(seed).story);
    let restored = stories.filter(|story| story.contains(backup_files::RESTORED));
    let count = restored.count();
    assert!(count > 8, "of {SAMPLE} worlds {count} are");
}

/// A promise about policies is worth what worlds have of them.
#[test]
fn arrays_get_other_policies_have_bad_sectors_and_lack_spares_in_worlds_of_these() {
    let stories: Vec<String> = (POLICY_FROM..POLICY_FROM + SAMPLE)
        .map(|seed| play(seed).story)
        .collect();
    for what in [
        "policy Ppl: Ok",
        "policy Bitmap: Ok",
        "policy Resync: Ok",
        "is damaged at",
        "a spare, is absent",
        "reshape: Ok",
    ] {
        let count = stories.iter().filter(|story| story.contains(what)).count();
        assert!(count > 3, "of {SAMPLE} worlds {count} have: {what}");
    }
}

/// A promise about levels is worth what worlds have of them.
#[test]
fn arrays_are_cut_while_they_get_another_level() {
    let stories = (LEVEL_FROM..LEVEL_FROM + SAMPLE).map(|seed| play(seed).story);
    let cut = stories.filter(|story| {
        let begun = story.find("reshape");
        begun.is_some_and(|at| story[at..].contains("Cut"))
    });
    let count = cut.count();
    assert!(count > 8, "of {SAMPLE} worlds {count} are");
}

/// The same with partial parity logs, which are dropped when it begins.
#[test]
fn arrays_with_logs_are_cut_before_a_reshape_and_in_it() {
    let has_logs = |seed: &u64| ReshapeWorld::new(*seed).has_logs();
    let seeds = (RESHAPE_FROM..).filter(has_logs).take(30);
    let with_logs: Vec<String> = seeds.map(|seed| play(seed).story).collect();
    let cut = |when: &str| {
        let cut = with_logs.iter().filter(|story| {
            let begun = story.find("reshape: Ok");
            let first = story.find("Cut");
            match when {
                "before" => begun.zip(first).is_some_and(|(begun, cut)| cut < begun),
                _ => begun.is_some_and(|begun| story[begun..].contains("Cut")),
            }
        });
        cut.count()
    };
    let counts = (cut("before"), cut("in it"));
    assert!(counts.0 > 3 && counts.1 > 3, "of 30: {counts:?}");
}

/// A promise about reshapes is worth what worlds have of them.
#[test]
fn arrays_are_cut_in_the_midst_of_a_reshape() {
    let stories = (RESHAPE_FROM..RESHAPE_FROM + SAMPLE).map(|seed| play(seed).story);
    let midst = stories.filter(|story| {
        let begun = story.find("reshape: Ok");
        begun.is_some_and(|at| story[at..].contains("Cut") && story[at..].contains("move rows: Ok"))
    });
    let count = midst.count();
    assert!(count > 8, "of {SAMPLE} worlds {count} are");
}

#[test]
fn what_was_flushed_is_there_also_without_a_member_in_the_first_half_of_worlds_with_a_journal() {
    worlds(JOURNAL_FROM, 2);
}

#[test]
fn what_was_flushed_is_there_also_without_a_member_in_the_other_half_of_worlds_with_a_journal() {
    worlds(JOURNAL_FROM + 1, 2);
}

/// A promise about rows that are written before a resync comes to them is worth what worlds have of these.
#[test]
fn members_are_lost_before_a_resync_in_worlds_with_parity() {
    let stories = (PARITY_FROM..PARITY_FROM + 2 * SAMPLE).map(|seed| play(seed).story);
    let nothing = format!("{}; written: []", member_loss::LOST);
    let lost = stories.filter(|story| {
        let at = story.find(member_loss::LOST);
        at.is_some_and(|at| !story[at..].starts_with(&nothing))
    });
    let count = lost.count();
    assert!(count > 4, "of {} worlds {count} have it", 2 * SAMPLE);
}

/// The worlds with logs prove nothing of torn headers where no cut leaves one.
#[test]
fn cuts_of_worlds_with_logs_leave_headers_in_part() {
    let torn = (0..60).map(|seed| {
        let mut world = World::new(PPL_FROM + seed);
        let played = block_on(async {
            let _given = Given::by(PPL_FROM + seed);
            tokio::time::timeout(LONGEST, world.run()).await
        });
        drop(played);
        world.torn_headers
    });
    let torn: u32 = torn.sum();
    assert!(torn > 0, "no header was torn");
}
