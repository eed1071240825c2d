//! Filesystems by the system's own `mkfs.TYPE`.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::programs;

/// A filesystem that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Filesystem(&'static MkfsProgram);

/// What is known of a `mkfs`.
#[derive(Debug, PartialEq, Eq)]
struct MkfsProgram {
    name: &'static str,
    /// Debian's package.
    package: &'static str,
    /// Be quiet, and take a plain file.
    flags: &'static [&'static str],
    /// Do not give back the space that the file has.
    keep_space: &'static [&'static str],
    /// For a disk in blocks of 4096 bytes.
    large_blocks: &'static [&'static str],
}

const EXT: &[&str] = &["-q", "-F"];
const EXT_KEEP: &[&str] = &["-E", "nodiscard"];
const EXT_LARGE: &[&str] = &["-b", "4096"];

const TABLE: [MkfsProgram; 9] = [
    row("ext4", "e2fsprogs", EXT, EXT_KEEP).large(EXT_LARGE),
    row("ext3", "e2fsprogs", EXT, EXT_KEEP).large(EXT_LARGE),
    row("ext2", "e2fsprogs", EXT, EXT_KEEP).large(EXT_LARGE),
    row("xfs", "xfsprogs", &["-q", "-f"], &["-K"]).large(&["-s", "size=4096"]),
    row("btrfs", "btrfs-progs", &["-q", "-f"], &["-K"]),
    row("f2fs", "f2fs-tools", &["-q", "-f"], &["-t", "0"]).large(&["-w", "4096"]),
    row("vfat", "dosfstools", &[], &[]).large(&["-S", "4096"]),
    row("exfat", "exfatprogs", &["-q"], &[]).large(&["-s", "4096"]),
    row("ntfs", "ntfs-3g", &["-q", "-Q", "-F"], &[]).large(&["-s", "4096"]),
];

const fn row(
    name: &'static str,
    package: &'static str,
    flags: &'static [&'static str],
    keep_space: &'static [&'static str],
) -> MkfsProgram {
    MkfsProgram {
        name,
        package,
        flags,
        keep_space,
        large_blocks: &[],
    }
}

impl MkfsProgram {
    const fn large(self, large_blocks: &'static [&'static str]) -> Self {
        Self {
            large_blocks,
            ..self
        }
    }
}

/// What a `mkfs` may do with the space of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Leave holes or make some.
    Holes,
    /// Keep all that is allocated.
    Space,
}

/// A `mkfs` that is there.
#[derive(Debug)]
pub(super) struct Tool {
    row: &'static MkfsProgram,
    program: PathBuf,
    /// Whether the disk has blocks of 4096 bytes.
    large_blocks: bool,
}

/// Time between two looks at the signals while a `mkfs` runs.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Most bytes of a `mkfs`'s complaint that are read.
const COMPLAINT_MAX: u64 = 16 * 1024;

impl Filesystem {
    /// The filesystem `name`.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        match TABLE.iter().find(|row| row.name == name) {
            Some(row) => Ok(Self(row)),
            None => {
                let names: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
                let present = TABLE.iter().filter(|row| program(row).is_some());
                let present: Vec<&str> = present.map(|row| row.name).collect();
                Err(format!(
                    "known are {}; installed here: {}",
                    names.join(", "),
                    if present.is_empty() {
                        "none".to_owned()
                    } else {
                        present.join(", ")
                    }
                ))
            }
        }
    }

    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        self.0.name
    }

    /// Its `mkfs`, for a disk in blocks of `block_size` bytes.
    pub(super) fn tool(self, block_size: u32) -> Result<Tool, Failure> {
        let row = self.0;
        match program(row) {
            Some(program) => Ok(Tool {
                row,
                program,
                large_blocks: block_size == 4096,
            }),
            None => {
                let MkfsProgram { name, package, .. } = row;
                let what = format!("cannot make {name}: mkfs.{name} is not installed");
                Err(Failure::new(what).next(format!("apt install {package}")))
            }
        }
    }
}

fn program(row: &MkfsProgram) -> Option<PathBuf> {
    programs::find(&format!("mkfs.{}", row.name))
}

impl Tool {
    /// Makes the filesystem on the file at `path`.
    pub(super) fn run(
        &self,
        path: &Path,
        keep: Keep,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let name = self.row.name;
        let failed = |error: &io::Error| {
            Failure::because(format!("mkfs.{name} on {}", path.display()), error)
        };
        // A path that begins with a dash would be taken for an option.
        let path = std::path::absolute(path).map_err(|error| failed(&error))?;
        let mut command = Command::new(&self.program);
        command.args(self.row.flags);
        if keep == Keep::Space {
            command.args(self.row.keep_space);
        }
        if self.large_blocks {
            command.args(self.row.large_blocks);
        }
        command.arg(&path);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let status = wait(&mut child, interrupt).map_err(|error| failed(&error))?;
        if status.success() {
            return Ok(());
        }
        if interrupt.came() {
            let what = format!("interrupted: {} was not made", path.display());
            return Err(Failure::new(what));
        }
        let what = format!(
            "mkfs.{name} failed on {}: {}",
            path.display(),
            complaint(&mut child)
        );
        Err(Failure::new(what).next("the unfinished file was removed"))
    }
}

/// Waits for the child; ends it when a signal came.
fn wait(child: &mut Child, interrupt: &Interrupt) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupt.came() {
            // It may have ended by itself just now, by the same Ctrl-C.
            drop(child.kill());
            return child.wait();
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The first line of the child's standard error.
fn complaint(child: &mut Child) -> String {
    let mut output = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // A failed read leaves the message incomplete.
        drop(stderr.take(COMPLAINT_MAX).read_to_end(&mut output));
    }
    let output = String::from_utf8_lossy(&output);
    let first = output.lines().map(str::trim).find(|line| !line.is_empty());
    let first = first.unwrap_or("it reported no reason");
    first.trim_end_matches('.').to_owned()
}
