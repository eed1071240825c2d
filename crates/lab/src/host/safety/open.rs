//! Programs that have something open, by what `/proc` shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sensors::read;

/// Looks until what is open counts: udev and losetup look at every device for a moment.
const LOOKS: u32 = 5;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(40);

/// Name and number of a program but this one that has `path` open and keeps it so. Programs of
/// other users are seen by root alone.
pub(super) fn program(path: &Path) -> Option<String> {
    let mut found = look(path)?;
    for _ in 1..LOOKS {
        std::thread::sleep(PAUSE);
        found = look(path)?;
    }
    Some(found)
}

fn look(path: &Path) -> Option<String> {
    let others = read::pids().filter(|pid| *pid != std::process::id());
    others
        .map(|pid| PathBuf::from(format!("/proc/{pid}")))
        .filter(|process| has_open(process, path))
        .find_map(|process| {
            let name = fs::read_to_string(process.join("comm")).ok()?;
            let number = process.file_name()?.to_string_lossy().into_owned();
            Some(format!("{} {number}", name.trim()))
        })
}

fn has_open(process: &Path, path: &Path) -> bool {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten();
    files
        .flatten()
        // The links alone: looking at the files could wait for a server that is away.
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|target| target == path)
}
