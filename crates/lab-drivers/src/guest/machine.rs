//! QEMU, and what the guest says on its serial line.
//!
//! Invariants: QEMU dies with us, whatever way we end. The files of its disks have no names any more once
//! the guest has printed a line. A cancellation after that is passed to the guest, which ends with what was
//! measured; it is ended by force only if it does not, or before it has spoken.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lab::{Cancel, Progress};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

use super::folder::Guest;
use super::job::Job;
use crate::DriverError;

/// What emulates the guest.
const QEMU: &str = "qemu-system-x86_64";
/// Its memory, in MiB: the guest's filesystem is in there too.
const MEMORY_MIB: u32 = 2048;
/// The most processors of a guest: more do not make an emulated one faster.
const CORES_MAX: usize = 4;
/// How often it is looked whether someone wants to stop.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// How long an emulated machine may take to end its run after it was asked to.
const GRACE: Duration = Duration::from_secs(180);
/// Lines of the console that are kept to be shown.
const LINES_KEPT: usize = 12;

/// A guest that runs.
#[derive(Debug)]
pub(super) struct Machine {
    qemu: Child,
    /// The disks' files, until the guest has them open.
    folder: Option<TempDir>,
    result: File,
    /// What the kernel and QEMU say.
    log: File,
    /// What was read and is no line yet.
    rest: Vec<u8>,
    /// The last lines that were not for us.
    last: VecDeque<String>,
}

/// A line of the console that is for us.
#[derive(Debug, PartialEq, Eq)]
enum ConsoleLine<'a> {
    Progress(&'a str),
    Exit(i32),
}

/// Reads a line; most are not for us.
fn said(line: &str) -> Option<ConsoleLine<'_>> {
    let line = line.trim_end();
    if let Some(text) = line.strip_prefix("@progress ") {
        return Some(ConsoleLine::Progress(text));
    }
    let code = line.strip_prefix("@exit ")?;
    code.parse().ok().map(ConsoleLine::Exit)
}

impl Machine {
    /// Starts QEMU on the disks of `job`.
    pub(super) fn start(guest: &Guest, job: Job) -> Result<Self, DriverError> {
        if !is_there(QEMU) {
            return Err(missing());
        }
        let failed =
            |error: std::io::Error| DriverError::because("cannot use a temporary file", error);
        let log_path = job.folder.path().join("log");
        let log = File::options()
            .create_new(true)
            .append(true)
            .read(true)
            .open(&log_path)
            .map_err(failed)?;
        let result = File::options()
            .read(true)
            .open(&job.result)
            .map_err(failed)?;
        let mut command = command(guest, &job, &log_path);
        command
            // Ctrl-C in a terminal reaches us; the guest is then asked to end.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.try_clone().map_err(failed)?);
        let qemu = command.spawn().map_err(|_| missing())?;
        Ok(Self {
            qemu,
            folder: Some(job.folder),
            result,
            log,
            rest: Vec::new(),
            last: VecDeque::new(),
        })
    }

    /// Reads what the guest says until it has ended.
    pub(super) fn follow(
        &mut self,
        cancel: &Cancel,
        progress: &mut dyn Progress,
    ) -> Result<(), DriverError> {
        progress.phase("starting the guest");
        let mut asked = None;
        let mut ended = None;
        while let Some(lines) = self.read()? {
            for line in lines {
                // The guest has opened its disks by now.
                self.folder = None;
                match said(&line) {
                    Some(ConsoleLine::Progress(text)) => progress.phase(text),
                    Some(ConsoleLine::Exit(code)) => ended = Some(code),
                    None => self.keep(line),
                }
            }
            if cancel.is_cancelled() && asked.is_none() {
                // In there nothing was measured yet, and nothing reads its input.
                if self.folder.is_some() {
                    return Err(DriverError::new("stopped; nothing was measured"));
                }
                asked = Some(engine::clock::now());
                progress.phase("stopping: what was measured is brought back");
                self.say("stop")?;
            }
            let waited = asked.map(|asked| engine::clock::now().duration_since(asked));
            if waited.is_some_and(|waited| waited > GRACE) {
                return Err(DriverError::new(
                    "the guest did not end when it was asked to",
                ));
            }
        }
        match ended {
            Some(0) => Ok(()),
            Some(code) => Err(self.failed(&format!("the guest's script ended with status {code}"))),
            None => Err(self.failed("the guest stopped before its end")),
        }
    }

    /// What the guest has written.
    pub(super) fn result(&self) -> Result<File, DriverError> {
        self.result
            .try_clone()
            .map_err(|error| DriverError::because("cannot read what the guest left", error))
    }

    /// New lines; none once QEMU has ended.
    fn read(&mut self) -> Result<Option<Vec<String>>, DriverError> {
        let failed = |error: std::io::Error| DriverError::because("cannot hear the guest", error);
        let Some(stdout) = self.qemu.stdout.as_mut() else {
            return Ok(None);
        };
        let mut fds = [PollFd::new(stdout, PollFlags::IN)];
        match poll(&mut fds, Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Some(Vec::new())),
            Ok(_) => {}
            Err(error) => return Err(failed(error.into())),
        }
        let mut bytes = [0_u8; 4096];
        let count = stdout.read(&mut bytes).map_err(failed)?;
        if count == 0 {
            return Ok(None);
        }
        self.rest.extend(&bytes[..count]);
        let mut lines = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        Ok(Some(lines))
    }

    fn say(&mut self, word: &str) -> Result<(), DriverError> {
        let Some(stdin) = self.qemu.stdin.as_mut() else {
            return Ok(());
        };
        writeln!(stdin, "{word}").map_err(|error| DriverError::because("the guest is deaf", error))
    }

    fn keep(&mut self, line: String) {
        if self.last.len() == LINES_KEPT {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// With the last words of the guest, or of its kernel and QEMU where it said nothing.
    fn failed(&mut self, what: &str) -> DriverError {
        let mut log = String::new();
        let read = self
            .log
            .rewind()
            .and_then(|()| self.log.read_to_string(&mut log));
        let of_log: Vec<&str> = match read {
            Ok(_) => log.lines().rev().take(LINES_KEPT).collect(),
            Err(_) => Vec::new(),
        };
        let words: Vec<&str> = match self.last.is_empty() {
            false => self.last.iter().map(String::as_str).collect(),
            true => of_log.into_iter().rev().collect(),
        };
        DriverError::new(format!("{what}: {}", words.join(" / ")))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.qemu.kill());
        drop(self.qemu.wait());
    }
}

/// Whether a program is in one of the folders of PATH.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn missing() -> DriverError {
    DriverError::new(format!("a guest needs {QEMU} and setpriv"))
        .next("apt-get install qemu-system-x86 util-linux")
}

/// A machine with two serial lines, the kernel's and the script's, and three disks.
fn command(guest: &Guest, job: &Job, log: &Path) -> Command {
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get().min(CORES_MAX));
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--", QEMU])
        .args(["-accel", "tcg,thread=multi", "-cpu", "max"])
        .args(["-smp", &cores.to_string(), "-m", &MEMORY_MIB.to_string()])
        .args(["-nodefaults", "-display", "none", "-no-reboot"])
        .arg("-chardev")
        .arg(format!("file,id=log,append=on,path={}", quoted(log)))
        .args(["-serial", "chardev:log", "-serial", "stdio"])
        .arg("-kernel")
        .arg(&guest.kernel)
        .arg("-initrd")
        .arg(&guest.initrd)
        .args([
            "-append",
            "console=ttyS0 quiet panic=-1 no_timer_check random.trust_cpu=on",
        ]);
    // A full disk outside is an error inside, not a paused machine.
    let scratch = match job.direct {
        true => "cache=none,discard=unmap,werror=report",
        false => "cache=writeback,discard=unmap,werror=report",
    };
    for (path, options) in [
        (&job.scratch, scratch),
        (&job.input, "readonly=on"),
        (&job.result, "cache=unsafe"),
    ] {
        command.arg("-drive").arg(format!(
            "file={},format=raw,if=virtio,file.locking=off,{options}",
            quoted(path)
        ));
    }
    command
}

/// A path in an option of QEMU's, where a comma is written twice.
fn quoted(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_of_the_console_speak_to_us() {
        assert_eq!(said("@exit 3\r"), Some(ConsoleLine::Exit(3)));
        assert_eq!(
            said("@progress block 1 of 5"),
            Some(ConsoleLine::Progress("block 1 of 5"))
        );
        assert_eq!(said("echo @exit 3"), None);
        assert_eq!(said("@exit soon"), None);
    }

    #[test]
    fn a_comma_in_a_path_is_no_option() {
        assert_eq!(quoted(Path::new("/a,b")), "/a,,b");
    }
}
