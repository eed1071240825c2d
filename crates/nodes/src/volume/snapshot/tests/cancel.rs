//! Futures dropped at every await: the origin keeps what was outside, and the snapshot keeps everything.

use std::pin::pin;
use std::sync::Arc;

use block::{IoFuture, Node, Range, WriteFlags};
use futures_util::future::{Either, poll_immediate, select};
use testkit::{HeldDisk, Op, block_on, check_dropped_futures, pattern, single};

use super::super::Origin;
use super::{
    BASE, CHUNK, SIZE, base_bytes, base_of, new_store, read_all, store, store_size, write,
};

/// Child requests that one request may need, at most.
const RELEASES_MAX: usize = 200;

struct DroppedWorld {
    disks: [Arc<HeldDisk>; 3],
    origin: Origin,
}

impl DroppedWorld {
    async fn new() -> Self {
        let stores = [CHUNK, 4 * CHUNK].map(|chunk| HeldDisk::new(new_store(SIZE, chunk)));
        let base = HeldDisk::new(base_of(SIZE));
        let [a, b] = &stores;
        let disks = [base.clone(), a.clone(), b.clone()];
        hold(&disks, false);
        let list = vec![
            store("a", a.clone(), CHUNK),
            store("b", b.clone(), 4 * CHUNK),
        ];
        let origin = Origin::open(base, list, false).await.unwrap();
        Self { disks, origin }
    }

    /// Waits for `future` while the disks carry out what they hold.
    async fn serve<T>(&self, future: IoFuture<'_, T>) -> T {
        let serve = pin!(async {
            loop {
                for disk in &self.disks {
                    disk.release_oldest().await;
                }
                tokio::task::yield_now().await;
            }
        });
        match select(future, serve).await {
            Either::Left((result, _)) => result.unwrap(),
            Either::Right((never, _)) => never,
        }
    }

    async fn check(&self, changed: Range) {
        let mut found = read_all(&*self.origin.disk()).await;
        let span = changed.offset.try_into().unwrap()..changed.end().try_into().unwrap();
        let expected = pattern(BASE, changed);
        found[span].copy_from_slice(&expected);
        assert!(
            found == base_bytes(SIZE),
            "the origin changed outside of the request"
        );
        for name in ["a", "b"] {
            let found = read_all(&*self.origin.snapshot(name).unwrap()).await;
            assert!(found == base_bytes(SIZE), "snapshot {name} changed");
        }
    }
}

fn hold(disks: &[Arc<HeldDisk>], holding: bool) {
    disks.iter().for_each(|disk| disk.hold(holding));
}

#[derive(Debug, Clone, Copy)]
enum Request {
    Write(WriteFlags),
    WriteAndFlush,
    Zeroes,
    Trim,
}

fn start(disk: &Node, request: Request, range: Range) -> IoFuture<'_, ()> {
    match request {
        Request::Write(flags) => disk.write(range, single(pattern(1, range)), flags),
        Request::WriteAndFlush => Box::pin(async move {
            disk.write(range, single(pattern(1, range)), WriteFlags::empty())
                .await?;
            disk.flush().await
        }),
        Request::Zeroes => disk.write_zeroes(range, WriteFlags::empty()),
        Request::Trim => disk.trim(range),
    }
}

/// True if the request was done before it could be dropped.
async fn drop_after(request: Request, range: Range, releases: usize) -> bool {
    let world = DroppedWorld::new().await;
    let disk = world.origin.disk();
    hold(&world.disks, true);
    let mut is_done = false;
    {
        let mut requested = start(&disk, request, range);
        for step in 0..=releases {
            tokio::task::yield_now().await;
            is_done = poll_immediate(requested.as_mut()).await.is_some();
            if is_done {
                break;
            }
            for held in world.disks.iter().filter(|_| step < releases) {
                if held.release_oldest().await {
                    break;
                }
            }
        }
    }
    world.serve(disk.settle()).await;
    assert!(
        world.disks.iter().all(|disk| disk.held().is_empty()),
        "{request:?} {releases}"
    );
    hold(&world.disks, false);
    world.check(range).await;
    write(&*disk, range, 2).await.unwrap();
    assert!(super::read(&*disk, range).await == pattern(2, range));
    world.check(range).await;
    disk.flush().await.unwrap();
    assert!(super::read(&*disk, range).await == pattern(2, range));
    world.check(range).await;
    is_done
}

#[test]
fn a_dropped_request_of_the_origin_costs_no_snapshot_anything() {
    let range = Range::new(3000, 30_000);
    let requests = [
        Request::Write(WriteFlags::empty()),
        Request::Write(WriteFlags::FUA),
        Request::WriteAndFlush,
        Request::Zeroes,
        Request::Trim,
    ];
    block_on(async {
        for request in requests {
            let mut releases = 0;
            while !drop_after(request, range, releases).await {
                releases += 1;
                assert!(
                    releases < RELEASES_MAX,
                    "{request:?} never comes to its end"
                );
            }
        }
    });
}

/// The requests of a snapshot, as those of every node.
#[test]
fn a_dropped_future_of_a_snapshot_leaves_nothing_behind_after_settle() {
    let open = async |disks: Vec<Node>| {
        let [base, cow] = disks.try_into().expect("two disks");
        let origin = super::open_one(base, cow).await.unwrap();
        Ok(origin.snapshot("a").unwrap())
    };
    let range = Range::new(3000, 9000);
    let flags = WriteFlags::FUA;
    let list = [
        Op::Write {
            range,
            fill: 3,
            flags,
            now: false,
        },
        Op::WriteZeroes { range, flags },
        Op::Trim { range },
        Op::Read { range },
        Op::Flush,
    ];
    let sizes = [SIZE, store_size(SIZE, CHUNK)];
    block_on(check_dropped_futures(open, &sizes, &list)).unwrap();
}

/// A write that waits for the first write of its chunk goes on when that is dropped.
#[test]
fn a_write_behind_a_dropped_one_goes_on() {
    block_on(async {
        let world = DroppedWorld::new().await;
        let disk = world.origin.disk();
        let range = Range::new(0, 4096);
        hold(&world.disks, true);
        let mut first = Box::pin(write(&*disk, range, 1));
        assert!(poll_immediate(first.as_mut()).await.is_none());
        let mut second: IoFuture<'_, ()> = Box::pin(write(&*disk, range, 2));
        assert!(poll_immediate(second.as_mut()).await.is_none());
        drop(first);
        world.serve(second).await;
        hold(&world.disks, false);
        assert!(super::read(&*disk, range).await == pattern(2, range));
        world.check(range).await;
    });
}
