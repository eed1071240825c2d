//! `attach`, `status` and `detach` without an attachment, and without the privilege to attach. Attachments themselves
//! are tested in the crate `attach`.

use std::path::Path;

use testkit::requires;

use super::{answer, failure, run, within_a_minute};

/// Takes down what a test that failed half way left attached.
struct TakenDown<'a>(&'a Path);

impl Drop for TakenDown<'_> {
    fn drop(&mut self) {
        drop(run(self.0, &["detach", "--all", "--force"]));
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn nothing_attached_is_no_failure() {
    let folder = folder();
    assert_eq!(answer(folder.path(), &["status"]), "nothing is attached\n");
    let nothing = "{\"attachments\":[],\"servers\":[]}\n";
    assert_eq!(answer(folder.path(), &["status", "--json"]), nothing);
    assert_eq!(answer(folder.path(), &["detach", "--all"]), "");
}

#[test]
fn what_is_not_attached_cannot_be_detached() {
    let folder = folder();
    let (status, told) = failure(folder.path(), &["detach", "/mnt/none"]);
    assert_eq!(status, Some(1));
    assert!(
        told.starts_with("outboard: /mnt/none: not attached here; "),
        "{told}"
    );
}

#[test]
fn a_disk_that_is_not_there_is_one_clear_line_and_leaves_nothing() {
    if !requires::all(&[requires::root()]) {
        return;
    }
    let folder = folder();
    for disk in ["none.img", "nbd+unix:///x?socket=none"] {
        let (status, told) = failure(folder.path(), &["attach", disk]);
        assert_eq!(status, Some(1), "{told}");
        assert!(told.contains("none"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        let left: Vec<_> = std::fs::read_dir(folder.path())
            .expect("the folder")
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_local_disk_is_attached_shown_and_detached() {
    let needs = [requires::root(), requires::fuse(), requires::loop_device()];
    if !requires::all(&needs) {
        return;
    }
    let folder = folder();
    let _taken_down = TakenDown(folder.path());
    let device = answer(folder.path(), &["attach", "memory(16M)", "--via", "fuse"]);
    let device = device.trim_end();
    assert!(device.starts_with("/dev/loop"), "{device}");
    let row = [device, "-", "16M", "fuse", "memory(16M)", "connected"];
    // On a busy disk its owner may be too busy to answer at once.
    within_a_minute(|| {
        let shown = answer(folder.path(), &["status"]);
        let shown = shown.lines().nth(1).expect("a row below the head");
        shown.split_whitespace().eq(row).then_some(())
    });
    let detached = run(folder.path(), &["detach", device, "--json"]);
    assert!(detached.status.success(), "{detached:?}");
    let told: serde_json::Value = serde_json::from_slice(&detached.stdout).expect("JSON");
    assert_eq!(told["device"], device);
    assert_eq!(told["lost"].as_array().map(Vec::len), Some(0));
    assert_eq!(answer(folder.path(), &["status"]), "nothing is attached\n");
}
