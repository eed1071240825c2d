//! Tests on real devices and full filesystems. They need root.

use std::process::Command;
use std::time::Duration;

use block::{BlockDevice, Errno, ExtentKind, IoError, Range, TryIo, WriteFlags};
use engine::clock;
use futures_util::FutureExt;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use testkit::{LoopDevice, OpSpace, TmpfsMount, check_in_batches, ops, pattern, requires, single};

use super::{DIRECT, READ_ONLY, WRITABLE, image, read, write};
use crate::test_runtime::{on_each_backend, timed};
use crate::{File, FileOptions, OpenError};

const MIB: u64 = 1 << 20;

fn can_loop() -> bool {
    requires::all(&[requires::root(), requires::loop_device()])
}

fn can_mount() -> bool {
    requires::all(&[requires::root()])
}

/// Opens a device. Programs of other tests look at all devices of the machine, and may have this one for a moment.
async fn open_device(device: &LoopDevice, options: FileOptions) -> File {
    for _ in 0..100 {
        match File::open(device.path(), options).await {
            Err(OpenError::Busy { .. }) => clock::sleep(Duration::from_millis(100)).await,
            opened => return opened.unwrap(),
        }
    }
    panic!("{} stays busy", device.path().display());
}

#[test]
fn a_block_device_is_found_out_and_passes_the_model() {
    if !can_loop() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let device = LoopDevice::over(&image(folder.path(), MIB)).unwrap();
    for options in [WRITABLE, DIRECT] {
        on_each_backend(async || {
            let disk = open_device(&device, options).await;
            let geometry = disk.geometry();
            assert_eq!(geometry.size, MIB);
            assert_eq!(geometry.block_size, if options.direct { 512 } else { 1 });
            assert!(disk.file_region(Range::new(0, 512)).is_none());
            let whole = Range::new(0, MIB);
            assert_eq!(disk.extents(whole).await.unwrap()[0].kind, ExtentKind::Data);
            let space = OpSpace {
                size: MIB,
                block_size: geometry.block_size,
                len_max: 30_000,
            };
            let mut runner = TestRunner::deterministic();
            for _ in 0..8 {
                let list = ops(space, 40).new_tree(&mut runner).unwrap().current();
                check_in_batches(&disk, &list, 4).await.unwrap();
            }
        });
    }
}

#[test]
fn a_device_is_open_for_writing_once() {
    if !can_loop() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let device = LoopDevice::over(&image(folder.path(), MIB)).unwrap();
    let writer = timed(open_device(&device, WRITABLE));
    for options in [WRITABLE, READ_ONLY] {
        let message = timed(File::open(device.path(), options))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("already open for writing by this process"),
            "{message}"
        );
    }
    drop(writer);
    timed(open_device(&device, WRITABLE));
}

#[test]
fn a_mounted_device_is_busy_for_writers_and_open_to_readers() {
    if !can_loop() || !requires::all(&[requires::command("mkfs.ext4")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let device = LoopDevice::over(&image(folder.path(), 8 * MIB)).unwrap();
    let mount_point = folder.path().join("mount");
    std::fs::create_dir(&mount_point).unwrap();
    let run = |program: &str, args: &[&std::ffi::OsStr]| {
        let output = Command::new(program).args(args).output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
    };
    run("mkfs.ext4", &["-q".as_ref(), device.path().as_ref()]);
    run("mount", &[device.path().as_ref(), mount_point.as_ref()]);
    let writer = timed(File::open(device.path(), WRITABLE));
    let reader = timed(File::open(device.path(), READ_ONLY));
    run("umount", &[mount_point.as_ref()]);
    assert!(matches!(writer, Err(OpenError::Busy { .. })), "{writer:?}");
    assert_eq!(reader.unwrap().geometry().size, 8 * MIB);
}

#[test]
fn a_full_filesystem_under_a_sparse_image_is_no_space_and_poisons_nothing() {
    if !can_mount() {
        return;
    }
    on_each_backend(async || {
        let mount = TmpfsMount::of_size(MIB).unwrap();
        let disk = File::open(image(mount.path(), 64 * MIB), WRITABLE)
            .await
            .unwrap();
        let too_much = Range::new(0, 4 * MIB);
        for flags in [WriteFlags::empty(), WriteFlags::FUA] {
            let data = single(pattern(1, too_much));
            let error = disk.write(too_much, data, flags).await.unwrap_err();
            assert_eq!(error.errno, Errno::NoSpace, "{error}");
        }
        assert_eq!(
            disk.try_write(too_much, &pattern(1, too_much)),
            TryIo::WouldBlock
        );
        disk.flush().await.unwrap();
        disk.trim(too_much).await.unwrap();
        let some = Range::new(32 * MIB, MIB / 2);
        write(&disk, some, 2).await.unwrap();
        assert_eq!(read(&disk, some).await, pattern(2, some));
    });
}

/// A device that takes writes into the page cache and cannot keep them: a loop device over a file that
/// is on a full filesystem.
fn failing_device() -> (TmpfsMount, LoopDevice) {
    let mount = TmpfsMount::of_size(2 * MIB).unwrap();
    let device = LoopDevice::over(&image(mount.path(), 64 * MIB)).unwrap();
    (mount, device)
}

async fn durable(disk: &File, range: Range) -> Result<(), IoError> {
    disk.write(range, single(pattern(3, range)), WriteFlags::FUA)
        .await
}

#[test]
fn after_a_failed_sync_nothing_is_durable_any_more() {
    if !can_loop() {
        return;
    }
    on_each_backend(async || {
        let (_mount, device) = failing_device();
        let disk = File::open(device.path(), WRITABLE).await.unwrap();
        let range = Range::new(0, 8 * MIB);
        write(&disk, range, 1).await.unwrap();
        let first = disk.flush().await.unwrap_err();
        // The kernel itself would report success from here on.
        for _ in 0..3 {
            assert_eq!(
                disk.flush().await.unwrap_err().to_string(),
                first.to_string()
            );
        }
        let small = Range::new(0, 4096);
        assert_eq!(durable(&disk, small).await.unwrap_err().errno, first.errno);
        let zeroed = disk.write_zeroes(small, WriteFlags::FUA).await;
        assert_eq!(zeroed.unwrap_err().errno, first.errno);
        assert_eq!(disk.try_write(small, &[1; 4096]), TryIo::WouldBlock);
        disk.read(small).await.unwrap();
    });
}

/// A client goes away while its flush is in flight; the failure must not go with it.
#[test]
fn the_failure_of_a_cancelled_flush_is_recorded() {
    if !can_loop() {
        return;
    }
    on_each_backend(async || {
        let (_mount, device) = failing_device();
        let disk = File::open(device.path(), WRITABLE).await.unwrap();
        write(&disk, Range::new(0, 8 * MIB), 1).await.unwrap();
        let mut flush = disk.flush();
        assert!((&mut flush).now_or_never().is_none());
        drop(flush);
        disk.settle().await.unwrap();
        disk.flush().await.unwrap_err();
    });
}

#[test]
fn a_durable_write_that_cannot_be_kept_fails_and_poisons() {
    if !can_loop() {
        return;
    }
    on_each_backend(async || {
        let (_mount, device) = failing_device();
        let disk = File::open(device.path(), WRITABLE).await.unwrap();
        durable(&disk, Range::new(0, 8 * MIB)).await.unwrap_err();
        // Read from the state, because the next flush may fail by itself.
        assert!(disk.syncs.have_failed());
        disk.flush().await.unwrap_err();
    });
}

/// Of two concurrent flushes the kernel may report the failure to one only.
#[test]
fn no_flush_concurrent_with_a_failing_one_reports_success() {
    if !can_loop() {
        return;
    }
    on_each_backend(async || {
        let (_mount, device) = failing_device();
        let disk = File::open(device.path(), WRITABLE).await.unwrap();
        write(&disk, Range::new(0, 8 * MIB), 1).await.unwrap();
        let flushes = (0..8).map(|_| disk.flush());
        for result in futures_util::future::join_all(flushes).await {
            result.unwrap_err();
        }
    });
}
