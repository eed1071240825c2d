//! What a test needs of its machine.
//!
//! A test begins with
//!
//! ```no_run
//! use testkit::requires;
//! if !requires::all(&[requires::root(), requires::command("losetup")]) {
//!     return;
//! }
//! ```
//!
//! and is skipped, with the reason on stderr, where something is missing. With
//! `OUTBOARD_REQUIRE_ALL=1` a missing thing is a failure instead, so that a machine which should
//! run everything does.

use std::env;
use std::fs::OpenOptions;
use std::path::Path;

/// Name of the environment variable that makes missing things fail.
pub const REQUIRE_ALL: &str = "OUTBOARD_REQUIRE_ALL";

/// What is missing, and how to get it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {remedy}")]
pub struct Missing {
    what: String,
    remedy: String,
}

impl Missing {
    /// `what` is missing; `remedy` says how to get it.
    #[must_use]
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

/// Whether the test can run; prints why not.
///
/// # Panics
/// If something is missing and `OUTBOARD_REQUIRE_ALL` is 1.
#[must_use]
pub fn all(needs: &[Result<(), Missing>]) -> bool {
    let missing = needs.iter().filter_map(|need| need.as_ref().err());
    let missing: Vec<String> = missing.map(ToString::to_string).collect();
    if missing.is_empty() {
        return true;
    }
    let missing = missing.join("; ");
    assert!(
        env::var_os(REQUIRE_ALL).is_none_or(|value| value != "1"),
        "{REQUIRE_ALL} is set, and this test cannot run: {missing}"
    );
    eprintln!("skipped: {missing}");
    false
}

/// A program on the path (or in the system directories that a user's path leaves out).
///
/// # Errors
/// [`Missing`].
pub fn command(name: &str) -> Result<(), Missing> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(Into::into);
    if env::split_paths(&path)
        .chain(system)
        .any(|dir| dir.join(name).is_file())
    {
        return Ok(());
    }
    Err(Missing::new(
        format!("no program {name}"),
        "install the package that has it",
    ))
}

/// The programs of Ceph, each of another package, that a cluster is started with.
///
/// # Errors
/// [`Missing`].
pub fn ceph() -> Result<(), Missing> {
    for program in ["ceph-mon", "ceph-osd", "ceph", "rbd"] {
        command(program).map_err(|_| {
            let remedy = "install ceph-mon, ceph-osd and ceph-common; `cargo xtask test` does";
            Missing::new(format!("no program {program}"), remedy)
        })?;
    }
    Ok(())
}

/// The right to do everything.
///
/// # Errors
/// [`Missing`].
pub fn root() -> Result<(), Missing> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Missing::new("not root", "run the test as root"))
}

/// A FUSE device that may be opened.
///
/// # Errors
/// [`Missing`].
pub fn fuse() -> Result<(), Missing> {
    device(
        "/dev/fuse",
        "load the fuse module, or run as a user who may open it",
    )
}

/// Loop devices that may be set up.
///
/// # Errors
/// [`Missing`].
pub fn loop_device() -> Result<(), Missing> {
    device("/dev/loop-control", "load the loop module, or run as root")?;
    command("losetup")
}

/// io_uring.
///
/// # Errors
/// [`Missing`].
pub fn io_uring() -> Result<(), Missing> {
    let config = engine::Config {
        backend: engine::BackendChoice::Uring,
        cores: 1,
    };
    engine::run(&config, |_| async {}).map_err(|e| {
        Missing::new(
            format!("no io_uring: {e}"),
            "use a kernel from 5.15 on that allows it",
        )
    })
}

fn device(path: &str, remedy: &str) -> Result<(), Missing> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .open(Path::new(path));
    match opened {
        Ok(_) => Ok(()),
        Err(e) => Err(Missing::new(format!("{path}: {e}"), remedy)),
    }
}
