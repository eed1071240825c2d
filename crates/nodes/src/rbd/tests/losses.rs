//! Two writers, a lock that is lost, and an OSD that is killed.

use std::pin::pin;

use block::{BlockDevice, Operation, Range, WriteFlags};
use engine::rbd::RbdError;
use futures_util::future::join_all;
use testkit::ceph::CephCluster;
use testkit::{pattern, single};

use super::{MIB, cluster, open, read, spec, write};
use crate::Rbd;
use crate::test_runtime::{is_ready, timed};

#[test]
fn one_of_two_writers_is_refused_until_the_other_has_ended() {
    let Some((cluster, _folder)) = cluster() else {
        return;
    };
    cluster.create("one", 8 * MIB);
    timed(async {
        let range = Range::new(0, MIB);
        let first = open(&cluster, "one").await.unwrap();
        write(&first, range, 1).await.unwrap();
        let second = open(&cluster, "one").await.unwrap_err();
        let RbdError::InUse { owner, .. } = &second else {
            panic!("{second}");
        };
        assert_eq!(*owner, cluster.watcher("one"));
        // Reading needs no lock.
        let mut looking = spec(&cluster, "one");
        looking.read_only = true;
        drop(Rbd::open(looking).await.unwrap());
        write(&first, range, 2).await.unwrap();
        drop(first);
        let second = open(&cluster, "one").await.unwrap();
        assert_eq!(read(&second, range).await, pattern(2, range));
    });
}

#[test]
fn a_writer_that_was_locked_out_fails_for_good() {
    let Some((cluster, _folder)) = cluster() else {
        return;
    };
    cluster.create("one", 8 * MIB);
    timed(async {
        let range = Range::new(0, MIB);
        let first = open(&cluster, "one").await.unwrap();
        write(&first, range, 1).await.unwrap();
        first.flush().await.unwrap();
        cluster.ceph(&["osd", "blocklist", "add", &cluster.watcher("one")]);
        let lost = loop {
            // The OSD learns of the block list a moment after the monitor.
            match first
                .write(range, single(pattern(9, range)), WriteFlags::FUA)
                .await
            {
                Ok(()) => {}
                Err(error) => break error,
            }
        };
        assert!(lost.fenced().is_some(), "{lost}");
        let second = open(&cluster, "one").await.unwrap();
        write(&second, range, 3).await.unwrap();
        for _ in 0..2 {
            for error in [
                first.flush().await.unwrap_err(),
                write(&first, range, 1).await.unwrap_err(),
                first.trim(range).await.unwrap_err(),
                first.read(range).await.unwrap_err(),
            ] {
                let fenced = error.fenced().unwrap_or_else(|| panic!("{error}"));
                assert!(fenced.0.contains("rbd:disks/one"), "{error}");
            }
        }
        assert_eq!(first.flush().await.unwrap_err().operation, Operation::Flush);
        assert_eq!(read(&second, range).await, pattern(3, range));
    });
}

/// What a flush acknowledged is there after the OSD was killed, and what was on its way arrives.
#[test]
fn requests_wait_for_an_osd_that_was_killed() {
    let Some((mut cluster, _folder)) = cluster() else {
        return;
    };
    cluster.create("one", 64 * MIB);
    timed(async {
        let disk = open(&cluster, "one").await.unwrap();
        for round in 1..4_u8 {
            kill_during_writes(&mut cluster, &disk, round).await;
        }
        drop(disk);
        // From the OSD, not from a cache of ours.
        let again = open(&cluster, "one").await.unwrap();
        for block in 0..32 {
            let range = Range::new(block * 2 * MIB, MIB);
            assert_eq!(
                read(&again, range).await,
                pattern(3, range),
                "block {block}"
            );
        }
    });
}

async fn kill_during_writes(cluster: &mut CephCluster, disk: &Rbd, round: u8) {
    let ranges: Vec<_> = (0..32)
        .map(|block| Range::new(block * 2 * MIB, MIB))
        .collect();
    let (before, during) = ranges.split_at(16);
    join_all(before.iter().map(|&range| write(disk, range, round))).await;
    disk.flush().await.unwrap();
    let mut writes = pin!(async {
        for result in join_all(during.iter().map(|&range| write(disk, range, round))).await {
            result.unwrap();
        }
        disk.flush().await.unwrap();
    });
    assert!(!is_ready(writes.as_mut()).await);
    cluster.kill_osd();
    let range = Range::new(63 * MIB, 4096);
    let data = single(pattern(round, range));
    let mut without = disk.write(range, data, WriteFlags::FUA);
    assert!(
        !is_ready(without.as_mut()).await,
        "nothing is durable without an OSD"
    );
    cluster.restart_osd();
    writes.await;
    without.await.unwrap();
    for &range in &ranges {
        assert_eq!(read(disk, range).await, pattern(round, range));
    }
}
