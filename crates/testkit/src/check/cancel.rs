//! Futures dropped at every await: after `settle` nothing more may land.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use block::{IoError, Node, Range, WriteFlags};
use futures_util::future::{Either, select};

use super::crash::poll_times;
use super::{Mismatch, change, compare, read, whole};
use crate::held_disk::HeldDisk;
use crate::mem_disk::MemDisk;
use crate::model::{Model, Op};

/// Child requests that one request may need, at most, before the check gives up on it.
const RELEASES_MAX: usize = 512;

/// For each of `ops` and each `n`: opens a node on held disks of the given sizes, starts the
/// request, lets `n` child requests go, drops the future, waits for `settle`, and checks that no
/// change is left below, that nothing outside the range changed, and that a new write stays.
///
/// # Errors
/// [`Mismatch`].
///
/// # Panics
/// If a request needs more child requests than the check is made for.
pub async fn check_dropped_futures<F>(
    open: impl Fn(Vec<Node>) -> F,
    sizes: &[u64],
    ops: &[Op],
) -> Result<(), Mismatch>
where
    F: Future<Output = Result<Node, IoError>>,
{
    for op in ops {
        let mut released = 0;
        while !drop_after(&open, sizes, op, released).await? {
            released += 1;
            assert!(released < RELEASES_MAX, "{op:?} never comes to its end");
        }
    }
    Ok(())
}

/// One world; true if the request was done before it could be dropped.
async fn drop_after<F>(
    open: &impl Fn(Vec<Node>) -> F,
    sizes: &[u64],
    op: &Op,
    released: usize,
) -> Result<bool, Mismatch>
where
    F: Future<Output = Result<Node, IoError>>,
{
    let disks: Vec<_> = sizes
        .iter()
        .map(|&size| HeldDisk::new(Arc::new(MemDisk::new(size))))
        .collect();
    hold(&disks, false);
    let children = disks.iter().map(|disk| disk.clone() as Node).collect();
    let node = open(children).await.map_err(Mismatch::failed(Op::Flush))?;
    let everything = write_op(whole(&*node), 0x11);
    change(&*node, &everything)
        .await
        .map_err(Mismatch::failed(everything))?;
    let mut model = Model::new(node.geometry().size);
    model.apply(&everything);

    hold(&disks, true);
    let done = start_and_drop(&node, op, &disks, released).await?;
    settle(&node, &disks).await.map_err(Mismatch::failed(*op))?;
    let left = disks.iter().map(|disk| disk.held().len()).sum();
    if left > 0 {
        return Err(Mismatch::NotSettled {
            op: *op,
            released,
            left,
        });
    }
    hold(&disks, false);
    check_after(&node, model, op).await?;
    Ok(done)
}

/// Nothing outside the range changed, and a new write of the range stays.
async fn check_after(node: &Node, mut model: Model, op: &Op) -> Result<(), Mismatch> {
    let everything = whole(&**node);
    if let (Some(range), true) = (op.range(), op.changes()) {
        model.forget(range);
    }
    let found = read(&**node, everything).await?;
    compare(&model, everything, &found, "after a dropped future")?;
    if let Some(range) = op.range() {
        let again = write_op(range, 0x22);
        model.apply(&again);
        let result = change(&**node, &again).await;
        result.map_err(Mismatch::failed(again))?;
        let found = read(&**node, everything).await?;
        compare(&model, everything, &found, "a write after settle")?;
    }
    Ok(())
}

const fn write_op(range: Range, fill: u8) -> Op {
    Op::Write {
        range,
        fill,
        flags: WriteFlags::empty(),
        now: false,
    }
}

fn hold(disks: &[Arc<HeldDisk>], holding: bool) {
    for disk in disks {
        disk.hold(holding);
    }
}

/// Polls the request between releases, then drops it; true if it was done.
async fn start_and_drop(
    node: &Node,
    op: &Op,
    disks: &[Arc<HeldDisk>],
    releases: usize,
) -> Result<bool, Mismatch> {
    // More than one poll a step: the executor owes a node that woke itself another one.
    const POLLS: u8 = 4;
    let mut request = pin!(change(&**node, op));
    for step in 0..=releases {
        // Else tokio holds the request back for good: what it may do in one turn is bounded.
        tokio::task::yield_now().await;
        if let Some(result) = poll_times(request.as_mut(), POLLS).await {
            return result.map(|()| true).map_err(Mismatch::failed(*op));
        }
        if step < releases {
            release_one(disks).await;
        }
    }
    Ok(false)
}

async fn release_one(disks: &[Arc<HeldDisk>]) {
    for disk in disks {
        if disk.release_oldest().await {
            return;
        }
    }
}

/// Waits for the node's `settle` while the disks carry out what they hold.
async fn settle(node: &Node, disks: &[Arc<HeldDisk>]) -> Result<(), IoError> {
    let serve = pin!(async {
        loop {
            for disk in disks {
                disk.release_oldest().await;
            }
            tokio::task::yield_now().await;
        }
    });
    // The node's `settle` is polled first: if it does not wait at all, what it left behind is still held.
    match select(node.settle(), serve).await {
        Either::Left((result, _)) => result,
        Either::Right((never, _)) => never,
    }
}
