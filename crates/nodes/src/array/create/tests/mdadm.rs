//! mdadm reads what was made.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use block::Range;
use tempfile::TempDir;
use testkit::{block_on, requires};

use super::{MIB, disks, found, made, usual};
use crate::array::create::{Created, NewMember};
use crate::array::format::bad_blocks::BadBlocks;
use crate::array::format::bitmap::array_in;
use crate::array::format::{Changes, Level, Superblock, Version, encode, patch};
use crate::read_within;

const VERSIONS: [Version; 4] = [
    Version::V0_90 { big_endian: false },
    Version::V1_0,
    Version::V1_1,
    Version::V1_2,
];

/// An array of three members of 64 MiB, or of four where the level needs these.
fn three(level: Level, version: Version) -> (Vec<NewMember>, Created) {
    let count = if level == Level::Raid6 { 4 } else { 3 };
    let parts = disks(&vec![64 * MIB; count]);
    let made = made(&parts, &[], &usual(level, version)).expect("it can be made");
    (parts, made)
}

/// Some bytes of a disk as a file.
fn file(folder: &TempDir, member: &NewMember, range: Range) -> PathBuf {
    let disk = member.disk.as_ref().expect("it is there");
    let bytes = block_on(read_within(disk, range)).expect("it can be read");
    let path = folder.path().join(&member.name);
    std::fs::write(&path, bytes).expect("there is room");
    path
}

fn whole(folder: &TempDir, member: &NewMember) -> PathBuf {
    file(folder, member, Range::new(0, 64 * MIB))
}

/// What mdadm says.
fn mdadm(arguments: &[&str], path: &Path) -> String {
    let said = Command::new("mdadm").args(arguments).arg(path).output();
    let said = said.expect("mdadm runs");
    assert!(said.status.success(), "mdadm {arguments:?}: {said:?}");
    String::from_utf8(said.stdout).expect("text")
}

/// The value behind a name in its output.
fn value<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = said.lines().filter_map(|line| line.split_once(" : "));
    let found = lines.find(|(found, _)| found.trim() == name);
    found.map(|(_, value)| value.trim())
}

fn uuid(bytes: &[u8; 16]) -> String {
    let words = bytes.chunks(4).map(|word| {
        let bytes = word.iter().map(|byte| format!("{byte:02x}"));
        bytes.collect::<String>()
    });
    words.collect::<Vec<_>>().join(":")
}

#[test]
fn mdadm_reads_new_superblocks_of_each_level_and_version() {
    if !requires::all(&[requires::command("mdadm")]) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    for version in VERSIONS {
        for level in [-1, 0, 1, 4, 5, 6, 10].map(Level::of) {
            let (parts, made) = three(level, version);
            let count = parts.len().to_string();
            let path = whole(&folder, &parts[2]);
            let said = mdadm(&["--examine"], &path);
            let printed = |name: &str| value(&said, name).unwrap_or_default().to_owned();
            assert!(printed("Checksum").ends_with("- correct"), "{said}");
            assert_eq!(printed("Raid Level"), level.to_string());
            assert_eq!(printed("Raid Devices"), count);
            let (found, superblock) = found(&parts[2]);
            match version {
                Version::V0_90 { .. } => old(&said, &made, level, &count),
                _ => new(&said, &superblock, found.at),
            }
            let export = mdadm(&["--examine", "--export"], &path);
            let level = format!("MD_LEVEL={level}");
            let devices = format!("MD_DEVICES={count}");
            for line in [level.as_str(), &devices, "MD_EVENTS=0"] {
                let line = line.replace("MD_EVENTS=0", "MD_EVENTS=");
                assert!(export.contains(&line), "{line}: {export}");
            }
            assert!(export.contains(&format!("MD_UUID={}", uuid(&made.uuid))));
        }
    }
}

/// What mdadm says to people of an old superblock.
fn old(said: &str, made: &Created, level: Level, count: &str) {
    let printed = |name: &str| value(said, name).unwrap_or_default();
    assert_eq!(printed("Version"), "0.90.00");
    assert_eq!(printed("UUID"), uuid(&made.uuid));
    let counts = ["Total Devices", "Active Devices", "Working Devices"].map(printed);
    assert_eq!(counts, [count; 3], "{said}");
    assert_eq!(["Failed Devices", "Spare Devices"].map(printed), ["0"; 2]);
    match level {
        Level::Linear | Level::Raid0 => assert_eq!(printed("State"), "clean"),
        _ => {
            assert_eq!(printed("State"), "active", "not in sync yet");
            assert_eq!(printed("Internal Bitmap"), "present");
        }
    }
}

/// What it says of a new one.
fn new(said: &str, of: &Superblock, at: u64) {
    let printed = |name: &str| value(said, name).unwrap_or_default();
    assert_eq!(printed("Array UUID"), uuid(&of.array));
    assert_eq!(
        printed("Device UUID"),
        uuid(&of.device.expect("it has one"))
    );
    assert_eq!(printed("Name"), "nas:photos");
    assert_eq!(printed("Events"), "0");
    assert_eq!(printed("Device Role"), "Active device 2");
    assert!(printed("Array State").starts_with("AAA"), "{said}");
    let sectors = |bytes: u64| format!("{} sectors", bytes / 512);
    assert_eq!(printed("Super Offset"), sectors(at));
    match of.version {
        Version::V1_0 => {}
        _ => assert_eq!(printed("Data Offset"), sectors(of.data.offset)),
    }
    let available = format!("{} sectors", of.data.len / 512);
    assert!(printed("Avail Dev Size").starts_with(&available), "{said}");
    let from = |place: u64| (place / 512).cast_signed() - (at / 512).cast_signed();
    if let Some(bitmap) = of.bitmap_at {
        let expected = format!("{} sectors from superblock", from(bitmap));
        assert_eq!(printed("Internal Bitmap"), expected);
    }
    if let Some(log) = of.ppl {
        let from = from(log.offset);
        let expected = format!("2048 sectors at offset {from} sectors from superblock");
        assert_eq!(printed("PPL"), expected);
    }
    let log = of.bad_blocks.expect("it has one");
    let expected = format!(
        "512 entries available at offset {} sectors",
        from(log.offset)
    );
    assert_eq!(printed("Bad Block Log"), expected);
}

#[test]
fn mdadm_reads_new_bitmaps() {
    if !requires::all(&[requires::command("mdadm"), requires::root()]) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    for version in VERSIONS {
        let (parts, _) = three(Level::Raid10, version);
        let (_, superblock) = found(&parts[0]);
        let at = superblock.bitmap_at.expect("it has one");
        // It looks for a bitmap at the beginning of a file.
        let path = file(&folder, &parts[0], Range::new(at, 4096));
        let said = mdadm(&["--examine-bitmap"], &path);
        let printed = |name: &str| value(&said, name).unwrap_or_default();
        assert_eq!(printed("Magic"), "6d746962");
        assert_eq!(printed("Version"), "4");
        // Its bytes as they are, which are not in the order of the superblock in 0.90.
        let expected = uuid(&array_in(&superblock));
        assert_eq!(printed("UUID"), expected);
        assert_eq!(printed("Events"), "0");
        assert_eq!(printed("Events Cleared"), "0");
        assert_eq!(printed("State"), "OK");
        assert_eq!(printed("Chunksize"), "64 MB");
        assert_eq!(printed("Daemon"), "5s flush period");
        let size = superblock.array_size().expect("it has copies");
        assert!(printed("Sync Size").starts_with(&(size / 1024).to_string()));
        let bits = size.div_ceil(64 * MIB);
        let expected = format!("{bits} bits (chunks), {bits} dirty (100.0%)");
        assert_eq!(printed("Bitmap"), expected);
    }
}

#[test]
fn mdadm_reads_logs_of_bad_blocks() {
    if !requires::all(&[requires::command("mdadm"), requires::root()]) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let (parts, _) = three(Level::Raid1, version);
        let path = whole(&folder, &parts[0]);
        let said = mdadm(&["--examine-badblocks"], &path);
        assert!(said.contains("Bad-blocks list is empty"), "{said}");
        let (found, superblock) = found(&parts[0]);
        let place = superblock.bad_blocks.expect("it has one");
        let mut bad = BadBlocks::none(place.len, 0).expect("the usual log");
        bad.add(Range::new(100 * 512, 8 * 512));
        bad.add(Range::new(9000 * 512, 600 * 512));
        let log = bad.encode().expect("there is room");
        let disk = File::options().write(true).open(&path).expect("a file");
        disk.write_all_at(&log, place.offset).expect("written");
        let changes = Changes {
            has_bad_blocks: Some(true),
            ..Changes::default()
        };
        let bytes = encode(&superblock, found.at);
        let bytes = patch(&bytes, version, &changes);
        disk.write_all_at(&bytes[..512], found.at).expect("written");
        let said = mdadm(&["--examine-badblocks"], &path);
        let runs: Vec<String> = said
            .lines()
            .skip(1)
            .map(|line| line.trim().to_owned())
            .collect();
        // Counted from the beginning of the disk, as they are kept.
        let line = |first: u64, count: u64| format!("{first} for {count} sectors");
        assert_eq!(
            runs,
            [line(100, 8), line(9000, 512), line(9512, 88)],
            "{said}"
        );
    }
}
