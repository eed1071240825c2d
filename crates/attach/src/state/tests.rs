//! Tests of the runtime directory and the record.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::format::{DeviceDriver, MountPlace, ProcessId, Record, VERSION, decode, encode};
use super::process::start_ticks;
use super::{RuntimeDir, StateError, current_process, is_alive};

fn record() -> Record {
    Record {
        version: VERSION,
        id: "1".into(),
        process: ProcessId {
            pid: 7,
            start_ticks: 12,
        },
        source: "nbd://127.0.0.1/media".into(),
        cached: None,
        driver: DeviceDriver::Fuse,
        name: Some("media".into()),
        device: Some(PathBuf::from("/dev/loop3")),
        mount: Some(MountPlace {
            dir: PathBuf::from("/mnt/media"),
            created: true,
        }),
        fuse_connection: Some(41),
        read_only: false,
        shared: false,
        size: 1 << 30,
        since: 1_700_000_000,
        ready: true,
    }
}

#[test]
fn a_record_comes_back_as_it_was_written() {
    let bytes = encode(&record()).unwrap();
    assert_eq!(decode(&bytes).unwrap(), record());
}

#[test]
fn a_record_of_another_version_is_refused_by_name() {
    let mut other = record();
    other.version = VERSION + 1;
    let error = decode(&encode(&other).unwrap()).unwrap_err().to_string();
    assert!(error.contains("version 2"), "{error}");
}

#[test]
fn a_cut_record_is_an_error_and_no_panic() {
    let bytes = encode(&record()).unwrap();
    for len in 0..bytes.len() - 2 {
        assert!(decode(&bytes[..len]).is_err());
    }
}

#[test]
fn the_start_time_is_found_behind_a_name_with_brackets() {
    let stat = "42 (a) b) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 10 11";
    assert_eq!(start_ticks(stat), Some(777));
}

#[test]
fn a_process_that_only_waits_to_be_reaped_does_not_live() {
    let stat = "42 (x) Z 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 10 11";
    assert_eq!(start_ticks(stat), None);
}

#[test]
fn this_process_lives_and_one_with_its_number_and_another_start_does_not() {
    let this = current_process().unwrap();
    assert!(is_alive(this));
    assert!(!is_alive(ProcessId {
        start_ticks: this.start_ticks + 1,
        ..this
    }));
}

#[test]
fn folders_are_numbered_listed_in_order_and_removed_with_the_directory() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::at(temp.path().join("run/outboard"));
    assert!(dir.list().unwrap().is_empty());
    let folders: Vec<_> = (0..11).map(|_| dir.create().unwrap()).collect();
    assert_eq!(folders[10].id(), "11");
    assert_eq!(dir.list().unwrap(), folders);
    folders[0].write(&record()).unwrap();
    assert_eq!(folders[0].read().unwrap(), Some(record()));
    assert_eq!(folders[1].read().unwrap(), None);
    for folder in &folders {
        folder.remove().unwrap();
    }
    assert!(!temp.path().join("run/outboard").exists());
}

#[test]
fn a_folder_with_an_unknown_file_is_not_removed_silently() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::at(temp.path().to_owned());
    let folder = dir.create().unwrap();
    fs::write(folder.path().join("stranger"), b"x").unwrap();
    assert!(matches!(folder.remove(), Err(StateError::Io { .. })));
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

// The directory was that of a service that runs as another user: what root reads there, root acts on.
#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("run");
    fs::create_dir(&path).unwrap();
    set_mode(&path, 0o777);
    let refused = RuntimeDir::at(path.clone()).create();
    assert!(
        matches!(refused, Err(StateError::Foreign { .. })),
        "{refused:?}"
    );
    set_mode(&path, 0o755);
    assert!(RuntimeDir::at(path).create().is_ok());
}

#[test]
fn others_see_that_there_is_an_attachment_and_nothing_of_it() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("run");
    let folder = RuntimeDir::at(path.clone()).create().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077;
    assert_eq!((mode(&path), mode(folder.path())), (0o055, 0));
}

#[test]
fn attachments_of_an_earlier_version_are_found_where_no_other_user_can_write() {
    let temp = tempfile::tempdir().unwrap();
    let old = temp.path().join("old");
    let before = RuntimeDir::at(old.clone()).create().unwrap();
    let dir = RuntimeDir::at(temp.path().join("new")).with_old(old.clone());
    let now = dir.create().unwrap();
    assert_eq!(dir.list().unwrap(), [now.clone(), before]);
    set_mode(&old, 0o775);
    assert_eq!(dir.list().unwrap(), [now]);
}
