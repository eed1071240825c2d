//! Requests on images and snapshots, against the model and with dropped futures.

use std::pin::pin;

use block::{BlockDevice, Errno, ExtentKind, Range, WriteFlags};
use engine::rbd::{ImageSpec, RbdError};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use testkit::ceph::POOL;
use testkit::{OpSpace, check_against_model, check_in_batches, ops};

use super::{MIB, cluster, open, read, spec, write};
use crate::Rbd;
use crate::test_runtime::{is_ready, on_each_backend, timed};

/// A size that is no multiple of an object's.
const SIZE: u64 = 9 * MIB;

#[test]
fn an_image_passes_the_model() {
    let Some((cluster, _folder)) = cluster() else {
        return;
    };
    cluster.create("model", SIZE);
    let space = OpSpace {
        size: SIZE,
        block_size: 1,
        len_max: 3_000_000,
    };
    let mut runner = TestRunner::deterministic();
    let lists: Vec<_> = (0..4)
        .map(|_| ops(space, 20..40).new_tree(&mut runner).unwrap().current())
        .collect();
    on_each_backend(async || {
        let disk = open(&cluster, "model").await.unwrap();
        for (list, width) in lists.iter().zip([1, 2, 8, 16]) {
            check_against_model(&disk, list).await.unwrap();
            check_in_batches(&disk, list, width).await.unwrap();
            disk.flush().await.unwrap();
        }
    });
}

#[test]
fn what_has_no_object_is_a_hole_and_a_snapshot_stays_as_it_was() {
    let Some((cluster, _folder)) = cluster() else {
        return;
    };
    cluster.create("one", 64 * MIB);
    timed(async {
        let disk = open(&cluster, "one").await.unwrap();
        let whole = Range::new(0, 64 * MIB);
        assert_eq!(disk.extents(whole).await.unwrap()[0].kind, ExtentKind::Hole);
        let part = Range::new(21 * MIB + 512, 2 * MIB);
        write(&disk, part, 7).await.unwrap();
        let found: Vec<_> = disk.extents(whole).await.unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|e| (e.range.offset / MIB, e.kind))
            .collect();
        let kinds = [
            (0, ExtentKind::Hole),
            (20, ExtentKind::Data),
            (24, ExtentKind::Hole),
        ];
        assert_eq!(found, kinds);
        disk.flush().await.unwrap();
        assert_eq!(
            cluster.rbd(&[
                "snap",
                "create",
                "--no-progress",
                &format!("{POOL}/one@then")
            ]),
            ""
        );
        write(&disk, part, 8).await.unwrap();

        let then = open(&cluster, "one@then").await.unwrap();
        assert!(then.geometry().read_only);
        assert_eq!(read(&then, part).await, testkit::pattern(7, part));
        assert_eq!(read(&disk, part).await, testkit::pattern(8, part));
        let refused = write(&then, part, 9).await.unwrap_err();
        assert_eq!(refused.errno, Errno::NotPermitted);
        // Each is a disk of its own, and the same one each time.
        let again = open(&cluster, "one@then").await.unwrap();
        assert_eq!(then.identity(), again.identity());
        assert_ne!(then.identity(), disk.identity());

        disk.trim(Range::new(20 * MIB, 4 * MIB)).await.unwrap();
        assert_eq!(disk.extents(whole).await.unwrap().len(), 1);
        assert_eq!(read(&disk, part).await, vec![0; part.len_usize()]);
        let fast = WriteFlags::NO_HOLE | WriteFlags::FAST_ZERO;
        let refused = disk.write_zeroes(part, fast).await.unwrap_err();
        assert_eq!(refused.errno, Errno::NotSupported);
        disk.write_zeroes(part, WriteFlags::NO_HOLE).await.unwrap();
        assert_eq!(disk.extents(whole).await.unwrap().len(), 3);

        // It grows while it is open: the node that is made then has the new size.
        assert!(disk.revalidate().await.unwrap().is_none());
        cluster.rbd(&[
            "resize",
            "--no-progress",
            "--size",
            "80M",
            &format!("{POOL}/one"),
        ]);
        let larger = disk.revalidate().await.unwrap().expect("it grew");
        assert_eq!(larger.geometry().size, 80 * MIB);
        write(&*larger, Range::new(79 * MIB, MIB), 3).await.unwrap();
    });
}

#[test]
fn dropped_writes_are_over_when_the_disk_has_settled() {
    let Some((cluster, _folder)) = cluster() else {
        return;
    };
    cluster.create("dropped", 16 * MIB);
    on_each_backend(async || {
        let disk = open(&cluster, "dropped").await.unwrap();
        for round in 0..32_u8 {
            let range = Range::new(u64::from(round) * 1000, 3 * MIB);
            let durable = match round % 2 {
                0 => WriteFlags::empty(),
                _ => WriteFlags::FUA,
            };
            {
                let data = testkit::single(testkit::pattern(0x11, range));
                let mut dropped = pin!(disk.write(range, data, durable));
                let mut dropped_read = pin!(disk.read(range));
                let mut dropped_trim = pin!(disk.trim(range));
                // The cache of librbd may take a write at once.
                let _ = is_ready(dropped.as_mut()).await;
                let _ = is_ready(dropped_read.as_mut()).await;
                let _ = is_ready(dropped_trim.as_mut()).await;
            }
            disk.settle().await.unwrap();
            write(&disk, range, round).await.unwrap();
            assert_eq!(read(&disk, range).await, testkit::pattern(round, range));
        }
        // The last share of the image is that of an operation: its end closes the image, on no thread of librbd.
        let range = Range::new(0, 3 * MIB);
        let data = testkit::single(testkit::pattern(0x22, range));
        let mut last = disk.write(range, data, WriteFlags::empty());
        let _ = is_ready(last.as_mut()).await;
        drop(last);
        drop(disk);
        let again = open(&cluster, "dropped").await.unwrap();
        assert_eq!(read(&again, range).await, testkit::pattern(0x22, range));
    });
}

#[test]
fn what_cannot_be_opened_is_refused_by_name() {
    let Some((cluster, folder)) = cluster() else {
        return;
    };
    cluster.create("one", MIB);
    cluster.rbd(&[
        "create",
        "--size",
        "1M",
        "--image-feature",
        "layering",
        &format!("{POOL}/old"),
    ]);
    timed(async {
        let refused = async |spec: ImageSpec| Rbd::open(spec).await.unwrap_err().to_string();
        let none = refused(spec(&cluster, "none")).await;
        assert!(
            none.starts_with("cannot open the image disks/none: No such file"),
            "{none}"
        );
        let none = refused(spec(&cluster, "one@none")).await;
        assert!(
            none.starts_with("cannot open the image disks/one@none: No such file"),
            "{none}"
        );
        let mut other = spec(&cluster, "one");
        other.name.pool = "others".to_owned();
        let none = refused(other).await;
        assert!(
            none.starts_with("cannot open the pool others: No such file"),
            "{none}"
        );
        let mut other = spec(&cluster, "one");
        other.conf = Some(folder.path().join("none.conf"));
        let none = refused(other).await;
        assert!(
            none.contains("none.conf, cannot be read: No such file"),
            "{none}"
        );

        let no_lock = open(&cluster, "old").await.unwrap_err();
        assert!(matches!(no_lock, RbdError::NoLock(_)), "{no_lock}");
        let mut old = spec(&cluster, "old");
        old.read_only = true;
        let old = Rbd::open(old).await.unwrap();
        assert_eq!(old.geometry().size, MIB);
        let whole = Range::new(0, MIB);
        assert_eq!(old.extents(whole).await.unwrap()[0].kind, ExtentKind::Data);
    });
}
