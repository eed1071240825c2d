//! Programs that have something open, by what `/proc` shows.

use std::fs;
use std::path::Path;
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
    let has_open = |pid: &u32| read::descriptors(*pid).any(|(_, file)| file == path);
    others.filter(has_open).find_map(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(format!("{} {pid}", name.trim()))
    })
}
