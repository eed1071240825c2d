//! What is refused: one clear line, and no byte of any disk is changed.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use block::Node;
use nodes::volume::scan::scan;
use nodes::volume::update::{MetadataArea, commit};
use testkit::{MemDisk, block_on, requires};

use super::{bytes, images, media, refusal, volume};

const DISKS: [&str; 3] = ["a.img", "b.img", "c.img"];

/// That a command is refused with these words, and nothing was written.
fn assert_refused(folder: &Path, command: &[&str], words: &[&str]) {
    let before = DISKS.map(|disk| bytes(folder, disk));
    let line = refusal(folder, command);
    for word in words {
        assert!(line.contains(word), "{command:?}: {word} is not in {line}");
    }
    let after = DISKS.map(|disk| bytes(folder, disk));
    assert!(before == after, "{command:?}: something was written");
}

#[test]
fn too_little_space_says_where_extents_are_free() {
    let folder = media("40M");
    let words = [
        "21 extents are needed",
        "20 are free (5 on a.img, 15 on b.img)",
        "add-disk",
    ];
    let extend = ["extend", "vg0/media", "a.img", "b.img", "-l", "+21"];
    assert_refused(folder.path(), &extend, &words);
    let words = ["6 extents on each of 2 physical volumes", "5 on a.img"];
    let create = ["create", "vg0/x", "a.img", "b.img", "-l", "12", "-i", "2"];
    assert_refused(folder.path(), &create, &words);
    let create = ["create", "vg1/x", "-L", "1G", "--disks", "c.img"];
    assert_refused(folder.path(), &create, &["15 on c.img"]);
}

#[test]
fn names_that_exist_or_that_lvm_reserves() {
    let folder = media("40M");
    let create = |name| ["create", name, "a.img", "b.img", "-l", "1"];
    assert_refused(folder.path(), &create("vg0/media"), &["media", "already"]);
    assert_refused(folder.path(), &create("vg0/x_rmeta_0"), &["_rmeta"]);
    assert_refused(folder.path(), &create("vg0/-x"), &["hyphen"]);
    assert_refused(folder.path(), &create("vg9/x"), &["vg9"]);
    let rename = ["rename", "vg0/media", "a b", "a.img", "b.img"];
    assert_refused(folder.path(), &rename, &["` `"]);
    let remove = ["remove", "vg0/nothing", "a.img", "b.img"];
    assert_refused(folder.path(), &remove, &["no volume nothing"]);
}

#[test]
fn disks_that_are_missing_or_foreign_or_there_twice() {
    let folder = media("40M");
    let path = folder.path();
    let remove = |disks: &[&'static str]| [&["remove", "vg0/media"], disks].concat();
    assert_refused(
        path,
        &remove(&["a.img"]),
        &["pv1", "missing", "b.img", "name all disks"],
    );
    assert_refused(
        path,
        &remove(&["a.img", "b.img", "c.img"]),
        &["c.img", "no physical volume"],
    );
    assert_refused(
        path,
        &remove(&["a.img", "a.img"]),
        &["a.img is named twice"],
    );
    std::fs::copy(path.join("a.img"), path.join("c.img")).expect("a copy");
    let words = ["a.img and c.img", "same physical volume"];
    assert_refused(path, &remove(&["a.img", "b.img", "c.img"]), &words);
    let add = [
        "add-disk", "vg0", "a.img", "b.img", "--disk", "c.img", "--force",
    ];
    assert_refused(path, &add, &["c.img is a physical volume of the group vg0"]);
}

#[test]
fn without_a_disk_only_what_does_not_lie_on_it_is_removed() {
    let folder = media("40M");
    let path = folder.path();
    let create = ["create", "vg0/both", "-l", "4", "-i", "2", "a.img", "b.img"];
    volume(path, &create);
    // `media` lies on a.img, `both` on both.
    let b = std::fs::canonicalize(path.join("b.img")).expect("an image");
    let b = b.to_str().expect("a path");
    let missing = ["the missing disk pv1", b];
    let both = ["remove", "vg0/both", "a.img", "--partial"];
    assert_refused(path, &both, &missing);
    let leaves = ["remove-disk", "vg0", "a.img", "--missing"];
    assert_refused(path, &leaves, &[b, "the volumes both use it"]);
    for command in [
        &["extend", "vg0/media", "a.img", "-l", "+1"][..],
        &["rename", "vg0/media", "films", "a.img"],
        &["create", "vg0/x", "a.img", "-l", "1"],
        &["remove", "vg0/media", "a.img"],
        &["remove-disk", "vg0", "a.img", "--disk", "a.img"],
        &[
            "snapshot",
            "create",
            "vg0/media",
            "s",
            "a.img",
            "--size",
            "4M",
        ],
    ] {
        assert_refused(path, command, &["pv1", "missing", b]);
    }
    let removed = volume(path, &["remove", "vg0/media", "a.img", "--partial"]);
    assert!(removed.starts_with("vg0/media is removed"), "{removed}");
    // The disk is there again: the newest metadata count.
    volume(path, &["repair", "a.img", "b.img"]);
    let status = volume(path, &["status", "a.img", "b.img"]);
    assert!(
        status.contains("both") && !status.contains("media"),
        "{status}"
    );
    let none = ["remove-disk", "vg0", "a.img", "b.img", "--missing"];
    assert_refused(path, &none, &["no disk of the group vg0 is missing"]);
    volume(path, &["remove", "vg0/both", "a.img", "b.img"]);
    let removed = volume(path, &leaves);
    assert!(
        removed.contains("the missing disks pv1") && removed.contains(b),
        "{removed}"
    );
    assert!(volume(path, &["check", "a.img"]).starts_with("vg0: good"));
}

#[test]
fn disks_that_are_in_use_or_not_empty() {
    let folder = media("40M");
    let path = folder.path();
    let full = vec![0xa5_u8; 1 << 20];
    let mut image = bytes(path, "c.img");
    image[..full.len()].copy_from_slice(&full);
    image[510] = 0x55;
    image[511] = 0xaa;
    image[1080..1082].copy_from_slice(&[0x53, 0xef]);
    std::fs::write(path.join("c.img"), &image).expect("an image");
    let mut serve = super::outboard(path, &["serve", "--listen", "unix:s", "a.img"]);
    let (_server, _) = super::super::Server::start({
        serve.stdin(std::process::Stdio::null());
        serve
    });
    let remove = ["remove", "vg0/media", "a.img", "b.img"];
    assert_refused(path, &remove, &["a.img", "already open"]);
    volume(path, &["status", "a.img", "b.img"]);
}

#[test]
fn a_group_of_another_system_stays_as_it_is() {
    let folder = media("40M");
    let path = folder.path();
    let backup = path.join("text");
    let text = super::json(path, &["rename", "vg0/media", "films", "a.img", "b.img"]);
    let text = text["backup"].as_str().expect("a backup");
    let text = std::fs::read_to_string(text).expect("a backup");
    for (from, to, word) in [
        (
            "\"RESIZEABLE\", ",
            "\"RESIZEABLE\", \"EXPORTED\", ",
            "exported",
        ),
        ("seqno", "system_id = \"nas\"\nseqno", "nas"),
        ("seqno", "lock_type = \"sanlock\"\nseqno", "sanlock"),
    ] {
        std::fs::write(&backup, text.replacen(from, to, 1)).expect("a file");
        let restore = ["repair", "a.img", "b.img", "--restore", "text"];
        assert_refused(path, &restore, &[word]);
    }
}

/// Gives the group on these disks another text, as LVM of another machine may have.
fn rewrite(folder: &Path, disks: &[&str], change: impl Fn(&str) -> String) {
    let mut opened: Vec<(&str, Arc<MemDisk>)> = Vec::with_capacity(disks.len());
    for name in disks {
        let disk = MemDisk::from_bytes(bytes(folder, name));
        opened.push((name, Arc::new(disk)));
    }
    let mut areas = Vec::new();
    let mut text = String::new();
    for (name, disk) in &opened {
        let disk: Node = disk.clone();
        let scanned = block_on(scan(&disk))
            .expect("it can be read")
            .expect("a label");
        for area in scanned.expect("a good label").areas {
            text = area.text.expect("good metadata").expect("a text").text;
            areas.push(MetadataArea {
                name: (*name).to_owned(),
                disk: disk.clone(),
                area: area.area,
                reset: false,
            });
        }
    }
    block_on(commit(&areas, &change(&text))).expect("it is written");
    for (name, disk) in opened {
        std::fs::write(folder.join(name), disk.snapshot()).expect("an image");
    }
}

#[test]
fn a_group_that_another_system_may_use_is_not_changed_by_any_command() {
    let flagged = |flag: &str| ("\"RESIZEABLE\",", format!("\"RESIZEABLE\", \"{flag}\","));
    let field = |field: &str| ("seqno", format!("{field}\nseqno"));
    for ((from, to), word) in [
        (flagged("EXPORTED"), "is exported"),
        (flagged("CLUSTERED"), "is shared by several machines"),
        (field("system_id = \"nas\""), "belongs to the system nas"),
        (field("lock_type = \"sanlock\""), "lock type sanlock"),
        (field("lock_type = \"dlm\""), "lock type dlm"),
    ] {
        let folder = media("40M");
        let path = folder.path();
        rewrite(path, &DISKS[..2], |text| text.replacen(from, &to, 1));
        for (command, options) in [
            (&["remove", "vg0/media"][..], &[][..]),
            (&["extend", "vg0/media"], &["-l", "+1"]),
            (&["reduce", "vg0/media"], &["-l", "1", "--force"]),
            (&["rename", "vg0/media", "films"], &[]),
            (&["create", "vg0/x"], &["-l", "1"]),
            (&["add-disk", "vg0"], &["--disk", "c.img"]),
            (&["remove-disk", "vg0"], &["--disk", "b.img"]),
            (&["move", "vg0"], &["--from", "a.img"]),
            (&["snapshot", "create", "vg0/media", "s"], &["--size", "4M"]),
            (&["repair"], &[]),
        ] {
            let command = [command, &DISKS[..2], options].concat();
            assert_refused(path, &command, &["vg0", word]);
        }
        // Nor are its volumes written.
        let to = "volume(a.img, b.img, name=vg0/media)";
        let (_, line) = super::failure(path, &["copy", "c.img", to, "--force"]);
        assert!(line.contains("vg0"), "{line}");
    }
}

#[test]
fn two_groups_of_one_name_are_not_taken_for_each_other() {
    let folder = media("40M");
    let path = folder.path();
    volume(
        path,
        &["create", "vg0/media", "-L", "40M", "--disks", "c.img"],
    );
    let remove = ["remove", "vg0/media", "a.img", "b.img", "c.img"];
    let words = [
        "several volume groups `vg0`",
        "with the ids",
        "write the id",
    ];
    assert_refused(path, &remove, &words);
    // With the disks of one of them it is clear which is meant.
    volume(path, &["remove", "vg0/media", "c.img"]);
}

#[test]
fn a_filesystem_is_not_cut() {
    if !requires::all(&[requires::command("mkfs.ext4")]) {
        return;
    }
    let folder = images(&DISKS);
    let path = folder.path();
    // A filesystem of 24 MiB within a volume of 40 MiB that begins with the first extent.
    volume(
        path,
        &[
            "create",
            "vg0/media",
            "-L",
            "40M",
            "--disks",
            "a.img",
            "b.img",
        ],
    );
    let reduce = |size| ["reduce", "vg0/media", "a.img", "b.img", "-L", size];
    assert_refused(path, &reduce("8M"), &["not known", "--force"]);
    let mkfs = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-E", "offset=1048576", "a.img", "24M"])
        .current_dir(path)
        .status();
    assert!(mkfs.expect("mkfs runs").success());
    let words = [
        "ext4",
        "25165824 bytes",
        "20971520 would be left",
        "--force",
    ];
    assert_refused(path, &reduce("20M"), &words);
    volume(path, &reduce("24M"));
    assert_refused(
        path,
        &["reduce", "vg0/media", "a.img", "b.img", "-L", "-1"],
        &["ext4"],
    );
    volume(
        path,
        &[
            "reduce",
            "vg0/media",
            "a.img",
            "b.img",
            "-L",
            "-4M",
            "--force",
        ],
    );
}

#[test]
fn what_the_command_line_alone_shows_to_be_wrong() {
    let folder = images(&DISKS);
    for (command, word) in [
        (&["create", "vg0/x", "-l", "1"][..], "--disks"),
        (&["create", "vg0/x", "--disks", "a.img"], "--size"),
        (
            &["create", "vg0", "-l", "1", "--disks", "a.img"],
            "vg0/VOLUME",
        ),
        (&["create", "vg0", "a.img"], "vg0/VOLUME"),
        (
            &["create", "vg0/x", "-l", "+1", "--disks", "a.img"],
            "relative",
        ),
        (
            &["create", "vg0/x", "-l", "1", "-s", "5M", "--disks", "a.img"],
            "power of two",
        ),
        (
            &["create", "vg0/x", "-l", "1", "--disks", "a.img", "a.img"],
            "twice",
        ),
        (&["status", "a.img"], "no physical volume"),
    ] {
        assert_refused(folder.path(), command, &[word]);
    }
}
