//! mdadm reads what the encoder of the tests wrote, so that both sides agree on the format.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use testkit::requires;

use super::encode::superblock;
use super::{DISK_LEN, mirror, place};
use crate::array::format::{Superblock, Version};

/// What `mdadm --examine --export` says of a disk with this superblock alone.
fn examined(of: &Superblock) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let file = File::create(&path).expect("a file");
    file.set_len(DISK_LEN).expect("a size");
    let at = place(of.version);
    file.write_all_at(&superblock(of, at), at).expect("written");
    let mut mdadm = Command::new("mdadm");
    mdadm.args(["--examine", "--export"]).arg(&path);
    let said = mdadm.output().expect("mdadm runs");
    assert!(said.status.success(), "{of:?}: {said:?}");
    let said = String::from_utf8(said.stdout).expect("text");
    let lines = said.lines().filter_map(|line| line.split_once('='));
    lines
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn uuid(bytes: &[u8]) -> String {
    let words = bytes.chunks(4).map(|word| {
        let bytes = word.iter().map(|byte| format!("{byte:02x}"));
        bytes.collect::<String>()
    });
    words.collect::<Vec<_>>().join(":")
}

#[test]
fn mdadm_reads_the_superblocks_of_tests_as_they_were_written() {
    if !requires::all(&[requires::command("mdadm")]) {
        return;
    }
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let of = mirror(version, 1);
        let said = examined(&of);
        let value = |key: &str| said.get(key).map_or("", String::as_str);
        assert_eq!(value("MD_LEVEL"), "raid1");
        assert_eq!(value("MD_DEVICES"), "2");
        assert_eq!(value("MD_NAME"), "nas:photos");
        assert_eq!(value("MD_UUID"), uuid(&of.array));
        assert_eq!(value("MD_DEV_UUID"), uuid(&[1; 16]));
        assert_eq!(value("MD_EVENTS"), "18");
        assert_eq!(value("MD_UPDATE_TIME"), of.updated.to_string());
    }
    let old = mirror(Version::V0_90 { big_endian: false }, 0);
    let said = examined(&old);
    assert_eq!(said["MD_UUID"], uuid(&old.array));
    assert_eq!(said["MD_LEVEL"], "raid1");
    assert_eq!(said["MD_DEVICES"], "2");
}
