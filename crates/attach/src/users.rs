//! The users of a device or a mount: programs by name and number, swap, devices on top of it.
//!
//! All of it is read from `/proc` and `/sys` at the moment of asking; a program that opens the device
//! a moment later is not seen.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::mount::{self, DeviceNumber};
use crate::sysfs;
use crate::worker::WORKER;

/// Users that are named; more are only counted.
const NAMED_MAX: usize = 3;

/// Names programs with a working directory or an open file below `dir`, a few at most.
pub(crate) fn users_of_mount(dir: &Path) -> String {
    let programs = processes().filter(|process| has_files_below(process, dir));
    match list(programs.map(|process| name(&process)).collect()) {
        none if none.is_empty() => "by an unknown process".to_owned(),
        users => format!("by {users}"),
    }
}

/// Programs that have the device or a partition of it open, this one and its workers aside.
pub(crate) fn programs(device: &Path) -> Vec<String> {
    let numbers = sysfs::numbers(device);
    let own = std::process::id().to_string();
    processes()
        .filter(|process| !process.ends_with(&own) && !is_worker(process))
        .filter(|process| has_open(process, &numbers))
        .map(|process| name(&process))
        .collect()
}

/// What stands on the device: holders that the kernel knows, swap, and loop devices over it.
pub(crate) fn all_holders(device: &Path) -> Vec<String> {
    let mut found = sysfs::holders(device);
    let paths = sysfs::paths(device);
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    found.extend(swaps_on(&swaps, &paths).map(|path| format!("swap on {path}")));
    found.extend(sysfs::loops_over(&paths));
    found
}

/// What keeps a device from being removed, in one line.
pub(crate) fn users_of_device(device: &Path) -> String {
    let numbers = sysfs::numbers(device);
    let mut users = all_holders(device);
    users.extend(programs(device));
    users.extend(
        mounts_in_other_namespaces(&numbers)
            .map(|user| format!("{user}, which has it mounted in a namespace of its own")),
    );
    let waiting = match sysfs::in_flight(device) {
        0 => String::new(),
        count => format!("; {count} requests wait"),
    };
    match list(users) {
        none if none.is_empty() => format!("by an unknown process{waiting}"),
        users => format!("by {users}{waiting}"),
    }
}

/// A few names, and how many more there are.
pub(crate) fn list(mut users: Vec<String>) -> String {
    let more = users.len().saturating_sub(NAMED_MAX);
    users.truncate(NAMED_MAX);
    let named = users.join(", ");
    match more {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            name.to_str()
                .is_some_and(|name| name.parse::<u32>().is_ok())
        })
        .map(|entry| entry.path())
}

/// `NAME NUMBER` of the process at `/proc/NUMBER`.
fn name(process: &Path) -> String {
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    let number = process.file_name().unwrap_or_default().to_string_lossy();
    format!("{} {number}", name.trim())
}

/// Whether the process is a worker of an attachment: it has the device open on behalf of its owner.
fn is_worker(process: &Path) -> bool {
    let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
    arguments.split(|b| *b == 0).nth(1) == Some(WORKER.as_bytes())
}

fn open_files(process: &Path) -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten();
    files.flatten().map(|file| file.path())
}

fn has_files_below(process: &Path, dir: &Path) -> bool {
    ["cwd", "root", "exe"]
        .iter()
        .map(|link| process.join(link))
        .chain(open_files(process))
        .filter_map(|link| fs::read_link(link).ok())
        .any(|target| target.starts_with(dir))
}

fn has_open(process: &Path, numbers: &[DeviceNumber]) -> bool {
    open_files(process)
        // A stat of any other file could wait for an unreachable server.
        .filter(|link| fs::read_link(link).is_ok_and(|target| target.starts_with("/dev")))
        .filter_map(|link| fs::metadata(link).ok())
        .any(|file| file.rdev() != 0 && numbers.contains(&DeviceNumber::from_raw(file.rdev())))
}

/// A process of each other mount namespace in which one of the devices is mounted.
fn mounts_in_other_namespaces(numbers: &[DeviceNumber]) -> impl Iterator<Item = String> {
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let mut seen: Vec<_> = namespace(Path::new("/proc/self")).into_iter().collect();
    processes().filter_map(move |process| {
        let its = namespace(&process)?;
        if seen.contains(&its) {
            return None;
        }
        // One that ends at this moment cannot tell: the next one of its namespace is asked.
        let mountinfo = fs::read_to_string(process.join("mountinfo")).ok()?;
        seen.push(its);
        mount::has_any(&mountinfo, numbers).then(|| name(&process))
    })
}

/// `/proc/swaps`: a head line, then a path at the begin of each.
fn swaps_on<'a>(swaps: &'a str, paths: &[PathBuf]) -> impl Iterator<Item = &'a str> {
    swaps
        .lines()
        .skip(1)
        .filter_map(|line| line.split_ascii_whitespace().next())
        .filter(|path| paths.iter().any(|one| one == Path::new(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_an_open_file_below_a_directory_is_named() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(users_of_mount(temp.path()), "by an unknown process");
        let file = fs::File::create(temp.path().join("open")).unwrap();
        let own = std::process::id().to_string();
        let users = users_of_mount(temp.path());
        assert!(users.contains(&own), "{users}");
        drop(file);
    }

    #[test]
    fn a_swap_on_a_partition_is_found() {
        let text = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n\
                    /dev/nbd0p1 partition 1 0 -3\n";
        let paths = [PathBuf::from("/dev/nbd0"), PathBuf::from("/dev/nbd0p1")];
        assert_eq!(swaps_on(text, &paths).collect::<Vec<_>>(), ["/dev/nbd0p1"]);
    }

    #[test]
    fn many_users_are_counted_and_a_few_named() {
        let users: Vec<String> = (1..=5).map(|n| format!("dd {n}")).collect();
        assert_eq!(list(users), "dd 1, dd 2, dd 3 and 2 more");
        assert_eq!(list(Vec::new()), "");
    }
}
