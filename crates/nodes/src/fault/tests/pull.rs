//! A drive that is pulled and plugged in again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Errno, Operation, WriteFlags};
use engine::clock;
use futures_util::future::join;
use testkit::{HeldDisk, MemDisk, block_on, pattern};

use super::super::{Fault, FaultPlan};
use super::{KINDS, RANGE, SIZE, faulty, read, send, write};
use crate::test_runtime::{is_ready, timed};

#[test]
fn a_pulled_drive_fails_everything_and_plugged_in_again_has_what_it_had() {
    let (_, disk) = faulty(FaultPlan::default());
    let handle = disk.handle();
    block_on(write(&disk, RANGE, 7)).unwrap();
    handle.pull();
    assert!(handle.is_pulled());
    for operation in KINDS {
        let error = block_on(send(&disk, operation)).unwrap_err();
        assert_eq!((error.errno, error.operation), (Errno::Io, operation));
        assert!(error.to_string().contains("pulled"), "{error}");
    }
    handle.plug();
    assert!(!handle.is_pulled());
    assert_eq!(block_on(read(&disk, RANGE)), pattern(7, RANGE));
    for operation in KINDS {
        block_on(send(&disk, operation)).unwrap();
    }
}

#[test]
fn requests_under_way_fail_at_once_when_the_drive_is_pulled() {
    for operation in KINDS {
        if operation == Operation::Measure {
            continue;
        }
        let child = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
        let disk = Fault::new(child.clone(), FaultPlan::default());
        let error = block_on(async {
            let pull = async {
                child.arrival().await;
                disk.handle().pull();
            };
            join(send(&disk, operation), pull).await.0.unwrap_err()
        });
        assert_eq!((error.errno, error.operation), (Errno::Io, operation));
    }
}

#[test]
fn a_pull_between_two_looks_is_seen_by_what_was_under_way() {
    block_on(async {
        let child = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
        let disk = Fault::new(child.clone(), FaultPlan::default());
        let mut write = pin!(write(&disk, RANGE, 1));
        assert!(!is_ready(write.as_mut()).await);
        disk.handle().pull();
        disk.handle().plug();
        write.await.unwrap_err();
    });
}

/// Without waiting for what the pull cut off, a write from before it would land over one from after
/// it.
#[test]
fn nothing_from_before_a_pull_lands_on_what_was_written_after_it() {
    block_on(async {
        let below = Arc::new(MemDisk::new(SIZE));
        let child = HeldDisk::new(below.clone());
        let disk = Fault::new(child.clone(), FaultPlan::default());
        {
            let mut old = pin!(write(&disk, RANGE, 1));
            assert!(!is_ready(old.as_mut()).await);
            disk.handle().pull();
            old.await.unwrap_err();
        }
        disk.handle().plug();
        let mut new = pin!(write(&disk, RANGE, 2));
        assert!(!is_ready(new.as_mut()).await);
        assert_eq!(
            child.held().len(),
            1,
            "only the old write, which is waited for"
        );
        while !is_ready(new.as_mut()).await {
            child.release_oldest().await;
            tokio::task::yield_now().await;
        }
        child.hold(false);
        assert_eq!(read(&disk, RANGE).await, pattern(2, RANGE));
    });
}

#[test]
fn a_drive_is_pulled_as_long_as_its_file_exists() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("pulled");
    let (_, disk) = faulty(FaultPlan {
        pulled_while: Some(flag.clone()),
        ..FaultPlan::default()
    });
    timed(async {
        for _ in 0..3 {
            write(&disk, RANGE, 1).await.unwrap();
            std::fs::write(&flag, b"").unwrap();
            assert!(write(&disk, RANGE, 2).await.is_err());
            disk.handle().plug();
            assert!(disk.handle().is_pulled(), "the file keeps it pulled");
            std::fs::remove_file(&flag).unwrap();
        }
        disk.handle().pull();
        assert!(disk.flush().await.is_err());
    });
}

#[test]
fn the_file_is_seen_by_requests_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("pulled");
    let child = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
    let plan = FaultPlan {
        pulled_while: Some(flag.clone()),
        ..FaultPlan::default()
    };
    let disk = Fault::new(child.clone(), plan);
    timed(async {
        let mut write = pin!(write(&disk, RANGE, 1));
        assert!(!is_ready(write.as_mut()).await);
        std::fs::write(&flag, b"").unwrap();
        let error = clock::timeout(Duration::from_secs(60), write)
            .await
            .unwrap();
        assert_eq!(error.unwrap_err().errno, Errno::Io);
    });
}

#[test]
fn a_flush_after_a_pull_that_lost_nothing_is_a_flush() {
    let (_, disk) = faulty(FaultPlan::default());
    block_on(async {
        write(&disk, RANGE, 1).await.unwrap();
        disk.handle().pull();
        disk.flush().await.unwrap_err();
        disk.handle().plug();
        disk.flush().await.unwrap();
        disk.write_zeroes(RANGE, WriteFlags::FUA).await.unwrap();
    });
}
