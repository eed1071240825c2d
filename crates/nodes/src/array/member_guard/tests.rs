//! What the superblock of a remote half must be before something is sent to it. Found by users of the guide's failover:
//! a mirror wrote to any disk of the right size its backup's server came back with, "in sync", and a primary that had
//! been idle wrote over the superblock with which another host had taken its half over. Both halves then claimed that they were
//! complete, nothing was logged, and the data differed.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Errno, Node, Range};
use engine::clock;
use testkit::{CrashDisk, block_on, single};

use super::VALID_FOR;
use super::superblock_check::{SuperblockCheck, check};
use crate::array::format::{Changes, Version, patch};
use crate::array::redundant::tests::kit::{DATA, DISK, Recipe, SUPERBLOCK, superblock};
use crate::array::tests::two_hosts::backup::{Backup, Host, Pause, RemoteHalf};
use crate::array::tests::two_hosts::halves::ReopenHalf;
use crate::array::{
    Array, ArrayEvent, ArrayOptions, Candidate, MemberState, MemberStatus, Takeover, open,
};

thread_local! {
    /// The arrays of this thread do not look.
    pub(in crate::array) static OFF: Cell<bool> = const { Cell::new(false) };
}

/// After which a host without users writes nothing by itself.
const SETTLED: Duration = Duration::from_millis(500);
const RANGE: Range = Range::new(8192, 4096);

/// A mirror on a disk here and one of a backup.
struct Pair {
    local: Arc<CrashDisk>,
    far: Arc<CrashDisk>,
    backup: Arc<Backup>,
    array: Arc<Array>,
}

impl Pair {
    async fn start(fences: bool) -> Self {
        let (local, far) = (disk(Vec::new()), disk(Vec::new()));
        let nodes = [local.clone() as Node, far.clone() as Node];
        Recipe::mirror(2).make(&nodes).await;
        let backup = Backup::new(far.clone(), fences);
        let half = remote(&backup, Host::Primary, 1);
        let here = Candidate::local("local", local.clone() as Node);
        let array = open(vec![here, half], ArrayOptions::default()).await;
        Self {
            local,
            far,
            backup,
            array: array.expect("both are there"),
        }
    }

    async fn write(&self, fill: u8) -> Result<(), block::IoError> {
        let data = single(vec![fill; RANGE.len_usize()]);
        let flags = block::WriteFlags::empty();
        self.array.write(RANGE, data, flags).await
    }

    fn far_status(&self) -> MemberStatus {
        let members = self.array.status().members;
        let far = members.into_iter().find(|member| member.name == "far");
        far.expect("it is a member")
    }

    /// The server comes back with another disk while nothing is written; then something is.
    async fn swapped(&self, other: &Arc<CrashDisk>) -> MemberStatus {
        self.write(1).await.expect("both are there");
        clock::sleep(Duration::from_secs(2)).await;
        self.backup.stop();
        self.backup.start(Some((other.clone(), false)));
        let before = other.live();
        self.write(2).await.expect("one half is enough");
        self.array.flush().await.expect("one half is enough");
        assert!(other.live() == before, "the other disk was written");
        assert_eq!(self.backup.wrong(), None);
        self.far_status()
    }

    /// Another host goes on from the far half alone.
    async fn take_over(&self) -> Arc<Array> {
        self.backup
            .claim(2, Host::Second, true, true)
            .expect("the server is there");
        let options = ArrayOptions {
            missing: 1,
            run: true,
            ..ArrayOptions::default()
        };
        let half = remote(&self.backup, Host::Second, 2);
        let array = open(vec![half], options).await.expect("the half is whole");
        // What was being written is found out by itself: nothing more is written then.
        array.synced().await.expect("there is one half");
        clock::sleep(SETTLED).await;
        array
    }

    /// Nothing works any more, and nothing of either half changes.
    async fn assert_stopped(&self) -> Takeover {
        let before = (self.local.live(), self.far.live());
        let write = self.write(9).await.expect_err("it has stopped");
        assert_eq!(write.errno, Errno::Io);
        assert!(write.to_string().contains("took over"), "{write}");
        self.array.flush().await.expect_err("it has stopped");
        self.array.read(RANGE).await.expect_err("it has stopped");
        clock::sleep(Duration::from_secs(100)).await;
        self.array.stop().await.expect_err("nobody can be told");
        assert!(before == (self.local.live(), self.far.live()));
        let takeover = self.array.status().taken_over;
        takeover.expect("it was taken over")
    }
}

fn disk(bytes: Vec<u8>) -> Arc<CrashDisk> {
    match bytes.is_empty() {
        true => Arc::new(CrashDisk::new(DISK)),
        false => Arc::new(CrashDisk::from_bytes(bytes)),
    }
}

fn remote(backup: &Arc<Backup>, host: Host, token: u64) -> Candidate {
    let half = RemoteHalf::new(backup, host, &Arc::<Pause>::default(), token);
    Candidate {
        name: "far".to_owned(),
        disk: Some(half.clone()),
        remote: true,
        reopen: Some(ReopenHalf::of(&half)),
    }
}

#[track_caller]
fn assert_failed(far: &MemberStatus, why: &str) {
    assert_eq!(far.state, MemberState::Failed);
    let told = far.why.as_deref().unwrap_or_default();
    assert!(told.contains(why), "{told}");
}

#[test]
fn a_blank_disk_that_the_server_comes_back_with_is_never_written() {
    block_on(async {
        let pair = Pair::start(false).await;
        let far = pair.swapped(&disk(Vec::new())).await;
        assert_failed(&far, "it has no superblock");
    });
}

#[test]
fn a_member_of_another_array_is_never_written() {
    block_on(async {
        let others = [disk(Vec::new()), disk(Vec::new())];
        let nodes = others.each_ref().map(|disk| disk.clone() as Node);
        Recipe::mirror(2).make_other(&nodes).await;
        let pair = Pair::start(false).await;
        let far = pair.swapped(&others[1]).await;
        assert_failed(&far, "it is a member of another array, box:test");
    });
}

#[test]
fn the_other_half_in_the_place_of_this_one_is_never_written() {
    block_on(async {
        let pair = Pair::start(false).await;
        let far = pair.swapped(&disk(pair.local.live())).await;
        assert_failed(&far, "it is another member of the array");
    });
}

/// What a snapshot of the backup held before something was written is no half: the bitmap does not record what it lacks.
#[test]
fn an_old_copy_is_never_written_and_does_not_come_back_by_itself() {
    block_on(async {
        let pair = Pair::start(false).await;
        let old = disk(pair.far.live());
        let far = pair.swapped(&old).await;
        assert_failed(&far, "it is an old copy");
        let before = old.live();
        clock::sleep(Duration::from_secs(300)).await;
        assert!(old.live() == before, "it came back");
        assert_failed(&pair.far_status(), "it is an old copy");
    });
}

#[test]
fn a_half_whose_server_comes_back_with_it_stays() {
    block_on(async {
        let pair = Pair::start(false).await;
        pair.write(1).await.unwrap();
        pair.backup.stop();
        pair.backup.start(None);
        pair.write(2).await.unwrap();
        assert_eq!(pair.far_status().state, MemberState::InSync);
    });
}

/// The primary had been idle: clean, and nothing under way. It wrote over what the other host had recorded.
#[test]
fn a_primary_that_was_idle_while_its_half_was_taken_over_stops() {
    block_on(async {
        let pair = Pair::start(false).await;
        pair.write(1).await.unwrap();
        clock::sleep(VALID_FOR).await;
        let mut events = pair.array.events();
        let second = pair.take_over().await;
        let far = pair.far.live();
        let error = pair.write(2).await.expect_err("another host has the half");
        assert_eq!(error.errno, Errno::Io);
        let takeover = pair.assert_stopped().await;
        assert_eq!(takeover.member, "far");
        assert!(
            takeover.why.contains("part 0 has failed"),
            "{}",
            takeover.why
        );
        assert!(takeover.at.is_some() && takeover.events > Some(10));
        assert_eq!(events.recv().await, Ok(ArrayEvent::TakenOver(takeover)));
        assert!(pair.far.live() == far, "the other host's half was written");
        drop(second);
        assert_eq!(pair.backup.wrong(), None);
    });
}

/// Nothing was written for less than the time for which a superblock counts: a commit looks all the same.
#[test]
fn a_superblock_is_looked_at_each_time_before_it_is_overwritten() {
    block_on(async {
        let pair = Pair::start(false).await;
        pair.write(1).await.unwrap();
        clock::sleep(Duration::from_secs(1)).await;
        assert!(pair.array.status().clean);
        let _second = pair.take_over().await;
        pair.write(2).await.expect_err("another host has the half");
        pair.assert_stopped().await;
    });
}

#[test]
fn a_primary_that_writes_all_the_time_sees_within_the_window_that_it_was_taken_over_from() {
    block_on(async {
        let pair = Pair::start(false).await;
        pair.write(1).await.unwrap();
        let _second = pair.take_over().await;
        let begun = clock::now();
        while pair.write(2).await.is_ok() {
            clock::sleep(Duration::from_millis(20)).await;
        }
        let took = clock::now() - begun;
        assert!(took <= VALID_FOR, "{took:?}");
        pair.assert_stopped().await;
    });
}

#[test]
fn a_server_that_fences_ends_the_array_at_the_first_request() {
    block_on(async {
        let pair = Pair::start(true).await;
        pair.write(1).await.unwrap();
        let _second = pair.take_over().await;
        pair.write(2).await.expect_err("it is fenced");
        let takeover = pair.assert_stopped().await;
        assert!(takeover.why.contains("fenced"), "{}", takeover.why);
    });
}

/// A half that failed is probed; a host that took it over meanwhile ends the array then.
#[test]
fn a_half_that_was_taken_over_while_it_was_away_ends_the_array_when_it_is_found() {
    for fences in [false, true] {
        block_on(async {
            let pair = Pair::start(fences).await;
            pair.backup.cut(Host::Primary, true);
            pair.write(1).await.expect("one half is enough");
            assert_eq!(pair.far_status().state, MemberState::Failed);
            let _second = pair.take_over().await;
            pair.backup.cut(Host::Primary, false);
            clock::sleep(Duration::from_secs(100)).await;
            pair.assert_stopped().await;
        });
    }
}

/// A takeover is durable before the array is used, whether or not something is written then.
#[test]
fn a_takeover_is_durable_once_the_array_is_open() {
    block_on(async {
        let pair = Pair::start(false).await;
        let before = superblock(&(pair.far.clone() as Node)).await;
        let _second = pair.take_over().await;
        let durable = disk(pair.far.durable());
        let after = superblock(&(durable as Node)).await;
        assert!(after.events > before.events + 1);
        assert_eq!(after.working(), [false, true]);
    });
}

#[test]
fn requests_do_not_wait_for_a_look_while_there_are_some_all_the_time() {
    block_on(async {
        let pair = Pair::start(false).await;
        pair.write(1).await.unwrap();
        // Nothing is wrong, so that only the clock could have made one wait.
        for _ in 0..3000 {
            let begun = clock::now();
            pair.write(2).await.unwrap();
            assert_eq!(clock::now(), begun);
            clock::sleep(Duration::from_millis(10)).await;
        }
        let looks = pair.backup.looks();
        // Two and a half seconds from one to the next, and what opening and the first write need.
        assert!((10..25).contains(&looks), "{looks} looks in 30 s");
    });
}

#[test]
fn a_superblock_counts_only_byte_for_byte() {
    block_on(async {
        let disks = [disk(Vec::new()), disk(Vec::new())];
        let nodes = disks.each_ref().map(|disk| disk.clone() as Node);
        Recipe::mirror(2).make(&nodes).await;
        let place = Range::new(SUPERBLOCK, DATA - SUPERBLOCK);
        let bytes = nodes[1].read(place).await.unwrap().concat();
        let image = bytes::Bytes::copy_from_slice(&bytes[..512]);
        let judge = |found: &[u8]| {
            let images = std::slice::from_ref(&image);
            check(Version::V1_2, SUPERBLOCK, images, found)
        };
        assert_eq!(judge(&bytes), SuperblockCheck::Ours);
        let changed = |events, updated| {
            let changes = Changes {
                events: Some(events),
                updated: Some(updated),
                ..Changes::default()
            };
            patch(&bytes[..4096], Version::V1_2, &changes)
        };
        let other = |found: &[u8]| matches!(judge(found), SuperblockCheck::TakenOver(_));
        assert!(other(&changed(11, 1)), "more events");
        assert!(other(&changed(10, 1)), "as many, written by another host");
        let old = judge(&changed(9, 1));
        assert!(matches!(old, SuperblockCheck::NotOurs(why) if why.contains("old copy")));
        let mut damaged = bytes.clone();
        damaged[200] ^= 1;
        let damaged = judge(&damaged);
        assert!(matches!(damaged, SuperblockCheck::NotOurs(why) if why.contains("damaged")));
    });
}
