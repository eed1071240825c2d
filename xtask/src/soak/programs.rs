//! Clients that are processes: libnbd's Python binding, nbdcopy, qemu-io and our own copy, some of them under
//! TLS. Each works until it ends by itself, which must be well, or is killed in the middle of something.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::place::Place;
use super::raw::Client;
use super::region::{Region, content};
use super::watch::Ends;
use crate::clock;
use crate::shell::{self, Running};

/// Debian's own Python, which has libnbd's binding.
const PYTHON: &str = "/usr/bin/python3";

/// How long a program may take for what takes it a second.
const LIMIT: Duration = Duration::from_secs(120);

/// A program is killed after at most this, if it is to be killed.
const KILL_AFTER_MS: u64 = 1500;

/// Writes of one life of qemu-io.
const QEMU_WRITES: usize = 12;

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Itself,
    Killed,
}

impl Client<'_> {
    /// Python with libnbd: it says what it is about to write, and what was acknowledged.
    pub(super) fn nbdsh(&mut self) -> Result<()> {
        let script = shell::root().join("tests/nbdsh/soak.py");
        *self.serial += 1;
        let first = *self.serial;
        let args = [
            script.to_string_lossy().into_owned(),
            self.uri(),
            self.region.start().to_string(),
            self.region.len().to_string(),
            first.to_string(),
            self.dice.u32(..).to_string(),
        ];
        let log = self.file("nbdsh");
        self.run_to_an_end(PYTHON, &args, &log)?;
        let printed = std::fs::read_to_string(&log)?;
        let last = replay(self.region, &printed)?;
        *self.serial = last.max(first);
        Ok(())
    }

    /// nbdcopy or our copy fills a whole export of its own and, if it was left to, brings it back.
    pub(super) fn copy(&mut self) -> Result<()> {
        *self.serial += 1;
        let data = content(*self.serial, self.region.len());
        let [source, back, log] = ["source", "back", "log"].map(|name| self.file(name));
        std::fs::write(&source, &data)?;
        let uri = self.uri();
        let (program, option) = if self.dice.bool() {
            (self.place.binary(), "copy")
        } else {
            (Path::new("nbdcopy"), "--flush")
        };
        let up = [option.as_ref(), source.as_os_str(), uri.as_ref()];
        match self.run_to_an_end(program, &up, &log)? {
            End::Killed => {
                self.region.may_have_written(0, data);
                return Ok(());
            }
            End::Itself => self.region.wrote(0, &data),
        }
        std::fs::remove_file(&back).ok();
        let down = [option.as_ref(), uri.as_ref(), back.as_os_str()];
        if self.run_to_an_end(program, &down, &log)? == End::Itself {
            let found = std::fs::read(&back)?;
            ensure!(found.len() == data.len(), "a copy of another size");
            let what = || format!("{} brought back", program.display());
            self.region.read(0, &found).with_context(what)?;
        }
        Ok(())
    }

    /// qemu-io writes, zeroes and reads back what it wrote; what it printed is lost when it is killed.
    pub(super) fn qemu_io(&mut self) -> Result<()> {
        let mut args = vec!["--format=raw".to_owned()];
        let mut writes = Vec::new();
        for _ in 0..QEMU_WRITES {
            let at = self.dice.usize(..self.region.len() / 512) * 512;
            let len = (self.dice.usize(1..=64) * 512).min(self.region.len() - at);
            let (byte, offset) = (self.dice.u8(..), self.region.start() + at as u64);
            for how in ["write", "read"] {
                args.extend(["-c".to_owned(), format!("{how} -P {byte} {offset} {len}")]);
            }
            writes.push((at, vec![byte; len]));
        }
        args.extend(["-c".to_owned(), "flush".to_owned()]);
        args.push(self.place.uri(self.export));
        let log = self.file("qemu-io");
        let end = self.run_to_an_end("qemu-io", &args, &log)?;
        for (at, data) in writes {
            match end {
                End::Itself => self.region.wrote(at, &data),
                End::Killed => self.region.may_have_written(at, data),
            }
        }
        // It succeeds even if a command of it fails.
        let printed = std::fs::read_to_string(&log)?;
        for bad in ["failed", "error"] {
            ensure!(
                !printed.contains(bad),
                "qemu-io printed: {}",
                printed.trim()
            );
        }
        Ok(())
    }

    /// The export in the clear or under TLS.
    fn uri(&mut self) -> String {
        if self.dice.u8(..3) == 0 {
            self.place.uri_tls(self.export)
        } else {
            self.place.uri(self.export)
        }
    }

    /// A file of this client.
    fn file(&self, name: &str) -> PathBuf {
        let own = format!("{}-{}-{name}", self.export, self.region.start());
        self.place.folder().join(own)
    }

    /// Lets a program end or kills it; once the server has let go of it, the region may be looked at.
    fn run_to_an_end(
        &mut self,
        program: impl AsRef<Path>,
        args: &[impl AsRef<std::ffi::OsStr>],
        log: &Path,
    ) -> Result<End> {
        let program = program.as_ref();
        let shown = program.display();
        let mut running = Running::start(program, args, log)?;
        let limit = match self.dice.u8(..3) {
            0 => LIMIT,
            _ => Duration::from_millis(self.dice.u64(..KILL_AFTER_MS)),
        };
        self.tally.requests += 1;
        if let Some(status) = running.wait(limit) {
            let printed = std::fs::read_to_string(log).unwrap_or_default();
            ensure!(
                status.success(),
                "{shown} ended with {status}: {}",
                printed.trim()
            );
            return Ok(End::Itself);
        }
        if limit == LIMIT {
            bail!("{shown} did not end within {LIMIT:?}");
        }
        self.tally.killed += 1;
        let ends = kill(&mut running, self.place)?;
        ends.wait_until_gone(self.place.server())?;
        Ok(End::Killed)
    }
}

/// Kills a stopped program, so that it makes no connection that is not counted.
fn kill(running: &mut Running, place: &Place) -> Result<Ends> {
    let id = running.id();
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    let pid = pid.context("a process has a number")?;
    kill_process(pid, Signal::STOP)?;
    let stopped = clock::poll(LIMIT, || holds_still(id).then_some(()));
    stopped.context("a stopped program goes on")?;
    let ends = Ends::of_process(place.port(), id);
    running.kill();
    ends
}

/// Whether every thread of a process is stopped, or is gone.
fn holds_still(id: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{id}/task"))
        .into_iter()
        .flatten();
    threads.filter_map(Result::ok).all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map_or("", |(_, after)| after);
        state.is_empty() || state.starts_with(['T', 'Z', 'X'])
    })
}

/// Applies what the script printed: `w AT LEN SERIAL` before a write, `z AT LEN` before zeroes, `.` once the
/// server acknowledged. The last serial it used.
pub(super) fn replay(region: &mut Region, printed: &str) -> Result<u32> {
    let mut last = 0;
    let mut pending: Option<(usize, Vec<u8>)> = None;
    for line in printed.split_inclusive('\n') {
        // What is cut short by the kill was not begun: the script begins once a line is out.
        let Some(line) = line.strip_suffix('\n') else {
            break;
        };
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<usize>().ok();
        let request = match words[..] {
            ["."] => {
                let (at, data) = pending.take().context("nothing to acknowledge")?;
                region.wrote(at, &data);
                continue;
            }
            ["w", at, len, serial] => (|| {
                let serial = serial.parse().ok()?;
                last = last.max(serial);
                Some((number(at)?, content(serial, number(len)?)))
            })(),
            ["z", at, len] => number(at)
                .zip(number(len))
                .map(|(at, len)| (at, vec![0; len])),
            _ => None,
        };
        pending = Some(request.with_context(|| format!("the script printed: {printed}"))?);
    }
    if let Some((at, data)) = pending {
        region.may_have_written(at, data);
    }
    Ok(last)
}
