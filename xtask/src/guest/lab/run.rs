//! `cargo xtask guest --lab PLAN DIR [OPTION…]`: a run of the lab inside the guest, and scripts that need what it has.
//!
//! The program, the plan, its arguments and the store of DIR are files of the guest's first filesystem. What the run
//! made comes back as a tar on a disk, and its store replaces that of DIR. The measured scratch disk is a second one.
//! Both disks are sparse files in DIR that are removed when the run has ended.
//!
//! Invariant: QEMU emulates the processor, so that every machine makes the same guest; the run says so by the
//! processor's name.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Mode, OFlags};

use super::super::cpio::Archive;
use super::super::image;
use super::super::machine::{MachineSize, machine_command, tail};
use super::super::script::DEFAULT_PROCESSORS;
use super::Guest;
use crate::shell;

/// The largest scratch disk, bytes.
const SCRATCH_MAX: u64 = 64 << 30;
/// The size of the disk for the results, bytes: no space is allocated before it is written.
const RESULT_SIZE: u64 = 4 << 30;
/// What the machine has. Its first filesystem is in the memory, too.
const SIZE: MachineSize = MachineSize {
    processors: DEFAULT_PROCESSORS,
    memory_mib: 2048,
};
/// The store of all runs that were made in a directory.
pub(crate) const STORE: &str = "lab.sqlite";

/// What is shown of the guest's console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Console {
    /// All of it, as it comes.
    Shown,
    /// Its end, where the run failed: others print at the same time.
    OfFailure,
}

/// Makes the run in DIR with the plan and the options of `words`, within `limit_s` seconds unless that is 0; returns what
/// the lab printed.
pub(crate) fn run(guest: &Guest, words: &[String], limit_s: u32, shows: Console) -> Result<String> {
    let [plan, directory, options @ ..] = words else {
        bail!("give PLAN, DIR and options of `outboard lab run`");
    };
    let directory = Path::new(directory);
    let store = directory.join(STORE);
    let job = job(plan, options, &store)?;
    let carried_out = ("lab", limit_s, shows);
    let printed = carry_out(guest, directory, &job, carried_out, |out| {
        // A run that failed has kept what it measured.
        if out.join(STORE).exists() {
            std::fs::copy(out.join(STORE), &store)?;
        }
        Ok(std::fs::read_to_string(out.join("output")))
    })?;
    printed.context("`lab run` printed nothing")
}

/// A script for the guest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LabScript<'a> {
    /// Its name in `tests/guest/lab`.
    pub(crate) name: &'a str,
    /// Lines before it.
    pub(crate) settings: &'a str,
    /// Programs of this machine that it needs besides those of every guest of the lab.
    pub(crate) programs: &'a [&'a str],
}

/// Carries out a script; `keep` has what it left in `/job/result`. The guest's disks are files in `directory`, which is removed after
/// a success.
pub(crate) fn script(
    guest: &Guest,
    LabScript {
        name,
        settings,
        programs,
    }: LabScript<'_>,
    directory: &Path,
    limit_s: u32,
    keep: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    std::fs::remove_dir_all(directory).ok();
    std::fs::create_dir_all(directory)?;
    let path = shell::root()
        .join("tests/guest/lab")
        .join(name)
        .with_extension("sh");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let mut job = Archive::default();
    job.file("job/script", format!("{settings}\n{text}").as_bytes())?;
    for name in programs {
        let program = image::find_program(name)?;
        job.program(&format!("usr/bin/{name}"), &std::fs::read(&program)?)?;
        for library in image::libraries(&program)? {
            job.copy(&library)?;
        }
    }
    let job = job.finish()?;
    let carried_out = (name, limit_s, Console::OfFailure);
    carry_out(guest, directory, &job, carried_out, keep)?;
    Ok(std::fs::remove_dir_all(directory)?)
}

/// Carries out `job`, of this name and limit of time, in the guest, whose disks are files in `directory`; `keep` has the results,
/// also of a job that failed. What that returned.
fn carry_out<T>(
    guest: &Guest,
    directory: &Path,
    job: &[u8],
    (name, limit_s, shows): (&str, u32, Console),
    keep: impl FnOnce(&Path) -> Result<T>,
) -> Result<T> {
    let work = tempfile::Builder::new()
        .prefix(".outboard-guest-")
        .tempdir_in(directory)
        .with_context(|| format!("cannot write to {}", directory.display()))?;
    let path = |name: &str| work.path().join(name);
    let initrd = path("initrd");
    let mut archive = File::create(&initrd)?;
    archive.write_all(&std::fs::read(&guest.initrd)?)?;
    archive.write_all(job)?;
    let [scratch, result] = [
        ("scratch", scratch_size(directory)?),
        ("result", RESULT_SIZE),
    ]
    .map(|(name, size)| -> Result<PathBuf> {
        File::create(path(name))?.set_len(size)?;
        Ok(path(name))
    });
    let (scratch, result) = (scratch?, result?);
    // A full file system outside is an I/O error inside, not a paused machine.
    let cache = match is_direct(&scratch) {
        true => "cache=none,discard=unmap,werror=report",
        false => "cache=writeback,discard=unmap,werror=report",
    };
    let mut command = machine_command(&guest.kernel, &initrd, &path("kernel.log"), "", SIZE);
    for (file, options) in [(&scratch, cache), (&result, "cache=unsafe")] {
        let file = file.to_string_lossy().replace(',', ",,");
        let drive = format!("file={file},format=raw,if=virtio,file.locking=off,{options}");
        command.args(["-drive", &drive]);
    }
    let console = follow(&command, limit_s, shows)?;
    let outcome = results(work.path(), &console, keep);
    if outcome.is_err() && shows == Console::OfFailure {
        let lines: Vec<&str> = console.lines().collect();
        eprint!("{}", tail(name, &lines));
    }
    outcome
}

/// Unpacks the results below `work` for `keep`; what that returned, unless the job failed.
fn results<T>(work: &Path, console: &str, keep: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let out = work.join("out");
    std::fs::create_dir(&out)?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(work.join("result"));
    shell::output(unpack.arg("-C").arg(&out)).context("the guest left no result")?;
    let kept = keep(&out);
    let mut lines = console.lines().rev();
    let exit = lines.find_map(|line| line.trim().strip_prefix("@exit "));
    ensure!(
        exit == Some("0"),
        "the job ended in the guest with status {}",
        exit.unwrap_or("unknown")
    );
    kept
}

/// The files of one run: `arguments` (one a line), the plan where it is a file, and the store with the runs before.
fn job(plan: &str, options: &[String], store: &Path) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    let mut plan = plan.to_owned();
    // As `outboard lab run` distinguishes them.
    if plan.contains('/') || plan.ends_with(".toml") {
        archive.file("job/plan.toml", &std::fs::read(&plan)?)?;
        "/job/plan.toml".clone_into(&mut plan);
    }
    if store.exists() {
        archive.file("job/result/lab.sqlite", &std::fs::read(store)?)?;
    }
    let first = [
        "lab",
        "run",
        &plan,
        "/scratch",
        "--store",
        "/job/result/lab.sqlite",
    ];
    let words = first.into_iter().chain(options.iter().map(String::as_str));
    let arguments: String = words.map(|word| format!("{word}\n")).collect();
    archive.file("job/arguments", arguments.as_bytes())?;
    archive.finish()
}

/// Starts QEMU and reads its console until it ends; what it printed. A line `stop` on standard input ends a run that is
/// shown with what was measured.
fn follow(machine: &Command, limit_s: u32, shows: Console) -> Result<String> {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--", "timeout", "--foreground"])
        .arg(limit_s.to_string())
        .arg(machine.get_program())
        .args(machine.get_args())
        .stdout(Stdio::piped());
    if shows == Console::OfFailure {
        command.stdin(Stdio::null());
    }
    let mut qemu = command.spawn().context("cannot start qemu-system-x86_64")?;
    let mut stdout = qemu.stdout.take().context("QEMU has no console")?;
    let (mut console, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        // As it comes: a progress bar ends no line.
        let count = stdout.read(&mut piece)?;
        if count == 0 {
            break;
        }
        if shows == Console::Shown {
            std::io::stderr().write_all(&piece[..count])?;
        }
        console.extend_from_slice(&piece[..count]);
    }
    qemu.wait()?;
    Ok(String::from_utf8_lossy(&console).into_owned())
}

/// Nine tenths of the free space of a file system, in whole MiB.
fn scratch_size(directory: &Path) -> Result<u64> {
    let found = rustix::fs::statvfs(directory)?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    Ok((free / 10 * 9).min(SCRATCH_MAX) >> 20 << 20)
}

fn is_direct(path: &Path) -> bool {
    rustix::fs::open(
        path,
        OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .is_ok()
}
