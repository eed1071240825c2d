//! `cargo xtask units`: a Debian with systemd is booted in a container, and uses our units as an admin would.
//!
//! The sandbox of a service is believed only when it was run: a filter of system calls that lacks one of ours
//! is seen by nothing else. What is done inside is in `tests/units/boot.sh`; its exit status is the verdict.
//!
//! An attachment to a dead server is left for the end: the system must stop all the same.
//!
//! It is no part of `ci`: it needs root, control groups, and half a minute for the Debian, which is kept under
//! the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::systemd::{self, Network, RELEASE};
use crate::{clock, packages, shell};

/// What the Debian has besides its least.
const INCLUDED: &str = "--include=systemd,systemd-sysv,dbus,iproute2,e2fsprogs";
/// The units under test.
const UNITS: [&str; 3] = [
    "outboard.service",
    "outboard.socket",
    "outboard-attach@.service",
];
/// How long the stop may take, with an attachment to a dead server: less than systemd's 90 s for a service
/// that does not end.
const STOP_SECONDS: u64 = 60;

/// Boots it and prints the output of its steps.
pub(crate) fn run() -> Result<()> {
    packages::ensure(&[packages::UNITS])?;
    let binary = shell::build()?;
    let root = debian()?;
    put(&root, &binary)?;
    systemd::boot(&root, Network::Own, || Ok(()))?;
    let stopped = clock::unix_seconds();
    let stopping = systemd::left(&root, "stopping")?;
    let took = stopped.saturating_sub(stopping.trim().parse()?);
    ensure!(
        took <= STOP_SECONDS,
        "the system took {took} s to stop with an attachment whose server is dead"
    );
    println!("units: ok, stopped within {took} s");
    Ok(())
}

/// The Debian, made once.
fn debian() -> Result<PathBuf> {
    let root = shell::target().join("units").join(RELEASE);
    if root.join("usr/lib/systemd/systemd").exists() {
        return Ok(root);
    }
    let part = shell::target().join("units/part");
    fs::remove_dir_all(&part).ok();
    fs::create_dir_all(&part)?;
    let mut make = Command::new("debootstrap");
    make.args(["--variant=minbase", INCLUDED, RELEASE]);
    shell::output(make.arg(&part))?;
    fs::rename(&part, &root).with_context(|| format!("cannot make {}", root.display()))?;
    Ok(root)
}

/// Puts the binary, the units and the steps where they belong.
fn put(root: &Path, binary: &Path) -> Result<()> {
    let packaging = shell::root().join("packaging");
    let units = root.join("etc/systemd/system");
    let settings = root.join("etc/outboard");
    fs::create_dir_all(&settings)?;
    let mut files = vec![
        // Where the guide puts it.
        (binary.to_path_buf(), root.join("usr/local/bin/outboard")),
        (
            packaging.join("outboard.toml"),
            settings.join("outboard.toml"),
        ),
    ];
    files.extend(UNITS.map(|unit| (packaging.join(unit), units.join(unit))));
    for (from, to) in files {
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    systemd::put_steps(root, &shell::root().join("tests/units/boot.sh"))
}
