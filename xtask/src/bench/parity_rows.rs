//! The rows of parity and of arrays with it, and the marks set on them, as plain data.

use super::figures::Figure;
use super::rows::{MOVED, Mark, Row, above, at_least, at_most, load};
use super::work::{Load, ParityArray, ParityPeer, Work};

const SEQUENTIAL_WRITE: Load = load("write", 1 << 20, 1, 8);
const SEQUENTIAL_READ: Load = load("read", 1 << 20, 1, 8);
const SCATTERED_WRITE: Load = load("randwrite", 4 << 10, 1, 32);

/// A complete array with parity, against a stripe.
const fn raid(level: usize, members: usize, policy: &'static str) -> ParityArray {
    ParityArray {
        level,
        members,
        missing: 0,
        policy,
        peer: ParityPeer::Stripe,
        in_memory: false,
    }
}

/// The same against a plain file.
const fn scattered(array: ParityArray) -> ParityArray {
    ParityArray {
        peer: ParityPeer::File,
        ..array
    }
}

/// The same, with the files of both in memory.
const fn in_memory(array: ParityArray) -> ParityArray {
    ParityArray {
        in_memory: true,
        ..array
    }
}

/// The same with as many members missing as it can spare.
const fn degraded(array: ParityArray) -> ParityArray {
    ParityArray {
        missing: array.level - 4,
        ..array
    }
}

/// The rows of computing parity.
const fn kernel(name: &'static str, title: &'static str, what: &'static str) -> Row {
    Row {
        name,
        title,
        work: Work::ParityKernel(what),
        marks: AS_A_COPY,
    }
}

/// Where memory is what bounds it.
const AS_A_COPY: &[&[Mark]] = &[&[at_least(Figure::Bandwidth, 0.8)]];

/// These rows, in the order they run.
pub(super) const PARITY_ROWS: &[Row] = &[
    Row {
        name: "raid5-seq-write",
        title: "RAID 5 of 6, 1 MiB sequential write, 1 job, QD 8, against a stripe over 5",
        work: Work::ParityArray(raid(5, 6, "bitmap"), SEQUENTIAL_WRITE),
        marks: &[&[at_least(Figure::Bandwidth, 0.7)]],
    },
    Row {
        name: "raid6-seq-write",
        title: "RAID 6 of 6, 1 MiB sequential write, 1 job, QD 8, against a stripe over 4",
        work: Work::ParityArray(raid(6, 6, "bitmap"), SEQUENTIAL_WRITE),
        marks: &[&[at_least(Figure::Bandwidth, 0.6)]],
    },
    Row {
        name: "raid5-4k-write",
        title: "RAID 5 of 4 with a bitmap, 4 KiB random write, 1 job, QD 32",
        work: Work::ParityArray(scattered(raid(5, 4, "bitmap")), SCATTERED_WRITE),
        marks: &[&[at_least(Figure::Rate, 0.3)]],
    },
    Row {
        name: "raid5-4k-write-ppl",
        title: "RAID 5 of 4 with partial parity logs, 4 KiB random write, 1 job, QD 32, members in memory",
        work: Work::ParityArray(in_memory(scattered(raid(5, 4, "ppl"))), SCATTERED_WRITE),
        marks: &[&[at_least(Figure::Rate, 0.22)]],
    },
    Row {
        name: "raid5-4k-write-ppl-disk",
        title: "the same with members on the disk: two flushes of it for each round of up to 32 writes",
        work: Work::ParityArray(scattered(raid(5, 4, "ppl")), SCATTERED_WRITE),
        marks: &[],
    },
    Row {
        name: "raid5-4k-write-journal",
        title: "RAID 5 of 4 with a journal, 4 KiB random write, 1 job, QD 32, members in memory",
        work: Work::ParityArray(in_memory(scattered(raid(5, 4, "journal"))), SCATTERED_WRITE),
        marks: &[],
    },
    Row {
        name: "raid5-4k-write-journal-disk",
        title: "the same with members and journal on the disk",
        work: Work::ParityArray(scattered(raid(5, 4, "journal")), SCATTERED_WRITE),
        marks: &[],
    },
    // Not met: 0.6x to 0.7x of md. A plain file by the same way, next to it in the row, is as fast as md: what remains for
    // the array is nothing. Natively the array is at 0.6x of the plain file, too (`raid5-4k-write`).
    Row {
        name: "raid5-4k-write-guest",
        title: "the same with a bitmap, in the emulated guest, members in memory, against the kernel's md",
        work: Work::GuestArray,
        marks: &[&[at_least(Figure::Rate, 1.0)]],
    },
    Row {
        name: "rebuild",
        title: "rebuild of a RAID 5 of 4 on the real disk, O_DIRECT, against fio reading three and writing one",
        work: Work::Rebuild,
        marks: &[&[at_least(Figure::Bandwidth, 0.8)]],
    },
    Row {
        name: "rebuild-reads",
        title: "4 KiB random read during a rebuild of a RAID 5 of 4, 1 job, QD 4",
        work: Work::RebuildForeground(load("randread", 4 << 10, 1, 4)),
        marks: &[&[at_most(Figure::P99, 3.0)]],
    },
    Row {
        name: "raid6-read",
        title: "RAID 6 of 6, 1 MiB sequential read, 1 job, QD 8, against a stripe over 4",
        work: Work::ParityArray(raid(6, 6, "bitmap"), SEQUENTIAL_READ),
        marks: MOVED,
    },
    Row {
        name: "raid6-read-degraded",
        title: "the same with two members missing",
        work: Work::ParityArray(degraded(raid(6, 6, "bitmap")), SEQUENTIAL_READ),
        marks: &[&[at_least(Figure::Rate, 0.5)]],
    },
    kernel(
        "parity-xor",
        "parity of 6 chunks, one core, for each second of processor time",
        "xor",
    ),
    kernel("parity-syndrome", "the same, P and Q", "syndrome"),
    kernel(
        "parity-two-lost",
        "two of 6 chunks computed from P and Q",
        "two-lost",
    ),
    Row {
        name: "parity",
        title: "RAID 6 of 8 with two members missing, one core: data of stripes (as Linux counts), \
                and what of it was rebuilt, for each second of processor time",
        work: Work::Parity,
        marks: &[&[above(Figure::Bandwidth, 4000.0)]],
    },
];
