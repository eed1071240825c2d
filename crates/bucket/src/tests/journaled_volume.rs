//! A volume with a local journal: what a flush acknowledged is there after a crash, and what is refused.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice as _, Errno, Node, Operation};
use object_store::memory::InMemory;
use testkit::{CrashDisk, Effect, Fault, FaultDisk};

use super::collection::collect_twice;
use super::unstable_store::{Faults, RequestCut, UnstableStore};
use super::volume::{
    SIZE, access, create_on, open, open_for_reading, open_with, run, stable, tags, write,
};
use crate::admin::{
    CheckOptions, RelocateOptions, SnapshotOptions, check_on, create_snapshot_on, delete_on,
    discard_journal_on, relocate_on, status_on,
};
use crate::error::{BucketError, VolumeFailure};
use crate::format::BLOCK;
use crate::journal_plan::JournalRefusal;
use crate::snapshot_name::SnapshotName;
use crate::store::StoreAccess;
use crate::volume::{BucketVolume, VolumeJournal, VolumeOptions};

/// Bytes of a journal: the fewest that one has.
pub(super) const JOURNAL: u64 = 256 * BLOCK;

pub(super) fn options(disk: Node) -> VolumeOptions {
    VolumeOptions {
        journal: Some(VolumeJournal {
            disk,
            host: "box".to_owned(),
            path: "/journal".to_owned(),
        }),
        ..VolumeOptions::default()
    }
}

async fn open_journaled(
    access: StoreAccess,
    disk: &Arc<CrashDisk>,
) -> Result<BucketVolume, BucketError> {
    open_with(access, &options(disk.clone())).await
}

/// No request succeeds.
const OUTAGE: Faults = Faults {
    fails: 100,
    unanswered: 0,
    late: 0,
    conflicts: 0,
    ignores_conditions: false,
};

/// A store with a volume, and an empty journal.
async fn new_store() -> (Arc<InMemory>, Arc<CrashDisk>) {
    let inner = Arc::new(InMemory::new());
    create_on(stable(&inner), SIZE).await.unwrap();
    (inner, Arc::new(CrashDisk::new(JOURNAL)))
}

/// A store whose requests can be cut off.
fn cuttable(inner: &Arc<InMemory>) -> Arc<UnstableStore> {
    UnstableStore::new(inner.clone(), Faults::default(), 1)
}

fn cut(disk: &CrashDisk) -> Arc<CrashDisk> {
    Arc::new(CrashDisk::from_bytes(disk.durable()))
}

/// A volume with three flushed writes in the journal alone: the store was gone before any commit.
async fn crashed() -> (Arc<InMemory>, Arc<CrashDisk>) {
    let (inner, disk) = new_store().await;
    let store = cuttable(&inner);
    let volume = open_journaled(access(store.clone()), &disk).await.unwrap();
    store.cut();
    for nth in 0..3 {
        write(&volume, 2 * u64::from(nth), 2, nth + 1)
            .await
            .unwrap();
        volume.flush().await.unwrap();
    }
    write(&volume, 0, 1, 99).await.unwrap();
    (inner, cut(&disk))
}

#[test]
fn a_flush_needs_no_store_and_is_replayed() {
    run(async {
        let (inner, disk) = crashed().await;
        let volume = open_journaled(stable(&inner), &disk).await.unwrap();
        assert_eq!(tags(&volume, 0, 7).await, [1, 1, 2, 2, 3, 3, 0]);
        // Before any request the store has it.
        let reader = open_for_reading(stable(&inner)).await.unwrap();
        assert_eq!(tags(&reader, 0, 7).await, [1, 1, 2, 2, 3, 3, 0]);
        volume.close().await.unwrap();
        let plain = open(stable(&inner)).await.unwrap();
        assert_eq!(tags(&plain, 0, 7).await, [1, 1, 2, 2, 3, 3, 0]);
        plain.close().await.unwrap();
        let report = check_on(&stable(&inner), CheckOptions { data: true }).await;
        assert_eq!(report.unwrap().problem_count, 0);
    });
}

/// Between any two requests of a relocation, a block that it moves gets a change that is in the journal alone.
#[test]
fn data_is_relocated_below_changes_that_are_in_the_journal() {
    let mut reached = 0;
    for after in 0..60 {
        run(async {
            let (inner, disk) = new_store().await;
            let store = cuttable(&inner);
            let volume = open_journaled(access(store.clone()), &disk).await.unwrap();
            // An object with 150 blocks, of which 70 are used when the second commit is made.
            for (count, tag) in [(150, 1), (80, 2)] {
                write(&volume, 0, count, tag).await.unwrap();
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
            collect_twice(&stable(&inner)).await;
            let other = volume.clone();
            store.before_request(after, async move {
                write(&other, 100, 1, 9).await.unwrap();
                other.flush().await.unwrap();
            });
            let how = RelocateOptions::default();
            let report = Box::pin(relocate_on(&stable(&inner), how)).await.unwrap();
            assert_eq!(report.objects, 1);
            if store.is_waiting() {
                return;
            }
            reached += 1;
            store.cut();
            let volume = open_journaled(stable(&inner), &cut(&disk)).await.unwrap();
            assert_eq!(tags(&volume, 99, 3).await, [1, 9, 1], "{after}");
            assert_eq!(tags(&volume, 79, 2).await, [2, 1], "{after}");
        });
    }
    assert!((5..60).contains(&reached), "{reached} requests");
}

#[test]
fn a_replay_that_is_interrupted_is_made_again() {
    run(async {
        let (inner, disk) = crashed().await;
        let whole = disk.durable();
        let mut is_open = false;
        for requests in 0..200 {
            let inner = Arc::new(inner.fork());
            let disk = Arc::new(CrashDisk::from_bytes(whole.clone()));
            let store = cuttable(&inner);
            store.cut_at(RequestCut {
                after: requests,
                is_carried_out: requests % 2 == 0,
            });
            let open = open_journaled(access(store), &disk);
            let opened = tokio::time::timeout(Duration::from_secs(300), open).await;
            is_open = matches!(&opened, Ok(Ok(_)));
            drop(opened);
            let disk = cut(&disk);
            let volume = open_journaled(stable(&inner), &disk).await.unwrap();
            assert_eq!(tags(&volume, 0, 7).await, [1, 1, 2, 2, 3, 3, 0]);
            if is_open {
                break;
            }
        }
        assert!(is_open, "the last one is not interrupted");
    });
}

#[test]
fn a_volume_with_an_open_journal_is_opened_with_that_one_alone() {
    run(async {
        let (inner, disk) = crashed().await;
        let refused = open(stable(&inner)).await.unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, BucketError::NoJournal { .. }), "{text}");
        assert!(text.contains("/journal on box"), "{text}");
        let empty = Arc::new(CrashDisk::new(JOURNAL));
        let refused = open_journaled(stable(&inner), &empty).await.unwrap_err();
        let is_other = |source: &JournalRefusal| matches!(source, JournalRefusal::Other { .. });
        assert!(
            matches!(&refused, BucketError::Journal { source, .. } if is_other(source)),
            "{refused}"
        );
        assert_eq!(empty.live(), vec![0; 256 * 4096], "it was not changed");
        let read = open_for_reading(stable(&inner)).await.unwrap();
        assert_eq!(tags(&read, 0, 2).await, [0, 0]);

        let status = status_on(&stable(&inner)).await.unwrap();
        let journal = status.journal.unwrap();
        assert_eq!((&*journal.host, journal.stored), ("box", 0));
        let discarded = discard_journal_on(&stable(&inner)).await.unwrap();
        assert_eq!(discarded.journal, journal);
        let again = discard_journal_on(&stable(&inner)).await.unwrap_err();
        assert!(matches!(again, BucketError::NothingToDiscard { .. }));
        // The journal stays, and is refused.
        let refused = open_journaled(stable(&inner), &disk).await.unwrap_err();
        assert!(refused.to_string().contains("discarded"), "{refused}");
        assert_eq!(disk.live(), cut(&disk).live());
        let volume = open(stable(&inner)).await.unwrap();
        assert_eq!(tags(&volume, 0, 7).await, [0; 7]);
        volume.close().await.unwrap();
    });
}

#[test]
fn a_server_that_runs_is_not_disturbed_by_an_open_that_is_refused() {
    run(async {
        let (inner, disk) = new_store().await;
        let volume = open_journaled(stable(&inner), &disk).await.unwrap();
        assert!(open(stable(&inner)).await.is_err());
        let empty = Arc::new(CrashDisk::new(JOURNAL));
        assert!(open_journaled(stable(&inner), &empty).await.is_err());
        write(&volume, 0, 1, 5).await.unwrap();
        volume.confirm().await.unwrap();
        volume.close().await.unwrap();

        // Behind a clean close neither side has a journal, and another one may be used.
        let volume = open_journaled(stable(&inner), &empty).await.unwrap();
        assert_eq!(tags(&volume, 0, 1).await, [5]);
        volume.close().await.unwrap();
        let volume = open_journaled(stable(&inner), &disk).await.unwrap();
        volume.close().await.unwrap();
        let volume = open(stable(&inner)).await.unwrap();
        volume.close().await.unwrap();
    });
}

#[test]
fn a_server_that_lost_the_volume_keeps_its_journal() {
    run(async {
        let (inner, disk) = new_store().await;
        let volume = open_journaled(stable(&inner), &disk).await.unwrap();
        write(&volume, 0, 1, 5).await.unwrap();
        volume.flush().await.unwrap();
        discard_journal_on(&stable(&inner)).await.unwrap();
        volume.confirm().await.unwrap_err();
        volume.flush().await.unwrap_err();
        volume.close().await.unwrap_err();
        let refused = open_journaled(stable(&inner), &disk).await.unwrap_err();
        assert!(refused.to_string().contains("discarded"), "{refused}");
    });
}

#[test]
fn damage_is_refused_and_a_torn_end_is_not() {
    run(async {
        let (inner, disk) = crashed().await;
        let whole = disk.durable();
        // Three records of a header and two blocks each, behind the header of the journal.
        for (block, message) in [(1, "record 1"), (2, "record 1"), (5, "record 2")] {
            let mut bytes = whole.clone();
            bytes[block * 4096 + 100] ^= 1;
            let damaged = Arc::new(CrashDisk::from_bytes(bytes.clone()));
            let refused = open_journaled(stable(&inner), &damaged).await.unwrap_err();
            assert!(refused.to_string().contains(message), "{refused}");
            assert_eq!(damaged.live(), bytes, "it was not changed");
        }
        let mut bytes = whole.clone();
        bytes[9 * 4096] ^= 1;
        let torn = Arc::new(CrashDisk::from_bytes(bytes));
        let fork = Arc::new(inner.fork());
        let volume = open_journaled(stable(&fork), &torn).await.unwrap();
        assert_eq!(tags(&volume, 0, 7).await, [1, 1, 2, 2, 0, 0, 0]);
        volume.close().await.unwrap();
    });
}

#[test]
fn what_is_no_journal_of_the_volume_is_not_overwritten() {
    run(async {
        let (inner, journal) = crashed().await;
        let other = Arc::new(InMemory::new());
        create_on(stable(&other), SIZE).await.unwrap();
        let refused = open_journaled(stable(&other), &journal).await.unwrap_err();
        assert!(refused.to_string().contains("with the id"), "{refused}");
        drop(inner);
        let mut bytes = vec![0; 256 * 4096];
        bytes[200 * 4096 + 9] = 1;
        let image = Arc::new(CrashDisk::from_bytes(bytes.clone()));
        let refused = open_journaled(stable(&other), &image).await.unwrap_err();
        assert!(refused.to_string().contains("no journal"), "{refused}");
        assert_eq!(image.live(), bytes);
        let small = Arc::new(CrashDisk::new(255 * BLOCK));
        let refused = open_journaled(stable(&other), &small).await.unwrap_err();
        assert!(refused.to_string().contains("1 MiB"), "{refused}");
        let reading = VolumeOptions {
            read_only: true,
            ..options(journal)
        };
        let refused = open_with(stable(&other), &reading).await.unwrap_err();
        assert!(matches!(refused, BucketError::JournalReadOnly { .. }));
        let volume = open(stable(&other)).await.unwrap();
        volume.close().await.unwrap();
    });
}

/// Flushes go on without the store until the journal is full; then they wait for it, and do not fail.
#[test]
fn a_full_journal_waits_for_the_store() {
    run(async {
        let (inner, disk) = new_store().await;
        let store = cuttable(&inner);
        let volume = open_journaled(access(store.clone()), &disk).await.unwrap();
        store.set(OUTAGE);
        // Each takes two of 255 blocks.
        for nth in 0..127 {
            write(&volume, 1, 1, nth + 1).await.unwrap();
            volume.flush().await.unwrap();
        }
        write(&volume, 1, 1, 200).await.unwrap();
        let mut flush = std::pin::pin!(volume.flush());
        let waits = tokio::time::timeout(Duration::from_secs(60), &mut flush).await;
        assert!(waits.is_err(), "there was no space");
        store.set(Faults::default());
        flush.await.unwrap();
        assert_eq!(tags(&volume, 0, 3).await, [0, 200, 0]);
        // It has space again.
        store.set(OUTAGE);
        write(&volume, 2, 1, 201).await.unwrap();
        volume.flush().await.unwrap();
        store.set(Faults::default());
        volume.close().await.unwrap();
    });
}

#[test]
fn a_journal_that_cannot_be_written_fails_the_volume_for_good() {
    run(async {
        let (inner, _) = new_store().await;
        let disk = FaultDisk::new(Arc::new(CrashDisk::new(JOURNAL)), 1, Vec::new());
        let volume = open_with(stable(&inner), &options(disk.clone()))
            .await
            .unwrap();
        write(&volume, 0, 1, 5).await.unwrap();
        disk.inject(Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write));
        volume.flush().await.unwrap_err();
        disk.heal();
        volume.flush().await.unwrap_err();
        write(&volume, 0, 1, 6).await.unwrap_err();
        assert!(matches!(volume.failure(), Some(VolumeFailure::Journal(_))));
        assert_eq!(tags(&volume, 0, 1).await, [5], "reads are answered");
    });
}

/// Also of a volume whose changes are in the journal alone, and of one without changes to commit.
#[test]
fn a_snapshot_has_what_the_journal_acknowledged() {
    run(async {
        let (inner, disk) = new_store().await;
        let volume = open_journaled(stable(&inner), &disk).await.unwrap();
        for (tag, name) in [(5, "a"), (6, "b")] {
            write(&volume, 0, 1, tag).await.unwrap();
            volume.flush().await.unwrap();
            let name: SnapshotName = name.parse().unwrap();
            let store = stable(&inner);
            let made = create_snapshot_on(&store, &name, SnapshotOptions::default());
            made.await.unwrap();
            let snapshot = VolumeOptions {
                snapshot: Some(name),
                ..VolumeOptions::default()
            };
            let snapshot = open_with(stable(&inner), &snapshot).await.unwrap();
            assert_eq!(tags(&snapshot, 0, 1).await, [tag]);
        }
        let name: SnapshotName = "c".parse().unwrap();
        let store = stable(&inner);
        let made = create_snapshot_on(&store, &name, SnapshotOptions::default());
        made.await.unwrap();
        write(&volume, 0, 1, 7).await.unwrap();
        volume.flush().await.unwrap();
        // The position that the request recorded is none of later commits.
        let crashed = Arc::new(inner.fork());
        let volume = open_journaled(stable(&crashed), &cut(&disk)).await.unwrap();
        assert_eq!(tags(&volume, 0, 1).await, [7]);
    });
}

#[test]
fn a_snapshot_of_a_journal_without_its_server_is_refused() {
    run(async {
        let (inner, _) = crashed().await;
        for take_over in [false, true] {
            let name: SnapshotName = "a".parse().unwrap();
            let how = SnapshotOptions { take_over };
            let refused = create_snapshot_on(&stable(&inner), &name, how).await;
            let refused = refused.unwrap_err();
            assert!(matches!(refused, BucketError::NoAnswer { .. }), "{refused}");
        }
    });
}

#[test]
fn a_volume_with_a_journal_is_deleted() {
    run(async {
        let (inner, _) = crashed().await;
        let deleted = delete_on(&stable(&inner)).await.unwrap();
        assert!(deleted.left.is_empty(), "{:?}", deleted.left);
        create_on(stable(&inner), SIZE).await.unwrap();
    });
}
