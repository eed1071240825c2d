//! Zeroes of a stripe that had parity before: its disks need not zero, nor write durably.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use block::{
    BlockDevice, Errno, Geometry, IoBufs, IoError, IoFuture, Node, Operation, Range, Support,
    WriteFlags,
};
use testkit::block_on;

use super::super::format::Level;
use super::super::open;
use super::super::redundant::tests::kit::options;
use super::level::case;
use super::open::candidates;

/// A disk that neither zeroes nor writes durably by itself, and counts its flushes.
#[derive(Debug)]
struct FlushDisk {
    child: Node,
    geometry: Geometry,
    flushes: AtomicU32,
}

impl FlushDisk {
    fn new(child: Node) -> Self {
        let geometry = Geometry {
            fua: Support::None,
            write_zeroes: Support::None,
            trim: Support::None,
            ..child.geometry().clone()
        };
        Self {
            child,
            geometry,
            flushes: AtomicU32::new(0),
        }
    }
}

impl BlockDevice for FlushDisk {
    testkit::forward!(child: read, extents, identity, settle, try_read);

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        assert!(flags.is_empty(), "{flags:?}");
        self.child.write(range, data, flags)
    }

    fn write_zeroes(&self, range: Range, _: WriteFlags) -> IoFuture<'_, ()> {
        let error = IoError::new(Errno::NotSupported, Operation::WriteZeroes, Some(range));
        Box::pin(ready(Err(error)))
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        let error = IoError::new(Errno::NotSupported, Operation::Trim, Some(range));
        Box::pin(ready(Err(error)))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.child.flush()
    }
}

/// A stripe zeroes disks that cannot by writes of 1 MiB, as its engine before could: each of those flushed all disks.
#[test]
fn durable_zeroes_of_a_stripe_that_had_parity_are_flushed_once() {
    block_on(async {
        let case = case(Level::Raid5, 5, 18, Level::Raid0);
        assert!(case.size() > 1 << 20, "they are written in several parts");
        let disks = case.made().await;
        let counted: Vec<Arc<FlushDisk>> = disks
            .iter()
            .map(|disk| Arc::new(FlushDisk::new(disk.clone())))
            .collect();
        let nodes: Vec<Node> = counted.iter().map(|disk| disk.clone() as Node).collect();
        let array = open(candidates(&nodes), options()).await.unwrap();
        array.change_level(case.to).await.unwrap();
        let flushes = || -> Vec<u32> {
            let counts = counted
                .iter()
                .map(|disk| disk.flushes.load(Ordering::Relaxed));
            counts.take(17).collect()
        };
        let before = flushes();
        let all = Range::new(0, case.size());
        array.write_zeroes(all, WriteFlags::FUA).await.unwrap();
        let once: Vec<u32> = before.iter().map(|count| count + 1).collect();
        assert_eq!(flushes(), once);
        let found = array.read(all).await.unwrap().concat();
        assert!(found.iter().all(|byte| *byte == 0));
    });
}
