//! The rows of images of Ceph, and the marks set on them, as plain data.
//!
//! The mark is rbd-nbd's, which serves the kernel's nbd alone: the rows `rbd-nbd-…` hold ours against it in the guest, whose processor is
//! emulated. The rows `rbd-…` are measured on this machine, against qemu-nbd; fio without a server is the bound of both.

use super::figures::Figure;
use super::rows::{Mark, Row, at_least, at_most, load};
use super::work::{Load, Work};

const READ: Load = load("randread", 4 << 10, 1, 32);
const WRITE: Load = load("randwrite", 4 << 10, 1, 32);
const READ_128K: Load = load("read", 128 << 10, 1, 16);
const WRITE_128K: Load = load("write", 128 << 10, 1, 16);
const FLUSH: Load = Load {
    flushes: true,
    ..load("randwrite", 4 << 10, 1, 1)
};
const MARKS: &[&[Mark]] = &[&[at_least(Figure::Rate, 1.0), at_most(Figure::ServerCpu, 1.0)]];

const fn row(name: &'static str, title: &'static str, work: Work) -> Row {
    Row {
        name,
        title,
        work,
        marks: MARKS,
    }
}

/// These rows, in the order they run.
pub(super) const RBD_ROWS: &[Row] = &[
    row(
        "rbd-read",
        "image of Ceph, 4 KiB random read, 1 job, QD 32",
        Work::Rbd(READ),
    ),
    row(
        "rbd-write",
        "image of Ceph, 4 KiB random write, 1 job, QD 32",
        Work::Rbd(WRITE),
    ),
    row(
        "rbd-read-128k",
        "image of Ceph, 128 KiB sequential read, 1 job, QD 16",
        Work::Rbd(READ_128K),
    ),
    row(
        "rbd-write-128k",
        "image of Ceph, 128 KiB sequential write, 1 job, QD 16",
        Work::Rbd(WRITE_128K),
    ),
    // Latency is that of the flush.
    row(
        "rbd-flush",
        "image of Ceph, 4 KiB random write and flush, QD 1",
        Work::Rbd(FLUSH),
    ),
    row(
        "rbd-nbd-read",
        "image of Ceph attached in the guest, 4 KiB random read, 1 job, QD 32",
        Work::RbdGuest(READ),
    ),
    row(
        "rbd-nbd-write",
        "image of Ceph attached in the guest, 4 KiB random write, 1 job, QD 32",
        Work::RbdGuest(WRITE),
    ),
    row(
        "rbd-nbd-read-128k",
        "image of Ceph attached in the guest, 128 KiB sequential read, 1 job, QD 16",
        Work::RbdGuest(READ_128K),
    ),
    row(
        "rbd-nbd-write-128k",
        "image of Ceph attached in the guest, 128 KiB sequential write, 1 job, QD 16",
        Work::RbdGuest(WRITE_128K),
    ),
    row(
        "rbd-nbd-flush",
        "image of Ceph attached in the guest, 4 KiB random write and flush, QD 1",
        Work::RbdGuest(FLUSH),
    ),
];
