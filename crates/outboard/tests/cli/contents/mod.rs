//! What `inspect` finds on disks, with blkid, the tools that made them and the bytes as judges.

mod auto;
mod disks;
mod kinds;
mod sets;
mod volumes;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

pub(crate) use super::{Server, answer, failure, outboard};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// An empty image.
pub(crate) fn empty(folder: &Path, name: &str, size: u64) {
    let file = File::create(folder.join(name)).expect("a new file");
    file.set_len(size).expect("a size");
}

/// Runs a tool in the folder.
pub(crate) fn tool(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let output = command.output();
    let output = output.unwrap_or_else(|e| panic!("{program} does not run: {e}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Copies a file of the folder into an image.
pub(crate) fn put(folder: &Path, image: &str, at: u64, part: &str) {
    let data = fs::read(folder.join(part)).expect("it was made");
    write(folder, image, at, &data);
}

/// Writes into an image.
pub(crate) fn write(folder: &Path, image: &str, at: u64, data: &[u8]) {
    let file = File::options().write(true).open(folder.join(image));
    file.expect("it is there")
        .write_all_at(data, at)
        .expect("written");
}

/// What `inspect --json` says.
pub(crate) fn inspected(folder: &Path, disks: &[&str]) -> Value {
    let arguments = [&["inspect", "--json"], disks].concat();
    serde_json::from_str(&answer(folder, &arguments)).expect("JSON")
}

/// The physical volumes that LVM made, 64 MiB each.
pub(crate) fn physical_volumes(folder: &Path) {
    let starts: [&[u8]; 3] = [
        include_bytes!("../../../../nodes/fixtures/lvm/pv0.bin"),
        include_bytes!("../../../../nodes/fixtures/lvm/pv1.bin"),
        include_bytes!("../../../../nodes/fixtures/lvm/pv2.bin"),
    ];
    for (start, name) in starts.into_iter().zip(["pv0", "pv1", "pv2"]) {
        empty(folder, name, 64 * MIB);
        write(folder, name, 0, start);
    }
}

/// Members of arrays that mdadm made, 32 MiB each: `mirror` (of which member 1 failed), `five`, `old`.
pub(crate) fn members(folder: &Path) {
    const SECTOR: u64 = 512;
    let all: [(&str, u64, &[u8]); 7] = [
        (
            "mirror0",
            8,
            include_bytes!("../../../../nodes/fixtures/md/raid1-0.bin"),
        ),
        (
            "mirror1",
            8,
            include_bytes!("../../../../nodes/fixtures/md/raid1-1.bin"),
        ),
        (
            "five0",
            65_520,
            include_bytes!("../../../../nodes/fixtures/md/raid5-0.bin"),
        ),
        (
            "five1",
            65_520,
            include_bytes!("../../../../nodes/fixtures/md/raid5-1.bin"),
        ),
        (
            "five2",
            65_520,
            include_bytes!("../../../../nodes/fixtures/md/raid5-2.bin"),
        ),
        (
            "old0",
            65_408,
            include_bytes!("../../../../nodes/fixtures/md/old-0.bin"),
        ),
        (
            "old1",
            65_408,
            include_bytes!("../../../../nodes/fixtures/md/old-1.bin"),
        ),
    ];
    for (name, sector, superblock) in all {
        empty(folder, name, 32 * MIB);
        write(folder, name, sector * SECTOR, superblock);
    }
}

/// A GPT with a FAT, an ext4 and a swap of known names, and an empty partition.
pub(crate) fn partitioned(folder: &Path) {
    empty(folder, "disk.img", 64 * MIB);
    let arguments = [
        "-U",
        "6b1c2b0a-3c0e-4d6c-9c37-0d3f5a6d8e01",
        "-n",
        "1:2048:+8M",
        "-t",
        "1:ef00",
        "-c",
        "1:boot",
        "-u",
        "1:6b1c2b0a-3c0e-4d6c-9c37-0d3f5a6d8e11",
        "-n",
        "2:0:+16M",
        "-t",
        "2:8300",
        "-c",
        "2:",
        "-u",
        "2:6b1c2b0a-3c0e-4d6c-9c37-0d3f5a6d8e12",
        "-n",
        "3:0:+8M",
        "-t",
        "3:8200",
        "-c",
        "3:",
        "-u",
        "3:6b1c2b0a-3c0e-4d6c-9c37-0d3f5a6d8e13",
        "-n",
        "4:0:+8M",
        "-t",
        "4:8300",
        "-c",
        "4:free",
        "-u",
        "4:6b1c2b0a-3c0e-4d6c-9c37-0d3f5a6d8e14",
        "disk.img",
    ];
    tool(folder, "sgdisk", &arguments);
    empty(folder, "fat", 8 * MIB);
    tool(
        folder,
        "mkfs.vfat",
        &["-n", "BOOT", "-i", "4a1b22f0", "fat"],
    );
    put(folder, "disk.img", MIB, "fat");
    empty(folder, "ext", 16 * MIB);
    let uuid = "8852fc4c-cf30-4837-8049-e4d78ed5b6de";
    tool(
        folder,
        "mkfs.ext4",
        &["-q", "-L", "holiday pictures", "-U", uuid, "ext"],
    );
    put(folder, "disk.img", 9 * MIB, "ext");
    empty(folder, "swap", 8 * MIB);
    fs::set_permissions(
        folder.join("swap"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .expect("it is ours");
    tool(
        folder,
        "mkswap",
        &["-U", "cf7a2f4e-7d0f-4a52-9d6b-5a0a3f6f2c11", "swap"],
    );
    put(folder, "disk.img", 25 * MIB, "swap");
}
