//! The rows of the bench and the marks set on them, as plain data.
//!
//! A mark compares our median with the median of the row's first peer, or with a fixed bound. A row
//! with alternative marks lists each alternative as a group; one whole group must be met.

use super::bucket_rows::BUCKET_ROWS;
use super::caches::CACHE_ROWS;
use super::figures::Figure;
use super::parity_rows::PARITY_ROWS;
use super::rbd_rows::RBD_ROWS;
use super::volume_rows::VOLUME_ROWS;
use super::work::{Crowd, Direction, Load, Probe, Shape, Work};

/// What a figure is held against.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// At least this many times the peer's.
    RatioAtLeast(f64),
    /// At most this many times the peer's.
    RatioAtMost(f64),
    /// At most this value of our own.
    AtMost(f64),
    /// At least this value of our own.
    AtLeast(f64),
}

/// One mark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) figure: Figure,
    pub(crate) bound: Bound,
    /// Which peer a ratio is taken with; the row's first when none is named.
    pub(crate) peer: Option<&'static str>,
}

impl Mark {
    /// The same mark against another peer than the first.
    pub(super) const fn against(self, peer: &'static str) -> Self {
        Self {
            peer: Some(peer),
            ..self
        }
    }
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// What it is called in the report.
    pub(crate) title: &'static str,
    pub(crate) work: Work,
    /// Groups of marks: all marks of at least one group are to be met.
    pub(crate) marks: &'static [&'static [Mark]],
}

pub(super) const fn load(pattern: &'static str, block_size: u32, jobs: u32, depth: u32) -> Load {
    Load {
        pattern,
        block_size,
        jobs,
        depth,
        rate: None,
        flushes: false,
    }
}

pub(super) const fn at_least(figure: Figure, ratio: f64) -> Mark {
    Mark {
        figure,
        bound: Bound::RatioAtLeast(ratio),
        peer: None,
    }
}

pub(super) const fn above(figure: Figure, limit: f64) -> Mark {
    Mark {
        figure,
        bound: Bound::AtLeast(limit),
        peer: None,
    }
}

pub(super) const fn below(figure: Figure, limit: f64) -> Mark {
    Mark {
        figure,
        bound: Bound::AtMost(limit),
        peer: None,
    }
}

pub(super) const fn at_most(figure: Figure, ratio: f64) -> Mark {
    Mark {
        figure,
        bound: Bound::RatioAtMost(ratio),
        peer: None,
    }
}

/// The tail that every row on the wire is held to.
const TAIL: Mark = at_most(Figure::P999, 0.6);

/// Four kilobytes at random places, from two jobs.
pub(super) const READ_4K: Load = load("randread", 4 << 10, 2, 32);
pub(super) const WRITE_4K: Load = load("randwrite", 4 << 10, 2, 32);

/// Where bytes are merely elsewhere.
pub(super) const MOVED: &[&[Mark]] = &[&[at_least(Figure::Rate, 0.95)]];

/// Where requests are cut, or what they meet is looked up.
pub(super) const PUT_TOGETHER: &[&[Mark]] = &[&[at_least(Figure::Rate, 0.9)]];

/// The rows of composed disks.
const fn composed(name: &'static str, title: &'static str, shape: Shape, load: Load) -> Row {
    Row {
        name,
        title,
        work: Work::Composed(shape, load),
        marks: match shape {
            Shape::Linear | Shape::Partition | Shape::Deep => MOVED,
            Shape::Stripe | Shape::OverlayTop | Shape::OverlayBase => PUT_TOGETHER,
        },
    }
}

/// The processor's time is that of the second that begins 1 s after the flood.
const FLOOD_MARKS: &[&[Mark]] = &[&[at_most(Figure::P99, 2.0), below(Figure::Core, 1.0)]];

/// The rows of one client in a flood by others.
const fn flood(name: &'static str, title: &'static str, probe: Probe) -> Row {
    Row {
        name,
        title,
        work: Work::Flood(probe),
        marks: FLOOD_MARKS,
    }
}

/// Copying is to be as fast as the best of the others.
const COPY_MARKS: &[&[Mark]] = &[&[
    at_most(Figure::Seconds, 1.0).against("nbdcopy"),
    at_most(Figure::Seconds, 1.0).against("qemu-img convert"),
]];

/// All rows, in the order they run.
pub(crate) fn all() -> impl Iterator<Item = &'static Row> {
    let more = [CACHE_ROWS, VOLUME_ROWS, PARITY_ROWS, BUCKET_ROWS, RBD_ROWS];
    ROWS.iter().chain(more.into_iter().flatten())
}

/// All but those of caches, of volumes, of parity, of object stores and of Ceph.
const ROWS: &[Row] = &[
    Row {
        name: "read-4k",
        title: "4 KiB random read, 2 jobs x QD 32",
        work: Work::Wire(READ_4K),
        marks: &[&[
            at_least(Figure::Rate, 2.0),
            at_most(Figure::ServerCpu, 0.35),
            TAIL,
        ]],
    },
    Row {
        name: "write-4k",
        title: "4 KiB random write, 2 jobs x QD 32",
        work: Work::Wire(WRITE_4K),
        marks: &[&[
            at_least(Figure::Rate, 1.8),
            at_most(Figure::ServerCpu, 0.4),
            TAIL,
        ]],
    },
    Row {
        name: "read-128k",
        title: "128 KiB sequential read, 1 job, QD 16",
        work: Work::Wire(load("read", 128 << 10, 1, 16)),
        marks: &[&[
            at_least(Figure::Rate, 1.3),
            at_least(Figure::Rate, 1.2).against("qemu-nbd"),
            at_most(Figure::ServerCpu, 0.45),
            TAIL,
        ]],
    },
    Row {
        name: "write-128k",
        title: "128 KiB sequential write, 1 job, QD 16",
        work: Work::WireAndNull(load("write", 128 << 10, 1, 16)),
        marks: &[&[
            at_least(Figure::Rate, 1.2),
            at_least(Figure::Rate, 1.2).against("qemu-nbd"),
            at_most(Figure::ServerCpu, 0.8),
            TAIL,
        ]],
    },
    Row {
        name: "read-1m",
        title: "1 MiB sequential read, 1 job, QD 8",
        work: Work::Wire(load("read", 1 << 20, 1, 8)),
        marks: &[
            &[
                at_least(Figure::Rate, 0.9),
                at_most(Figure::ServerCpu, 0.35),
                TAIL,
            ],
            &[
                at_least(Figure::Rate, 1.25),
                at_most(Figure::ServerCpu, 0.7),
                TAIL,
            ],
        ],
    },
    Row {
        name: "latency-4k",
        title: "4 KiB random read, 1 job, QD 1",
        work: Work::Wire(load("randread", 4 << 10, 1, 1)),
        marks: &[&[at_most(Figure::P50, 0.8), TAIL]],
    },
    Row {
        name: "many-4k",
        title: "4 KiB random read, 64 jobs x QD 4",
        work: Work::Wire(load("randread", 4 << 10, 64, 4)),
        marks: &[&[at_least(Figure::Rate, 2.0), at_most(Figure::P999, 0.5)]],
    },
    Row {
        name: "busy",
        title: "1,000 connections x QD 4, 4 KiB random read",
        work: Work::Busy(Crowd {
            connections: 1000,
            depth: 4,
            block_size: 4 << 10,
        }),
        marks: &[&[below(Figure::ServerMemory, 256.0)]],
    },
    Row {
        name: "structured",
        title: "structured replies against simple ones, 4 KiB random read, 2 connections x QD 32",
        work: Work::Replies(Crowd {
            connections: 2,
            depth: 32,
            block_size: 4 << 10,
        }),
        marks: &[&[
            at_least(Figure::Rate, 0.95),
            at_most(Figure::ServerCpu, 1.05),
        ]],
    },
    Row {
        name: "tls-1m",
        title: "TLS, nbdcopy with 1 MiB reads of the whole disk",
        work: Work::Tls,
        marks: &[&[at_least(Figure::CpuBandwidth, 1.3)]],
    },
    Row {
        name: "copy-up",
        title: "10 GiB with 1 GiB of data, file to export",
        work: Work::Copy(Direction::Up),
        marks: COPY_MARKS,
    },
    Row {
        name: "copy-down",
        title: "10 GiB with 1 GiB of data, export to file",
        work: Work::Copy(Direction::Down),
        marks: COPY_MARKS,
    },
    Row {
        name: "map",
        title: "map of a file with 100,000 extents",
        work: Work::Map,
        marks: &[&[at_most(Figure::Seconds, 1.0)]],
    },
    flood(
        "flood-read",
        "4 KiB uncached read while 16 clients have 64 queries of 1 GiB with 131,072 holes in flight each",
        Probe::Read,
    ),
    flood(
        "flood-write",
        "4 KiB write + FUA in the same flood",
        Probe::Write,
    ),
    flood(
        "flood-status",
        "status of 1 MiB in the same flood",
        Probe::Status,
    ),
    Row {
        name: "attach-4k",
        title: "ext4 on attach (FUSE + loop), 4 KiB random read, direct, QD 32",
        work: Work::Attached(load("randread", 4 << 10, 1, 32)),
        marks: &[&[at_least(Figure::Rate, 1.3)]],
    },
    Row {
        name: "idle",
        title: "5,000 idle connections",
        work: Work::Idle { connections: 5_000 },
        marks: &[&[below(Figure::Memory, 64.0)]],
    },
    Row {
        name: "live-page",
        title: "4 KiB random read, 2 jobs x QD 32, 1,000 idle clients, live page open against closed",
        work: Work::LivePage(READ_4K),
        marks: &[&[at_least(Figure::Rate, 0.98)]],
    },
    Row {
        name: "lab-cost",
        title: "the lab and its agent while fio runs: processor time",
        work: Work::LabCost,
        marks: &[&[below(Figure::Core, 1.0)]],
    },
    Row {
        name: "direct-4k",
        title: "O_DIRECT file, 4 KiB random read, 1 job, QD 32, against fio io_uring on the file",
        work: Work::Direct(load("randread", 4 << 10, 1, 32)),
        marks: &[&[at_least(Figure::Rate, 0.9)]],
    },
    composed(
        "linear-4k",
        "linear of 4 files, 4 KiB random read, 2 jobs x QD 32",
        Shape::Linear,
        READ_4K,
    ),
    composed(
        "partition-4k",
        "partition of a linear of 4 files, 4 KiB random read, 2 jobs x QD 32",
        Shape::Partition,
        READ_4K,
    ),
    composed(
        "deep-4k",
        "8 layers over 4 files, 4 KiB random read, 2 jobs x QD 32",
        Shape::Deep,
        READ_4K,
    ),
    composed(
        "stripe-1m",
        "stripe of 4 files, 1 MiB sequential read, 1 job, QD 8",
        Shape::Stripe,
        load("read", 1 << 20, 1, 8),
    ),
    Row {
        name: "overlay-first",
        title: "overlay, 4 KiB random write of what it has not, 1 job, QD 32",
        work: Work::OverlayFirst(load("randwrite", 4 << 10, 1, 32)),
        // The filter with small blocks, which its users have to configure, is shown next to it.
        marks: &[&[at_least(Figure::Rate, 2.0)]],
    },
    composed(
        "overlay-second",
        "overlay, 4 KiB random write of what it has, 2 jobs x QD 32",
        Shape::OverlayTop,
        WRITE_4K,
    ),
    composed(
        "overlay-base",
        "overlay, 4 KiB random read of what it has not, 2 jobs x QD 32",
        Shape::OverlayBase,
        READ_4K,
    ),
    Row {
        name: "overlay-open",
        title: "opening an overlay of 1 TiB with 1 GiB of changes",
        work: Work::OverlayOpen,
        marks: &[&[
            Mark {
                figure: Figure::Seconds,
                bound: Bound::AtMost(0.3),
                peer: None,
            },
            Mark {
                figure: Figure::ExceptionBytes,
                bound: Bound::AtMost(32.0),
                peer: None,
            },
        ]],
    },
    Row {
        name: "reserve-4k",
        title: "remote disk served again, 4 KiB random read, 1 job, QD 32",
        work: Work::Reserved(load("randread", 4 << 10, 1, 32)),
        marks: &[&[at_least(Figure::Rate, 1.5)]],
    },
    Row {
        name: "mirror-write",
        title: "mirror of two with a bitmap, 4 KiB random write, 1 job, QD 32",
        work: Work::Mirror(load("randwrite", 4 << 10, 1, 32)),
        marks: &[&[
            at_least(Figure::Rate, 0.6),
            at_least(Figure::Rate, 3.0).against("qemu quorum"),
        ]],
    },
    Row {
        name: "mirror-read",
        title: "mirror of two, 4 KiB random read, 2 jobs x QD 32",
        work: Work::Mirror(READ_4K),
        marks: MOVED,
    },
    Row {
        name: "resync",
        title: "resync of a mirror of 4 GiB, O_DIRECT, against fio writing its slower member",
        work: Work::Resync,
        marks: &[&[at_least(Figure::Bandwidth, 0.85)]],
    },
    Row {
        name: "resync-one-disk",
        title: "the same with both on one disk, against fio reading one and writing one",
        work: Work::ResyncOnOneDisk,
        marks: &[&[at_least(Figure::Bandwidth, 0.85)]],
    },
    Row {
        name: "resync-reads",
        title: "4 KiB random read during a resync, 1 job, QD 4",
        work: Work::Foreground(load("randread", 4 << 10, 1, 4)),
        marks: &[&[at_most(Figure::P99, 3.0)]],
    },
    Row {
        name: "re-add",
        title: "member of 4 GiB back after 1,000 scattered writes, bitmap of 256 KiB chunks",
        work: Work::ReAdd,
        marks: &[&[
            Mark {
                figure: Figure::Copied,
                // All of their chunks, and the metadata of members.
                bound: Bound::AtMost(256.0),
                peer: None,
            },
            // They are a sixteenth of it.
            at_most(Figure::Seconds, 0.12),
        ]],
    },
    Row {
        name: "array-open",
        title: "opening RAID 10 of 12 members, 1 TiB each, sparse",
        work: Work::ArrayOpen,
        marks: &[&[below(Figure::Seconds, 0.5)]],
    },
];
