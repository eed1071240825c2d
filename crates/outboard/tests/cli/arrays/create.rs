//! `array create`: what mdadm says of what it made, and that nothing is lost by it unasked.

use super::super::{answer, failure, run};
use super::{bytes, examine, has_mdadm, image, images, json, status, value};

#[test]
fn mdadm_reads_a_new_mirror_and_the_next_command_is_printed() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    let create = [
        "array", "create", "--level", "1", "--name", "media", "a.img", "b.img",
    ];
    let told = answer(path, &create);
    let (first, next) = told.split_once('\n').expect("lines");
    assert!(first.starts_with("media: raid1 of 2, "), "{told}");
    assert!(
        next.contains("outboard serve 'media=array(a.img, b.img)'"),
        "{told}"
    );
    let uuid = first.rsplit(' ').next().expect("a UUID");
    if !has_mdadm() {
        return;
    }
    for (number, member) in ["a.img", "b.img"].into_iter().enumerate() {
        let examined = examine(path, member);
        assert_eq!(value(&examined, "Array UUID"), uuid);
        assert_eq!(value(&examined, "Raid Level"), "raid1");
        assert_eq!(value(&examined, "Version"), "1.2");
        assert!(
            value(&examined, "Name")
                .split(' ')
                .next()
                .unwrap()
                .ends_with("media"),
            "{examined}"
        );
        assert_eq!(
            value(&examined, "Device Role"),
            format!("Active device {number}")
        );
        assert_eq!(
            value(&examined, "Array State").split(' ').next(),
            Some("AA")
        );
        assert!(
            value(&examined, "Internal Bitmap").contains("sectors"),
            "{examined}"
        );
        assert!(
            value(&examined, "Checksum").contains("correct"),
            "{examined}"
        );
    }
}

#[test]
fn level_5_has_partial_parity_logs_and_says_why_or_what_else_is_chosen() {
    let members = ["a.img", "b.img", "c.img"];
    let folder = images(&members);
    let path = folder.path();
    let create = |more: &[&'static str]| {
        [&["array", "create", "-l", "5", "--force"], more, &members].concat()
    };
    let told = answer(path, &create(&[]));
    let reason = "\nconsistency policy: ppl (a power cut and a lost member together ";
    assert!(told.contains(reason), "{told}");
    assert_eq!(status(path, &members)["ppl"], true);
    for (more, policy, field) in [
        (&[][..], "ppl", "PPL"),
        (&["-k", "ppl", "--bitmap", "none"], "ppl", "PPL"),
        (&["-k", "bitmap"], "bitmap", "Internal Bitmap"),
        (&["--bitmap", "64K"], "bitmap", "Internal Bitmap"),
        (&["-k", "resync"], "resync", "Bad Block Log"),
    ] {
        let made = json(path, &create(more));
        assert_eq!(made["consistency_policy"], policy, "{more:?}");
        if has_mdadm() {
            let examined = examine(path, "b.img");
            assert!(value(&examined, field).contains("sectors"), "{examined}");
        }
    }
    let (status, told) = failure(path, &create(&["-k", "ppl", "--bitmap", "internal"]));
    assert_eq!(status, Some(2));
    assert!(told.contains("contradict each other"), "{told}");
    let mirror = [
        "array", "create", "-l", "1", "--force", "-k", "ppl", "a.img", "b.img",
    ];
    let (status, told) = failure(path, &mirror);
    assert_eq!(status, Some(1));
    assert!(told.contains("raid1 has no partial parity logs"), "{told}");
}

#[test]
fn every_level_and_kind_of_superblock_is_read_by_mdadm() {
    if !has_mdadm() {
        return;
    }
    let cases: [(&[&str], &str, &str); 12] = [
        (&["-l", "1", "-e", "1.0"], "raid1", "1.0"),
        (
            &["-l", "1", "-e", "1.1", "--bitmap", "none"],
            "raid1",
            "1.1",
        ),
        (&["-l", "1", "-e", "0.90"], "raid1", "0.90.00"),
        (&["-l", "10"], "raid10", "1.2"),
        (
            &["-l", "10", "--layout", "f2", "--chunk", "64K"],
            "raid10",
            "1.2",
        ),
        (
            &["-l", "10", "--layout", "o2", "--bitmap", "8M"],
            "raid10",
            "1.2",
        ),
        (&["-l", "4", "-e", "1.1"], "raid4", "1.1"),
        (&["-l", "5"], "raid5", "1.2"),
        (
            &["-l", "5", "-e", "0.90", "--layout", "ra"],
            "raid5",
            "0.90.00",
        ),
        (
            &["-l", "6", "--layout", "ddf-N-continue", "--chunk", "64K"],
            "raid6",
            "1.2",
        ),
        (&["-l", "0", "--chunk", "64K"], "raid0", "1.2"),
        (&["-l", "linear"], "linear", "1.2"),
    ];
    for (arguments, level, version) in cases {
        let members = ["a.img", "b.img", "c.img", "d.img"];
        let folder = images(&members);
        let create = [&["array", "create"], arguments, &members].concat();
        json(folder.path(), &create);
        for member in members {
            let examined = examine(folder.path(), member);
            assert_eq!(value(&examined, "Raid Level"), level, "{arguments:?}");
            assert_eq!(value(&examined, "Version"), version, "{arguments:?}");
            let checksum = value(&examined, "Checksum");
            assert!(checksum.contains("correct"), "{arguments:?}: {examined}");
        }
    }
}

#[test]
fn a_member_may_come_later_and_another_wait_as_a_spare() {
    let folder = images(&["a.img", "s.img"]);
    let create = [
        "array",
        "create",
        "-l",
        "1",
        "a.img",
        "missing",
        "--assume-clean",
    ];
    let told = answer(folder.path(), &create);
    assert!(told.contains("raid1 of 2, 1 missing, "), "{told}");
    let create = [
        "array", "create", "-l", "1", "--force", "a.img", "missing", "--spare", "s.img",
    ];
    let made = json(folder.path(), &create);
    assert_eq!(made["spares"], serde_json::json!(["s.img"]));
    if has_mdadm() {
        assert_eq!(
            value(&examine(folder.path(), "s.img"), "Device Role"),
            "spare"
        );
        let state = examine(folder.path(), "a.img");
        assert_eq!(value(&state, "Array State").split(' ').next(), Some("A."));
    }
}

#[test]
fn with_parity_a_member_may_come_later_and_the_rest_is_usable() {
    let names = ["a.img", "b.img", "c.img", "d.img"];
    let folder = images(&names);
    let path = folder.path();
    let create = ["array", "create", "-l", "5", "a.img", "missing", "c.img"];
    let told = answer(path, &create);
    assert!(told.contains("raid5 of 3, 1 missing, "), "{told}");
    let report = status(path, &["a.img", "c.img"]);
    assert_eq!(
        (&report["clean"], &report["working"]),
        (&true.into(), &2.into())
    );
    // Of level 6 the last one begins as a spare, and holds its part once it was rebuilt.
    let create = [
        "array", "create", "-l", "6", "--force", "a.img", "missing", "c.img", "d.img",
    ];
    let output = run(path, &create);
    let warned = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        warned.contains("d.img begins as a spare, and is rebuilt"),
        "{warned}"
    );
    let members = ["a.img", "c.img", "d.img"];
    let report = status(path, &members);
    assert_eq!(super::state_of(&report, "d.img"), "spare");
    answer(path, &[&["array", "wait"], &members[..]].concat());
    let report = status(path, &members);
    assert_eq!(super::state_of(&report, "d.img"), "in_sync");
    assert_eq!(
        (&report["clean"], &report["working"]),
        (&true.into(), &3.into())
    );
    if has_mdadm() {
        let state = examine(path, "d.img");
        assert_eq!(value(&state, "Array State").split(' ').next(), Some("AAA."));
    }
}

#[test]
fn a_disk_that_holds_something_is_left_as_it_is_unless_forced() {
    if !testkit::requires::all(&[testkit::requires::command("blkid")]) {
        return;
    }
    let folder = images(&["a.img"]);
    let path = folder.path();
    answer(
        path,
        &["disk", "create", "swap.img", "16M", "--part", "rest:linux"],
    );
    let create = ["array", "create", "-l", "1", "a.img", "swap.img"];
    let before = [bytes(path, "a.img"), bytes(path, "swap.img")];
    let (status, told) = failure(path, &create);
    assert_eq!(status, Some(1));
    assert_eq!(
        told,
        "outboard: swap.img is not empty, it holds a partition table (gpt); nothing was changed; --force overwrites it"
    );
    assert!(
        [bytes(path, "a.img"), bytes(path, "swap.img")] == before,
        "something was written"
    );
    answer(path, &[&create[..], &["--force"]].concat());
    // Now it is a member.
    image(path, "b.img", super::MEMBER);
    let (_, told) = failure(path, &["array", "create", "-l", "1", "b.img", "a.img"]);
    assert!(
        told.contains("a.img is not empty, it holds a superblock of the array array ("),
        "{told}"
    );
}

#[test]
fn what_makes_no_array_is_one_line_and_writes_nothing() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    image(path, "tiny.img", 64 << 10);
    let before = [bytes(path, "a.img"), bytes(path, "b.img")];
    let cases: [(&[&str], i32, &str); 15] = [
        (&["-l", "1", "a.img", "a.img"], 2, "a.img is named twice"),
        (
            &["-l", "1", "a.img", "./a.img"],
            1,
            "would be written by two disks",
        ),
        (&["-l", "5", "a.img"], 1, "raid5 needs at least two members"),
        (
            &["-l", "6", "a.img", "b.img", "missing"],
            1,
            "raid6 needs at least four members",
        ),
        (
            &["-l", "5", "--layout", "n2", "a.img", "b.img"],
            2,
            "raid5 has no layout `n2`; known are left-asymmetric, ",
        ),
        (
            &["-l", "4", "--layout", "ls", "a.img", "b.img"],
            2,
            "raid4 has no layouts; leave --layout away",
        ),
        (
            &["-l", "5", "--chunk", "96K", "a.img", "b.img"],
            1,
            "a chunk of 98304 bytes cannot be",
        ),
        (&["-l", "1", "missing", "missing"], 1, "missing"),
        (&["-l", "0", "a.img", "missing"], 1, "missing"),
        (&["-l", "1", "a.img", "tiny.img"], 1, "tiny.img"),
        (
            &["-l", "1", "a.img", "none.img"],
            1,
            "none.img does not exist",
        ),
        (
            &["-l", "1", "--layout", "f2", "a.img", "b.img"],
            2,
            "has no layouts",
        ),
        (&["-l", "10", "--chunk", "3K", "a.img", "b.img"], 1, "chunk"),
        (
            &["-l", "1", "--name", "x:y", "a.img", "b.img"],
            2,
            "is no name of an array",
        ),
        (&["-l", "1", "--size", "1T", "a.img", "b.img"], 1, "a.img"),
    ];
    for (arguments, code, expected) in cases {
        let (status, told) = failure(path, &[&["array", "create"], arguments].concat());
        assert_eq!(status, Some(code), "{arguments:?}: {told}");
        assert!(told.contains(expected), "{arguments:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{arguments:?}: {told}");
    }
    assert!(
        [bytes(path, "a.img"), bytes(path, "b.img")] == before,
        "something was written"
    );
}

#[test]
fn a_disk_that_is_being_served_does_not_become_a_member() {
    let folder = images(&["a.img", "b.img"]);
    let serve = ["serve", "--listen", "unix:s", "a.img"];
    let (_server, _) = super::Server::start(super::outboard(folder.path(), &serve));
    let create = ["array", "create", "-l", "1", "a.img", "b.img"];
    let (status, told) = failure(folder.path(), &create);
    assert_eq!(status, Some(1));
    assert!(
        told.contains("a.img is already open for writing by process"),
        "{told}"
    );
    let output = run(folder.path(), &["inspect", "b.img"]);
    assert!(
        !String::from_utf8_lossy(&output.stdout).contains("raid"),
        "it was written"
    );
}

#[test]
fn a_dirty_array_that_lacks_a_member_lists_where_it_may_be_wrong() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    let create = [
        "array", "create", "--level", "5", "--name", "media", "-c", "64K",
    ];
    let policy = ["-k", "bitmap", "a.img", "b.img", "c.img"];
    // Its parity was never computed.
    answer(path, &[&create[..], &policy].concat());
    let members = ["a.img", "c.img"];
    let report = status(path, &members);
    let chunk = 64 << 10;
    // Rows in which b has data, not parity: two of three.
    let rows = report["size"].as_u64().expect("a size") / (2 * chunk);
    let untrusted = &report["untrusted"];
    let count = untrusted["count"].as_u64().expect("a count");
    assert!(count.abs_diff(rows * 2 / 3) <= 1, "{rows} rows: {report}");
    assert_eq!(untrusted["bytes"].as_u64(), Some(count * chunk));
    let first = &untrusted["places"][0];
    assert_eq!(first["len"].as_u64(), Some(chunk), "{report}");
    let text = answer(path, &[&["array", "status"], &members[..]].concat());
    assert!(text.contains("may be wrong"), "{text}");
    let array = json(path, &[&["inspect"], &members[..]].concat())["arrays"][0].clone();
    assert_eq!(array["untrusted"], *untrusted, "{array}");
    let text = answer(path, &[&["inspect"], &members[..]].concat());
    assert!(text.contains("read by force, it may be wrong: "), "{text}");
}
