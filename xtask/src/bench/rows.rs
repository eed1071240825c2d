//! The rows of the bench and the marks set on them, as plain data.
//!
//! A mark compares our median with the median of the row's first peer, or with a fixed bound. A row
//! whose marks offer a choice lists each alternative as a group; one whole group must be met.

use super::figures::Figure;

/// What fio is asked to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// fio's `rw`.
    pub(crate) pattern: &'static str,
    /// Bytes of each request.
    pub(crate) block_size: u32,
    /// Processes, each with its own connection.
    pub(crate) jobs: u32,
    /// Requests in flight for each job.
    pub(crate) depth: u32,
}

/// How a row is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// fio's nbd engine against each server, the disk in the page cache.
    Wire(Load),
    /// The same, and ours on a disk that takes no time: what the client that measures can do at most.
    WireAndNull(Load),
    /// Our generator on many connections at once, on the server's memory.
    Busy(Crowd),
    /// Our generator with structured replies against simple ones, both from our server.
    Replies(Crowd),
    /// Reading a whole disk over TLS.
    Tls,
    /// Copying a sparse disk from a file to an export or back.
    Copy(Direction),
    /// Telling which parts of a disk hold data.
    Map,
    /// ext4 on an attached disk against ext4 on nbdfuse, both over a loop device.
    Attached(Load),
    /// Memory of the server for each connection that asks nothing.
    Idle {
        /// How many connections.
        connections: u32,
    },
    /// Our server without the page cache against fio on the file itself.
    Direct(Load),
}

/// What our own generator asks for: reads at random places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    /// Connections at once.
    pub(crate) connections: u32,
    /// Requests in flight on each.
    pub(crate) depth: u32,
    /// Bytes of each request.
    pub(crate) block_size: u32,
}

/// Which way a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From a file to an export.
    Up,
    /// From an export to a file.
    Down,
}

/// What a figure is held against.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// At least this many times the peer's.
    RatioAtLeast(f64),
    /// At most this many times the peer's.
    RatioAtMost(f64),
    /// At most this value of our own.
    AtMost(f64),
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
    const fn against(self, peer: &'static str) -> Self {
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

const fn load(pattern: &'static str, block_size: u32, jobs: u32, depth: u32) -> Load {
    Load {
        pattern,
        block_size,
        jobs,
        depth,
    }
}

const fn at_least(figure: Figure, ratio: f64) -> Mark {
    Mark {
        figure,
        bound: Bound::RatioAtLeast(ratio),
        peer: None,
    }
}

const fn at_most(figure: Figure, ratio: f64) -> Mark {
    Mark {
        figure,
        bound: Bound::RatioAtMost(ratio),
        peer: None,
    }
}

/// The tail that every row on the wire is held to.
const TAIL: Mark = at_most(Figure::P999, 0.6);

/// Copying is to be as fast as the best of the others.
const COPY_MARKS: &[&[Mark]] = &[&[
    at_most(Figure::Seconds, 1.0).against("nbdcopy"),
    at_most(Figure::Seconds, 1.0).against("qemu-img convert"),
]];

/// All rows, in the order they run.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "read-4k",
        title: "4 KiB random read, 2 jobs x QD 32",
        work: Work::Wire(load("randread", 4 << 10, 2, 32)),
        marks: &[&[
            at_least(Figure::Rate, 2.0),
            at_most(Figure::ServerCpu, 0.35),
            TAIL,
        ]],
    },
    Row {
        name: "write-4k",
        title: "4 KiB random write, 2 jobs x QD 32",
        work: Work::Wire(load("randwrite", 4 << 10, 2, 32)),
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
        marks: &[&[Mark {
            figure: Figure::ServerMemory,
            bound: Bound::AtMost(256.0),
            peer: None,
        }]],
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
        marks: &[&[Mark {
            figure: Figure::Memory,
            bound: Bound::AtMost(64.0),
            peer: None,
        }]],
    },
    Row {
        name: "direct-4k",
        title: "O_DIRECT file, 4 KiB random read, 1 job, QD 32, against fio io_uring on the file",
        work: Work::Direct(load("randread", 4 << 10, 1, 32)),
        marks: &[&[at_least(Figure::Rate, 0.9)]],
    },
];
