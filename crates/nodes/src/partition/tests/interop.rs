//! sgdisk and sfdisk: what they write is read here, what is written here they find sound.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::requires;

use super::super::grow;
use super::{MIB, image, kind, new_gpt, new_mbr, places, put, remarks, table};
use crate::partition::{PartitionTable, Scheme};

/// An image in a folder of its own.
struct Disk {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Disk {
    fn of(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk.img");
        fs::write(&path, bytes).expect("an image");
        Self {
            _folder: folder,
            path,
        }
    }

    fn empty(size: u64) -> Self {
        Self::of(&vec![
            0;
            usize::try_from(size).expect("test disks are small")
        ])
    }

    fn table(&self) -> PartitionTable {
        table(&fs::read(&self.path).expect("the image"))
    }

    /// Runs a program on it; what it prints.
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = tool(program).args(arguments).arg(&self.path).output();
        let Output {
            status,
            stdout,
            stderr,
        } = output.expect("it runs");
        let text = [stdout, stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(status.success(), "{program} {arguments:?}: {text}");
        text
    }

    /// A script for sfdisk.
    fn sfdisk(&self, script: &str) {
        let folder = self.path.parent().expect("a folder");
        let path = folder.join("script");
        fs::write(&path, script).expect("a script");
        let stdin = fs::OpenOptions::new().read(true).open(&path);
        let output = tool("sfdisk")
            .arg("-q")
            .arg(&self.path)
            .stdin(stdin.expect("the script"))
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{output:?}");
    }

    /// Runs both tools' checks.
    fn assert_sound(&self) {
        if self.table().scheme == Scheme::Gpt {
            let message = self.run("sgdisk", &["-v"]);
            assert!(message.contains("No problems found"), "{message}");
        }
        let message = self.run("sfdisk", &["-V"]);
        assert!(message.contains("No errors detected"), "{message}");
    }
}

/// A program in the folders that a user's path leaves out.
fn tool(name: &str) -> Command {
    let folders = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(name));
    let found = folders.into_iter().find(|path| path.is_file());
    Command::new(found.unwrap_or_else(|| name.into()))
}

fn have_tools() -> bool {
    requires::all(&[requires::command("sgdisk"), requires::command("sfdisk")])
}

#[test]
fn what_sgdisk_writes_is_read() {
    if !have_tools() {
        return;
    }
    let disk = Disk::empty(64 * MIB);
    let arguments = [
        "-n1:0:+8M",
        "-t1:ef00",
        "-c1:boot",
        "-n5:0:0",
        "-t5:fd00",
        "-c5:a b ü",
        "-A5:set:2",
    ];
    disk.run("sgdisk", &arguments);
    let found = disk.table();
    assert_eq!(remarks(&found), Vec::<String>::new());
    assert_eq!(places(&found), [(1, 1, 8), (5, 9, 54)]);
    let labels: Vec<&str> = found
        .partitions
        .iter()
        .map(|it| it.label.as_str())
        .collect();
    assert_eq!(labels, ["boot", "a b ü"]);
    let kinds: Vec<_> = found.partitions.iter().map(|it| it.kind.name()).collect();
    assert_eq!(kinds, [Some("efi"), Some("raid")]);
    assert!(found.partitions[1].bootable);
    let message = disk.run("sgdisk", &["-i1"]).to_lowercase();
    assert!(
        message.contains(&found.partitions[0].id.to_string()),
        "{message}"
    );
}

#[test]
fn what_sfdisk_writes_is_read() {
    if !have_tools() {
        return;
    }
    let disk = Disk::empty(64 * MIB);
    disk.sfdisk("label: dos\nlabel-id: 0x12345678\n,4M,c,*\n,4M\n,4M,S\n,,E\n,8M,L\n,8M\n,,V\n");
    let found = disk.table();
    assert_eq!(found.id.to_string(), "12345678");
    let numbers: Vec<u32> = found.partitions.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    let listed = disk.run("sfdisk", &["-d"]);
    for entry in &found.partitions {
        let (start, size) = (entry.range.offset / 512, entry.range.len / 512);
        let line = format!("img{} : start={start:>12}, size={size:>12}", entry.number);
        assert!(listed.contains(&line), "{line} in {listed}");
        assert_eq!(entry.fault, None);
    }
    assert!(found.partitions[0].bootable);
    let disk = Disk::empty(64 * MIB);
    disk.sfdisk("label: gpt\n,8M,U\n,,L\n");
    assert_eq!(remarks(&disk.table()), Vec::<String>::new());
    assert_eq!(places(&disk.table())[0], (1, 1, 8));
}

#[test]
fn what_is_written_here_they_find_sound() {
    if !have_tools() {
        return;
    }
    let mut gpt = new_gpt(512, &[Some(8 * MIB), Some(4 * MIB), None]);
    gpt.partitions[0].kind = kind("efi", Scheme::Gpt);
    gpt.partitions[2].label = "Größe".to_owned();
    let disk = Disk::of(&image(64 * MIB, &gpt));
    disk.assert_sound();
    let listed = disk.run("sgdisk", &["-i3"]);
    assert!(listed.contains("Größe"), "{listed}");
    for count in [1, 4, 5, 9] {
        let mut sizes = vec![Some(2 * MIB); count];
        sizes[count - 1] = None;
        Disk::of(&image(64 * MIB, &new_mbr(512, &sizes))).assert_sound();
    }
}

#[test]
fn a_disk_that_sgdisk_made_and_we_grew_is_sound_for_both() {
    if !have_tools() {
        return;
    }
    let disk = Disk::empty(64 * MIB);
    disk.run("sgdisk", &["-n1:0:+8M", "-n2:0:+8M"]);
    let mut bytes = fs::read(&disk.path).expect("the image");
    bytes.resize(bytes.len() * 2, 0);
    let growth = grow(&table(&bytes), bytes.len() as u64, Some(2)).expect("it grows");
    for step in &growth.steps {
        put(&mut bytes, step);
    }
    let disk = Disk::of(&bytes);
    disk.assert_sound();
    assert_eq!(places(&disk.table()), [(1, 1, 8), (2, 9, 118)]);
    // And on: what we grew, sgdisk changes.
    disk.run("sgdisk", &["-d1", "-v"]);
    assert_eq!(places(&disk.table()), [(2, 9, 118)]);
}
