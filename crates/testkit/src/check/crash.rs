//! Power cuts under a node: between requests and in the middle of them.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use block::{IoError, Node, WriteFlags};

use super::{Mismatch, change, read, whole};
use crate::crash_disk::CrashDisk;
use crate::mem_disk::MemDisk;
use crate::model::{Op, Sectors};

/// Images looked at per cut.
const IMAGES_PER_CUT: u64 = 4;
/// Polls of a request after which the power may be cut, at most.
const POLLS_MAX: u8 = 24;
/// A world goes on after one cut in this many; the others are only looked at.
const CUTS_PER_REBOOT: u8 = 6;

/// Runs `ops` on the node that `open` makes of crash disks of the given sizes, cuts the power at
/// places chosen by `seed`, opens the node again on what is left, and looks for what had been
/// flushed. The requests' `FAST_ZERO` is left out, so that each of them is carried out.
///
/// # Errors
/// [`Mismatch`]; the seed is in it.
pub async fn check_crashes<F>(
    open: impl Fn(Vec<Node>) -> F,
    sizes: &[u64],
    ops: &[Op],
    seed: u64,
) -> Result<(), Mismatch>
where
    F: Future<Output = Result<Node, IoError>>,
{
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut world = CrashWorld::boot(&open, images_of_zeroes(sizes), &mut rng).await?;
    for (ops_done, op) in ops.iter().map(without_fast_zero).enumerate() {
        let polls = rng.u8(0..=POLLS_MAX);
        let node = world.node.clone();
        world.sectors.begin(&op);
        let mut request = pin!(change(&*node, &op));
        let early = poll_times(request.as_mut(), polls).await;
        if early.is_none() {
            world.check_cuts(&open, ops_done, &mut rng).await?;
        }
        let result = match early {
            Some(result) => result,
            None => request.await,
        };
        result.map_err(Mismatch::failed(op))?;
        world.sectors.finish(&op);
        let left = world.check_cuts(&open, ops_done + 1, &mut rng).await?;
        if rng.u8(0..CUTS_PER_REBOOT) == 0 {
            world = CrashWorld::boot(&open, left, &mut rng).await?;
        }
    }
    Ok(())
}

/// A running node, the disks under it, and what it owes.
struct CrashWorld {
    disks: Vec<Arc<CrashDisk>>,
    node: Node,
    sectors: Sectors,
}

impl CrashWorld {
    async fn boot<F>(
        open: &impl Fn(Vec<Node>) -> F,
        images: Vec<Vec<u8>>,
        rng: &mut fastrand::Rng,
    ) -> Result<Self, Mismatch>
    where
        F: Future<Output = Result<Node, IoError>>,
    {
        let seed = rng.u64(..);
        let disk = |image| Arc::new(CrashDisk::from_bytes(image).interleaved(rng.u64(..)));
        let disks: Vec<_> = images.into_iter().map(disk).collect();
        let children = disks.iter().map(|disk| disk.clone() as Node).collect();
        let node = open(children)
            .await
            .map_err(|error| Mismatch::NotOpened { seed, error })?;
        let content = read(&*node, whole(&*node)).await?;
        // What was read is certain only once it is flushed: a node may have repaired itself.
        let flushed = node.flush().await;
        flushed.map_err(Mismatch::failed(Op::Flush))?;
        Ok(Self {
            disks,
            node,
            sectors: Sectors::new(content),
        })
    }

    /// Looks at some images that a cut now may leave; returns one.
    async fn check_cuts<F>(
        &self,
        open: &impl Fn(Vec<Node>) -> F,
        ops_done: usize,
        rng: &mut fastrand::Rng,
    ) -> Result<Vec<Vec<u8>>, Mismatch>
    where
        F: Future<Output = Result<Node, IoError>>,
    {
        let mut left = Vec::new();
        for _ in 0..IMAGES_PER_CUT {
            let seed = rng.u64(..);
            left = self
                .disks
                .iter()
                .zip(0..)
                .map(|(disk, n)| disk.crash(seed ^ n))
                .collect();
            let children = left
                .iter()
                .cloned()
                .map(|image| Arc::new(MemDisk::from_bytes(image)) as Node);
            let reopened = open(children.collect())
                .await
                .map_err(|error| Mismatch::NotOpened { seed, error })?;
            let found = read(&*reopened, whole(&*reopened)).await?;
            if let Some(sector) = self.sectors.first_lost(&found) {
                return Err(Mismatch::Lost {
                    seed,
                    ops_done,
                    sector,
                });
            }
        }
        Ok(left)
    }
}

fn images_of_zeroes(sizes: &[u64]) -> Vec<Vec<u8>> {
    sizes
        .iter()
        .map(|&size| vec![0; crate::image::to_usize(size)])
        .collect()
}

const fn without_fast_zero(op: &Op) -> Op {
    match *op {
        Op::WriteZeroes { range, flags } => Op::WriteZeroes {
            range,
            flags: flags.difference(WriteFlags::FAST_ZERO),
        },
        other => other,
    }
}

/// Polls `future` up to `times` times; its output if that was enough.
pub(super) async fn poll_times<F: Future>(mut future: Pin<&mut F>, times: u8) -> Option<F::Output> {
    for _ in 0..times {
        let once = poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(output) = once.await {
            return Some(output);
        }
    }
    None
}
