//! Which disk a file or a block device is.
//!
//! ```text
//! regular file     its handle (inode and generation; without one the inode's number) and the time of its birth;
//!                  where the filesystem keeps no such time, the filesystem's number instead
//! block device     what its driver calls it: dm/uuid, md/uuid, wwid, device/wwid, device/serial, serial,
//!                  device/cid; a partition by its disk and where it begins
//! ```
//!
//! The filesystem's number is left out where it can be: the kernel makes it of the device's number on
//! some, and that may be another one after a reboot.

use std::path::Path;

use block::Identity;
use engine::DiskFile;
use rustix::fs::{AtFlags, Dev, Stat, StatxFlags, fstatfs, major, minor, statx};

use super::open::FileKind;

/// Where a whole device says in sysfs what it is.
const NAMES: [&str; 7] = [
    "dm/uuid",
    "md/uuid",
    "wwid",
    "device/wwid",
    "device/serial",
    "serial",
    "device/cid",
];

/// `None` where nothing is known that stays the same.
pub(super) fn identity_of(
    sysfs: &Path,
    disk: &DiskFile,
    kind: FileKind,
    found: &Stat,
) -> Option<Identity> {
    match kind {
        FileKind::Regular => of_file(disk, found),
        FileKind::Device => of_device(sysfs, found.st_rdev),
    }
}

fn of_file(disk: &DiskFile, found: &Stat) -> Option<Identity> {
    let handle = disk
        .handle()
        .unwrap_or_else(|_| found.st_ino.to_le_bytes().to_vec());
    let place = match birth(disk) {
        Some(born) => born,
        None => format!("{:?}", fstatfs(disk.fd()).ok()?.f_fsid),
    };
    Some(Identity::of("file", &[&handle, place.as_bytes()]))
}

/// When the file was made, as far as the filesystem keeps that.
fn birth(disk: &DiskFile) -> Option<String> {
    let stat = statx(disk.fd(), "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let has_time = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    let born = stat.stx_btime;
    has_time.then(|| format!("{}.{:09}", born.tv_sec, born.tv_nsec))
}

pub(super) fn of_device(sysfs: &Path, number: Dev) -> Option<Identity> {
    let name = format!("{}:{}", major(number), minor(number));
    let device = sysfs.join(name).canonicalize().ok()?;
    let text = |folder: &Path, name: &str| {
        let text = std::fs::read_to_string(folder.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let called = |folder: &Path| {
        let mut names = NAMES.iter();
        let found = names.find_map(|name| Some((*name, text(folder, name)?)));
        found.map(|(name, text)| Identity::of("device", &[name.as_bytes(), text.as_bytes()]))
    };
    if !device.join("partition").exists() {
        return called(&device);
    }
    let start = text(&device, "start")?;
    Identity::composed("partition", &start, [called(device.parent()?)])
}
