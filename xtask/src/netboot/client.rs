//! [`Client`]: a machine of QEMU with a network card and nothing else, and its serial console.
//!
//! The console is read as bytes: a prompt has no end of line.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::golden::LOGIN;
use super::network::Network;
use crate::guest::PROCESSOR;
use crate::{clock, process};

/// From power to a login, and any step: a machine that others use needs a third of it.
const LIMIT: Duration = Duration::from_secs(400);
const MEMORY_MIB: &str = "768";
/// The end of a console that an error has.
const SHOWN_BYTES: usize = 1500;
/// UEFI for QEMU, and its variables.
const UEFI: [&str; 2] = [
    "/usr/share/OVMF/OVMF_CODE_4M.fd",
    "/usr/share/OVMF/OVMF_VARS_4M.fd",
];

/// What is in the machine's ROM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Firmware {
    /// A BIOS, and iPXE on the network card.
    Bios,
    /// UEFI, whose own PXE loads iPXE by TFTP.
    Uefi,
}

/// A machine.
#[derive(Debug)]
pub(super) struct Client {
    qemu: Child,
    stdin: ChildStdin,
    bytes: Receiver<Vec<u8>>,
    /// All that it printed.
    console: String,
    /// Where the part of the console begins that was not looked at yet.
    at: usize,
}

impl Client {
    /// Turns a machine on. It has a network card by which it is known, and nothing to boot from.
    pub(super) fn start(
        network: &Network,
        firmware: Firmware,
        tap: &str,
        mac: &str,
        folder: &Path,
    ) -> Result<Self> {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .args(network.on_box())
            .arg("qemu-system-x86_64")
            .args(["-accel", "tcg,thread=multi", "-cpu", PROCESSOR])
            .args(["-smp", "1", "-m", MEMORY_MIB, "-nodefaults"])
            .args(["-display", "none", "-serial", "stdio", "-boot", "n"])
            .arg("-netdev")
            .arg(format!("tap,id=net,ifname={tap},script=no,downscript=no"));
        let card = format!("virtio-net-pci,netdev=net,mac={mac}");
        match firmware {
            Firmware::Bios => command.args(["-machine", "pc,graphics=off", "-device", &card]),
            Firmware::Uefi => {
                let [code, variables] = UEFI;
                let own = folder.join("uefi-variables.fd");
                std::fs::copy(variables, &own)?;
                let flash = |file: &str| format!("if=pflash,format=raw,file={file}");
                command
                    .args(["-device", &format!("{card},romfile=")])
                    .args(["-drive", &format!("{},readonly=on", flash(code))])
                    .args(["-drive", &flash(&own.to_string_lossy())])
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut qemu = command.spawn().context("cannot start QEMU")?;
        let stdin = qemu.stdin.take().context("QEMU takes no input")?;
        let stdout = qemu.stdout.take().context("QEMU has no console")?;
        Ok(Self {
            qemu,
            stdin,
            bytes: read_bytes(stdout),
            console: String::new(),
            at: 0,
        })
    }

    /// Waits for the prompt of the firmware's system, and logs in.
    pub(super) fn log_in(&mut self) -> Result<()> {
        let (user, password) = LOGIN.split_once(':').context("no password")?;
        self.wait_for("login: ")?;
        self.type_line(user)?;
        self.wait_for("Password: ")?;
        self.type_line(password)?;
        self.wait_for("# ")
    }

    /// Begins a step of `tests/netboot/client.sh`. The console echoes the line, which therefore has no `@status`.
    pub(super) fn begin(&mut self, step: &str) -> Result<()> {
        self.type_line(&format!("netboot-client {step}; echo '@sta'\"tus $?\""))
    }

    /// Waits for the end of a step.
    pub(super) fn finish(&mut self, step: &str) -> Result<()> {
        self.wait_for("@status ")
            .and_then(|()| {
                self.wait_for("\n")?;
                let line = self.console[..self.at].trim_end();
                ensure!(line.ends_with("@status 0"), "{}", self.ending());
                Ok(())
            })
            .with_context(|| format!("the step `{step}` of a client"))
    }

    /// A whole step.
    pub(super) fn step(&mut self, step: &str) -> Result<()> {
        self.begin(step)?;
        self.finish(step)
    }

    /// Types a line at the console.
    pub(super) fn type_line(&mut self, line: &str) -> Result<()> {
        writeln!(self.stdin, "{line}").context("QEMU takes no input")
    }

    /// Waits until the console has `text` behind what was waited for before.
    pub(super) fn wait_for(&mut self, text: &str) -> Result<()> {
        let end = clock::now() + LIMIT;
        loop {
            if let Some(found) = self.console[self.at..].find(text) {
                self.at += found + text.len();
                return Ok(());
            }
            let left = end.saturating_duration_since(clock::now());
            match self.bytes.recv_timeout(left) {
                Ok(bytes) => self.console.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => bail!("no {text:?} ({error}): {}", self.ending()),
            }
        }
    }

    /// How often the console has `text` up to now, after `time`.
    pub(super) fn count_after(&mut self, time: Duration, text: &str) -> usize {
        let end = clock::now() + time;
        while let Ok(bytes) = self
            .bytes
            .recv_timeout(end.saturating_duration_since(clock::now()))
        {
            self.console.push_str(&String::from_utf8_lossy(&bytes));
        }
        self.console.matches(text).count()
    }

    /// Processor time of QEMU, seconds.
    pub(super) fn cpu_seconds(&self) -> f64 {
        process::cpu_seconds(self.qemu.id()).unwrap_or_default()
    }

    fn ending(&self) -> String {
        let first = self.console.len().saturating_sub(SHOWN_BYTES);
        let first = self.console.ceil_char_boundary(first);
        self.console[first..].trim().replace('\r', "")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.qemu.kill().ok();
        self.qemu.wait().ok();
    }
}

/// Reads the console in a thread; ends with QEMU.
#[expect(
    clippy::disallowed_methods,
    reason = "a pipe is read while the caller waits for a deadline"
)]
fn read_bytes(mut stdout: ChildStdout) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stdout.read(&mut buffer) {
            if send.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receive
}
