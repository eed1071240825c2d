//! Which disk a file or a device is.

use std::path::Path;

use block::{BlockDevice, Identity};
use rustix::fs::makedev;
use testkit::{LoopDevice, requires};

use super::{READ_ONLY, WRITABLE, image, write};
use crate::File;
use crate::file::identity::of_device;
use crate::test_runtime::{on_each_backend, timed};

async fn identity(path: &Path) -> Identity {
    let disk = File::open(path, READ_ONLY).await.unwrap();
    disk.identity()
        .expect("the filesystem keeps something of its files")
}

#[test]
fn a_file_is_the_same_disk_while_it_is_the_same_file_and_a_copy_is_another() {
    on_each_backend(async || {
        let folder = tempfile::tempdir().unwrap();
        let path = image(folder.path(), 1 << 20);
        let first = identity(&path).await;
        // Written, grown, renamed: the same.
        let disk = File::open(&path, WRITABLE).await.unwrap();
        write(&disk, block::Range::new(0, 512), 7).await.unwrap();
        assert_eq!(disk.identity(), Some(first.clone()));
        drop(disk);
        let file = std::fs::OpenOptions::new().write(true).open(&path);
        file.unwrap().set_len(2 << 20).unwrap();
        let moved = folder.path().join("moved");
        std::fs::rename(&path, &moved).unwrap();
        assert_eq!(identity(&moved).await, first);
        // What has the same bytes is another disk, also under the same path.
        let copy = folder.path().join("copy");
        std::fs::copy(&moved, &copy).unwrap();
        assert_ne!(identity(&copy).await, first);
        std::fs::rename(&copy, &moved).unwrap();
        assert_ne!(identity(&moved).await, first);
        // It contains no path, and all of it can be sent on the wire.
        assert!(first.as_str().starts_with("file:") && first.as_str().len() == 37);
        assert!(Identity::parse(first.as_str()).is_some());
    });
}

#[test]
fn a_loop_device_is_not_known() {
    if !requires::all(&[requires::root(), requires::loop_device()]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let device = LoopDevice::over(&image(folder.path(), 1 << 20)).unwrap();
    let disk = timed(File::open(device.path(), WRITABLE)).unwrap();
    assert_eq!(disk.identity(), None);
}

/// A device in a sysfs of files: its number, its folder, and the files in it.
fn add(sysfs: &Path, number: &str, folder: &str, files: &[(&str, &str)]) {
    let device = sysfs.join(folder);
    for (name, text) in files {
        let file = device.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    std::fs::create_dir_all(&device).unwrap();
    std::os::unix::fs::symlink(&device, sysfs.join(number)).unwrap();
}

#[test]
fn a_device_is_what_its_driver_calls_it_and_a_partition_lies_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let sysfs = folder.path();
    let disk = [
        ("device/wwid", "naa.5000c500a1b2c3d4\n"),
        ("device/serial", "Z1\n"),
    ];
    add(sysfs, "8:0", "sda", &disk);
    // The same drive in another slot.
    add(sysfs, "8:16", "sdb", &disk);
    add(
        sysfs,
        "8:32",
        "sdc",
        &[("device/wwid", "naa.5000c500a1b2c3d5\n")],
    );
    add(
        sysfs,
        "8:1",
        "sda/sda1",
        &[("partition", "1\n"), ("start", "2048\n")],
    );
    add(
        sysfs,
        "8:17",
        "sdb/sdb1",
        &[("partition", "1\n"), ("start", "2048\n")],
    );
    add(
        sysfs,
        "8:2",
        "sda/sda2",
        &[("partition", "2\n"), ("start", "4096\n")],
    );
    add(sysfs, "253:0", "dm-0", &[("dm/uuid", "LVM-abc\n")]);
    add(sysfs, "253:1", "dm-1", &[("dm/uuid", "\n")]);
    add(sysfs, "7:0", "loop0", &[]);
    add(
        sysfs,
        "7:1",
        "loop0/loop0p1",
        &[("partition", "1\n"), ("start", "2048\n")],
    );
    let of = |major, minor| of_device(sysfs, makedev(major, minor));
    assert!(of(8, 0).is_some());
    assert_eq!(of(8, 0), of(8, 16));
    assert_ne!(of(8, 0), of(8, 32));
    assert!(of(8, 1).is_some());
    assert_eq!(of(8, 1), of(8, 17));
    assert_ne!(of(8, 1), of(8, 2));
    assert_ne!(of(8, 1), of(8, 0));
    assert!(of(253, 0).is_some());
    for unknown in [of(253, 1), of(7, 0), of(7, 1), of(1, 1)] {
        assert_eq!(unknown, None);
    }
}
