//! `cargo xtask units`: a Debian with systemd is booted in a container, and uses our units as an admin would.
//!
//! The sandbox of a service is believed only when it was run: a filter of system calls that lacks one of ours
//! is seen by nothing else. What is done inside is in `tests/units/boot.sh`; its exit status is the verdict.
//!
//! Two disks are to be attached and mounted at the boot itself, by a file of attach.d and by a line of fstab.
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
/// A filesystem of ext4 fits.
const DISK_BYTES: u64 = 16 << 20;
/// What the head of the unit says, for the disk "table".
const FSTAB: &str = "/run/outboard-attach/by-name/table /mnt/table auto \
                     _netdev,nofail,x-systemd.requires=outboard-attach@table.service 0 0\n";
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

/// Puts the binary, the units and the steps where they belong, with nothing of an earlier run.
fn put(root: &Path, binary: &Path) -> Result<()> {
    let packaging = shell::root().join("packaging");
    let units = root.join("etc/systemd/system");
    let settings = root.join("etc/outboard");
    fs::remove_dir_all(&settings).ok();
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
    put_boot_disks(root, &settings.join("attach.d"))?;
    systemd::put_steps(root, &shell::root().join("tests/units/boot.sh"))?;
    add_user(root)
}

/// Two disks for the boot, each with a file that has its name: one that its own file mounts, and one that fstab does.
fn put_boot_disks(root: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for (name, mount) in [
        ("early", "mount = \"/mnt/early\"\nwait = 20\n"),
        ("table", "wait = 20\n"),
    ] {
        let content = tempfile::tempdir()?;
        fs::write(content.path().join("file"), format!("{name}\n"))?;
        let image = root.join(format!("var/lib/{name}.img"));
        fs::File::create(&image)?.set_len(DISK_BYTES)?;
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-d"]).arg(content.path());
        shell::output(make.arg(&image))?;
        let text = format!("disk = \"/var/lib/{name}.img\"\n{mount}");
        fs::write(folder.join(format!("{name}.toml")), text)?;
        fs::create_dir_all(root.join("mnt").join(name))?;
    }
    fs::write(root.join("etc/fstab"), FSTAB)?;
    let mut enable = Command::new("systemctl");
    enable.arg("--root").arg(root);
    shell::output(enable.args(["enable", "outboard-attach@early"])).map(drop)
}

/// The user of the service.
fn add_user(root: &Path) -> Result<()> {
    let users = fs::read_to_string(root.join("etc/passwd"))?;
    if users.lines().any(|line| line.starts_with("outboard:")) {
        return Ok(());
    }
    let mut add = Command::new("useradd");
    add.arg("--root").arg(root).args(["--system", "outboard"]);
    shell::output(&mut add).map(drop)
}
