//! What goes into the guest and what comes out of it: two tars, each on a disk of its own.
//!
//! ```text
//! in:  outboard, arguments (one a line), plan.toml
//! out: lab.sqlite where a run was begun, said, errors, status
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lab::units::{Bytes, MIB};
use rustix::fs::OFlags;
use tempfile::TempDir;

use super::GuestRequest;
use crate::DriverError;
use crate::last_line::last_line;

/// The largest scratch disk.
const SCRATCH_MAX: Bytes = Bytes(64 << 30);
/// The smallest one that a plan can be made on.
const SCRATCH_MIN: Bytes = Bytes(256 * MIB);
/// Room for what comes out; nothing is taken of it before.
const RESULT_SIZE: u64 = 4 << 30;

/// The disks of a run, as files.
#[derive(Debug)]
pub(super) struct Job {
    /// Holds all of them; gone when dropped.
    pub(super) folder: TempDir,
    pub(super) scratch: PathBuf,
    pub(super) input: PathBuf,
    pub(super) result: PathBuf,
    /// Whether the filesystem below the scratch disk can be written past the page cache.
    pub(super) direct: bool,
}

/// Makes the disks.
pub(super) fn pack(request: &GuestRequest<'_>) -> Result<Job, DriverError> {
    let below = request.directory;
    if !below.is_dir() {
        let what = format!("{} is no directory", below.display());
        return Err(DriverError::usage(what).next("the guest's scratch disk is made in one"));
    }
    let folder = tempfile::Builder::new()
        .prefix(".outboard-guest-")
        .tempdir_in(below)
        .map_err(|error| {
            DriverError::because(format!("cannot write to {}", below.display()), error)
        })?;
    let [scratch, input, result] =
        ["scratch", "input", "result"].map(|name| folder.path().join(name));
    sparse(&scratch, scratch_size(below)?.0)?;
    sparse(&result, RESULT_SIZE)?;
    let parts = folder.path().join("parts");
    fill(&parts, request)?;
    tar(Command::new("tar")
        .arg("-cf")
        .arg(&input)
        .arg("-C")
        .arg(&parts)
        .arg("."))?;
    std::fs::remove_dir_all(&parts)
        .map_err(|error| DriverError::because("cannot remove a folder", error))?;
    Ok(Job {
        direct: is_direct(&scratch),
        folder,
        scratch,
        input,
        result,
    })
}

/// Writes what the guest gets.
fn fill(parts: &Path, request: &GuestRequest<'_>) -> Result<(), DriverError> {
    let plan = request.plan.to_toml().map_err(DriverError::new)?;
    let program = std::env::current_exe()
        .map_err(|error| DriverError::because("cannot tell where this program is", error))?;
    let arguments = arguments(request).join("\n") + "\n";
    std::fs::create_dir(parts)
        .and_then(|()| std::fs::copy(program, parts.join("outboard")))
        .and_then(|_| std::fs::write(parts.join("arguments"), arguments))
        .and_then(|()| std::fs::write(parts.join("plan.toml"), plan))
        .map_err(|error| DriverError::because("cannot write what the guest gets", error))
}

/// The command inside the guest, its program left out.
fn arguments(request: &GuestRequest<'_>) -> Vec<String> {
    let mut words: Vec<String> = ["lab", "run", "/job/plan.toml", "/scratch"]
        .map(str::to_owned)
        .into();
    words.extend(["--store", "/job/result/lab.sqlite"].map(str::to_owned));
    words.extend(["--tell-progress", "/dev/ttyS1"].map(str::to_owned));
    if let Some(seed) = request.seed {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    if request.dry_run {
        words.push("--dry-run".to_owned());
        if request.json {
            words.push("--json".to_owned());
        }
    }
    words
}

/// Nine tenths of what is free, so that the guest is never promised what is not there.
fn scratch_size(below: &Path) -> Result<Bytes, DriverError> {
    let found = rustix::fs::statvfs(below).map_err(|error| {
        DriverError::because(format!("cannot look at {}", below.display()), error)
    })?;
    let free = Bytes(found.f_bavail.saturating_mul(found.f_frsize));
    let size = Bytes((free.0 / 10 * 9 / MIB * MIB).min(SCRATCH_MAX.0));
    if size < SCRATCH_MIN {
        let what = format!("{} has {free} free", below.display());
        return Err(DriverError::new(what).next(format!("a guest takes {SCRATCH_MIN} and more")));
    }
    Ok(size)
}

fn sparse(path: &Path, size: u64) -> Result<(), DriverError> {
    File::create_new(path)
        .and_then(|file| file.set_len(size))
        .map_err(|error| DriverError::because(format!("cannot make {}", path.display()), error))
}

fn is_direct(path: &Path) -> bool {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).is_ok()
}

fn tar(command: &mut Command) -> Result<(), DriverError> {
    let output = command
        .output()
        .map_err(|error| DriverError::because("cannot start tar", error))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(DriverError::new(format!(
            "tar failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

/// What came out of a guest.
#[derive(Debug)]
pub(super) struct GuestOutput {
    folder: TempDir,
    /// On its standard output.
    pub(super) said: String,
    /// Why it failed: one sentence without a full stop; none when it did not.
    pub(super) failure: Option<String>,
}

impl GuestOutput {
    /// Reads the tar that the guest has written.
    pub(super) fn unpack(result: File) -> Result<Self, DriverError> {
        let folder = tempfile::tempdir()
            .map_err(|error| DriverError::because("cannot make a temporary folder", error))?;
        tar(Command::new("tar")
            .args(["-xf", "-", "-C"])
            .arg(folder.path())
            .stdin(Stdio::from(result)))
        .map_err(|error| error.context("the guest left no result; "))?;
        let read =
            |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        Ok(Self {
            said: read("said"),
            failure: failure(&read("status"), &read("errors")),
            folder,
        })
    }

    /// The store, where a run was begun.
    pub(super) fn store(&self) -> Option<PathBuf> {
        Some(self.folder.path().join("lab.sqlite")).filter(|path| path.exists())
    }
}

/// Why the program in the guest failed, by its exit status and its last words.
fn failure(status: &str, errors: &str) -> Option<String> {
    if status.trim() == "0" {
        return None;
    }
    let last = last_line(errors);
    let last = last.map(|line| line.strip_prefix("outboard: ").unwrap_or(line));
    // What the guest says of its own store is of no use here.
    let last = last.map(|line| match line.rsplit_once(" as run ") {
        Some((kept, _)) => kept,
        None => line,
    });
    Some(match last {
        Some(why) => why.trim().to_owned(),
        None => format!("the lab ended with status {}", status.trim()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(plan: &'a lab::plan::Plan, directory: &'a Path) -> GuestRequest<'a> {
        GuestRequest {
            guest: Path::new("/guest"),
            plan,
            directory,
            store: Path::new("/store"),
            seed: Some(7),
            dry_run: false,
            json: false,
        }
    }

    #[test]
    fn the_guest_gets_this_program_the_plan_and_its_arguments() {
        let plan = lab::plan::builtin("layers").expect("a plan").small();
        let below = tempfile::tempdir().expect("a folder");
        let job = pack(&request(&plan, below.path())).expect("a job");
        let out = tempfile::tempdir().expect("a folder");
        let mut unpack = Command::new("tar");
        unpack.arg("-xf").arg(&job.input).arg("-C").arg(out.path());
        tar(&mut unpack).expect("a tar");
        let read = |name: &str| std::fs::read(out.path().join(name)).expect("a file");
        let own = std::fs::read(std::env::current_exe().expect("a program")).expect("a program");
        assert!(read("outboard") == own, "another program");
        let text = String::from_utf8(read("plan.toml")).expect("text");
        assert_eq!(lab::plan::Plan::parse(&text).expect("a plan"), plan);
        let words = String::from_utf8(read("arguments")).expect("text");
        assert!(
            words.starts_with("lab\nrun\n/job/plan.toml\n/scratch\n"),
            "{words}"
        );
        assert!(words.ends_with("--seed\n7\n"), "{words}");
        drop(job);
        assert_eq!(
            std::fs::read_dir(below.path()).expect("a folder").count(),
            0
        );
    }

    #[test]
    fn a_dry_run_is_asked_for_in_the_language_that_is_wanted() {
        let plan = lab::plan::builtin("quick").expect("a plan");
        let mut request = request(&plan, Path::new("/"));
        request.dry_run = true;
        request.json = true;
        let words = arguments(&request);
        assert!(words.ends_with(&["--dry-run".to_owned(), "--json".to_owned()]));
        request.json = false;
        assert!(!arguments(&request).contains(&"--json".to_owned()));
    }

    #[test]
    fn the_last_words_of_the_guest_tell_why_without_advice_that_does_not_hold_here() {
        assert_eq!(failure("0\n", "a warning\n"), None);
        let errors = "note\noutboard: stopped; 2 whole blocks were kept as run 1; \
                      `outboard lab run --resume=1` goes on with it\n";
        assert_eq!(
            failure("1\n", errors).as_deref(),
            Some("stopped; 2 whole blocks were kept")
        );
        assert_eq!(
            failure("139\n", "").as_deref(),
            Some("the lab ended with status 139")
        );
    }
}
