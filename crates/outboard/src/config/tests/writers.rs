//! What an export says of its writers.

use std::path::Path;

use nbd::client::{DiskId, WriterPolicy};

use super::{assert_slip, plan};
use crate::config::changes;

fn export(disk: &str, keys: &str) -> String {
    format!("[[export]]\nname = \"a\"\ndisk = \"{disk}\"\n{keys}\n")
}

#[test]
fn an_export_has_one_writer_many_or_one_that_is_recorded() {
    for (disk, keys, policy, record) in [
        ("/srv/a.img", "", WriterPolicy::One, None),
        ("/srv/a.img", "writers = 1", WriterPolicy::One, None),
        ("/srv/a.img", "writers = \"many\"", WriterPolicy::Many, None),
        (
            "/srv/a.img",
            "single_writer = true",
            WriterPolicy::Fenced,
            Some("/srv/a.img.writer"),
        ),
        (
            "/srv/a.img",
            "single-writer = true\nwriters = 1\nwriter_file = \"/var/lib/a\"",
            WriterPolicy::Fenced,
            Some("/var/lib/a"),
        ),
        (
            "array(/dev/sda, /dev/sdb)",
            "single_writer = true\nwriter_file = \"/var/lib/a\"",
            WriterPolicy::Fenced,
            Some("/var/lib/a"),
        ),
    ] {
        let plan = plan(&export(disk, keys));
        let writers = &plan.exports[0].rules.writers;
        assert_eq!(writers.policy, policy, "{keys}");
        assert_eq!(writers.record.as_deref(), record.map(Path::new), "{keys}");
    }
}

#[test]
fn what_contradicts_itself_or_cannot_be_kept_is_refused() {
    let overlay = "overlay = \"per-client\"\noverlay_directory = \"/o\"\nsingle_writer = true";
    for (disk, keys, place, word) in [
        ("/a", "writers = 2", "line 4", "1 or \"many\""),
        ("/a", "writers = \"one\"", "line 4", "1 or \"many\""),
        (
            "/a",
            "writers = \"many\"\nsingle_writer = true",
            "line 2",
            "contradict",
        ),
        (
            "/a",
            "read_only = true\nsingle_writer = true",
            "line 2",
            "read-only",
        ),
        ("/a", overlay, "line 2", "overlays"),
        ("/a", "writer_file = \"/b\"", "line 2", "single_writer"),
        (
            "memory(1M)",
            "single_writer = true",
            "line 2",
            "writer_file",
        ),
        (
            "linear(/a, /b)",
            "single_writer = true",
            "line 2",
            "not one file",
        ),
        (
            "/dev/sda1",
            "single_writer = true",
            "line 2",
            "/dev/sda1.writer would be gone",
        ),
    ] {
        assert_slip(&export(disk, keys), place, word);
    }
    let two = ["a", "b"].map(|name| {
        export(
            &format!("/{name}"),
            "single_writer = true\nwriter_file = \"/w\"",
        )
        .replace("\"a\"", &format!("\"{name}\""))
    });
    assert_slip(
        &two.concat(),
        "line 7",
        "the same writer file as that of \"a\"",
    );
}

#[test]
fn other_writers_are_an_update_of_the_export() {
    let before = plan(&export("/a", ""));
    let after = plan(&export("/a", "single_writer = true"));
    let changes = changes(&before, &after);
    assert_eq!(changes.update, after.exports);
    assert!(changes.replace.is_empty() && changes.later.is_empty());
}

#[test]
fn copies_that_nothing_writes_may_have_an_identity_in_common() {
    let plan = plan(&export("/a", "read_only = true\nidentity = \"golden-7\""));
    let identity = plan.exports[0].rules.identity.as_ref();
    assert_eq!(identity.map(DiskId::as_str), Some("golden-7"));
    for (keys, word) in [
        ("identity = \"x\"", "read_only"),
        ("read_only = true\nidentity = \"\"", "printable"),
        ("read_only = true\nidentity = \"two words\"", "printable"),
    ] {
        let line = 4 + keys.matches('\n').count();
        assert_slip(&export("/a", keys), &format!("line {line}"), word);
    }
}
