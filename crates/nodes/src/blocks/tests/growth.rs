//! Tests of `blocks` over a disk that grows.

use std::pin::pin;
use std::sync::Arc;

use block::{BlockDevice, Geometry, IoFuture, Node, Range, WriteFlags};
use futures_util::future::join;
use testkit::{HeldDisk, MemDisk, block_on, gather, pattern, single};

use super::{SIZE, blocks, disk_of_4096, is_ready};
use crate::Blocks;

/// A disk that is another disk after its next revalidation.
#[derive(Debug)]
struct Growing {
    disk: Node,
    next: Option<Node>,
}

impl BlockDevice for Growing {
    testkit::forward!(disk: geometry, read, write, flush, write_zeroes, trim, extents, identity, settle);

    fn revalidate(&self) -> IoFuture<'_, Option<Node>> {
        Box::pin(std::future::ready(Ok(self.next.clone())))
    }
}

#[test]
fn a_disk_that_grew_below_is_measured_in_whole_blocks() {
    let measured = |next: Option<u64>| {
        let next = next.map(|size| Arc::new(MemDisk::new(size)) as Node);
        let disk: Node = Arc::new(MemDisk::new(SIZE));
        let disk = blocks(Growing { disk, next }, 4096);
        block_on(disk.revalidate()).unwrap()
    };
    assert!(measured(None).is_none());
    assert!(measured(Some(SIZE + 512)).is_none(), "no whole block more");
    let anew = measured(Some(SIZE + 4096 + 512)).unwrap();
    let geometry = anew.geometry();
    assert_eq!((geometry.size, geometry.block_size), (SIZE + 4096, 4096));
}

/// Both measures stand over the same blocks, and a rewrite through one of them must not bring back what
/// was written through the other meanwhile.
#[test]
fn a_disk_and_what_it_was_before_it_grew_take_turns() {
    block_on(async {
        let held = HeldDisk::new(Arc::new(disk_of_4096(SIZE)));
        let larger: Node = held.clone();
        let disk = Growing {
            disk: held.clone(),
            next: Some(larger),
        };
        let smaller = disk_of_4096(SIZE - 4096);
        let old = Blocks {
            geometry: Geometry {
                block_size: 512,
                ..smaller.geometry().clone()
            },
            ..blocks(disk, 512)
        };
        let new = old.revalidate().await.unwrap().unwrap();
        held.hold(true);
        let ranges = [Range::new(0, 512), Range::new(512, 512)];
        let [first, second] = ranges.map(|range| single(pattern(1, range)));
        let writes = join(
            old.write(ranges[0], first, WriteFlags::empty()),
            new.write(ranges[1], second, WriteFlags::empty()),
        );
        let mut writes = pin!(writes);
        while !is_ready(writes.as_mut()).await {
            assert_eq!(held.held().len(), 1, "one rewrite of a block at a time");
            held.release_oldest().await;
        }
        held.hold(false);
        let whole = Range::new(0, 1024);
        assert_eq!(gather(&new.read(whole).await.unwrap()), pattern(1, whole));
    });
}
