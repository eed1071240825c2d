//! Volumes of RAID: created, renamed, removed, and read without a disk.

use rustix::process::Signal;

use super::super::Server;
use super::*;

const DISKS: [&str; 4] = ["a.img", "b.img", "c.img", "d.img"];

/// A group `vg0` of four disks.
fn group() -> tempfile::TempDir {
    let folder = images(&DISKS);
    volume(
        folder.path(),
        &[&["create", "vg0", "--disks"], &DISKS[..]].concat(),
    );
    folder
}

fn change(folder: &Path, words: &[&str]) -> String {
    volume(folder, &[words, &DISKS].concat())
}

/// Copies from or to the volume `name` of these disks.
fn expression(disks: &[&str], name: &str) -> String {
    format!("volume({}, name=vg0/{name})", disks.join(", "))
}

#[test]
fn volumes_with_copies_are_read_without_a_disk() {
    let folder = group();
    let path = folder.path();
    let created = change(path, &["create", "vg0/two", "-L", "8M", "--type", "raid1"]);
    assert!(
        created.starts_with("vg0/two: raid1, 8.00 MiB (2 extents)"),
        "{created}"
    );
    change(
        path,
        &["create", "vg0/three", "-m", "2", "-L", "8M", "--nosync"],
    );
    let striped = ["create", "vg0/ten", "-m", "1", "-i", "2", "-L", "8M"];
    assert!(change(path, &striped).starts_with("vg0/ten: raid10"));
    change(path, &["create", "vg0/none", "--type", "raid0", "-L", "8M"]);
    let content: Vec<u8> = (0..8_u32 << 20).map(|at| (at / 4096 % 251) as u8).collect();
    std::fs::write(path.join("content"), &content).expect("a file");
    for name in ["two", "three", "ten", "none"] {
        answer(
            path,
            &["copy", "content", &expression(&DISKS, name), "--force"],
        );
        let without: Vec<Vec<&str>> = (DISKS.iter())
            .map(|gone| DISKS.into_iter().filter(|disk| disk != gone).collect())
            .collect();
        for disks in without.iter().filter(|_| name != "none") {
            answer(
                path,
                &["copy", &expression(disks, name), "found", "--force"],
            );
            assert!(bytes(path, "found") == content, "{name} on {disks:?}");
        }
        answer(
            path,
            &["copy", &expression(&DISKS, name), "found", "--force"],
        );
        assert!(bytes(path, "found") == content, "{name}");
    }
    change(path, &["rename", "vg0/two", "films"]);
    answer(
        path,
        &[
            "copy",
            &expression(&DISKS[..1], "films"),
            "found",
            "--force",
        ],
    );
    assert!(bytes(path, "found") == content);
    for name in ["films", "three", "ten", "none"] {
        change(path, &["remove", &format!("vg0/{name}")]);
    }
    let status = change(path, &["status"]);
    assert!(!status.contains("volume "), "{status}");
}

/// Serves volumes until their first resync has ended: before, nothing can be computed of their parity.
fn resync(folder: &Path, disks: &[&str], names: &[&str]) {
    let export = |name: &&str| format!("{name}={}", expression(disks, name));
    let exports: Vec<String> = names.iter().map(export).collect();
    let mut serve = outboard(folder, &["serve", "--listen", "127.0.0.1:0"]);
    serve.args(&exports);
    let (mut server, _) = Server::start(serve);
    for name in names {
        answer(folder, &["array", "wait", name]);
    }
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

/// Disks of a group with volumes of every level with parity.
const FIVE: [&str; 5] = ["a.img", "b.img", "c.img", "d.img", "e.img"];

/// A group `vg0` of five disks with a volume of each, which is resynced unless it was created without.
fn with_parity() -> tempfile::TempDir {
    let folder = images(&FIVE);
    let path = folder.path();
    volume(path, &[&["create", "vg0", "--disks"], &FIVE[..]].concat());
    for (name, words, expected) in [
        (
            "four",
            &["--type", "raid4"][..],
            "raid4, 8.00 MiB (2 extents)",
        ),
        (
            "five",
            &["--type", "raid5", "-i", "4", "--stripesize", "16K"],
            "raid5, 16.00 MiB (4 extents)",
        ),
        (
            "fast",
            &["--type", "raid5", "--nosync"],
            "raid5, 8.00 MiB (2 extents)",
        ),
        ("six", &["--type", "raid6"], "raid6, 12.00 MiB (3 extents)"),
    ] {
        let name = format!("vg0/{name}");
        let created = volume(
            path,
            &[&["create", &name, "-L", "8M"], words, &FIVE].concat(),
        );
        assert!(
            created.starts_with(&format!("{name}: {expected}")),
            "{created}"
        );
    }
    resync(path, &FIVE, &["four", "five", "six"]);
    folder
}

#[test]
fn volumes_with_parity_are_written_and_lose_no_data_with_a_disk() {
    let folder = with_parity();
    let path = folder.path();
    let content = |seed: u32| -> Vec<u8> {
        (0..8_u32 << 20)
            .map(|at| ((at / 512 + seed) % 251) as u8)
            .collect()
    };
    let copy = |from: &str, to: &str| answer(path, &["copy", from, to, "--force"]);
    let assert_holds = |disks: &[&str], name: &str, content: &[u8]| {
        copy(&expression(disks, name), "found");
        let found = bytes(path, "found");
        assert!(found[..content.len()] == *content, "{name} on {disks:?}");
    };
    let without = |gone: &[&str]| -> Vec<&str> {
        FIVE.into_iter()
            .filter(|disk| !gone.contains(disk))
            .collect()
    };
    for name in ["four", "five", "fast", "six"] {
        std::fs::write(path.join("content"), content(0)).expect("a file");
        copy("content", &expression(&FIVE, name));
        for gone in FIVE {
            assert_holds(&without(&[gone]), name, &content(0));
        }
        // It is written while a disk is gone, and goes on without that when it is there again.
        std::fs::write(path.join("content"), content(7)).expect("a file");
        copy("content", &expression(&without(&["b.img"]), name));
        assert_holds(&FIVE, name, &content(7));
    }
    for gone in FIVE {
        assert_holds(&without(&["b.img", gone]), "six", &content(7));
    }
    volume(
        path,
        &[&["rename", "vg0/five", "films"], &FIVE[..]].concat(),
    );
    assert_holds(&FIVE, "films", &content(7));
    for name in ["four", "films", "fast", "six"] {
        volume(
            path,
            &[&["remove", &format!("vg0/{name}")], &FIVE[..]].concat(),
        );
    }
    let status = volume(path, &[&["status"], &FIVE[..]].concat());
    assert!(!status.contains("volume "), "{status}");
}

#[test]
fn what_earlier_volumes_left_is_no_metadata_of_a_new_one() {
    let folder = group();
    let path = folder.path();
    // The extents of the second volume's metadata have the first one's, which say that it is in sync.
    let create = |name: &str| change(path, &["create", name, "--type", "raid1", "-L", "8M"]);
    create("vg0/first");
    answer(path, &["disk", "create", "content", "8M"]);
    answer(
        path,
        &["copy", "content", &expression(&DISKS, "first"), "--force"],
    );
    change(path, &["remove", "vg0/first"]);
    let dry = [
        "create",
        "vg0/second",
        "--type",
        "raid1",
        "-L",
        "8M",
        "--dry-run",
    ];
    let before = bytes(path, "a.img");
    change(path, &dry);
    assert!(bytes(path, "a.img") == before, "a dry run writes nothing");
    assert!(before[1 << 20..].starts_with(b"DmRd"));
    create("vg0/second");
    let after = bytes(path, "a.img");
    assert!(after[1 << 20..5 << 20].iter().all(|byte| *byte == 0));
}

#[test]
fn what_is_no_volume_of_raid_is_refused() {
    let folder = group();
    let path = folder.path();
    for (words, expected) in [
        (&["--type", "raid5_ls"][..], "are created here"),
        (&["--type", "raid6"], "5 physical volumes are needed"),
        (&["--type", "raid6", "-i", "2"], "3 to 62 stripes, not 2"),
        (&["--type", "raid6", "--nosync"], "needs its first resync"),
        (&["--type", "raid5", "-m", "1"], "has no copies"),
        (&["--type", "raid5", "-i", "1"], "2 to 63 stripes, not 1"),
        (
            &["--type", "raid1", "-m", "4"],
            "5 physical volumes are needed",
        ),
        (&["--type", "raid1", "-m", "10"], "2 to 10 images"),
        (&["--type", "raid1", "-m", "0"], "2 to 10 images"),
        (&["--type", "raid1", "-i", "2"], "--type raid10 has them"),
        (&["--type", "raid10", "-m", "2"], "2 copies"),
        (
            &["--type", "raid10", "-i", "3"],
            "6 physical volumes are needed",
        ),
        (&["--type", "raid0", "-m", "1"], "--type raid10 has them"),
        (&["--type", "linear", "-i", "2"], "--type striped has them"),
        (&["--type", "mirror"], "are created here"),
        (&["--nosync"], "--type raid1 has them"),
        (&["-m", "1", "-R", "3M"], "a power of two"),
    ] {
        let create = ["create", "vg0/x", "-L", "8M"];
        let before = bytes(path, "a.img");
        let line = refusal(path, &[&create, words, &DISKS].concat());
        assert!(line.contains(expected), "{words:?}: {line}");
        assert!(bytes(path, "a.img") == before);
    }
    change(path, &["create", "vg0/m", "-m", "1", "-l", "100%FREE"]);
    let extend = [
        "extend", "vg0/m", "-l", "+1", "--on", "a.img", "--on", "b.img",
    ];
    for (words, expected) in [
        (&extend[..], "no space: 1 extents on each of 2"),
        (
            &["reduce", "vg0/m", "-l", "1"],
            "what vg0/m holds is not known",
        ),
    ] {
        let line = refusal(path, &[words, &DISKS].concat());
        assert!(line.contains(expected), "{line}");
    }
    let line = refusal(path, &[&["remove", "vg0/m_rimage_0"], &DISKS[..]].concat());
    assert!(line.contains("is used by m"), "{line}");
}

/// Fills the extents of disks with bytes that differ from one to the next: images of new areas are not equal by chance.
fn fill(folder: &Path, disks: &[&str]) {
    for (number, disk) in (1..).zip(disks) {
        let mut image = bytes(folder, disk);
        image[1 << 20..].fill(number);
        std::fs::write(folder.join(disk), image).expect("an image");
    }
}

#[test]
fn volumes_of_raid_get_another_size_and_are_in_sync_again() {
    let folder = images(&FIVE);
    let path = folder.path();
    volume(path, &[&["create", "vg0", "--disks"], &FIVE[..]].concat());
    fill(path, &FIVE);
    let content: Vec<u8> = (0..8_u32 << 20).map(|at| (at / 512 % 251) as u8).collect();
    std::fs::write(path.join("content"), &content).expect("a file");
    let all = |words: &[&str]| volume(path, &[words, &FIVE].concat());
    let read = |disks: &[&str]| {
        answer(path, &["copy", &expression(disks, "m"), "found", "--force"]);
        bytes(path, "found")
    };
    for kind in ["raid0", "raid1", "raid10", "raid4", "raid5", "raid6"] {
        let has_copies = kind != "raid0";
        all(&["create", "vg0/m", "-L", "8M", "--type", kind]);
        answer(
            path,
            &["copy", "content", &expression(&FIVE, "m"), "--force"],
        );
        let (size, expected) = match kind {
            "raid6" => ("24M", "24.00 MiB (6 extents), was 12.00 MiB (3 extents)"),
            _ => ("16M", "16.00 MiB (4 extents), was 8.00 MiB (2 extents)"),
        };
        // Twice to the same end: what was cut off and is there again is as new as what was never there.
        for turn in 0..2 {
            let extended = all(&["extend", "vg0/m", "-L", size]);
            assert!(extended.contains(expected), "{kind}: {extended}");
            if has_copies {
                resync(path, &FIVE, &["m"]);
            }
            let whole = read(&FIVE);
            assert!(whole[..content.len()] == content, "{kind}, {turn}");
            for gone in FIVE.iter().filter(|_| has_copies) {
                let disks: Vec<&str> = FIVE.into_iter().filter(|disk| disk != gone).collect();
                assert!(read(&disks) == whole, "{kind} without {gone}, {turn}");
            }
            all(&["reduce", "vg0/m", "-L", "8M", "--force"]);
            assert!(read(&FIVE)[..content.len()] == content, "{kind}, {turn}");
        }
        all(&["remove", "vg0/m"]);
    }
    assert!(all(&["check"]).starts_with("vg0: good"));
}

#[test]
fn a_share_of_the_free_extents_is_one_of_what_a_volume_of_raid_can_get() {
    let folder = group();
    let path = folder.path();
    change(path, &["create", "vg0/m", "-m", "1", "-L", "4M"]);
    let before = bytes(path, "a.img");
    let share = |share| {
        let on = ["--on", "a.img", "--on", "b.img"];
        [&["extend", "vg0/m", "-l", share], &on[..]].concat()
    };
    let shown = change(path, &[&share("100%FREE")[..], &["--dry-run"]].concat());
    assert!(shown.contains("m_rimage_1  0-13"), "{shown}");
    assert!(bytes(path, "a.img") == before);
    let extended = change(path, &share("50%FREE"));
    assert!(
        extended.starts_with("vg0/m: 28.00 MiB (7 extents)"),
        "{extended}"
    );
}

#[test]
fn a_volume_of_raid_that_lacks_an_image_keeps_its_size() {
    let folder = group();
    let path = folder.path();
    change(path, &["create", "vg0/m", "-m", "1", "-L", "8M"]);
    std::fs::write(path.join("content"), vec![7; 8 << 20]).expect("a file");
    let to = |disks: &[&str]| {
        let to = expression(disks, "m");
        answer(path, &["copy", "content", &to, "--force"]);
    };
    to(&DISKS);
    // It is written without its second image.
    to(&["a.img", "c.img", "d.img"]);
    let before = DISKS.map(|disk| bytes(path, disk));
    let line = refusal(
        path,
        &[&["extend", "vg0/m", "-L", "16M"], &DISKS[..]].concat(),
    );
    assert!(line.contains("images of m have failed"), "{line}");
    assert!(before == DISKS.map(|disk| bytes(path, disk)));
}

/// The array of a RAID volume was stopped with its export, and stayed so for the next one of the same volume, while another
/// export kept the group open.
#[test]
fn a_raid_volume_is_written_again_after_its_export_was_away() {
    let folder = group();
    let path = folder.path();
    change(path, &["create", "vg0/two", "-L", "8M", "--type", "raid1"]);
    change(path, &["create", "vg0/other", "-L", "4M"]);
    let head = "listen = [\"unix:s\"]\n";
    let export = |name: &str| {
        let disk = expression(&DISKS, name);
        format!("[[export]]\nname = \"{name}\"\ndisk = \"{disk}\"\n")
    };
    let configure = |exports: &[&str]| {
        let exports: Vec<String> = exports.iter().map(|name| export(name)).collect();
        std::fs::write(path.join("c.toml"), head.to_owned() + &exports.concat()).expect("a file");
    };
    configure(&["two", "other"]);
    let (mut server, _) = Server::start(outboard(path, &["serve", "--config", "c.toml"]));
    std::fs::write(path.join("content"), vec![7; 1 << 20]).expect("a file");
    let write = || {
        let uri = "nbd+unix:///two?socket=s";
        answer(path, &["copy", "content", uri, "--force"]);
    };
    write();
    configure(&["other"]);
    assert_eq!(answer(path, &["reload"]), "removed two\n");
    configure(&["two", "other"]);
    assert_eq!(answer(path, &["reload"]), "added two\n");
    write();

    // The same where a snapshot of it is merged.
    let snapshot = |words: &[&str]| volume(path, &[&["snapshot"], words].concat());
    snapshot(&["create", "vg0/two", "before", "--size", "8M"]);
    std::fs::write(path.join("content"), vec![8; 1 << 20]).expect("a file");
    write();
    snapshot(&["merge", "vg0/before"]);
    let merged = || {
        let list = snapshot(&["list"]);
        (!list.contains("before")).then_some(())
    };
    super::super::within_a_minute(merged);
    answer(path, &["copy", "nbd+unix:///two?socket=s", "found"]);
    assert!(
        bytes(path, "found")[..1 << 20]
            .iter()
            .all(|byte| *byte == 7)
    );
    write();
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    let status = change(path, &["status"]);
    assert!(!status.contains("dirty"), "{status}");
}
