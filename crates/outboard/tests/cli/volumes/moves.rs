//! Extents that are moved to other disks.

use super::*;

const DISKS: [&str; 3] = ["a.img", "b.img", "c.img"];

/// A group `vg0` of three disks with the volume `media` of 40 MiB on the first, which holds a pattern.
fn group() -> (tempfile::TempDir, Vec<u8>) {
    let folder = images(&DISKS);
    let path = folder.path();
    let create = ["create", "vg0/media", "--size", "40M", "--disks"];
    volume(path, &[&create[..], &DISKS].concat());
    let content: Vec<u8> = (0..40_u32 << 20)
        .map(|at| (at / 4096 % 251) as u8)
        .collect();
    std::fs::write(path.join("content"), &content).expect("a file");
    let media = format!("volume({}, name=vg0/media)", DISKS.join(", "));
    answer(path, &["copy", "content", &media, "--force"]);
    (folder, content)
}

fn change(folder: &Path, words: &[&str]) -> String {
    volume(folder, &[words, &DISKS].concat())
}

fn areas_of_three(folder: &Path) -> Vec<(String, u64, u64)> {
    let status = json(folder, &[&["status"], &DISKS[..]].concat());
    let segments = status["groups"][0]["volumes"][0]["segments"].as_array();
    let area = |segment: &Value| {
        let area = &segment["areas"][0];
        let number = |field: &str| area["extents"][field].as_u64().expect("a number");
        let disk = area["on"].as_str().expect("a disk").to_owned();
        (disk, number("start"), number("count"))
    };
    segments.expect("segments").iter().map(area).collect()
}

#[test]
fn extents_go_to_other_disks_with_what_they_hold() {
    let (folder, content) = group();
    let path = folder.path();
    let dry = ["move", "vg0", "--from", "a.img", "--dry-run"];
    let before = bytes(path, "a.img");
    let printed = change(path, &dry);
    assert!(
        printed.contains("media  0-9  linear  b.img 0-9"),
        "{printed}"
    );
    assert!(bytes(path, "a.img") == before, "a dry run writes nothing");
    let moved = change(path, &["move", "vg0", "--from", "a.img", "--to", "c.img"]);
    assert!(
        moved.starts_with("vg0: 40.00 MiB (10 extents) moved away from a.img"),
        "{moved}"
    );
    assert_eq!(areas_of_three(path), [on("c.img", 0, 10)]);
    assert!(bytes(path, "c.img")[1 << 20..41 << 20] == content);
    // Two disks have room together, and the volume alone is named.
    let more = ["create", "vg0/more", "-L", "40M", "--on", "b.img"];
    change(path, &more);
    let words = [
        "move",
        "vg0/media",
        "--from",
        "c.img",
        "--to",
        "b.img",
        "--to",
        "a.img",
    ];
    let json = json(path, &[&words[..], &DISKS].concat());
    assert_eq!(json["after"]["volumes"][0]["extents"], 10);
    assert!(json["backup"].is_string(), "{json}");
    assert_eq!(areas_of_three(path), [on("a.img", 0, 10)]);
    change(path, &["remove-disk", "vg0", "--disk", "c.img"]);
    let check = volume(path, &["check", "a.img", "b.img"]);
    assert!(check.starts_with("vg0: good"), "{check}");
}

#[test]
fn what_cannot_be_moved_is_refused_and_nothing_is_written() {
    let (folder, _) = group();
    let path = folder.path();
    change(path, &["create", "vg0/full", "-L", "56M", "--on", "b.img"]);
    change(path, &["create", "vg0/most", "-L", "28M", "--on", "c.img"]);
    let before = bytes(path, "a.img");
    for (words, expected) in [
        (
            &["vg0", "--from", "a.img"][..],
            "10 extents are needed, but 9 are free (1 on b.img, 8 on c.img)",
        ),
        (
            &["vg0", "--from", "x.img"],
            "none of the disks of the group",
        ),
        (
            &["vg0/media", "--from", "b.img"],
            "the volume media has no extent on b.img",
        ),
        (&["vg0/none", "--from", "a.img"], "no volume none"),
        (&["vg0"], "no move of vg0 was interrupted"),
        (&["vg0", "--abort"], "no move of vg0 was interrupted"),
        (&["vg0", "--to", "a.img"], "--from"),
    ] {
        let line = refusal(path, &[&["move"], words, &DISKS[..]].concat());
        assert!(line.contains(expected), "{words:?}: {line}");
    }
    let line = refusal(path, &["move", "vg0", "a.img", "b.img", "--from", "a.img"]);
    assert!(line.contains("is missing"), "{line}");
    assert!(bytes(path, "a.img") == before);
}

/// A disk that fails writes behind its metadata: the move is begun, and interrupted.
fn interrupt(path: &Path) {
    let target = "fault(c.img, on=write, at=1M+60M)";
    let line = refusal(
        path,
        &[
            "move", "vg0", "a.img", "b.img", target, "--from", "a.img", "--to", target,
        ],
    );
    assert!(line.contains("without --from goes on"), "{line}");
}

#[test]
fn an_interrupted_move_is_resumed_or_ended() {
    for abort in [false, true] {
        let (folder, content) = group();
        let path = folder.path();
        interrupt(path);
        // Meanwhile the volume can be read, and is not changed in other ways.
        let media = format!("volume({}, name=vg0/media)", DISKS.join(", "));
        answer(path, &["copy", &media, "found", "--force"]);
        assert!(bytes(path, "found") == content);
        let line = refusal(
            path,
            &[&["extend", "vg0/media", "-l", "+1"], &DISKS[..]].concat(),
        );
        assert!(
            line.contains("LOCKED") && line.contains("volume move"),
            "{line}"
        );
        let line = refusal(
            path,
            &[&["move", "vg0", "--from", "b.img"], &DISKS[..]].concat(),
        );
        assert!(
            line.contains("a move away from a.img was interrupted"),
            "{line}"
        );
        let place = match abort {
            true => {
                let ended = change(path, &["move", "vg0", "--abort"]);
                assert!(ended.contains("40.00 MiB (10 extents) stay"), "{ended}");
                "a.img"
            }
            false => {
                change(path, &["move", "vg0"]);
                "c.img"
            }
        };
        assert_eq!(areas_of_three(path), [on(place, 0, 10)]);
        answer(path, &["copy", &media, "found", "--force"]);
        assert!(bytes(path, "found") == content);
        let status = change(path, &["status"]);
        assert!(!status.contains("pvmove"), "{status}");
    }
}
