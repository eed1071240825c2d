//! Tests of held requests.

use std::pin::pin;
use std::sync::Arc;

use block::{BlockDevice, Operation, Range, WriteFlags};
use futures_util::FutureExt;
use futures_util::future::join;

use super::HeldDisk;
use crate::{MemDisk, block_on, gather, pattern, single};

const SIZE: u64 = 4096;
const RANGE: Range = Range::new(512, 512);

fn pending(future: &mut (impl Future + Unpin)) -> bool {
    future.now_or_never().is_none()
}

fn disks() -> (Arc<MemDisk>, Arc<HeldDisk>) {
    let below = Arc::new(MemDisk::new(SIZE));
    let held = HeldDisk::new(below.clone());
    (below, held)
}

#[test]
fn a_request_waits_until_it_is_released() {
    let (below, disk) = disks();
    block_on(async {
        let mut write = disk.write(RANGE, single(pattern(1, RANGE)), WriteFlags::empty());
        assert!(pending(&mut write));
        assert_eq!(below.snapshot(), vec![0; 4096]);
        assert_eq!(disk.held()[0].operation, Operation::Write);
        assert!(disk.release_oldest().await);
        write.await.unwrap();
        assert_eq!(below.snapshot()[512..1024], pattern(1, RANGE));
        assert!(disk.late_changes().is_empty());
    });
}

#[test]
fn requests_are_released_in_any_order() {
    let (below, disk) = disks();
    block_on(async {
        let first = disk.write(RANGE, single(pattern(1, RANGE)), WriteFlags::empty());
        let second = disk.write(RANGE, single(pattern(2, RANGE)), WriteFlags::empty());
        let turn_around = async {
            disk.arrivals(2).await;
            let ids: Vec<_> = disk.held().iter().map(|held| held.id).collect();
            disk.release(ids[1]).await;
            disk.release(ids[0]).await;
        };
        let (outcomes, ()) = join(join(first, second), turn_around).await;
        outcomes.0.unwrap();
        outcomes.1.unwrap();
    });
    assert_eq!(below.snapshot()[512..1024], pattern(1, RANGE));
}

#[test]
fn a_dropped_write_lands_late_and_settle_waits_for_it() {
    let (below, disk) = disks();
    block_on(async {
        let mut write = disk.write(RANGE, single(pattern(1, RANGE)), WriteFlags::empty());
        assert!(pending(&mut write));
        drop(write);
        let mut settle = disk.settle();
        assert!(pending(&mut settle));
        assert!(disk.held()[0].abandoned);
        assert_eq!(disk.release_all().await, 1);
        settle.await.unwrap();
    });
    assert_eq!(below.snapshot()[512..1024], pattern(1, RANGE));
    assert_eq!(disk.late_changes(), [RANGE]);
}

#[test]
fn a_dropped_read_vanishes() {
    let (_, disk) = disks();
    block_on(async {
        let mut read = disk.read(RANGE);
        assert!(pending(&mut read));
        drop(read);
        assert!(disk.held().is_empty());
        disk.settle().await.unwrap();
    });
}

#[test]
fn settle_does_not_wait_for_requests_whose_futures_live() {
    let (_, disk) = disks();
    block_on(async {
        let mut trim = pin!(disk.trim(RANGE));
        assert!(pending(&mut trim));
        disk.settle().await.unwrap();
        disk.arrival().await;
    });
}

#[test]
fn an_open_disk_holds_nothing() {
    let (_, disk) = disks();
    disk.hold(false);
    let data = block_on(disk.read(RANGE)).unwrap();
    assert_eq!(gather(&data), vec![0; 512]);
}
