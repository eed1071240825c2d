//! `disk create` with partitions, and `disk grow`: what they make, and that they change nothing when
//! they cannot.

use std::path::Path;
use std::process::{Command, Output};

use testkit::requires;

use super::{Server, answer, failure, outboard, run};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn json(folder: &Path, arguments: &[&str]) -> serde_json::Value {
    let arguments = [arguments, &["--json"]].concat();
    serde_json::from_str(&answer(folder, &arguments)).expect("JSON")
}

/// A system tool's answer.
fn tool(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    assert!(status.success(), "{program} {arguments:?}: {text}");
    text
}

fn assert_empty(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).expect("the folder").collect();
    assert!(left.is_empty(), "{left:?} was left");
}

/// The filesystem that blkid finds at an offset.
fn filesystem_at(folder: &Path, image: &str, offset: u64) -> String {
    let offset = offset.to_string();
    let arguments = ["-p", "-O", &offset, "-s", "TYPE", "-o", "value", image];
    tool(folder, "blkid", &arguments).trim().to_owned()
}

#[test]
fn partitions_are_made_with_their_filesystems() {
    let needs = ["mkfs.ext4", "mkfs.xfs", "blkid", "sgdisk"].map(requires::command);
    if !requires::all(&needs) {
        return;
    }
    let folder = folder();
    let arguments = [
        "disk",
        "create",
        "a.img",
        "512M",
        "--part",
        "32M:efi",
        "--part",
        "64M:linux:boot",
        "--fs",
        "ext4",
        "--part",
        "rest:linux:root",
        "--fs",
        "xfs",
    ];
    let told = answer(folder.path(), &arguments);
    assert_eq!(
        told,
        "a.img: 512M, GPT\n  \
           1  32M   EFI system        -\n  \
           2  64M   Linux filesystem  ext4  boot\n  \
           3  414M  Linux filesystem  xfs   root\n"
    );
    assert_eq!(filesystem_at(folder.path(), "a.img", 33 << 20), "ext4");
    assert_eq!(filesystem_at(folder.path(), "a.img", 97 << 20), "xfs");
    let verified = tool(folder.path(), "sgdisk", &["-v", "a.img"]);
    assert!(verified.contains("No problems found"), "{verified}");
    // Nothing is left of how they were made.
    let files = std::fs::read_dir(folder.path()).expect("the folder");
    assert_eq!(files.count(), 1);
}

#[test]
fn the_json_has_the_places_of_partitions() {
    let folder = folder();
    let arguments = ["disk", "create", "a.img", "64M", "--block-size", "4096"];
    let partitions = ["--part", "8M:bios-boot", "--part", "rest:raid:r"];
    let made = json(folder.path(), &[&arguments[..], &partitions].concat());
    assert_eq!(made["table"], "gpt");
    assert_eq!(made["block_size"], 4096);
    let second = &made["partitions"][1];
    assert_eq!(second["number"], 2);
    assert_eq!(second["offset"], 9 << 20);
    assert_eq!(second["size"], 54 << 20);
    assert_eq!(second["label"], "r");
    assert_eq!(second["type"], "Linux RAID");
}

#[test]
fn a_partition_is_served_by_its_number() {
    let folder = folder();
    let arguments = ["disk", "create", "a.img", "64M", "--table", "mbr"];
    let partitions = ["--part", "8M:linux", "--part", "rest:swap"];
    answer(folder.path(), &[&arguments[..], &partitions].concat());
    let serve = ["serve", "--listen", "unix:s", "swap=partition(a.img, 2)"];
    let (_server, _) = Server::start(outboard(folder.path(), &serve));
    let size = answer(folder.path(), &["inspect", "nbd+unix:///swap?socket=s"]);
    assert!(size.contains(&(55 << 20).to_string()), "{size}");
    // It is in use, and stays as it is.
    let (status, told) = failure(folder.path(), &["disk", "grow", "a.img", "128M"]);
    assert_eq!(status, Some(1));
    assert!(told.contains("a.img is already open for writing"), "{told}");
    let size = std::fs::metadata(folder.path().join("a.img"))
        .expect("it is there")
        .len();
    assert_eq!(size, 64 << 20);
}

#[test]
fn partitions_that_cannot_be_made_leave_no_file() {
    let cases: [(&[&str], &str); 10] = [
        (
            &["--part", "64M:linux"],
            "the partitions take 67108864 bytes, the disk has room for 14680064; make the disk larger",
        ),
        (
            &["--part", "8M"],
            "SIZE:TYPE is wanted, such as 512M:efi or rest:linux",
        ),
        (&["--part", "8M:"], "its type is missing"),
        (&["--part", "8Q:linux"], "`8Q` is neither a size nor `rest`"),
        (
            &["--part", "8M:linus"],
            "`linus` is no type of a partition in GPT: known are linux, efi,",
        ),
        (
            &["--table", "mbr", "--part", "8M:linux:root"],
            "an MBR has no place for names; leave it out, or use --table gpt",
        ),
        (
            &["--part", "8M:linux", "--fs", "ext4", "--fs", "xfs"],
            "--fs ext4 and --fs xfs are for the same place; each --part may have one behind it",
        ),
        (
            &["--fs", "ext4", "--part", "8M:linux"],
            "--fs belongs behind the --part that it is for; ",
        ),
        (
            &["--table", "gpt", "--fs", "ext4"],
            "a disk has a partition table or a filesystem, not both",
        ),
        (
            &["--block-size", "1024", "--part", "8M:linux"],
            "512 and 4096 are known",
        ),
    ];
    for (arguments, expected) in cases {
        let folder = folder();
        let command = [&["disk", "create", "a.img", "16M"], arguments].concat();
        let (status, told) = failure(folder.path(), &command);
        assert_eq!(status, Some(2), "{told}");
        assert!(told.contains(expected), "{told}");
        assert_empty(folder.path());
    }
}

#[test]
fn a_filesystem_that_does_not_fit_its_partition_leaves_no_file() {
    if !requires::all(&[requires::command("mkfs.xfs")]) {
        return;
    }
    let folder = folder();
    let command = [
        "disk", "create", "a.img", "16M", "--part", "8M:linux", "--fs", "xfs",
    ];
    let (status, told) = failure(folder.path(), &command);
    assert_eq!(status, Some(1));
    assert!(told.contains("mkfs.xfs failed on "), "{told}");
    assert_empty(folder.path());
}

#[test]
fn a_disk_grows_with_its_backup_and_its_last_partition() {
    if !requires::all(&[requires::command("sgdisk")]) {
        return;
    }
    let folder = folder();
    let create = ["disk", "create", "a.img", "64M", "--part", "8M:efi"];
    answer(
        folder.path(),
        &[&create[..], &["--part", "rest:linux"]].concat(),
    );
    let told = answer(folder.path(), &["disk", "grow", "a.img", "96M"]);
    assert_eq!(
        told,
        "a.img: 64M -> 96M\n  the backup GPT is at the end of the disk\n"
    );
    let grown = json(
        folder.path(),
        &["disk", "grow", "a.img", "128M", "--part", "2"],
    );
    assert_eq!(grown["size_before"], 96 << 20);
    assert_eq!(grown["moved_backup"], true);
    assert_eq!(grown["partition"]["size_before"], 54 << 20);
    assert_eq!(grown["partition"]["size"], 118 << 20);
    let verified = tool(folder.path(), "sgdisk", &["-v", "a.img"]);
    assert!(verified.contains("No problems found"), "{verified}");
}

#[test]
fn a_disk_that_cannot_grow_is_left_as_it_is() {
    let folder = folder();
    let create = ["disk", "create", "a.img", "64M", "--part", "8M:efi"];
    answer(
        folder.path(),
        &[&create[..], &["--part", "rest:linux"]].concat(),
    );
    answer(folder.path(), &["disk", "create", "plain.img", "64M"]);
    let before = std::fs::read(folder.path().join("a.img")).expect("the image");
    let cases: [(&[&str], &str); 5] = [
        (
            &["a.img", "32M"],
            "it has 64M already; a disk is never made smaller here",
        ),
        (&["a.img", "128M", "--part", "3"], "there is no partition 3"),
        (
            &["a.img", "128M", "--part", "1"],
            "partition 1 cannot grow: partition 2 lies behind it",
        ),
        (
            &["plain.img", "128M", "--part", "1"],
            "it has no partition table; leave --part out",
        ),
        (&["none.img", "128M"], "none.img does not exist"),
    ];
    for (arguments, expected) in cases {
        let (status, told) = failure(folder.path(), &[&["disk", "grow"], arguments].concat());
        assert_eq!(status, Some(1), "{told}");
        assert!(told.contains(expected), "{told}");
    }
    let after = std::fs::read(folder.path().join("a.img")).expect("the image");
    assert!(before == after, "it was changed");
    let grown = run(folder.path(), &["disk", "grow", "plain.img", "128M"]);
    assert_eq!(
        String::from_utf8_lossy(&grown.stdout),
        "plain.img: 64M -> 128M\n"
    );
}

#[test]
fn a_damaged_primary_is_restored_when_the_disk_grows() {
    let folder = folder();
    let create = ["disk", "create", "a.img", "64M", "--part", "rest:linux"];
    answer(folder.path(), &create);
    let path = folder.path().join("a.img");
    let mut bytes = std::fs::read(&path).expect("the image");
    bytes[512 + 60] ^= 1;
    std::fs::write(&path, &bytes).expect("the image");
    let grown = json(folder.path(), &["disk", "grow", "a.img", "128M"]);
    assert_eq!(grown["restored_primary"], true);
    let grown = json(folder.path(), &["disk", "grow", "a.img", "128M"]);
    assert_eq!(grown["restored_primary"], false);
    assert_eq!(grown["moved_backup"], false);
}
