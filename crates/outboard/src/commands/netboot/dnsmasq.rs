//! [`Dnsmasq`]: the DHCP and TFTP server, a child process, and what its log reports of clients.
//!
//! # Invariants
//!
//! * [`Dnsmasq::start`] returns once dnsmasq serves, or with its own message.
//! * Its end ends this process too, in order: a server of disks alone boots no machine.
//! * A service manager that ends all processes of a unit at once ends this one once, so that it flushes: a second signal would not
//!   wait for that.
//! * One that a killed `outboard netboot` left behind is ended first; the caller holds the lock of the folder.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open};

use crate::failure::Failure;
use crate::programs;

/// How long one that was left behind may take to end.
const END_MAX: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// How long a signal of this process may come after that of dnsmasq.
const SIGNAL_MAX: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// In the last line of one that a signal ended.
const BY_SIGNAL: &str = "exiting on receipt of SIGTERM";

/// dnsmasq as it runs.
#[derive(Debug)]
pub(super) struct Dnsmasq {
    child: Child,
    /// Ends with its last line, if it ended by itself.
    log: Option<JoinHandle<Option<String>>>,
    /// This process got a signal, or needs dnsmasq no more.
    is_stopped: Arc<AtomicBool>,
}

impl Dnsmasq {
    /// Starts it with the configuration of `folder`. A signal that ends this process sets `is_stopped`.
    pub(super) fn start(folder: &Path, is_stopped: Arc<AtomicBool>) -> Result<Self, Failure> {
        let Some(program) = programs::find("dnsmasq") else {
            let missing = Failure::new("dnsmasq, which serves DHCP and TFTP, is not installed");
            return Err(missing.next("apt install dnsmasq-base"));
        };
        let config = format!("--conf-file={}", folder.join("dnsmasq.conf").display());
        end_leftover(&folder.join("dnsmasq.pid"), &config);
        let mut command = Command::new(program);
        command
            .args([&config, "--keep-in-foreground"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let failed = |error| Failure::because("cannot start dnsmasq", &error);
        let mut child = command.spawn().map_err(failed)?;
        let Some(stderr) = child.stderr.take() else {
            return Err(Failure::new("dnsmasq has no log"));
        };
        let mut lines = BufReader::new(stderr);
        if let Err(last) = wait_for_start(&mut lines) {
            child.wait().map_err(failed)?;
            let failure = Failure::new(format!("dnsmasq did not start: {last}"));
            return Err(if last.contains("in use") {
                failure.next("another DHCP or TFTP server runs on this machine")
            } else if last.contains("inaccessible") {
                failure.next("dnsmasq has a user of its own: take a folder below /srv")
            } else {
                failure
            });
        }
        let flag = is_stopped.clone();
        let log = engine::thread("dnsmasq log", move || {
            let last = follow(lines);
            if !flag.load(Ordering::Acquire) && last.contains(BY_SIGNAL) {
                poll(&mut [], Some(&SIGNAL_MAX)).ok();
            }
            if flag.load(Ordering::Acquire) {
                return None;
            }
            tracing::error!("dnsmasq ended: {last}");
            kill_process(getpid(), Signal::TERM).ok();
            Some(last)
        });
        let log = Some(log.map_err(failed)?);
        Ok(Self {
            child,
            log,
            is_stopped,
        })
    }

    /// Ends it; an error if it had ended by itself.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        match self.end() {
            None => Ok(()),
            Some(last) => Err(Failure::new(format!("dnsmasq ended: {last}"))),
        }
    }

    fn end(&mut self) -> Option<String> {
        self.is_stopped.store(true, Ordering::Release);
        // The number of one that was waited for may be another process's.
        if matches!(self.child.try_wait(), Ok(None)) {
            kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
        }
        drop(self.child.wait());
        self.log.take()?.join().ok()?
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Reads up to the line of the start. The error is the last line with a cause.
fn wait_for_start(lines: &mut BufReader<ChildStderr>) -> Result<(), String> {
    let mut last = String::new();
    loop {
        let mut line = String::new();
        if !lines.read_line(&mut line).is_ok_and(|count| count > 0) {
            return Err(last);
        }
        if line.contains(": started, version") {
            return Ok(());
        }
        if !line.contains("FAILED to start up") {
            let cause = line.split_once(": ").map_or(&*line, |(_, cause)| cause);
            last = cause.trim().to_owned();
        }
    }
}

/// Logs what clients do until dnsmasq ends; returns its last line.
fn follow(lines: BufReader<ChildStderr>) -> String {
    let mut last = String::new();
    // A file name that a client sent need not be UTF-8.
    for line in lines.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        match ClientEvent::parse(&line) {
            Some(event @ ClientEvent::Failed { .. }) => tracing::warn!("{}", event.text()),
            Some(event) => tracing::info!("{}", event.text()),
            None => tracing::debug!("{line}"),
        }
        last = line.into_owned();
    }
    last
}

/// What a line of the log reports of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ClientEvent<'a> {
    /// It got the name of what it boots from a proxy.
    Boots {
        address: &'a str,
        card: &'a str,
        file: &'a str,
    },
    /// It got its address.
    Leased {
        address: &'a str,
        card: &'a str,
    },
    Fetched {
        address: &'a str,
        file: &'a str,
    },
    Failed {
        address: &'a str,
        file: &'a str,
    },
}

impl<'a> ClientEvent<'a> {
    /// The lines of dnsmasq's `src/rfc2131.c` and `src/tftp.c`: `PXE(card) ADDRESS MAC FILE`,
    /// `DHCPACK(card) ADDRESS MAC NAME`, `sent FILE to ADDRESS`.
    fn parse(line: &'a str) -> Option<Self> {
        let (program, text) = line.split_once("]: ")?;
        if program.starts_with("dnsmasq-dhcp[") {
            let words: Vec<&str> = text.split_whitespace().collect();
            return match words[..] {
                [kind, address, card, file] if kind.starts_with("PXE(") => Some(Self::Boots {
                    address,
                    card,
                    file,
                }),
                [kind, address, card, ..] if kind.starts_with("DHCPACK(") => {
                    Some(Self::Leased { address, card })
                }
                _ => None,
            };
        }
        let text = text.strip_prefix("sent ").map(|text| (text, true));
        let (text, is_sent) = match text {
            Some(found) => found,
            None => (line.split_once("]: failed sending ")?.1, false),
        };
        let (path, address) = text.rsplit_once(" to ")?;
        let file = path.split_once("/tftp/").map_or(path, |(_, file)| file);
        Some(match is_sent {
            true => Self::Fetched { address, file },
            false => Self::Failed { address, file },
        })
    }

    fn text(&self) -> String {
        match self {
            Self::Boots {
                address,
                card,
                file,
            } => format!("{address} ({card}) boots {file}"),
            Self::Leased { address, card } => format!("{address} is the address of {card}"),
            Self::Fetched { address, file } => format!("{address} fetched {file}"),
            Self::Failed { address, file } => format!("{address} did not get all of {file}"),
        }
    }
}

/// Ends the process that `file` has the number of, if it is dnsmasq with this configuration, and waits for that.
fn end_leftover(file: &Path, config: &str) {
    let number = fs::read_to_string(file).unwrap_or_default();
    let Some(process) = number.trim().parse().ok().and_then(Pid::from_raw) else {
        return;
    };
    let arguments = fs::read(format!("/proc/{}/cmdline", number.trim())).unwrap_or_default();
    let mut arguments = arguments.split(|byte| *byte == 0);
    if !arguments.any(|argument| argument == config.as_bytes()) {
        return;
    }
    tracing::info!("dnsmasq of an earlier run is ended");
    let Ok(pidfd) = pidfd_open(process, PidfdFlags::empty()) else {
        return;
    };
    kill_process(process, Signal::TERM).ok();
    let mut wanted = [PollFd::new(&pidfd, PollFlags::IN)];
    poll(&mut wanted, Some(&END_MAX)).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_clients_are_events() {
        let text = |line| ClientEvent::parse(line).map(|event| event.text());
        assert_eq!(
            text("dnsmasq-dhcp[7]: PXE(br0) 10.77.0.128 52:54:00:12:34:01 boot.ipxe").as_deref(),
            Some("10.77.0.128 (52:54:00:12:34:01) boots boot.ipxe")
        );
        assert_eq!(
            text("dnsmasq-tftp[7]: sent /srv/netboot/tftp/overlays/a to b.dtbo to 10.77.0.128")
                .as_deref(),
            Some("10.77.0.128 fetched overlays/a to b.dtbo")
        );
        assert_eq!(
            text("dnsmasq-dhcp[7]: DHCPACK(br0) 10.77.0.202 52:54:00:12:34:02 netboot").as_deref(),
            Some("10.77.0.202 is the address of 52:54:00:12:34:02")
        );
        assert_eq!(
            text("dnsmasq-tftp[7]: failed sending /srv/netboot/tftp/vmlinuz to 10.77.0.128")
                .as_deref(),
            Some("10.77.0.128 did not get all of vmlinuz")
        );
        for line in [
            "dnsmasq-dhcp[7]: PXE(br0) 52:54:00:12:34:01 proxy",
            "dnsmasq-tftp[7]: file /srv/netboot/tftp/x not found for 10.77.0.128",
            "dnsmasq[7]: started, version 2.90 DNS disabled",
            "",
        ] {
            assert_eq!(text(line), None, "{line}");
        }
    }

    #[test]
    fn a_process_that_is_no_dnsmasq_of_the_folder_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("dnsmasq.pid");
        // This test's own process would end.
        fs::write(&file, std::process::id().to_string()).unwrap();
        end_leftover(&file, "--conf-file=/nowhere/dnsmasq.conf");
        fs::write(&file, "no number").unwrap();
        end_leftover(&file, "");
    }
}
