//! The rows of volumes on object stores, and the marks set on them, as plain data.
//!
//! The store is versitygw behind a proxy: a GET takes 15 ms more and a PUT 30 ms, as to a store on the Internet. Each contender has a
//! proxy and a place in the store of its own. Ours is `cache(s3://…, FILE)` unless a row says otherwise, with a FILE for the whole volume.
//! ZeroFS has the cache that its `zerofs init` writes: 10 GB of disk and 1 GB of memory.

use super::figures::Figure;
use super::rows::{Mark, Row, above, at_least, at_most, below, load};
use super::work::{BootClient, BucketWork, Work};

/// What rates are held against.
const PEER: &str = "ZeroFS";
const READ_CPU: Mark = below(Figure::ServerCpu, 8.0);
const UPLOADED: Mark = below(Figure::Uploaded, 2.0);
const MEMORY: Mark = below(Figure::ServerMemory, 256.0);
const BOOTS: &[&[Mark]] = &[&[
    below(Figure::P99, 50_000.0),
    below(Figure::ServerMemory, 1024.0),
]];
const SPACE: &[&[Mark]] = &[&[below(Figure::Stored, 1.3)]];

const fn bucket(
    name: &'static str,
    title: &'static str,
    work: BucketWork,
    marks: &'static [&'static [Mark]],
) -> Row {
    Row {
        name,
        title,
        work: Work::Bucket(work),
        marks,
    }
}

/// These rows, in the order they run.
pub(super) const BUCKET_ROWS: &[Row] = &[
    bucket(
        "bucket-read",
        "volume on an object store, cached, 4 KiB random read, 1 job, QD 32",
        BucketWork::Warm(load("randread", 4 << 10, 1, 32)),
        &[
            &[above(Figure::Rate, 90_000.0), READ_CPU],
            &[at_least(Figure::Rate, 4.5).against(PEER), READ_CPU],
        ],
    ),
    bucket(
        "bucket-cold",
        "volume on an object store, nothing cached, 4 KiB random read, 1 connection, QD 32",
        BucketWork::Cold(load("randread", 4 << 10, 1, 32)),
        &[&[above(Figure::Rate, 1500.0)]],
    ),
    // The seconds are those of the flush behind the writes.
    bucket(
        "bucket-write",
        "full volume on an object store, 4 KiB random write, 1 job, QD 32",
        BucketWork::Write(load("randwrite", 4 << 10, 1, 32)),
        &[
            &[above(Figure::Rate, 30_000.0), UPLOADED, MEMORY],
            &[at_least(Figure::Rate, 8.0).against(PEER), UPLOADED, MEMORY],
        ],
    ),
    bucket(
        "bucket-flush",
        "volume on an object store, 4 KiB random write and flush, QD 1",
        BucketWork::Flush,
        // A put by a commit is one; some more are of the index, for hundreds of commits together.
        &[&[below(Figure::P50, 36_000.0), below(Figure::Puts, 1.1)]],
    ),
    bucket(
        "bucket-journal-flush",
        "volume on an object store with a local journal, 4 KiB random write and flush, QD 1",
        BucketWork::JournalFlush,
        &[&[at_most(Figure::P50, 2.0)]],
    ),
    bucket(
        "bucket-read-in-flush",
        "cached 4 KiB random read during a flush, on its connection",
        BucketWork::ReadInFlush,
        &[&[below(Figure::P99, 1000.0)]],
    ),
    // Of the writes and the flush behind them.
    bucket(
        "bucket-write-128k",
        "volume on an object store, 128 KiB sequential write of all of it and a flush, QD 16",
        BucketWork::WriteAll(load("write", 128 << 10, 1, 16)),
        &[&[above(Figure::Bandwidth, 300.0)]],
    ),
    bucket(
        "bucket-read-128k",
        "volume on an object store, cached, 128 KiB sequential read, QD 16",
        BucketWork::Warm(load("read", 128 << 10, 1, 16)),
        &[&[above(Figure::Bandwidth, 900.0)]],
    ),
    bucket(
        "bucket-space",
        "bytes in the store after each block was overwritten once, in random order, and collected",
        BucketWork::Space { once: true },
        SPACE,
    ),
    bucket(
        "bucket-space-random",
        "bytes in the store after as much was overwritten at random, some of it not, relocated and collected",
        BucketWork::Space { once: false },
        SPACE,
    ),
    bucket(
        "bucket-idle",
        "requests to the store of a volume that is open and idle",
        BucketWork::Idle,
        &[&[below(Figure::StoreRate, 0.1)]],
    ),
    // The seconds are those of all boots.
    bucket(
        "bucket-boot",
        "1,000 machines that are turned on within 30 s boot from a cached snapshot, each with an overlay in a folder",
        BucketWork::Boot {
            machines: 1000,
            within_seconds: Some(30),
            client: BootClient::Own,
        },
        BOOTS,
    ),
    bucket(
        "bucket-boot-at-once",
        "the same at once, and each reads as fast as it is answered",
        BucketWork::Boot {
            machines: 1000,
            within_seconds: None,
            client: BootClient::Own,
        },
        BOOTS,
    ),
    bucket(
        "bucket-boot-libnbd",
        "1,000 machines that boot by libnbd within 60 s; all that they read is compared, and each writes to its overlay",
        BucketWork::Boot {
            machines: 1000,
            within_seconds: Some(60),
            client: BootClient::Libnbd,
        },
        BOOTS,
    ),
];
