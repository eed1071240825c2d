//! Commands on arrays that no process has open, by their members: the command opens the array and closes it clean.

use super::super::{answer, failure, within_a_minute};
use super::{assert_clean, bytes, image, images, json, mirror, state_of, status};

#[test]
fn a_disk_is_added_and_synced_before_the_command_ends() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    let create = [
        "array", "create", "-l", "1", "--name", "media", "a.img", "missing",
    ];
    answer(path, &create);
    let told = answer(
        path,
        &["array", "add", "a.img", "missing", "--disk", "b.img"],
    );
    assert!(told.contains("complete, clean"), "{told}");
    assert_clean(path, &["a.img", "b.img"]);
    let report = status(path, &["a.img", "b.img"]);
    assert_eq!(state_of(&report, "b.img"), "in_sync");
}

#[test]
fn pending_work_is_done_by_the_next_command_that_opens_the_array() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    answer(path, &["array", "create", "-l", "1", "a.img", "missing"]);
    let add = [
        "array",
        "add",
        "a.img",
        "missing",
        "--disk",
        "b.img",
        "--no-wait",
    ];
    answer(path, &add);
    let told = answer(path, &["array", "wait", "a.img", "b.img"]);
    assert!(told.contains("complete, clean"), "{told}");
    assert_clean(path, &["a.img", "b.img"]);
}

#[test]
fn a_member_that_failed_comes_back() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    answer(path, &["array", "wait", "a.img", "b.img"]);
    let told = answer(
        path,
        &["array", "fail", "a.img", "b.img", "--member", "b.img"],
    );
    assert!(told.contains("degraded: 1 of 2"), "{told}");
    let told = answer(path, &["array", "re-add", "a.img", "--disk", "b.img"]);
    assert!(told.contains("complete, clean"), "{told}");
    assert_clean(path, &["a.img", "b.img"]);
}

#[test]
fn a_difference_is_found_reported_and_repaired() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    answer(path, &["array", "wait", "a.img", "b.img"]);
    // A disk that has changed by itself.
    let mut damaged = bytes(path, "b.img");
    let at = damaged.len() - (4 << 20);
    damaged[at..at + 512].fill(9);
    std::fs::write(path.join("b.img"), damaged).expect("an image");

    let found = json(path, &["array", "scrub", "a.img", "b.img"]);
    let scrubbed = &found["scrubbed"];
    assert!(
        scrubbed["mismatches"]
            .as_u64()
            .is_some_and(|count| count > 0),
        "{found}"
    );
    assert!(scrubbed["places"][0]["offset"].is_u64(), "{found}");
    assert_eq!(scrubbed["repaired"], false);
    let told = answer(path, &["array", "scrub", "--repair", "a.img", "b.img"]);
    assert!(told.contains("differed and were repaired, at "), "{told}");
    let told = answer(path, &["array", "scrub", "a.img", "b.img"]);
    assert!(told.contains("all copies are identical"), "{told}");
}

#[test]
fn a_mirror_grows_to_three() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    answer(path, &["array", "add", "a.img", "b.img", "--disk", "c.img"]);
    let members = ["a.img", "b.img", "c.img"];
    let report = json(
        path,
        &[&["array", "grow", "--copies", "3"], &members[..]].concat(),
    );
    assert_eq!(report["parts"], 3, "{report}");
    assert_eq!(report["working"], 3, "{report}");
    assert_clean(path, &members);
}

/// Makes a mirror of two images and writes to each alone.
pub(super) fn write_apart(path: &std::path::Path) {
    mirror(path, &["a.img", "b.img"]);
    answer(path, &["array", "wait", "a.img", "b.img"]);
    for half in ["a.img", "b.img"] {
        let other = if half == "a.img" { "b.img" } else { "a.img" };
        std::fs::rename(path.join(other), path.join("away")).expect("a file");
        answer(path, &["array", "wait", half, "--run"]);
        let serve = format!("films=array({half}, missing)");
        let (mut server, line) = super::Server::start(super::outboard(
            path,
            &["serve", "--listen", "127.0.0.1:0", &serve],
        ));
        let uri = line.split_whitespace().next().expect("a URI");
        let stream = super::super::serve::connect(uri);
        let mut session = super::super::sockets::NbdSession::open(stream, "films").expect("served");
        session
            .write(&[half.as_bytes()[0]; 4096])
            .expect("it is written");
        server.signal(rustix::process::Signal::TERM);
        assert_eq!(server.ended().code(), Some(0));
        std::fs::rename(path.join("away"), path.join(other)).expect("a file");
    }
}

#[test]
fn two_halves_that_were_written_apart_are_refused_and_one_is_preferred() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    write_apart(path);
    let before = [bytes(path, "a.img"), bytes(path, "b.img")];
    let (code, told) = failure(path, &["array", "wait", "a.img", "b.img"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("a.img") && told.contains("b.img") && told.contains("prefer"),
        "{told}"
    );
    assert!(
        [bytes(path, "a.img"), bytes(path, "b.img")] == before,
        "something was written"
    );
    let wait = ["array", "wait", "a.img", "b.img", "--prefer", "b.img"];
    let told = answer(path, &wait);
    assert!(told.contains("complete, clean"), "{told}");
    let data = |name: &str| {
        bytes(path, name)
            .windows(4096)
            .step_by(512)
            .any(|w| w == [b'b'; 4096])
    };
    assert!(data("a.img") && data("b.img"), "the preferred half counts");
    assert_clean(path, &["a.img", "b.img"]);
}

#[test]
fn a_refused_change_is_reported_and_the_array_is_closed_clean() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    answer(path, &["array", "wait", "a.img", "b.img"]);
    image(path, "small.img", 1 << 20);
    for (arguments, expected) in [
        (
            &["fail", "a.img", "b.img", "--member", "c.img"][..],
            "media has no member c.img; its members are a.img, b.img",
        ),
        (&["remove", "a.img", "b.img", "--member", "b.img"], "b.img"),
        (
            &["add", "a.img", "b.img", "--disk", "small.img"],
            "small.img",
        ),
        (
            &["add", "a.img", "b.img", "--disk", "b.img"],
            "b.img is a member already",
        ),
        (&["stop", "a.img", "b.img"], "nothing is to be stopped"),
        (
            &["scrub", "--stop", "a.img", "b.img"],
            "a scrub of members ends with Ctrl-C",
        ),
        (
            &["status", "a.img", "b.img", "--prefer", "c.img"],
            "--prefer c.img: it is none of the members",
        ),
    ] {
        let (_, told) = failure(path, &[&["array"], arguments].concat());
        assert!(told.contains(expected), "{arguments:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{arguments:?}: {told}");
        assert_clean(path, &["a.img", "b.img"]);
    }
}

/// The bug: an interrupted sync lost all progress since its last checkpoint, which is most of it with a slow member.
#[test]
fn a_sync_that_is_interrupted_goes_on_where_it_was() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    let create = [
        "array", "create", "--level", "1", "--bitmap", "none", "a.img", "b.img",
    ];
    answer(path, &create);
    // What is copied first is known by what it was before.
    let begin = 2 << 20;
    spoil(path, "b.img", begin);
    let slow = "throttle(b.img, bytes=4M/s)";
    let mut wait = super::Server::start_quiet(&mut super::outboard(
        path,
        &["array", "wait", "a.img", slow],
    ));
    within_a_minute(|| (bytes(path, "b.img")[begin] == 0).then_some(()));
    wait.signal(rustix::process::Signal::INT);
    assert_eq!(wait.ended().code(), Some(1));
    // Beyond the checkpoint nothing was copied.
    let report = status(path, &["a.img", "b.img"]);
    assert_eq!(report["clean"], false, "{report}");
    spoil(path, "b.img", begin);
    let told = answer(path, &["array", "wait", "a.img", "b.img"]);
    assert!(told.contains("complete, clean"), "{told}");
    assert_eq!(bytes(path, "b.img")[begin], 0xee, "it was copied again");
}

/// Writes something to a sector of an image.
fn spoil(folder: &std::path::Path, image: &str, at: usize) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options()
        .write(true)
        .open(folder.join(image));
    let file = file.expect("an image");
    file.write_all_at(&[0xee; 512], u64::try_from(at).expect("small"))
        .expect("room");
}

/// `add` copied over a half that had gone on alone, right after `re-add` had refused it.
#[test]
fn a_half_with_data_of_its_own_is_added_only_by_force() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    write_apart(path);
    let before = bytes(path, "b.img");
    let add = ["array", "add", "a.img", "missing", "--disk", "b.img"];
    let (code, told) = failure(path, &add);
    assert_eq!(code, Some(1), "{told}");
    for expected in [
        "b.img has data of its own",
        "b.img without a.img (",
        "a.img without b.img (",
        " events, last written 2",
        " UTC, 1 of 1 chunks changed by its bitmap",
        "--force overwrites it",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let output = super::super::run(path, &[&add[..], &["--json"]].concat());
    let error: serde_json::Value = serde_json::from_slice(&output.stdout)
        .or_else(|_| serde_json::from_slice(&output.stderr))
        .expect("an error as JSON");
    let what = error["error"].as_str().expect("a text");
    assert!(what.contains("b.img has data of its own"), "{error}");
    let re_add = ["array", "re-add", "a.img", "missing", "--disk", "b.img"];
    let (_, told) = failure(path, &re_add);
    assert!(told.contains("b.img has data of its own"), "{told}");
    assert!(bytes(path, "b.img") == before, "b.img was written");
    let told = answer(path, &[&add[..], &["--force"]].concat());
    assert!(told.contains("complete, clean"), "{told}");
    assert_clean(path, &["a.img", "b.img"]);
}

/// The status of an array that was never resynced was "complete, in use", and a scrub of it was refused with words of
/// something that had not begun.
#[test]
fn an_array_that_was_never_resynced_says_so() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    let members = ["a.img", "b.img"];
    let report = status(path, &members);
    assert_eq!(report["resync_pending"], true, "{report}");
    let told = answer(path, &[&["array", "status"], &members[..]].concat());
    assert!(told.contains("complete, resync pending"), "{told}");
    assert!(told.contains("in sync, resync pending"), "{told}");
    let (_, told) = failure(path, &[&["array", "scrub"], &members[..]].concat());
    assert!(
        told.contains("a resync is pending or under way") && told.contains("array wait"),
        "{told}"
    );
    answer(path, &[&["array", "wait"], &members[..]].concat());
    let report = status(path, &members);
    assert_eq!(report["resync_pending"], false, "{report}");
}

/// `inspect` said "complete, not clean" of a new array where `array status` said that a resync is pending.
#[test]
fn inspect_reports_a_pending_resync_of_an_idle_array() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    let members = ["a.img", "b.img"];
    let inspect = [&["inspect"], &members[..]].concat();
    mirror(path, &members);
    let array = json(path, &inspect)["arrays"][0].clone();
    assert_eq!(array["resync_pending"], true, "{array}");
    let text = answer(path, &inspect);
    assert!(
        text.contains("complete, resync pending, bitmap")
            || text.contains("not clean, resync pending"),
        "{text}"
    );
    answer(path, &[&["array", "wait"], &members[..]].concat());
    let array = json(path, &inspect)["arrays"][0].clone();
    assert_eq!(array["resync_pending"], false, "{array}");
    assert_eq!(array["clean"], true, "{array}");
    let text = answer(path, &inspect);
    assert!(text.contains("complete, clean"), "{text}");
    assert!(!text.contains("resync pending"), "{text}");
}

/// `copy` onto an array ended without stopping the array: its superblocks said that writes were in flight, and the next start
/// resynced it. The same where the copy failed, and where an overlay was committed to an array.
#[test]
fn a_copy_onto_an_array_leaves_it_clean() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    let array = "array(a.img, b.img)";
    image(path, "source.img", 4 << 20);
    std::fs::write(path.join("source.img"), vec![7; 4 << 20]).expect("an image");
    let create = [
        "array",
        "create",
        "--level",
        "1",
        "--assume-clean",
        "--bitmap",
        "none",
    ];
    let is_clean = || json(path, &["inspect", "a.img", "b.img"])["arrays"][0]["clean"] == true;
    answer(path, &[&create[..], &["a.img", "b.img"]].concat());
    assert!(is_clean(), "after it was made");
    answer(path, &["copy", "--force", "source.img", array]);
    assert!(is_clean(), "after a copy");
    let failing = [
        "copy",
        "--force",
        "--requests",
        "1",
        "linear(source.img, error(1M))",
        array,
    ];
    let (_, told) = failure(path, &failing);
    assert!(
        told.contains("cannot read") && told.contains("4.00 MiB of"),
        "{told}"
    );
    assert!(is_clean(), "after a copy that failed");
    let overlay = format!("overlay({array}, top.cow)");
    answer(path, &["copy", "--force", "source.img", &overlay]);
    answer(path, &["overlay", "commit", "top.cow", array]);
    assert!(is_clean(), "after an overlay was committed");
}

#[test]
fn a_spare_takes_the_place_of_a_member_that_works() {
    let folder = images(&["a.img", "b.img", "c.img", "d.img"]);
    let path = folder.path();
    let create = [
        "array", "create", "-l", "5", "--name", "media", "a.img", "b.img", "c.img",
    ];
    answer(path, &create);
    let members = ["a.img", "b.img", "c.img"];
    let with = |command: &str, more: &[&str]| {
        let arguments = [&["array", command], &members[..], more].concat();
        answer(path, &arguments)
    };
    with("add", &["--disk", "d.img"]);
    let all = ["a.img", "b.img", "c.img", "d.img"];
    let replace = ["--member", "b.img", "--with", "d.img"];
    let report = json(path, &[&["array", "replace"], &all[..], &replace].concat());
    assert_eq!(report["working"], 3, "{report}");
    assert_eq!(state_of(&report, "d.img"), "in_sync");
    assert_eq!(state_of(&report, "b.img"), "failed");
    let why = report["members"].as_array().expect("members").iter();
    let why: Vec<&str> = why.filter_map(|member| member["why"].as_str()).collect();
    assert_eq!(why, ["d.img took its place"]);
    // It is not needed any more, and does not come back.
    let left = ["a.img", "c.img", "d.img"];
    assert_eq!(status(path, &left)["working"], 3);
    let (_, refused) = failure(
        path,
        &[&["array", "re-add"], &left[..], &["--disk", "b.img"]].concat(),
    );
    assert!(
        refused.contains("b.img cannot come back as it is"),
        "{refused}"
    );
}

#[test]
fn a_copy_of_a_member_is_continued_by_the_next_command_and_ended_by_fail() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    answer(path, &["array", "wait", "a.img", "b.img"]);
    answer(path, &["array", "add", "a.img", "b.img", "--disk", "c.img"]);
    let all = ["a.img", "b.img", "c.img"];
    let begin = [
        &["array", "replace"],
        &all[..],
        &["--member", "a.img", "--no-wait"],
    ]
    .concat();
    let report = json(path, &begin);
    assert_eq!(state_of(&report, "c.img"), "replacement", "{report}");
    assert_eq!(state_of(&report, "a.img"), "in_sync");
    let told = answer(path, &[&["inspect"], &all[..]].concat());
    assert!(told.contains("to replace another member"), "{told}");
    let fail = [&["array", "fail"], &all[..], &["--member", "c.img"]].concat();
    let report = json(path, &fail);
    assert_eq!(state_of(&report, "c.img"), "failed", "{report}");
    assert_eq!(report["working"], 2);

    let again = [&["array", "add"], &all[..2], &["--disk", "c.img"]].concat();
    answer(path, &again);
    answer(path, &begin);
    let report = json(path, &[&["array", "wait"], &all[..]].concat());
    assert_eq!(state_of(&report, "c.img"), "in_sync", "{report}");
    assert_eq!(state_of(&report, "a.img"), "failed");
    assert_clean(path, &["b.img", "c.img"]);
}

#[test]
fn what_cannot_be_replaced_is_refused_by_name() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    answer(path, &["array", "wait", "a.img", "b.img"]);
    let replace = |members: &[&str], more: &[&str]| {
        let (code, refused) = failure(path, &[&["array", "replace"], members, more].concat());
        assert_eq!(code, Some(1), "{refused}");
        refused
    };
    let refused = replace(&["a.img", "b.img"], &["--member", "a.img"]);
    assert!(refused.contains("the array has no spare"), "{refused}");
    let refused = replace(
        &["a.img", "b.img"],
        &["--member", "a.img", "--with", "b.img"],
    );
    assert!(refused.contains("b.img is no spare"), "{refused}");
    answer(path, &["array", "add", "a.img", "b.img", "--disk", "c.img"]);
    let all = ["a.img", "b.img", "c.img"];
    let refused = replace(&all, &["--member", "c.img"]);
    assert!(refused.contains("c.img is not in sync"), "{refused}");

    let old = images(&["a.img", "b.img", "c.img"]);
    let create = [
        "array",
        "create",
        "-l",
        "1",
        "--metadata",
        "0.90",
        "a.img",
        "b.img",
    ];
    answer(old.path(), &create);
    answer(
        old.path(),
        &["array", "add", "a.img", "b.img", "--disk", "c.img"],
    );
    let (_, refused) = failure(
        old.path(),
        &[&["array", "replace"], &all[..], &["--member", "a.img"]].concat(),
    );
    assert!(
        refused.contains("superblocks 0.90 do not record"),
        "{refused}"
    );
}

#[test]
fn a_stripe_gets_parity_and_gives_it_up_again() {
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    let [a, b, c] = ["a.img", "b.img", "c.img"];
    answer(path, &["array", "create", "-l", "0", "-c", "64K", a, b]);
    let printed = answer(path, &["array", "grow", a, b, "--level", "5"]);
    assert!(printed.contains("raid5 (parity-last) of 3"), "{printed}");
    assert!(printed.contains("degraded: 2 of 3"), "{printed}");
    answer(path, &["array", "add", a, b, "--disk", c]);
    assert_clean(path, &[a, b, c]);
    let (_, printed) = failure(path, &["array", "grow", a, b, c, "--level", "6"]);
    assert!(printed.contains("add disks first (add)"), "{printed}");
    let printed = answer(path, &["array", "grow", a, b, c, "--level", "0"]);
    assert!(printed.contains("raid0 of 2"), "{printed}");
    let (_, printed) = failure(path, &["array", "status", a, b, c]);
    assert!(printed.contains("c.img has no md superblock"), "{printed}");
    let report = status(path, &[a, b]);
    assert_eq!(report["level"], "raid0", "{report}");
}
