//! Members that make no array: one clear line each, and nothing is written to any of them.

use std::path::Path;

use super::super::{answer, failure};
use super::{bytes, image, images, mirror, state_of, status};

/// Where superblocks of version 1.2 are, and parts of them (`docs/formats/md.md`).
const SUPERBLOCK: usize = 4096;
const FEATURES: usize = 8;
const UUID: usize = 16;
const NEW_LEVEL: usize = 100;
const RESHAPE_AT: usize = 104;
const EVENTS: usize = 200;
const CHECKSUM: usize = 216;
const ROLES: usize = 220;

fn word_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

/// Changes the superblock of a member, and updates its checksum.
fn forge(folder: &Path, member: &str, change: impl FnOnce(&mut [u8])) {
    let mut image = bytes(folder, member);
    let superblock = &mut image[SUPERBLOCK..SUPERBLOCK + 4096];
    change(superblock);
    let len = 256 + 2 * word_of(&superblock[ROLES..ROLES + 4]) as usize;
    superblock[CHECKSUM..CHECKSUM + 4].fill(0);
    let words = superblock[..len].chunks_exact(4);
    let sum: u64 = words.map(|bytes| u64::from(word_of(bytes))).sum();
    let folded = ((sum & 0xffff_ffff) + (sum >> 32)) & 0xffff_ffff;
    superblock[CHECKSUM..CHECKSUM + 4].copy_from_slice(&folded.to_le_bytes()[..4]);
    std::fs::write(folder.join(member), image).expect("an image");
}

fn put(superblock: &mut [u8], at: usize, word: u32) {
    superblock[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// That `members` are refused by each command that would open them, in one line with these words, and
/// that nothing was written.
fn assert_refused(folder: &Path, members: &[&str], words: &[&str]) {
    let before: Vec<Vec<u8>> = members.iter().map(|member| bytes(folder, member)).collect();
    let wait = [&["array", "wait"], members].concat();
    let disk = format!("array({})", members.join(", "));
    let serve = ["serve", "--listen", "unix:s", &disk];
    for command in [&wait[..], &serve] {
        let (code, told) = failure(folder, command);
        assert_eq!(code, Some(1), "{command:?}: {told}");
        // Below it, the place in an expression.
        let line = told.lines().next().expect("a line");
        for word in words {
            assert!(line.contains(word), "{command:?}: {word} is not in {told}");
        }
        let lines = told.lines().skip(1).filter(|line| !line.starts_with("  "));
        assert_eq!(lines.count(), 0, "{told}");
    }
    let after: Vec<Vec<u8>> = members.iter().map(|member| bytes(folder, member)).collect();
    assert!(before == after, "{members:?}: something was written");
}

/// A mirror of a.img and b.img that is clean.
fn clean() -> tempfile::TempDir {
    let folder = images(&["a.img", "b.img"]);
    let create = [
        "array",
        "create",
        "-l",
        "1",
        "--name",
        "media",
        "--assume-clean",
        "a.img",
        "b.img",
    ];
    answer(folder.path(), &create);
    folder
}

#[test]
fn a_member_that_is_given_twice() {
    let folder = clean();
    assert_refused(
        folder.path(),
        &["a.img", "a.img"],
        &["a.img", "by two disks"],
    );
    std::fs::copy(folder.path().join("a.img"), folder.path().join("copy.img")).expect("a copy");
    assert_refused(
        folder.path(),
        &["a.img", "copy.img"],
        &["a.img", "copy.img"],
    );
}

#[test]
fn a_member_of_another_array_and_one_of_none() {
    let folder = clean();
    let path = folder.path();
    for name in ["c.img", "d.img", "empty.img"] {
        image(path, name, super::MEMBER);
    }
    answer(
        path,
        &[
            "array", "create", "-l", "1", "--name", "other", "c.img", "d.img",
        ],
    );
    assert_refused(path, &["a.img", "c.img"], &["a.img", "c.img"]);
    assert_refused(path, &["a.img", "empty.img"], &["empty.img"]);
}

#[test]
fn a_member_that_became_smaller() {
    let folder = clean();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(folder.path().join("b.img"));
    file.and_then(|file| file.set_len(8 << 20))
        .expect("a shorter image");
    assert_refused(folder.path(), &["a.img", "b.img"], &["b.img"]);
}

#[test]
fn a_member_that_is_not_there() {
    let folder = clean();
    let path = folder.path();
    assert_refused(path, &["a.img"], &["run"]);
    // To look is allowed, and to say that it is meant.
    assert_eq!(status(path, &["a.img"])["working"], 1);
    let told = answer(path, &["array", "wait", "a.img", "--run"]);
    assert!(told.contains("degraded: 1 of 2 parts work"), "{told}");
    let stripe = images(&["x.img", "y.img"]);
    answer(
        stripe.path(),
        &["array", "create", "-l", "0", "x.img", "y.img"],
    );
    assert_refused(stripe.path(), &["x.img"], &["raid0", "1 of its 2 members"]);
}

#[test]
fn a_checksum_that_is_wrong() {
    let folder = clean();
    let mut image = bytes(folder.path(), "b.img");
    image[SUPERBLOCK + 40] ^= 1;
    std::fs::write(folder.path().join("b.img"), image).expect("an image");
    assert_refused(folder.path(), &["a.img", "b.img"], &["b.img", "checksum"]);
}

#[test]
fn features_that_are_not_known_and_a_reshape_that_is_half_done() {
    for (feature, word) in [
        (0x8000_0000, "0x80000000"),
        (0x200, "journal"),
        (0x100, "cluster"),
    ] {
        let folder = clean();
        for member in ["a.img", "b.img"] {
            forge(folder.path(), member, |superblock| {
                let old = word_of(&superblock[FEATURES..FEATURES + 4]);
                put(superblock, FEATURES, old | feature);
            });
        }
        assert_refused(folder.path(), &["a.img", "b.img"], &[word]);
    }
    let folder = clean();
    for member in ["a.img", "b.img"] {
        forge(folder.path(), member, |superblock| {
            put(superblock, FEATURES, 4);
            put(superblock, NEW_LEVEL, 5);
            put(superblock, RESHAPE_AT, 8);
        });
    }
    assert_refused(folder.path(), &["a.img", "b.img"], &["reshape"]);
}

#[test]
fn members_whose_counts_of_events_differ() {
    let folder = clean();
    let path = folder.path();
    answer(path, &["array", "wait", "a.img", "b.img"]);
    for _ in 0..2 {
        forge(path, "a.img", |superblock| superblock[EVENTS] += 10);
    }
    let report = status(path, &["a.img", "b.img"]);
    assert_eq!(state_of(&report, "b.img"), "stale", "{report}");
    assert_eq!(report["working"], 1, "{report}");
}

#[test]
fn a_uuid_that_is_another_one_is_another_array() {
    let folder = clean();
    forge(folder.path(), "b.img", |superblock| superblock[UUID] ^= 1);
    assert_refused(folder.path(), &["a.img", "b.img"], &["a.img", "b.img"]);
}

#[test]
fn a_device_that_linux_holds() {
    use testkit::requires;
    let needs = [
        requires::root(),
        requires::command("losetup"),
        requires::command("mkfs.ext4"),
    ];
    if !requires::all(&needs) {
        return;
    }
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    let run = |program: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(program);
        command
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .current_dir(path);
        let output = command.args(arguments).output().expect("it runs");
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout)
            .expect("text")
            .trim()
            .to_owned()
    };
    image(path, "held.img", super::MEMBER);
    run("mkfs.ext4", &["-q", "held.img"]);
    let device = run("losetup", &["-f", "--show", "held.img"]);
    std::fs::create_dir(path.join("mnt")).expect("a folder");
    run("mount", &[&device, "mnt"]);
    let add = [
        "array", "add", "a.img", "b.img", "--force", "--disk", &device,
    ];
    let create = ["array", "create", "-l", "1", "--force", &device, "missing"];
    let told = [&add[..], &create].map(|command| failure(path, command).1);
    run("umount", &["mnt"]);
    run("losetup", &["-d", &device]);
    for told in told {
        assert!(
            told.contains(&device) && told.contains("in use by the system"),
            "{told}"
        );
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}
