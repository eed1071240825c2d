//! Random stacks of all nodes under random requests, against a byte vector; power cuts and dropped
//! futures under those that need no engine.
//!
//! One seed is one world: its stack, what is under it and the requests to it. A failure prints the
//! seed; `OUTBOARD_STACK_SEED=SEED` runs that world alone.

use std::sync::Arc;

use block::{IoError, Node};
use engine::{BackendChoice, Config};
use fastrand::Rng;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config as Cases, RngAlgorithm, TestRng, TestRunner};
use testkit::{
    MemDisk, Op, OpSpace, TrimLeaves, block_on, check_crashes, check_dropped_futures,
    check_in_batches, ops,
};

use super::shape::{Kinds, StackShape};
use crate::Memory;

/// Names the one world to run.
const SEED_VARIABLE: &str = "OUTBOARD_STACK_SEED";
/// Requests of a world, at most.
const OPS_MAX: usize = 40;

/// What a seed makes.
struct StackWorld {
    seed: u64,
    shape: StackShape,
    ops: Vec<Op>,
    rng: Rng,
}

/// How large worlds are.
#[derive(Clone, Copy)]
struct Scale {
    kinds: Kinds,
    /// Bytes of the stack, at most.
    size_max: u64,
    depth_max: u8,
    ops_max: usize,
}

impl StackWorld {
    fn new(seed: u64, scale: Scale) -> Self {
        let mut rng = Rng::with_seed(seed);
        let unit = if rng.bool() { 512 } else { 4096 };
        let size = rng.u64(1..=scale.size_max / u64::from(unit)) * u64::from(unit);
        let depth = rng.u8(0..=scale.depth_max);
        let shape = StackShape::random(&mut rng, scale.kinds, size, unit, depth);
        let space = OpSpace {
            size,
            block_size: unit,
            len_max: size.div_ceil(2).max(unit.into()),
        };
        let ops = random_ops(&mut rng, space, scale.ops_max);
        Self {
            seed,
            shape,
            ops,
            rng,
        }
    }

    /// Disks for its leaves: some show garbage where they were trimmed, some are of RAM.
    fn leaves(&mut self) -> Vec<Node> {
        let sizes = self.shape.leaves().into_iter();
        let leaf = |size| match self.rng.u8(0..3) {
            0 => Arc::new(Memory::new(size)) as Node,
            1 => Arc::new(MemDisk::new(size)),
            _ => Arc::new(MemDisk::new(size).trims_leave(TrimLeaves::Garbage)),
        };
        sizes.map(leaf).collect()
    }
}

/// Says how to run a world again, whichever way it fails.
impl Drop for StackWorld {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "run it again with {SEED_VARIABLE}={}\n{:?}\n{:#?}",
                self.seed, self.shape, self.ops
            );
        }
    }
}

fn random_ops(rng: &mut Rng, space: OpSpace, ops_max: usize) -> Vec<Op> {
    let seed: [u8; 32] = std::array::from_fn(|_| rng.u8(..));
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Cases::default(), rng);
    let lists = ops(space, 0..=ops_max);
    lists.new_tree(&mut runner).unwrap().current()
}

/// `count` new seeds, or the one that is requested.
fn seeds(count: usize) -> Vec<u64> {
    if let Ok(seed) = std::env::var(SEED_VARIABLE) {
        return vec![seed.parse().unwrap()];
    }
    (0..count).map(|_| fastrand::u64(..)).collect()
}

#[test]
fn a_random_stack_is_a_disk() {
    let scale = Scale {
        kinds: Kinds::All,
        size_max: 192 * 1024,
        depth_max: 8,
        ops_max: OPS_MAX,
    };
    let config = Config {
        backend: BackendChoice::Threads,
        cores: 1,
    };
    engine::run(&config, |_| async move {
        for seed in seeds(200) {
            let mut world = StackWorld::new(seed, scale);
            let leaves = world.leaves();
            let node = world.shape.build(&mut leaves.into_iter()).await;
            let width = world.rng.usize(1..8);
            let outcome = check_in_batches(&*node, &world.ops, width).await;
            outcome.unwrap();
        }
    })
    .unwrap();
}

async fn open(shape: &StackShape, disks: Vec<Node>) -> Result<Node, IoError> {
    Ok(shape.build(&mut disks.into_iter()).await)
}

#[test]
fn what_a_random_stack_flushed_survives_a_power_cut() {
    let scale = Scale {
        kinds: Kinds::Plain,
        size_max: 16 * 1024,
        depth_max: 4,
        ops_max: 10,
    };
    for seed in seeds(40) {
        let world = StackWorld::new(seed, scale);
        let shape = &world.shape;
        let open = async |disks| open(shape, disks).await;
        let outcome = block_on(check_crashes(open, &shape.leaves(), &world.ops, seed));
        outcome.unwrap();
    }
}

#[test]
fn a_dropped_future_leaves_nothing_behind_in_a_random_stack() {
    let scale = Scale {
        kinds: Kinds::Plain,
        size_max: 16 * 1024,
        depth_max: 4,
        ops_max: 6,
    };
    for seed in seeds(40) {
        let world = StackWorld::new(seed, scale);
        let shape = &world.shape;
        let open = async |disks| open(shape, disks).await;
        let outcome = block_on(check_dropped_futures(open, &shape.leaves(), &world.ops));
        outcome.unwrap();
    }
}
