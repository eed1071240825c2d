//! [`StackShape`]: a stack of nodes as plain data, and random ones.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use block::{Node, Range};
use fastrand::Rng;

use crate::volume::raid::{self, RaidImageDisks, RaidOptions, RaidSpec};
use crate::volume::snapshot::{Origin, SnapshotStore};
use crate::{
    Blocks, Cache, CacheOptions, Delay, DelayTimes, ErrorDisk, Fault, FaultPlan, Linear, Overlay,
    OverlayOptions, Rates, ReadAhead, Segment, Stripe, Throttle, Zero,
};

/// Bytes that a window may leave out at either end, in units.
const MARGIN_MAX: u64 = 4;
/// Bytes of an overlay's store beyond those of its base: its tables, for chunks of 4096 bytes.
const STORE_EXTRA: u64 = 256 * 1024;
/// Bytes of a cache file: of the fewest slots.
const CACHE_LEN: u64 = 1_100_000 / 4096 * 4096;
/// Bytes of the metadata of an image of RAID, and what a bit of its bitmap is for.
const METADATA_LEN: u64 = 64 * 1024;
const REGION_LEN: u64 = 4096;
/// Nodes below an image of RAID, one on the other, at most.
const IMAGE_DEPTH_MAX: u8 = 2;
/// Types of volumes of RAID: how many images each has, and of these such with data of their own.
const RAID_KINDS: [(&str, u64, u64); 5] = [
    ("raid1", 2, 1),
    ("raid10", 4, 2),
    ("raid4", 3, 2),
    ("raid5", 4, 3),
    ("raid6", 5, 3),
];

/// A stack of nodes. Leaves are given to it, in order.
#[derive(Debug, Clone)]
pub(super) enum StackShape {
    /// A disk of its own, in blocks of at least `block`.
    Leaf { size: u64, block: u32 },
    /// Zeroes, with an overlay: what is written there stays.
    OverZero { size: u64 },
    /// A part of another one.
    Window {
        below: Box<Self>,
        offset: u64,
        len: u64,
    },
    /// Several, in a row.
    Linear(Vec<Self>),
    /// The first of two in a row, of which the second is lost.
    BeforeLost(Box<Self>),
    /// Several of one length.
    Stripe { members: Vec<Self>, chunk: u64 },
    /// In other blocks.
    Blocks { below: Box<Self>, block: u32 },
    /// Changes in a store, the base unchanged.
    Overlay(Box<Self>),
    /// The origin of a snapshot, for which a store gets what is overwritten.
    Origin(Box<Self>),
    /// A logical volume of RAID.
    Raid(RaidShape),
    /// A little later.
    Delay(Box<Self>),
    /// At rates that delay no request of the tests.
    Throttle(Box<Self>),
    /// Without any faults.
    Fault(Box<Self>),
    /// With a cache in front of it that holds less than most disks have.
    Cached(Box<Self>),
    /// Read ahead by the engine.
    ReadAhead(Box<Self>),
}

/// A logical volume of RAID that was never in use; each image has metadata of its own.
#[derive(Debug, Clone)]
pub(super) struct RaidShape {
    kind: &'static str,
    images: Vec<StackShape>,
    chunk: u64,
    size: u64,
}

/// Which nodes a stack may be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinds {
    /// Those that need no engine.
    Plain,
    /// Every one.
    All,
}

impl StackShape {
    /// A stack of `size` bytes, which are whole units of `unit` bytes, at most `depth` nodes deep.
    /// None of its blocks is larger than the unit.
    pub(super) fn random(rng: &mut Rng, kinds: Kinds, size: u64, unit: u32, depth: u8) -> Self {
        if depth == 0 {
            return Self::leaf(rng, size, unit);
        }
        let inner = |rng: &mut Rng, size| Box::new(Self::random(rng, kinds, size, unit, depth - 1));
        let plain = 8;
        let count = if kinds == Kinds::All {
            plain + 6
        } else {
            plain
        };
        match rng.u8(0..count) {
            0 => {
                let (before, behind) = (margin(rng, unit), margin(rng, unit));
                let below = inner(rng, before + size + behind);
                Self::Window {
                    below,
                    offset: before,
                    len: size,
                }
            }
            1 => {
                let lens = split(rng, size, unit);
                Self::Linear(lens.into_iter().map(|len| *inner(rng, len)).collect())
            }
            2 => Self::BeforeLost(inner(rng, size)),
            3 => Self::stripe(rng, kinds, size, unit, depth),
            4 => {
                let large = if size.is_multiple_of(4096) {
                    4096
                } else {
                    unit
                };
                let below = Box::new(Self::random(rng, kinds, size, large, depth - 1));
                let block = *pick(rng, &[1, 512, 4096]);
                Self::Blocks {
                    below,
                    block: block.min(unit),
                }
            }
            5 => Self::Overlay(inner(rng, size)),
            6 => Self::leaf(rng, size, unit),
            7 => Self::Origin(inner(rng, size)),
            8 => Self::Delay(inner(rng, size)),
            9 => Self::Throttle(inner(rng, size)),
            10 => Self::Fault(inner(rng, size)),
            11 => Self::raid(rng, kinds, size, unit, depth),
            12 => Self::Cached(inner(rng, size)),
            _ => Self::ReadAhead(inner(rng, size)),
        }
    }

    fn leaf(rng: &mut Rng, size: u64, unit: u32) -> Self {
        if rng.u8(0..8) == 0 {
            return Self::OverZero { size };
        }
        let block = *pick(rng, &[1, 512, 4096]);
        Self::Leaf {
            size,
            block: block.min(unit),
        }
    }

    /// A stripe of some members, a little larger than requested, behind a window.
    fn stripe(rng: &mut Rng, kinds: Kinds, size: u64, unit: u32, depth: u8) -> Self {
        let count = rng.u64(1..=5);
        let chunk = u64::from(unit) * rng.u64(1..=5);
        let each = size.div_ceil(count * chunk) * chunk;
        let member = |_| Self::random(rng, kinds, each, unit, depth - 1);
        let members = (0..count).map(member).collect();
        let below = Box::new(Self::Stripe { members, chunk });
        Self::Window {
            below,
            offset: 0,
            len: size,
        }
    }

    /// A volume of RAID, a little larger than requested, behind a window.
    fn raid(rng: &mut Rng, kinds: Kinds, size: u64, unit: u32, depth: u8) -> Self {
        let (kind, images, data) = *pick(rng, &RAID_KINDS);
        let chunk = u64::from(unit) << rng.u8(0..3);
        let each = size.div_ceil(data * chunk) * chunk;
        // There are many of them.
        let depth = depth.min(IMAGE_DEPTH_MAX + 1);
        let image = |_| Self::random(rng, kinds, each, unit, depth - 1);
        let below = Box::new(Self::Raid(RaidShape {
            kind,
            images: (0..images).map(image).collect(),
            chunk,
            size: each * data,
        }));
        Self::Window {
            below,
            offset: 0,
            len: size,
        }
    }

    /// Sizes of the leaves that it wants, in order.
    pub(super) fn leaves(&self) -> Vec<u64> {
        match self {
            Self::Leaf { size, .. } => vec![*size],
            Self::OverZero { size } => vec![size + STORE_EXTRA],
            Self::Linear(parts) | Self::Stripe { members: parts, .. } => {
                parts.iter().flat_map(Self::leaves).collect()
            }
            Self::Overlay(base) | Self::Origin(base) => {
                let mut leaves = base.leaves();
                leaves.push(base.size() + STORE_EXTRA);
                leaves
            }
            Self::Cached(below) => {
                let mut leaves = below.leaves();
                leaves.push(CACHE_LEN);
                leaves
            }
            Self::Raid(raid) => {
                let leaves = |image: &Self| [vec![METADATA_LEN], image.leaves()].concat();
                raid.images.iter().flat_map(leaves).collect()
            }
            Self::Window { below, .. }
            | Self::BeforeLost(below)
            | Self::Blocks { below, .. }
            | Self::Delay(below)
            | Self::Throttle(below)
            | Self::Fault(below)
            | Self::ReadAhead(below) => below.leaves(),
        }
    }

    /// Size, bytes.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Leaf { size, .. }
            | Self::OverZero { size }
            | Self::Raid(RaidShape { size, .. })
            | Self::Window { len: size, .. } => *size,
            Self::Linear(parts) | Self::Stripe { members: parts, .. } => {
                parts.iter().map(Self::size).sum()
            }
            Self::BeforeLost(below)
            | Self::Blocks { below, .. }
            | Self::Overlay(below)
            | Self::Cached(below)
            | Self::Origin(below)
            | Self::Delay(below)
            | Self::Throttle(below)
            | Self::Fault(below)
            | Self::ReadAhead(below) => below.size(),
        }
    }

    /// Makes it of `leaves`.
    pub(super) fn build<'a>(
        &'a self,
        leaves: &'a mut vec::IntoIter<Node>,
    ) -> Pin<Box<dyn Future<Output = Node> + 'a>> {
        Box::pin(async move {
            match self {
                Self::Leaf { block, .. } => in_blocks(leaves.next().unwrap(), *block),
                Self::OverZero { size } => {
                    overlay(Arc::new(Zero::new(*size)), leaves.next().unwrap()).await
                }
                Self::Window { below, offset, len } => {
                    let disk = below.build(leaves).await;
                    let range = Range::new(*offset, *len);
                    Arc::new(Linear::new(vec![Segment { disk, range }]).unwrap())
                }
                Self::Linear(parts) => {
                    Arc::new(Linear::of_disks(all(parts, leaves).await).unwrap())
                }
                Self::BeforeLost(below) => {
                    let disk = below.build(leaves).await;
                    let size = disk.geometry().size;
                    let lost = Arc::new(ErrorDisk::new(64 * 1024));
                    let both = Arc::new(Linear::of_disks(vec![disk, lost]).unwrap());
                    let range = Range::new(0, size);
                    Arc::new(Linear::new(vec![Segment { disk: both, range }]).unwrap())
                }
                Self::Stripe { members, chunk } => {
                    let members = all(members, leaves).await;
                    let segments = members.into_iter().map(Segment::whole).collect();
                    Arc::new(Stripe::new(segments, *chunk).unwrap())
                }
                Self::Blocks { below, block } => {
                    Arc::new(Blocks::new(below.build(leaves).await, *block).unwrap())
                }
                Self::Overlay(base) => {
                    let base = base.build(leaves).await;
                    overlay(base, leaves.next().unwrap()).await
                }
                Self::Origin(below) => {
                    let origin = below.build(leaves).await;
                    origin_of(origin, leaves.next().unwrap()).await
                }
                Self::Raid(raid) => raid_volume(raid, leaves).await,
                Self::Delay(below) => {
                    let times = DelayTimes {
                        flush: Duration::from_millis(1),
                        ..DelayTimes::default()
                    };
                    Arc::new(Delay::new(below.build(leaves).await, times))
                }
                Self::Throttle(below) => {
                    let rates = Rates {
                        bytes_per_s: 1_u64.checked_shl(32).and_then(std::num::NonZeroU64::new),
                        ..Rates::default()
                    };
                    Arc::new(Throttle::new(below.build(leaves).await, rates))
                }
                Self::Fault(below) => {
                    Arc::new(Fault::new(below.build(leaves).await, FaultPlan::default()))
                }
                Self::Cached(below) => {
                    let disk = below.build(leaves).await;
                    cached(disk, leaves.next().unwrap()).await
                }
                Self::ReadAhead(below) => {
                    Arc::new(ReadAhead::new(below.build(leaves).await, 64 * 1024).unwrap())
                }
            }
        })
    }
}

async fn all(shapes: &[StackShape], leaves: &mut vec::IntoIter<Node>) -> Vec<Node> {
    let mut nodes = Vec::new();
    for shape in shapes {
        nodes.push(shape.build(leaves).await);
    }
    nodes
}

async fn overlay(base: Node, store: Node) -> Node {
    let options = OverlayOptions::default();
    Arc::new(Overlay::over(base, store, options).await.unwrap())
}

async fn cached(disk: Node, file: Node) -> Node {
    let options = CacheOptions::default();
    Arc::new(Cache::over(disk, file, options).await.unwrap())
}

/// An origin with one snapshot.
async fn origin_of(disk: Node, cow: Node) -> Node {
    let snapshot = SnapshotStore {
        name: "snapshot".to_owned(),
        cow,
        chunk: 4096,
        merging: false,
    };
    let opened = Origin::open(disk, vec![snapshot], false).await;
    opened.unwrap().disk()
}

async fn raid_volume(shape: &RaidShape, leaves: &mut vec::IntoIter<Node>) -> Node {
    let mut images = Vec::new();
    for image in &shape.images {
        let metadata = leaves.next();
        let data = Some(image.build(leaves).await);
        images.push(RaidImageDisks { metadata, data });
    }
    let spec = RaidSpec {
        kind: shape.kind.to_owned(),
        size: shape.size,
        stripe_size: shape.chunk,
        region_size: REGION_LEN,
        images,
    };
    let options = RaidOptions {
        read_only: false,
        background: false,
        ..RaidOptions::default()
    };
    raid::open(spec, &options).await.unwrap()
}

/// `disk` in blocks of at least `block` bytes.
fn in_blocks(disk: Node, block: u32) -> Node {
    if disk.geometry().block_size >= block {
        return disk;
    }
    Arc::new(Blocks::new(disk, block).unwrap())
}

fn pick<'a, T>(rng: &mut Rng, list: &'a [T]) -> &'a T {
    &list[rng.usize(0..list.len())]
}

fn margin(rng: &mut Rng, unit: u32) -> u64 {
    rng.u64(0..=MARGIN_MAX) * u64::from(unit)
}

/// Up to four lengths in whole units that add up to `size`.
fn split(rng: &mut Rng, size: u64, unit: u32) -> Vec<u64> {
    let units = size / u64::from(unit);
    let mut cuts: Vec<u64> = (0..rng.u8(0..4)).map(|_| rng.u64(0..=units)).collect();
    cuts.extend([0, units]);
    cuts.sort_unstable();
    cuts.dedup();
    let lens = cuts.windows(2).map(|pair| pair[1] - pair[0]);
    lens.map(|len| len * u64::from(unit)).collect()
}
