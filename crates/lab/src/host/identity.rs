//! The identity of a disk: serial, world-wide name and slot, from `/sys` and udev's database.

use std::fs;
use std::path::{Path, PathBuf};

use crate::checks::identity::Identity;
use crate::sensors::read::attribute;

/// Files below a device's folder that give a serial: of the disk (virtio, nvme, mmc), and of what it is
/// made of where it is no hardware (a mapping, an array, a loop device).
const SERIALS: [&str; 7] = [
    "serial",
    "device/serial",
    "device/wwid",
    "wwid",
    "dm/uuid",
    "md/uuid",
    "loop/backing_file",
];

/// The identity of the device `name` (`sda`, `sda1`), its whole disk for a partition. None of what is no
/// hardware: a loop device is the file that it has at the moment.
#[must_use]
pub fn of(name: &str) -> Option<Identity> {
    let folder = fs::canonicalize(Path::new("/sys/class/block").join(name)).ok()?;
    let folder = whole(&folder).to_owned();
    if folder.starts_with("/sys/devices/virtual") {
        return None;
    }
    let database = database(&folder);
    let value = |key: &str| property(&database, key);
    Some(Identity {
        name: folder.file_name()?.to_string_lossy().into_owned(),
        serial: serial(&folder),
        world_wide_name: value("ID_WWN_WITH_EXTENSION")
            .or_else(|| value("ID_WWN"))
            .or_else(|| attribute(&folder.join("wwid"))),
        place: value("ID_PATH").or_else(|| place(&folder)),
    })
}

/// The serial of the disk with this folder below `/sys`: the device's own before udev's.
#[must_use]
pub fn serial(folder: &Path) -> Option<String> {
    let own = SERIALS
        .iter()
        .find_map(|file| attribute(&folder.join(file)));
    own.or_else(|| property(&database(folder), "ID_SERIAL_SHORT"))
        .or_else(|| usb_serial(folder))
}

/// The disk that a partition's folder lies in.
fn whole(folder: &Path) -> &Path {
    match folder.parent() {
        Some(parent) if folder.join("partition").exists() => parent,
        _ => folder,
    }
}

/// The serial of the USB device that a disk is behind: the nearest folder with a product.
fn usb_serial(folder: &Path) -> Option<String> {
    let device = folder
        .ancestors()
        .find(|above| above.join("idProduct").exists())?;
    attribute(&device.join("serial"))
}

/// The device's way through the hardware, where it has one.
fn place(folder: &Path) -> Option<String> {
    let way = folder.strip_prefix("/sys/devices").ok()?;
    let way = way.to_str()?.split("/block/").next()?;
    (!way.starts_with("virtual")).then(|| way.to_owned())
}

fn database(folder: &Path) -> String {
    let entry = attribute(&folder.join("dev"))
        .map(|number| PathBuf::from(format!("/run/udev/data/b{number}")));
    entry
        .and_then(|path| fs::read_to_string(path).ok())
        .unwrap_or_default()
}

fn property(database: &str, key: &str) -> Option<String> {
    database
        .lines()
        .filter_map(|line| line.strip_prefix("E:")?.split_once('='))
        .find(|(found, value)| *found == key && !value.is_empty())
        .map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usb_disk_has_the_serial_of_its_device_and_a_partition_that_of_its_disk() {
        let root = tempfile::tempdir().unwrap();
        let usb = root.path().join("usb1/1-1");
        let disk = usb.join("1-1:1.0/host0/block/sda");
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::write(usb.join("idProduct"), "5581\n").unwrap();
        fs::write(usb.join("serial"), "4C530001230512\n").unwrap();
        fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        assert_eq!(serial(&disk).as_deref(), Some("4C530001230512"));
        assert_eq!(whole(&disk.join("sda1")), disk);
        fs::write(disk.join("serial"), "OWN\n").unwrap();
        assert_eq!(serial(&disk).as_deref(), Some("OWN"));
    }

    #[test]
    fn udev_s_database_is_read_by_key() {
        let text = "S:disk/by-id/x\nE:ID_SERIAL_SHORT=A1\nE:ID_PATH=\n";
        assert_eq!(property(text, "ID_SERIAL_SHORT").as_deref(), Some("A1"));
        assert_eq!(property(text, "ID_PATH"), None);
    }

    #[test]
    fn a_device_that_is_not_there_has_no_identity() {
        assert_eq!(of("no-such-disk"), None);
    }
}
