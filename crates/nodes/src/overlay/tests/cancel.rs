//! Futures dropped at every await, and flushes that fail or are abandoned.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use block::{BlockDevice, Errno, IoBufs, IoFuture, Node, Operation, Range, WriteFlags};
use futures_util::future::{Either, select};
use testkit::{
    Effect, Fault, FaultDisk, HeldDisk, MemDisk, Model, Op, block_on, check_dropped_futures,
    pattern,
};

use super::super::Overlay;
use super::{
    BASE, SIZE, SMALL, base_bytes, data, held, over, read_all, store_of, store_size, write,
};

fn write_op(range: Range, fill: u8, flags: WriteFlags) -> Op {
    Op::Write {
        range,
        fill,
        flags,
        now: false,
    }
}

/// Requests over one chunk, parts of several, and over the end of a table.
fn some_ops() -> Vec<Op> {
    let empty = WriteFlags::empty();
    let wide = Range::new(14 * 1024 + 100, 4000);
    vec![
        write_op(Range::new(512, 512), 3, empty),
        write_op(Range::new(700, 100), 4, WriteFlags::FUA),
        write_op(wide, 5, empty),
        write_op(wide, 6, WriteFlags::FUA),
        Op::WriteZeroes {
            range: wide,
            flags: WriteFlags::FUA,
        },
        Op::Trim { range: wide },
        Op::Read { range: wide },
        Op::Flush,
    ]
}

#[test]
fn a_dropped_future_leaves_nothing_behind_after_settle() {
    let open = async |disks: Vec<Node>| {
        let [base, store] = disks.try_into().expect("two disks");
        Ok(Arc::new(over(base, store).await.unwrap()) as Node)
    };
    let sizes = [SIZE, store_size(SIZE, 4096)];
    block_on(check_dropped_futures(open, &sizes, &some_ops())).unwrap();
}

/// A disk of small chunks, of which none is in the store yet, and what is below it.
struct DroppedWorld {
    base: Arc<HeldDisk>,
    memory: Arc<MemDisk>,
    store: Arc<HeldDisk>,
    disk: Overlay,
}

impl DroppedWorld {
    async fn new() -> Self {
        let memory = Arc::new(store_of(SMALL, store_size(SIZE, SMALL)));
        let base = held(super::base_of(SIZE));
        let store = held(memory.clone());
        let disk = over(base.clone(), store.clone()).await.unwrap();
        Self {
            base,
            memory,
            store,
            disk,
        }
    }

    fn hold(&self, holding: bool) {
        self.base.hold(holding);
        self.store.hold(holding);
    }

    async fn release_oldest(&self) -> bool {
        self.base.release_oldest().await || self.store.release_oldest().await
    }

    /// Waits for `future` while the disks below carry out what they hold.
    async fn serve<T>(&self, future: IoFuture<'_, T>) -> T {
        let serve = pin!(async {
            loop {
                self.release_oldest().await;
                tokio::task::yield_now().await;
            }
        });
        match select(future, serve).await {
            Either::Left((result, _)) => result.unwrap(),
            Either::Right((never, _)) => never,
        }
    }

    fn start(&self, op: Op) -> IoFuture<'_, ()> {
        match op {
            Op::Write {
                range, fill, flags, ..
            } => self.disk.write(range, data(range, fill), flags),
            Op::WriteZeroes { range, flags } => self.disk.write_zeroes(range, flags),
            Op::Trim { range } => self.disk.trim(range),
            Op::Flush => self.disk.flush(),
            Op::Read { range } => {
                let read = self.disk.read(range);
                Box::pin(async move { read.await.map(|_: IoBufs| ()) })
            }
        }
    }

    /// What is read when the store is opened again as it is now.
    async fn reopened(&self) -> Vec<u8> {
        let store = Arc::new(MemDisk::from_bytes(self.memory.snapshot()));
        let again = over(super::base_of(SIZE), store).await.unwrap();
        read_all(&again).await
    }
}

/// Polls some times, since a future may wake itself; true once it is done.
async fn poll(mut future: Pin<&mut IoFuture<'_, ()>>) -> bool {
    for _ in 0..8 {
        let ready = poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if let Poll::Ready(result) = ready.await {
            result.unwrap();
            return true;
        }
    }
    false
}

/// First writes that are cancelled after each number of requests below: nothing outside the
/// range changes, a new write stays, and all of it is there when the store is opened again.
#[test]
fn a_first_write_that_is_cancelled_anywhere_changes_nothing_else() {
    for op in some_ops() {
        let mut releases = 0;
        while !block_on(drop_after(op, releases)) {
            releases += 1;
            assert!(releases < 200, "{op:?} never comes to its end");
        }
    }
}

async fn drop_after(op: Op, releases: usize) -> bool {
    let world = DroppedWorld::new().await;
    // Some chunks are in the store and listed, some are not listed yet.
    let mut model = Model::from_bytes(base_bytes(SIZE));
    for (n, fill) in [(2, 1), (29, 1), (30, 2)] {
        let range = Range::new(n * 512, 512);
        write(&world.disk, range, fill).await.unwrap();
        model.write(range, &pattern(fill, range));
        if n == 29 {
            world.disk.flush().await.unwrap();
        }
    }
    world.hold(true);
    let done = {
        let mut request = pin!(world.start(op));
        let mut done = poll(request.as_mut()).await;
        for _ in 0..releases {
            world.release_oldest().await;
            done = done || poll(request.as_mut()).await;
        }
        done
    };
    world.serve(world.disk.settle()).await;
    let left = world.store.held().len();
    assert_eq!(
        left, 0,
        "{op:?} dropped after {releases}: changes are left below"
    );
    world.hold(false);
    if let Some(range) = op.range().filter(|_| op.changes()) {
        model.forget(range);
    }
    let whole = Range::new(0, SIZE);
    let agrees = |found: &[u8], model: &Model, when: &str| {
        let right = model.agrees(whole, found);
        assert!(right, "{op:?} dropped after {releases}: wrong {when}");
    };
    agrees(&read_all(&world.disk).await, &model, "after it settled");
    let again = op.range().unwrap_or(Range::new(0, 512));
    write(&world.disk, again, 0x22).await.unwrap();
    model.write(again, &pattern(0x22, again));
    agrees(&read_all(&world.disk).await, &model, "after a new write");
    world.disk.flush().await.unwrap();
    agrees(&world.reopened().await, &model, "when it was opened again");
    done
}

/// A table of a flush that was abandoned would land on the table of a later one, and take back what
/// that has listed.
#[test]
fn a_table_that_lands_late_takes_nothing_back() {
    block_on(async {
        let world = DroppedWorld::new().await;
        write(&world.disk, Range::new(0, 512), 1).await.unwrap();
        world.store.hold(true);
        {
            let mut flush = pin!(world.disk.flush());
            assert!(!poll(flush.as_mut()).await);
            world.store.release_oldest().await;
            assert!(!poll(flush.as_mut()).await);
            assert_eq!(
                world.store.held()[0].operation,
                Operation::Write,
                "the table"
            );
        }
        world.store.hold(false);
        write(&world.disk, Range::new(512, 512), 2).await.unwrap();
        let mut flush = pin!(world.disk.flush());
        assert!(!poll(flush.as_mut()).await, "it waits for the old table");
        world.store.release_all().await;
        flush.await.unwrap();
        assert_eq!(world.store.late_changes().len(), 1);
        let found = world.reopened().await;
        assert_eq!(found[..512], pattern(1, Range::new(0, 512)));
        assert_eq!(found[512..1024], pattern(2, Range::new(512, 512)));
    });
}

#[test]
fn a_flush_waits_for_the_flush_before_it() {
    block_on(async {
        let world = DroppedWorld::new().await;
        write(&world.disk, Range::new(0, 512), 1).await.unwrap();
        world.store.hold(true);
        let mut first = pin!(world.disk.flush());
        assert!(!poll(first.as_mut()).await);
        let mut second = pin!(world.disk.flush());
        world.store.release_oldest().await;
        assert!(!poll(first.as_mut()).await);
        assert!(!poll(second.as_mut()).await, "its chunk is not listed yet");
        world.store.hold(false);
        world.store.release_all().await;
        assert!(poll(first.as_mut()).await);
        assert!(poll(second.as_mut()).await);
    });
}

/// An overlay over a store that fails as `fault` says.
async fn over_failing(fault: Fault) -> (Arc<FaultDisk>, Arc<MemDisk>, Overlay) {
    let memory = Arc::new(store_of(SMALL, store_size(SIZE, SMALL)));
    let store = FaultDisk::new(memory.clone(), 1, Vec::new());
    let disk = over(super::base_of(SIZE), store.clone()).await.unwrap();
    store.inject(fault);
    (store, memory, disk)
}

#[test]
fn a_failed_flush_stays_failed() {
    let table = Fault::new(Effect::Fail(Errno::Io))
        .on(Operation::Write)
        .at(Range::new(512, 512));
    let sync = Fault::new(Effect::Fail(Errno::NoSpace)).on(Operation::Flush);
    for (fault, errno) in [(table, Errno::Io), (sync.times(1), Errno::NoSpace)] {
        block_on(async {
            let (store, memory, disk) = over_failing(fault).await;
            let range = Range::new(0, 512);
            write(&disk, range, 1).await.unwrap();
            assert_eq!(disk.flush().await.unwrap_err().errno, errno);
            store.heal();
            assert_eq!(disk.flush().await.unwrap_err().errno, errno);
            let durable = disk.write(range, data(range, 2), WriteFlags::FUA).await;
            assert_eq!(durable.unwrap_err().errno, errno);
            let zeroed = disk.write_zeroes(range, WriteFlags::FUA).await;
            assert_eq!(zeroed.unwrap_err().errno, errno);
            // What is on the disk is what was there before, and is still a store.
            let store = Arc::new(MemDisk::from_bytes(memory.snapshot()));
            let again = over(super::base_of(SIZE), store).await.unwrap();
            assert_eq!(read_all(&again).await, pattern(BASE, Range::new(0, SIZE)));
        });
    }
}
