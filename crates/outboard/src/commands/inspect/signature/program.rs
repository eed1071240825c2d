//! Running `blkid`, bounded in time and in what it says.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::programs;

/// Most bytes of its answer that are read.
const OUTPUT_MAX: u64 = 4 << 20;
/// Time between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The output of the program.
#[derive(Debug)]
pub(super) struct BlkidOutput {
    pub(super) status: Option<i32>,
    pub(super) answer: String,
    pub(super) messages: String,
}

fn program() -> PathBuf {
    programs::find("blkid").unwrap_or_else(|| PathBuf::from("blkid"))
}

/// Its version, which shows that it is there.
pub(super) fn version() -> io::Result<String> {
    let output = Command::new(program()).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The blkid of busybox recognizes little and has no options.
    match text.lines().next() {
        Some(line) if line.contains("util-linux") => Ok(line.trim().to_owned()),
        _ => Err(io::Error::other("it is not that of util-linux")),
    }
}

/// Runs it on `disk`; `None` if it did not end within `limit`.
pub(super) fn run(disk: &File, limit: Duration) -> io::Result<Option<BlkidOutput>> {
    // Files instead of pipes: the output need not be read while the program runs.
    let (mut answer, mut messages) = (memory()?, memory()?);
    let mut child = Command::new(program())
        .args(["-p", "-o", "udev", "/proc/self/fd/0"])
        .env("LC_ALL", "C")
        .env("LIBBLKID_DEBUG", "lowprobe")
        .env("BLKID_FILE", "/dev/null")
        .stdin(Stdio::from(disk.try_clone()?))
        .stdout(Stdio::from(answer.try_clone()?))
        .stderr(Stdio::from(messages.try_clone()?))
        .spawn()?;
    let begin = engine::clock::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if engine::clock::now().saturating_duration_since(begin) > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK_EVERY);
    };
    Ok(Some(BlkidOutput {
        status: status.code(),
        answer: text(&mut answer)?,
        messages: text(&mut messages)?,
    }))
}

fn memory() -> io::Result<File> {
    Ok(File::from(memfd_create("blkid", MemfdFlags::CLOEXEC)?))
}

fn text(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
