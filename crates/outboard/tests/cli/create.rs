//! `disk create`: what it makes, and that it leaves nothing when it cannot.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use testkit::requires;

use super::{Server, answer, failure, outboard, within_a_minute};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Size and space taken, bytes.
fn size_and_space(path: &Path) -> (u64, u64) {
    let metadata = std::fs::metadata(path).expect("the image is there");
    (metadata.len(), metadata.blocks() * 512)
}

fn assert_empty(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).expect("the folder").collect();
    assert!(left.is_empty(), "{left:?} was left");
}

#[test]
fn an_image_is_sparse_by_default() {
    let folder = folder();
    let told = answer(folder.path(), &["disk", "create", "a.img", "1.5T"]);
    assert_eq!(told, "a.img: 1536G\n");
    let (size, space) = size_and_space(&folder.path().join("a.img"));
    assert_eq!(size, 3 << 39);
    assert!(space < 1 << 20, "{space} bytes are taken");
}

#[test]
fn allocated_and_zeroed_images_take_their_space_at_once() {
    let folder = folder();
    for how in ["--allocate", "--zero"] {
        let name = how.trim_start_matches('-');
        answer(folder.path(), &["disk", "create", name, "20M", how]);
        let (size, space) = size_and_space(&folder.path().join(name));
        assert_eq!(size, 20 << 20);
        assert!(space >= size, "{how}: {space} bytes are taken");
    }
}

#[test]
fn what_exists_is_not_overwritten() {
    let folder = folder();
    let path = folder.path().join("a.img");
    std::fs::write(&path, "mine").expect("a file");
    let (status, told) = failure(folder.path(), &["disk", "create", "a.img", "1M"]);
    assert_eq!(status, Some(1));
    assert!(
        told.starts_with("outboard: cannot make a.img: File exists; "),
        "{told}"
    );
    assert_eq!(std::fs::read(&path).expect("the file"), b"mine");
}

#[test]
fn an_image_has_the_requested_filesystem() {
    if !requires::all(&[requires::command("mkfs.ext4"), requires::command("blkid")]) {
        return;
    }
    let folder = folder();
    for how in ["sparse", "--allocate", "--zero"] {
        let mut arguments = vec!["disk", "create", "x", "32M", "--fs", "ext4", "--json"];
        arguments[2] = how.trim_start_matches('-');
        arguments.extend((how != "sparse").then_some(how));
        let told = answer(folder.path(), &arguments);
        let made: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!(made["filesystem"], "ext4");
        assert_eq!(made["size"], 32 << 20);
        let path = folder.path().join(arguments[2]);
        let probe = Command::new("blkid")
            .arg("-p")
            .arg(&path)
            .output()
            .expect("blkid runs");
        let found = String::from_utf8_lossy(&probe.stdout);
        assert!(found.contains(r#"TYPE="ext4""#), "{found}");
        let (size, space) = size_and_space(&path);
        assert_eq!(
            how == "sparse",
            space < size,
            "{how}: {space} bytes are taken"
        );
    }
}

#[test]
fn a_filesystem_that_does_not_fit_leaves_no_file() {
    if !requires::all(&[requires::command("mkfs.xfs")]) {
        return;
    }
    let folder = folder();
    let (status, told) = failure(folder.path(), &["disk", "create", "a", "1M", "--fs", "xfs"]);
    assert_eq!(status, Some(1));
    assert!(told.contains("mkfs.xfs failed on "), "{told}");
    assert_empty(folder.path());
}

#[test]
fn a_missing_mkfs_is_named_with_its_package() {
    let table = [
        ("f2fs", "f2fs-tools"),
        ("btrfs", "btrfs-progs"),
        ("exfat", "exfatprogs"),
    ];
    let missing = table
        .iter()
        .find(|(name, _)| requires::command(&format!("mkfs.{name}")).is_err());
    let Some((name, package)) = missing else {
        eprintln!("skipped: every mkfs is installed");
        return;
    };
    let folder = folder();
    let (status, told) = failure(folder.path(), &["disk", "create", "a", "1G", "--fs", name]);
    assert_eq!(status, Some(1));
    let expected = format!(
        "outboard: cannot make {name}: mkfs.{name} is not installed; apt install {package}"
    );
    assert_eq!(told, expected);
    assert_empty(folder.path());
}

#[test]
fn a_disk_without_room_is_refused_before_anything_is_written() {
    let folder = folder();
    for how in ["--allocate", "--zero"] {
        let (status, told) = failure(folder.path(), &["disk", "create", "a", "7E", how]);
        assert_eq!(status, Some(1));
        assert!(told.contains(" bytes are wanted, "), "{told}");
        assert_empty(folder.path());
    }
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = folder();
    let (status, told) = failure(folder.path(), &["disk", "create", "no/a", "1M"]);
    assert_eq!(status, Some(1));
    let expected =
        "outboard: cannot make no/a: No such file or directory; make its directory first";
    assert_eq!(told, expected);
}

#[test]
fn a_signal_removes_the_unfinished_file() {
    let folder = folder();
    // More than can be written before the signal comes, and less than a small disk has free.
    let mut command = outboard(folder.path(), &["disk", "create", "a", "4G", "--zero"]);
    let mut making = Server::start_quiet(command.stdin(Stdio::null()));
    let path = folder.path().join("a");
    within_a_minute(|| path.metadata().is_ok_and(|m| m.len() > 0).then_some(()));
    making.signal(Signal::INT);
    assert_eq!(making.ended().code(), Some(1));
    assert_empty(folder.path());
}
