//! One run of the guest: QEMU without hardware help, its console read line by line, the host's servers
//! killed and started as the script requests, its part of the script run, and an end to everything when time is
//! up.
//!
//! The script has a serial line of its own, so that no message of the kernel lands inside a line of it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::host::HostPart;
use super::image::{self, Image};
use super::rootfs;
use super::script::{self, BinaryUse, Disk, GuestCommand, Served};
use crate::servers::{Launcher, Server, Serving, free_port};
use crate::{clock, process};

/// How many lines of the console are shown when a script failed.
const SHOWN_LINES: usize = 60;

/// How many of them are repeated in the error.
const LINES_IN_SUMMARY: usize = 4;

/// One script and what it needs.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) name: &'a str,
    pub(super) script: &'a str,
    /// Which half of its combinations it goes through; all of them without one.
    pub(super) half: Option<u8>,
    pub(super) binary: Option<&'a Path>,
    pub(super) launcher: &'a Launcher,
    /// A folder of this run, for the images and the archive.
    pub(super) folder: &'a Path,
}

/// Runs a script to its end; anything but exit status 0 is an error. Returns the processor time that QEMU took, in seconds.
pub(super) fn run(image: &Image, job: &Job<'_>) -> Result<f64> {
    let wants = script::wants(job.script)?;
    let binary = job.binary.filter(|_| wants.outboard == BinaryUse::Guest);
    let mut hosts = Hosts::start(job, &wants.servers, binary)?;
    let (guests_part, hosts_part) = script::halves(job.script);
    let host_part = HostPart::write(job.folder, hosts_part, job.binary)?;
    for disk in &wants.disks {
        std::fs::File::create(image_of(job.folder, disk))?.set_len(disk.size)?;
    }
    let initrd = job.folder.join("initrd");
    let mut archive = std::fs::File::create(&initrd)
        .with_context(|| format!("cannot write {}", initrd.display()))?;
    archive.write_all(&std::fs::read(&image.base)?)?;
    archive.write_all(&image::overlay(guests_part, binary)?)?;
    drop(archive);
    let kernel_log = job.folder.join("kernel.log");
    let mut command = machine_command(
        &image.kernel,
        &initrd,
        &kernel_log,
        &variables(job, &hosts),
        MachineSize {
            processors: wants.processors,
            memory_mib: MEMORY_MIB,
        },
    );
    for disk in &wants.disks {
        add_disk(&mut command, &image_of(job.folder, disk));
    }
    let mut machine = Machine::start(command)?;
    let mut console = Vec::new();
    let outcome = follow(
        &mut machine,
        &mut hosts,
        &host_part,
        &mut console,
        wants.timeout_s,
    );
    let cpu_seconds = process::cpu_seconds(machine.qemu.id()).unwrap_or_default();
    drop(machine);
    let outcome = outcome.and_then(|()| hosts.check());
    std::fs::write(job.folder.join("console.log"), console.join("\n"))?;
    if outcome.is_err() {
        let kernel = std::fs::read_to_string(&kernel_log).unwrap_or_default();
        let kernel: Vec<&str> = kernel.lines().collect();
        let shown: Vec<&str> = console.iter().map(String::as_str).collect();
        // In one piece: others run at the same time.
        eprint!(
            "{}{}",
            tail(&format!("{} kernel", job.name), &kernel),
            tail(job.name, &shown)
        );
    }
    outcome.with_context(|| format!("the console ended with: {}", ending(&console)))?;
    Ok(cpu_seconds)
}

/// What the script's environment has.
fn variables(job: &Job<'_>, hosts: &Hosts<'_>) -> String {
    let half = job.half.map(|half| format!("HALF={half} "));
    half.unwrap_or_default() + &hosts.variables()
}

/// The last lines of a console, in one: what a list at the end has room for.
fn ending(lines: &[String]) -> String {
    let first = lines.len().saturating_sub(LINES_IN_SUMMARY);
    lines[first..].join(" | ")
}

/// The end of the output of `who`, which each of its lines names.
pub(super) fn tail(who: &str, lines: &[&str]) -> String {
    let first = lines.len().saturating_sub(SHOWN_LINES);
    let lines = lines[first..].iter();
    lines.map(|line| format!("  {who}| {line}\n")).collect()
}

/// Reads the console until the script has ended.
fn follow(
    machine: &mut Machine,
    hosts: &mut Hosts<'_>,
    host_part: &HostPart,
    console: &mut Vec<String>,
    timeout_s: u64,
) -> Result<()> {
    let end = clock::now() + Duration::from_secs(timeout_s);
    loop {
        let left = end.saturating_duration_since(clock::now());
        let line = match machine.lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => bail!("not done after {timeout_s} s"),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the guest stopped before its script ended")
            }
        };
        let command = script::parse_command(&line);
        console.push(line);
        match command {
            Some(GuestCommand::Kill(name)) => hosts.kill(&name)?,
            Some(GuestCommand::Start(name)) => hosts.restart(&name)?,
            Some(GuestCommand::Swap(name, other)) => hosts.swap(&name, &other)?,
            Some(GuestCommand::Grow(name, size)) => hosts.grow(&name, size)?,
            Some(GuestCommand::Proof(name, text)) => hosts.host(&name)?.proof = Some(text),
            Some(GuestCommand::Host(words)) => {
                let answer = machine.standing_still(|| host_part.run(&words, console))?;
                machine.say(&answer)?;
            }
            Some(GuestCommand::Exit(code)) => {
                ensure!(code == 0, "the script ended with status {code}");
                return Ok(());
            }
            None => {}
        }
    }
}

/// Where the image of a disk is.
fn image_of(folder: &Path, disk: &Disk) -> PathBuf {
    folder.join(format!("{}.img", disk.name))
}

/// The memory of a script's machine.
const MEMORY_MIB: u32 = 1024;

/// The processor: all that QEMU emulates, but for what is slow under emulation and changes no result. `erms` has the kernel
/// copy and clear memory by string instructions, which are emulated byte by byte; the others cost checks at each access.
pub(crate) const PROCESSOR: &str = "max,erms=off,smap=off,smep=off,la57=off";

/// Where this machine is busy the guest's timer comes too late for the kernel's first calibration. The kernel's tests of its
/// own ciphers are not ours: under emulation one of them was once stuck until the time limit. Nor is the guest attacked:
/// without `mitigations` calls by pointers are plain ones, and pages are not cleared twice. With `norandmaps` a program has the
/// same addresses each time it is started, and QEMU finds its code translated: otherwise each start translates it again.
pub(crate) const KERNEL_OPTIONS: &str = "console=ttyS0 quiet panic=-1 no_timer_check random.trust_cpu=on cryptomgr.notests \
    mitigations=off init_on_alloc=0 norandmaps";

/// What a machine has.
#[derive(Debug, Clone, Copy)]
pub(super) struct MachineSize {
    pub(super) processors: u32,
    pub(super) memory_mib: u32,
}

/// The command of a machine without disks.
pub(super) fn machine_command(
    kernel: &Path,
    initrd: &Path,
    kernel_log: &Path,
    variables: &str,
    size: MachineSize,
) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64"])
        .args(["-accel", "tcg,thread=multi", "-cpu", PROCESSOR])
        .args(["-smp", &size.processors.to_string()])
        .args(["-m", &size.memory_mib.to_string()])
        .args(["-nodefaults", "-display", "none", "-no-reboot"])
        .args(["-netdev", "user,id=net"])
        .args(["-device", "virtio-net-pci,netdev=net,romfile="])
        .arg("-serial")
        .arg(format!("file:{}", kernel_log.display()))
        .args(["-serial", "stdio"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initrd)
        .arg("-append")
        .arg(format!("{KERNEL_OPTIONS} {variables}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Gives the machine a disk: what it wrote there is in the image at once, and the host may write too.
fn add_disk(command: &mut Command, image: &Path) {
    command.arg("-drive").arg(format!(
        "file={},format=raw,if=virtio,cache=unsafe,file.locking=off",
        image.display()
    ));
}

/// QEMU and the lines of its console.
#[derive(Debug)]
struct Machine {
    qemu: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Machine {
    fn start(mut command: Command) -> Result<Self> {
        let mut qemu = command.spawn().context("cannot start qemu-system-x86_64")?;
        let stdin = qemu.stdin.take().context("QEMU takes no answers")?;
        let stdout = qemu.stdout.take().context("QEMU has no console")?;
        let lines = read_lines(stdout);
        Ok(Self { qemu, stdin, lines })
    }

    /// Does something while the guest and its disks stand still.
    ///
    /// What the guest wrote until then is in the images, and nothing else: what a power cut leaves.
    fn standing_still<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let process = Pid::from_child(&self.qemu);
        kill_process(process, Signal::STOP).context("cannot stop QEMU")?;
        let done = act();
        kill_process(process, Signal::CONT).context("cannot go on with QEMU")?;
        done
    }

    /// Says a line on the script's serial line.
    fn say(&mut self, line: &str) -> Result<()> {
        writeln!(self.stdin, "{line}").context("QEMU takes no answer")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.qemu.kill().ok();
        self.qemu.wait().ok();
    }
}

/// Reads the console in a thread; the caller may wait for a line with a limit; ends with QEMU.
#[expect(
    clippy::disallowed_methods,
    reason = "a pipe is read while the caller waits for a deadline"
)]
fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if send.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
    receive
}

/// The servers of one run.
#[derive(Debug)]
struct Hosts<'a> {
    launcher: &'a Launcher,
    served: BTreeMap<String, Host>,
}

#[derive(Debug)]
struct Host {
    image: PathBuf,
    port: u16,
    serving: Option<Serving>,
    is_root: bool,
    /// What the guest reported of a root filesystem.
    proof: Option<String>,
    /// The image as it was when it was served in place of another one.
    unchanged: Option<Vec<u8>>,
}

impl<'a> Hosts<'a> {
    fn start(job: &Job<'a>, wanted: &[Served], binary: Option<&Path>) -> Result<Self> {
        let mut hosts = Self {
            launcher: job.launcher,
            served: BTreeMap::new(),
        };
        for server in wanted {
            let image = job.folder.join(format!("{}.img", server.name));
            if server.is_root {
                rootfs::build(&image, server.size, binary)?;
            } else {
                std::fs::File::create(&image)?.set_len(server.size)?;
            }
            let port = free_port()?;
            let host = Host {
                image,
                port,
                serving: None,
                is_root: server.is_root,
                proof: None,
                unchanged: None,
            };
            hosts.served.insert(server.name.clone(), host);
            hosts.restart(&server.name)?;
        }
        Ok(hosts)
    }

    /// What the kernel hands to the guest's first process.
    fn variables(&self) -> String {
        let ports: Vec<String> = self
            .served
            .iter()
            .map(|(name, host)| format!("{name}={}", host.port))
            .collect();
        ports.join(" ")
    }

    fn kill(&mut self, name: &str) -> Result<()> {
        if let Some(serving) = self.host(name)?.serving.take() {
            serving.kill();
        }
        Ok(())
    }

    fn restart(&mut self, name: &str) -> Result<()> {
        let launcher = self.launcher;
        let host = self.host(name)?;
        let disk = host.image.to_string_lossy();
        host.serving = Some(launcher.start_at(Server::Ours, &disk, host.port)?);
        Ok(())
    }

    /// Serves the image of `other` on the port of `name`.
    fn swap(&mut self, name: &str, other: &str) -> Result<()> {
        self.kill(name)?;
        self.kill(other)?;
        let launcher = self.launcher;
        let swapped = self.host(other)?;
        swapped.unchanged = Some(std::fs::read(&swapped.image)?);
        let disk = swapped.image.to_string_lossy().into_owned();
        let host = self.host(name)?;
        host.serving = Some(launcher.start_at(Server::Ours, &disk, host.port)?);
        Ok(())
    }

    fn grow(&mut self, name: &str, size: u64) -> Result<()> {
        let image = &self.host(name)?.image;
        let file = std::fs::OpenOptions::new().write(true).open(image)?;
        ensure!(size >= file.metadata()?.len(), "{name} would shrink");
        file.set_len(size)?;
        Ok(())
    }

    /// Ends all servers, then checks the root filesystems and the images that must not have changed.
    fn check(&mut self) -> Result<()> {
        let serving = self
            .served
            .values_mut()
            .filter_map(|host| host.serving.take());
        serving.for_each(Serving::kill);
        for (name, host) in &self.served {
            if let Some(before) = &host.unchanged {
                let after = std::fs::read(&host.image)?;
                ensure!(
                    after == *before,
                    "{name} was written to in place of another disk"
                );
            }
            match &host.proof {
                Some(proof) => rootfs::check(&host.image, proof)?,
                None => ensure!(
                    !host.is_root,
                    "the guest gave no proof of running from {name}"
                ),
            }
        }
        Ok(())
    }

    fn host(&mut self, name: &str) -> Result<&mut Host> {
        self.served
            .get_mut(name)
            .with_context(|| format!("the script speaks of {name}, which it does not serve"))
    }
}
