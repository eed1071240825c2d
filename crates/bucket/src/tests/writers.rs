//! Two writers of one volume, in every order: after the second one has it, the first one never succeeds in flushing, and nothing that it
//! flushed before is lost.

use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice as _;
use fastrand::Rng;
use futures_util::TryStreamExt as _;
use object_store::ObjectStore as _;
use object_store::memory::InMemory;
use object_store::path::Path;

use super::play_all;
use super::snapshots::{assert_clean, names, open_snapshot, snapshot};
use super::unstable_store::{Faults, UnstableStore};
use super::volume::{
    SIZE, access, create_on, new_volume, open, open_for_reading, open_with, run, stable, tags,
    write,
};
use crate::error::{BucketError, VolumeFailure};
use crate::store::read_header;
use crate::volume::{IndexCheckpoints, VolumeOptions};

/// Worlds of a test run.
const WORLDS: u64 = 60;
/// Blocks that the first writer writes, one each round.
const ROUNDS: u32 = 12;

#[test]
fn a_second_writer_takes_the_volume_and_the_first_one_has_lost_it() {
    run(async {
        let (inner, first) = new_volume().await;
        write(&first, 0, 1, 1).await.unwrap();
        first.flush().await.unwrap();
        write(&first, 1, 1, 2).await.unwrap();
        let second = open(stable(&inner)).await.unwrap();
        let error = first.flush().await.unwrap_err();
        assert!(error.fenced().is_some(), "{error}");
        assert!(error.to_string().contains("another server"), "{error}");
        let read = first.read(super::blocks(0, 1)).await.unwrap_err();
        assert!(read.fenced().is_some(), "{read}");
        assert!(write(&first, 5, 1, 1).await.unwrap_err().fenced().is_some());
        assert!(first.flush().await.is_err(), "it stays so");
        assert_eq!(tags(&second, 0, 2).await, [1, 0]);
        write(&second, 2, 1, 3).await.unwrap();
        second.flush().await.unwrap();
        second.close().await.unwrap();
    });
}

/// The first one finds out by itself, also if it is not used.
#[test]
fn a_writer_that_is_not_used_finds_that_it_lost_the_volume() {
    run(async {
        let (inner, first) = new_volume().await;
        let second = open(stable(&inner)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let error = first.read(super::blocks(0, 1)).await.unwrap_err();
        assert!(error.fenced().is_some(), "{error}");
        second.close().await.unwrap();
    });
}

#[test]
fn a_reader_takes_nothing_from_the_writer() {
    run(async {
        let (inner, writer) = new_volume().await;
        write(&writer, 0, 100, 1).await.unwrap();
        writer.flush().await.unwrap();
        let reader = open_for_reading(stable(&inner)).await.unwrap();
        assert_eq!(tags(&reader, 99, 2).await, [1, 0]);
        write(&writer, 0, 1, 2).await.unwrap();
        writer.flush().await.unwrap();
        reader.close().await.unwrap();
        writer.close().await.unwrap();
    });
}

/// The request of the command is in the manifest, which a server that lost the volume polls, too.
#[test]
fn a_server_that_lost_the_volume_writes_nothing_into_a_snapshot() {
    run(async {
        let (inner, first) = new_volume().await;
        write(&first, 0, 2, 1).await.unwrap();
        first.flush().await.unwrap();
        // Only the first server has this.
        write(&first, 1, 1, 9).await.unwrap();
        let second = open(stable(&inner)).await.unwrap();
        write(&second, 0, 1, 2).await.unwrap();
        second.flush().await.unwrap();
        snapshot(&stable(&inner), "a").await.unwrap();
        let error = first.flush().await.unwrap_err();
        assert!(error.fenced().is_some(), "{error}");
        write(&second, 0, 2, 3).await.unwrap();
        second.flush().await.unwrap();
        let old = open_snapshot(&inner, "a").await.unwrap();
        assert_eq!(tags(&old, 0, 3).await, [2, 1, 0]);
        assert_eq!(names(&inner).await, ["a"]);
        assert_clean(&inner).await;
        second.close().await.unwrap();
    });
}

/// With only the server left that lost the volume no request is answered, and nothing of it is in a snapshot.
#[test]
fn a_server_that_lost_the_volume_makes_no_snapshot() {
    run(async {
        let (inner, first) = new_volume().await;
        let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
        let second = open(access(store.clone())).await.unwrap();
        write(&second, 0, 1, 2).await.unwrap();
        second.flush().await.unwrap();
        store.cut();
        let error = snapshot(&stable(&inner), "a").await.unwrap_err();
        assert!(matches!(error, BucketError::NoAnswer { .. }), "{error}");
        assert_eq!(names(&inner).await, [""; 0]);
        let error = first.flush().await.unwrap_err();
        assert!(error.fenced().is_some(), "{error}");
        let third = open(stable(&inner)).await.unwrap();
        assert_eq!(tags(&third, 0, 1).await, [2]);
        third.close().await.unwrap();
    });
}

/// Nothing says which of the clocks is wrong. The other one is that of an earlier writer, or of this machine before.
#[test]
fn a_volume_with_tables_more_than_an_hour_ahead_is_read_and_not_written() {
    run(async {
        let (inner, ahead) = new_volume().await;
        write(&ahead, 0, 1, 1).await.unwrap();
        // The clock of a volume passes with the runtime, and begins at the real time.
        tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
        ahead.close().await.unwrap();
        for _ in 0..2 {
            let error = open(stable(&inner)).await.unwrap_err();
            let BucketError::TablesAhead { seconds, .. } = &error else {
                panic!("{error}");
            };
            assert!((7100..7300).contains(seconds), "{error}");
            assert!(error.next().is_some_and(|next| next.contains("clock")));
        }
        let reader = open_for_reading(stable(&inner)).await.unwrap();
        assert_eq!(tags(&reader, 0, 1).await, [1]);
    });
}

/// The refused open had taken the volume from the server that has it, which no other clock could then write.
#[test]
fn a_server_with_tables_ahead_keeps_the_volume_when_another_one_is_refused() {
    run(async {
        let (inner, ahead) = new_volume().await;
        write(&ahead, 0, 1, 1).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
        // It writes its tables.
        snapshot(&stable(&inner), "a").await.unwrap();
        let error = open(stable(&inner)).await.unwrap_err();
        assert!(matches!(error, BucketError::TablesAhead { .. }), "{error}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        write(&ahead, 1, 1, 2).await.unwrap();
        ahead.flush().await.unwrap();
        assert_eq!(tags(&ahead, 0, 3).await, [1, 2, 0]);
        ahead.close().await.unwrap();
    });
}

/// The second writer opens at any moment of the first one's work.
async fn world(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let inner = Arc::new(InMemory::new());
    create_on(stable(&inner), SIZE).await.unwrap();
    let faults = |rng: &mut Rng| Faults {
        fails: rng.u8(0..10),
        unanswered: rng.u8(0..10),
        late: rng.u8(0..50),
        conflicts: rng.u8(0..20),
        ..Faults::default()
    };
    let store = UnstableStore::new(inner.clone(), faults(&mut rng), rng.u64(..));
    let first = open(access(store)).await.unwrap();
    let store = UnstableStore::new(inner.clone(), faults(&mut rng), rng.u64(..));
    let pause = rng.u64(0..4000);
    let is_late = rng.bool();
    let second = async {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        open(access(store)).await.unwrap()
    };
    let work = async {
        let mut flushed = Vec::new();
        let mut writes = 0;
        for round in 1..=ROUNDS {
            // Large ones go into objects, small ones into the index.
            let count = if rng.bool() { 1 } else { 70 };
            let begin = u64::from(round);
            writes += usize::from(write(&first, begin, count, round).await.is_ok());
            if first.flush().await.is_ok() {
                flushed.push((begin, count, round));
            }
            if is_late {
                tokio::time::sleep(Duration::from_millis(rng.u64(0..600))).await;
            }
        }
        (flushed, writes)
    };
    let (second, (flushed, _)) = tokio::join!(second, work);
    // The first one commits nothing any more.
    let after = write(&first, 0, 1, 99).await;
    let after = after.is_ok() && first.flush().await.is_ok();
    assert!(!after, "both flushed after the takeover");
    let found = tags(&second, 0, SIZE / 4096).await;
    let mut expected: Vec<Option<u32>> = vec![None; found.len()];
    for (begin, count, tag) in &flushed {
        let begin = usize::try_from(*begin).unwrap();
        let count = usize::try_from(*count).unwrap();
        expected[begin..begin + count].fill(Some(*tag));
    }
    let last = flushed.last().map_or(0, |(_, _, tag)| *tag);
    for (block, (found, expected)) in found.iter().zip(&expected).enumerate() {
        // A flush that was not acknowledged may have arrived all the same: one more than the last.
        let is_newer = *found == last + 1;
        let is_it = expected.is_none_or(|expected| *found == expected) || is_newer;
        assert!(
            is_it,
            "block {block} has {found}, and {expected:?} was flushed"
        );
    }
    assert_ne!(found[0], 99);
    write(&second, 0, 1, 77).await.unwrap();
    second.flush().await.unwrap();
    assert_eq!(tags(&second, 0, 1).await, [77]);
}

#[test]
fn two_writers_never_both_flush_and_nothing_flushed_is_lost() {
    play_all(WORLDS, |seed| run(world(seed)));
}

/// It would answer reads with what was there before until it flushes, or polls its index.
#[test]
fn a_writer_confirms_that_the_volume_is_its_own_only_while_it_is() {
    run(async {
        let (inner, first) = new_volume().await;
        first.confirm().await.unwrap();
        write(&first, 0, 1, 1).await.unwrap();
        first.flush().await.unwrap();
        first.confirm().await.unwrap();
        let reader = open_for_reading(stable(&inner)).await.unwrap();
        first.confirm().await.unwrap();
        let second = open(stable(&inner)).await.unwrap();
        write(&second, 0, 1, 2).await.unwrap();
        second.flush().await.unwrap();
        assert_eq!(tags(&first, 0, 1).await, [1], "it does not know it yet");
        let error = first.confirm().await.unwrap_err();
        assert!(matches!(error, BucketError::Failed { .. }), "{error}");
        let read = first.read(super::blocks(0, 1)).await.unwrap_err();
        assert!(read.fenced().is_some(), "{read}");
        assert!(matches!(first.failed().await, VolumeFailure::Fenced));
        second.confirm().await.unwrap();
        reader.close().await.unwrap();
        second.close().await.unwrap();
    });
}

/// A store that does not answer says nothing of another writer.
#[test]
fn a_writer_that_does_not_reach_its_store_confirms_nothing_and_has_not_failed() {
    run(async {
        let inner = Arc::new(InMemory::new());
        create_on(stable(&inner), SIZE).await.unwrap();
        let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
        let first = open(access(store.clone())).await.unwrap();
        store.cut();
        let error = first.confirm().await.unwrap_err();
        assert!(!matches!(error, BucketError::Failed { .. }), "{error}");
        assert!(first.failure().is_none());
    });
}

/// The next writer reads each log, and a client waits for that: after 1,500 flushes it took nine seconds.
#[test]
fn a_volume_in_standby_leaves_few_logs_to_the_next_writer() {
    run(async {
        for is_standby in [false, true] {
            let inner = Arc::new(InMemory::new());
            create_on(stable(&inner), SIZE).await.unwrap();
            let options = VolumeOptions {
                is_standby,
                ..VolumeOptions::default()
            };
            let volume = open_with(stable(&inner), &options).await.unwrap();
            for tag in 1..=300 {
                write(&volume, 0, 1, tag).await.unwrap();
                volume.flush().await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            let logs = logs_to_read(&inner).await;
            match is_standby {
                true => assert!(logs < 128, "{logs}"),
                false => assert!(logs >= 300, "{logs}"),
            }
            volume.close().await.unwrap();
        }
    });
}

/// Logs that the tables do not have.
async fn logs_to_read(inner: &Arc<InMemory>) -> u64 {
    let access = stable(inner);
    let header = read_header(&access).await.unwrap().header;
    let access = access.of(&header);
    let manifest = IndexCheckpoints::of(&access).manifest().await.unwrap();
    let behind = manifest.unwrap().replay_after_wal_id();
    let folder = Path::from(format!("{}/wal", access.names.index()));
    let logs = access.store.list(Some(&folder));
    let logs: Vec<_> = logs.try_collect().await.unwrap();
    let numbers = logs.iter().filter_map(|log| log.location.filename());
    let numbers = numbers.filter_map(|name| name.split('.').next()?.parse::<u64>().ok());
    numbers.filter(|number| *number > behind).count() as u64
}
