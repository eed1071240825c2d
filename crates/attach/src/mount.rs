//! Mount points and mounts: what is allowed, mount(8), umount(2), and what is mounted where.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::UnmountFlags;

use crate::state::MountPlace;
use crate::sysfs::Partition;

/// Why a mount was not made.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// A file is in the way.
    #[error("{}: not a directory; give an empty directory to mount on", .0.display())]
    NotADirectory(PathBuf),
    /// Files would be hidden.
    #[error("{}: the directory is not empty; give an empty one, or one that does not exist", .0.display())]
    NotEmpty(PathBuf),
    /// Something is mounted there.
    #[error("{}: something is mounted there already; unmount it or give another directory", .0.display())]
    InUse(PathBuf),
    /// The directory above is missing.
    #[error("{}: the directory above it does not exist; make it first", .0.display())]
    NoParent(PathBuf),
    /// The directory could not be looked at or made.
    #[error("{}: {source}", dir.display())]
    Directory {
        /// Which.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// mount(8) is not there.
    #[error("mount(8) cannot be run: {0}; install the package mount")]
    NoMount(#[source] io::Error),
    /// There are partitions on the disk.
    #[error(
        "{source_text} cannot be mounted: it is a disk with partitions; mount one of them: {}",
        expressions(source_text, partitions)
    )]
    Partitioned {
        /// The disk.
        source_text: String,
        /// Its partitions.
        partitions: Vec<Partition>,
    },
    /// mount(8) failed.
    #[error("{device}: cannot be mounted on {}: {why}", dir.display())]
    Failed {
        /// The device.
        device: String,
        /// Where.
        dir: PathBuf,
        /// The message of mount(8).
        why: String,
    },
}

/// The expressions of the partitions.
fn expressions(source: &str, partitions: &[Partition]) -> String {
    let each = partitions
        .iter()
        .map(|one| format!("'partition({source}, {})' ({} bytes)", one.number, one.size));
    each.collect::<Vec<_>>().join(", ")
}

/// Looks at a mount point without changing anything.
///
/// # Errors
/// [`MountError`].
pub(crate) fn inspect(dir: &Path) -> Result<MountPlace, MountError> {
    let failed = |source| MountError::Directory {
        dir: dir.to_owned(),
        source,
    };
    let absolute = std::path::absolute(dir).map_err(failed)?;
    match fs::metadata(&absolute) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return match absolute.parent().map(Path::is_dir) {
                Some(true) => Ok(MountPlace {
                    dir: absolute,
                    created: true,
                }),
                _ => Err(MountError::NoParent(absolute)),
            };
        }
        Err(e) => return Err(failed(e)),
        Ok(found) if !found.is_dir() => return Err(MountError::NotADirectory(absolute)),
        Ok(_) => {}
    }
    let absolute = fs::canonicalize(&absolute).map_err(failed)?;
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").map_err(failed)?;
    if mounts(&mountinfo).any(|mount| mount.dir == absolute) {
        return Err(MountError::InUse(absolute));
    }
    if fs::read_dir(&absolute).map_err(failed)?.next().is_some() {
        return Err(MountError::NotEmpty(absolute));
    }
    Ok(MountPlace {
        dir: absolute,
        created: false,
    })
}

/// Makes the directory, where [`inspect`] found none.
///
/// # Errors
/// [`MountError::Directory`].
pub(crate) fn create(place: &MountPlace) -> Result<(), MountError> {
    if !place.created {
        return Ok(());
    }
    fs::create_dir(&place.dir).map_err(|source| MountError::Directory {
        dir: place.dir.clone(),
        source,
    })
}

/// Mounts `device` on `dir`; the kernel and mount(8) find out the filesystem.
///
/// # Errors
/// [`MountError::NoMount`], [`MountError::Failed`].
pub(crate) fn mount(device: &Path, dir: &Path, read_only: bool) -> Result<(), MountError> {
    let mut command = Command::new("mount");
    if read_only {
        command.args(["-o", "ro"]);
    }
    let output = command
        .args([device, dir])
        .env("LC_ALL", "C")
        .output()
        .map_err(MountError::NoMount)?;
    if output.status.success() {
        return Ok(());
    }
    Err(MountError::Failed {
        device: device.display().to_string(),
        dir: dir.to_owned(),
        why: tool_message(&String::from_utf8_lossy(&output.stderr)),
    })
}

/// The message of a tool, in one line.
pub(crate) fn tool_message(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim).filter(|l| !l.is_empty());
    let lines: Vec<_> = lines.filter(|l| !l.contains("dmesg(1)")).collect();
    if lines.is_empty() {
        return "it did not say why".to_owned();
    }
    lines.join("; ")
}

/// How to unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnmountMode {
    /// Now, with all that is unwritten, or not at all.
    Now,
    /// Out of sight now, the rest when its last user is gone.
    Lazily,
}

/// Unmounts `dir`. Not being mounted is no failure.
///
/// # Errors
/// As umount(2).
pub(crate) fn unmount(dir: &Path, how: UnmountMode) -> Result<(), rustix::io::Errno> {
    let flags = match how {
        UnmountMode::Now => UnmountFlags::NOFOLLOW,
        UnmountMode::Lazily => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(dir, flags) {
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
        Err(e) => Err(e),
    }
}

/// A device's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceNumber {
    /// The driver's.
    pub(crate) major: u32,
    /// The device's.
    pub(crate) minor: u32,
}

impl DeviceNumber {
    /// The number as stat(2) has it.
    pub(crate) fn from_raw(number: u64) -> Self {
        Self {
            major: rustix::fs::major(number),
            minor: rustix::fs::minor(number),
        }
    }

    /// A number as the kernel writes it: `MAJOR:MINOR`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MountLine {
    number: DeviceNumber,
    dir: PathBuf,
}

/// `ID PARENT MAJOR:MINOR ROOT DIR OPTIONS …` (proc_pid_mountinfo(5)). Other lines are passed over.
fn mounts(mountinfo: &str) -> impl Iterator<Item = MountLine> {
    mountinfo.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let number = DeviceNumber::parse(fields.next()?)?;
        let dir = unescape(fields.nth(1)?);
        Some(MountLine { number, dir })
    })
}

/// Blanks in names are written as octal numbers behind a backslash.
fn unescape(field: &str) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        match octal.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) if first == b'\\' => {
                out.push(byte);
                rest = &tail[3..];
            }
            _ => {
                out.push(first);
                rest = tail;
            }
        }
    }
    std::ffi::OsString::from_vec(out).into()
}

/// Where these devices are mounted in this process's view.
///
/// # Errors
/// If `/proc` cannot be read.
pub(crate) fn mounted_at(numbers: &[DeviceNumber]) -> io::Result<Vec<PathBuf>> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo")?;
    let users_of_device = mounts(&mountinfo).filter(|mount| numbers.contains(&mount.number));
    Ok(users_of_device.map(|mount| mount.dir).collect())
}

/// Whether one of these devices is mounted, by the text of a `mountinfo`.
pub(crate) fn has_any(mountinfo: &str, numbers: &[DeviceNumber]) -> bool {
    mounts(mountinfo).any(|mount| numbers.contains(&mount.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_with_a_blank_is_found_by_its_device() {
        let text = "36 35 7:3 / /mnt/my\\040disk rw,relatime shared:1 - ext4 /dev/loop3 rw\n\
                    37 35 8:1 / /srv rw - ext4 /dev/sda1 rw\nrubbish\n";
        let found: Vec<_> = mounts(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].number, DeviceNumber { major: 7, minor: 3 });
        assert_eq!(found[0].dir, Path::new("/mnt/my disk"));
    }

    #[test]
    fn a_backslash_that_escapes_nothing_stays() {
        assert_eq!(unescape("/a\\9x"), Path::new("/a\\9x"));
    }

    #[test]
    fn an_empty_directory_is_taken_and_a_missing_one_is_to_be_made() {
        let temp = tempfile::tempdir().unwrap();
        assert!(!inspect(temp.path()).unwrap().created);
        let missing = temp.path().join("new");
        let place = inspect(&missing).unwrap();
        assert!(place.created && !missing.exists());
        create(&place).unwrap();
        assert!(missing.is_dir());
    }

    #[test]
    fn a_full_directory_a_file_a_mount_and_an_orphan_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, b"x").unwrap();
        assert!(matches!(inspect(temp.path()), Err(MountError::NotEmpty(_))));
        assert!(matches!(inspect(&file), Err(MountError::NotADirectory(_))));
        assert!(matches!(
            inspect(Path::new("/proc")),
            Err(MountError::InUse(_))
        ));
        let orphan = temp.path().join("a/b");
        assert!(matches!(inspect(&orphan), Err(MountError::NoParent(_))));
    }

    #[test]
    fn the_message_of_a_tool_becomes_one_line() {
        let said = tool_message("mount: /mnt: wrong fs type\n\n       dmesg(1) may have more\n");
        assert_eq!(said, "mount: /mnt: wrong fs type");
    }
}
