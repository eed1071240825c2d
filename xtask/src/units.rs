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

use crate::{clock, packages, shell};

/// What the Debian has besides its least.
const INCLUDED: &str = "--include=systemd,systemd-sysv,dbus,iproute2,e2fsprogs";
const RELEASE: &str = "bookworm";
/// The units under test.
const UNITS: [&str; 3] = [
    "outboard.service",
    "outboard.socket",
    "outboard-attach@.service",
];
/// Longer than a boot, all steps and a stop.
const LIMIT_SECONDS: &str = "240";
/// How long the stop may take, with an attachment to a dead server: less than systemd's 90 s for a service
/// that does not end.
const STOP_SECONDS: u64 = 60;
/// Runs the steps once the system is up, and ends it with their status.
const CHECK: &str = "[Unit]
Description=steps of the test
After=dbus.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'cd /var/lib; sh ./boot.sh >output 2>&1; echo $? >status; systemctl poweroff'
[Install]
WantedBy=multi-user.target
";

/// Boots it and prints the output of its steps.
pub(crate) fn run() -> Result<()> {
    packages::ensure(&[packages::UNITS])?;
    let binary = shell::build()?;
    let root = debian()?;
    put(&root, &binary)?;
    let mut boot = Command::new("timeout");
    boot.args([LIMIT_SECONDS, "systemd-nspawn", "--quiet", "--boot"]);
    // No other service of this machine is involved, and ports are its own.
    boot.args(["--register=no", "--keep-unit", "--private-network"]);
    boot.arg("--volatile=no").arg("--directory").arg(&root);
    let booted = shell::output(&mut boot);
    let output = fs::read_to_string(root.join("var/lib/output")).unwrap_or_default();
    print!("{output}");
    let Ok(status) = fs::read_to_string(root.join("var/lib/status")) else {
        return booted.map(drop).context("the steps did not end");
    };
    let stopped = clock::unix_seconds();
    ensure!(
        status.trim() == "0",
        "the steps ended with status {}",
        status.trim()
    );
    let stopping = fs::read_to_string(root.join("var/lib/stopping"))?;
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
        (
            shell::root().join("tests/units/boot.sh"),
            root.join("var/lib/boot.sh"),
        ),
    ];
    files.extend(UNITS.map(|unit| (packaging.join(unit), units.join(unit))));
    for (from, to) in files {
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    fs::write(units.join("check.service"), CHECK)?;
    for stale in ["var/lib/output", "var/lib/status", "var/lib/stopping"] {
        fs::remove_file(root.join(stale)).ok();
    }
    let mut enable = Command::new("systemctl");
    enable.arg("--root").arg(root).args(["enable", "check"]);
    shell::output(&mut enable).map(drop)
}
