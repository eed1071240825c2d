//! Tests of the table of filesystems.

use super::mkfs::Filesystem;

#[test]
fn an_unknown_filesystem_is_answered_with_those_that_are_known_and_installed() {
    let error = Filesystem::parse("fat32").expect_err("no such row");
    assert!(
        error.starts_with("known are ext4, ext3, ext2, xfs,"),
        "{error}"
    );
    assert!(error.contains("installed here: "), "{error}");
}

#[test]
fn a_known_filesystem_keeps_its_name() {
    let ext4 = Filesystem::parse("ext4").expect("a row");
    assert_eq!(ext4.name(), "ext4");
}
