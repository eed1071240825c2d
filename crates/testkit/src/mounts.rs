//! Real storage for tests: loop devices and small tmpfs mounts, taken down when dropped.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, UnmountFlags};

/// A loop device over a file. Needs root and losetup.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Puts the next free loop device over `file`.
    ///
    /// # Errors
    /// What losetup printed.
    pub fn over(file: &Path) -> io::Result<Self> {
        let printed = losetup(&["--find".as_ref(), "--show".as_ref(), file.as_os_str()])?;
        Ok(Self {
            path: PathBuf::from(printed.trim()),
        })
    }

    /// Path of the device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Err(e) = losetup(&["--detach".as_ref(), self.path.as_os_str()]) {
            eprintln!("{} could not be detached: {e}", self.path.display());
        }
    }
}

fn losetup(args: &[&OsStr]) -> io::Result<String> {
    let output = Command::new("losetup").args(args).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("losetup: {}", said.trim())))
}

/// A tmpfs of bounded size in a folder of its own. Needs root.
#[derive(Debug)]
pub struct TmpfsMount {
    folder: tempfile::TempDir,
}

impl TmpfsMount {
    /// Mounts a tmpfs that holds `size` bytes.
    ///
    /// # Errors
    /// Those of mount(2).
    pub fn of_size(size: u64) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let options = std::ffi::CString::new(format!("size={size}"))?;
        rustix::mount::mount(
            "outboard-test",
            folder.path(),
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            &*options,
        )?;
        Ok(Self { folder })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        // Lazily: a test that panics may still hold a file open.
        if let Err(e) = rustix::mount::unmount(self.folder.path(), UnmountFlags::DETACH) {
            eprintln!(
                "{} could not be unmounted: {e}",
                self.folder.path().display()
            );
        }
    }
}

/// Shell commands for the beginning of a script in a new mount namespace, which is a copy: they take what other tests have
/// mounted out of it. Their devices would be in use there until it ends, and could not be detached.
///
/// The list is read to its end first: bash remembers by its length how far it has read, and each unmounted line moves the next ones.
pub const UNMOUNT_OTHERS: &str = r#"mounts=$(cat /proc/self/mountinfo)
while read -r _ _ _ _ at rest; do
    case "$at $rest" in "${TMPDIR:-/tmp}"/*" /dev/"*) umount -l "$at" || : ;; esac
done <<END
$mounts
END
"#;
