//! The rows of logical volumes, and the marks set on them, as plain data.

use super::figures::Figure;
use super::rows::{
    MOVED, Mark, PUT_TOGETHER, READ_4K, Row, WRITE_4K, at_least, at_most, below, load,
};
use super::work::{Load, VolumeKind, Work};

/// Where nothing is added.
const UNTOUCHED: &[&[Mark]] = &[&[at_least(Figure::Rate, 0.97)]];

/// Four writes in flight, of one job.
const USERS_OF_A_MOVE: Load = load("randwrite", 4 << 10, 1, 4);

/// What is copied, and what users notice of it.
const LIVE_MOVE: &[&[Mark]] = &[&[at_least(Figure::Bandwidth, 0.7), at_most(Figure::P99, 3.0)]];

/// A volume against a plain file.
const fn volume(name: &'static str, title: &'static str, kind: VolumeKind, load: Load) -> Row {
    Row {
        name,
        title,
        work: Work::Volume(kind, load),
        marks: match kind {
            VolumeKind::Linear | VolumeKind::Striped | VolumeKind::OriginWritten => MOVED,
            VolumeKind::OriginRead => UNTOUCHED,
        },
    }
}

/// These rows, in the order they run.
pub(super) const VOLUME_ROWS: &[Row] = &[
    volume(
        "volume-read",
        "linear volume, 4 KiB random read, 2 jobs x QD 32",
        VolumeKind::Linear,
        READ_4K,
    ),
    volume(
        "volume-write",
        "linear volume, 4 KiB random write, 2 jobs x QD 32",
        VolumeKind::Linear,
        WRITE_4K,
    ),
    volume(
        "striped-read",
        "volume striped over 4, 4 KiB random read, 2 jobs x QD 32",
        VolumeKind::Striped,
        READ_4K,
    ),
    volume(
        "striped-write",
        "volume striped over 4, 4 KiB random write, 2 jobs x QD 32",
        VolumeKind::Striped,
        WRITE_4K,
    ),
    Row {
        name: "origin-first",
        title: "origin of a snapshot, 4 KiB random first writes, 1 job, QD 32",
        work: Work::OriginFirst(load("randwrite", 4 << 10, 1, 32)),
        marks: &[&[
            at_least(Figure::Rate, 0.5),
            at_least(Figure::Rate, 2.0).against("qemu-nbd qcow2"),
        ]],
    },
    volume(
        "origin-write",
        "origin of a snapshot, 4 KiB random later writes, 2 jobs x QD 32",
        VolumeKind::OriginWritten,
        WRITE_4K,
    ),
    volume(
        "origin-read",
        "origin of a snapshot, 4 KiB random read, 2 jobs x QD 32",
        VolumeKind::OriginRead,
        READ_4K,
    ),
    Row {
        name: "volume-move",
        title: "a volume moved to another disk under 4 KiB random writes, 1 job, QD 4",
        work: Work::VolumeMove(USERS_OF_A_MOVE),
        marks: LIVE_MOVE,
    },
    Row {
        name: "volume-move-paced",
        title: "the same, 10,000 writes a second",
        work: Work::VolumeMove(Load {
            rate: Some(10_000),
            ..USERS_OF_A_MOVE
        }),
        marks: LIVE_MOVE,
    },
    Row {
        name: "thin-read",
        title: "thin volume, fragmented, 4 KiB random read, 2 jobs x QD 32",
        work: Work::ThinRead(READ_4K),
        marks: PUT_TOGETHER,
    },
    Row {
        name: "thin-open",
        title: "a thin pool of 1 TiB opened, then 4 KiB random read, 2 jobs x QD 32",
        work: Work::ThinOpen(READ_4K),
        marks: &[&[
            below(Figure::Seconds, 1.0),
            below(Figure::ServerMemory, 200.0),
        ]],
    },
    Row {
        name: "volume-update",
        title: "a change of a group with 1,000 volumes on 20 disks",
        work: Work::VolumeUpdate,
        marks: &[&[below(Figure::Seconds, 0.3)]],
    },
];
