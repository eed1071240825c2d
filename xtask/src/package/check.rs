//! `cargo xtask package --check`: lintian, and the packages in Debians of their own.
//!
//! What is done inside is in `tests/package/check.sh` and, where initramfs-tools are installed, `initramfs.sh`; their exit
//! status is the verdict. Each Debian is made once and kept as an archive below the target folder: each check begins with an
//! untouched one. Next to the packages it has an [upgrade](add_upgrade) of those with a binary.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::contents::INITRAMFS_BINARY;
use crate::systemd::RELEASE;
use crate::{packages, shell};

/// What the packages depend on and the steps use: nothing is fetched inside.
const INCLUDED: &str = "adduser,libgcc-s1,bash";
const INITRAMFS_INCLUDED: &str = "adduser,libgcc-s1,initramfs-tools";

/// Tags of lintian that do not concern us.
///
/// A package is not uploaded to Debian: nothing there closes a bug by it, and the publisher sets the
/// address of the maintainer.
const SUPPRESSED: &str =
    "initial-upload-closes-no-bugs,bogus-mail-host,bogus-mail-host-in-debian-changelog";

/// Checks the packages that were made.
pub(super) fn run(made: &[PathBuf]) -> Result<()> {
    judge(made)?;
    for (purpose, included, script) in [
        ("packages", INCLUDED, "check.sh"),
        ("initramfs", INITRAMFS_INCLUDED, "initramfs.sh"),
    ] {
        let root = debian(purpose, included)?;
        copy_packages(made, root.path())?;
        let folder = shell::root().join("tests/package");
        let steps = root.path().join("packages").join(script);
        std::fs::copy(folder.join(script), steps)?;
        let command = format!("sh /packages/{script}");
        let outcome = shell::run(&mut inside(root.path(), &command));
        // What is mounted inside ends with its namespace.
        outcome.context("the packages are not as they should be")?;
        println!("{purpose}: ok");
    }
    Ok(())
}

/// lintian's errors are ours.
pub(super) fn judge(made: &[PathBuf]) -> Result<()> {
    packages::ensure(&[packages::PACKAGE_CHECK])?;
    let mut lintian = Command::new("lintian");
    lintian
        .args([
            "--allow-root",
            "--fail-on",
            "error",
            "--suppress-tags",
            SUPPRESSED,
        ])
        .args(made);
    shell::run(&mut lintian).context("lintian found errors")
}

/// Copies the packages into `/packages` of a Debian, and an upgrade into `/packages/upgrade`.
pub(super) fn copy_packages(made: &[PathBuf], root: &Path) -> Result<()> {
    let folder = root.join("packages");
    std::fs::create_dir_all(&folder)?;
    for package in made {
        let name = package.file_name().context("a package has a name")?;
        std::fs::copy(package, folder.join(name))?;
        let with_binary = [
            ("outboard_", "usr/bin/outboard"),
            ("outboard-initramfs_", INITRAMFS_BINARY),
        ];
        for (begin, binary) in with_binary {
            if name.to_string_lossy().starts_with(begin) {
                add_upgrade(package, binary, &folder.join("upgrade"))?;
            }
        }
    }
    Ok(())
}

/// Packs a package again with a higher version, and a `binary` that differs from the one before by a byte at its end.
fn add_upgrade(package: &Path, binary: &str, folder: &Path) -> Result<()> {
    let work = tempfile::tempdir_in(shell::target())?;
    let tree = work.path().join("tree");
    let dpkg = |arguments: &[&str], from: &Path, to: &Path| -> Result<()> {
        let mut command = Command::new("dpkg-deb");
        shell::output(command.args(arguments).arg(from).arg(to)).map(drop)
    };
    dpkg(&["--raw-extract"], package, &tree)?;
    let control = tree.join("DEBIAN/control");
    let text = std::fs::read_to_string(&control)?;
    let version = text.lines().find(|line| line.starts_with("Version: "));
    let version = version.context("a package without a version")?;
    std::fs::write(
        &control,
        text.replace(version, &format!("{version}+upgrade")),
    )?;
    let mut binary = std::fs::OpenOptions::new()
        .append(true)
        .open(tree.join(binary))?;
    binary.write_all(b"\n")?;
    drop(binary);
    std::fs::create_dir_all(folder)?;
    let name = package.file_name().context("a package has a name")?;
    dpkg(
        &["--root-owner-group", "-Znone", "--build"],
        &tree,
        &folder.join(name),
    )
}

/// An untouched Debian with these packages. Its archive is made once for each `purpose`.
pub(crate) fn debian(purpose: &str, included: &str) -> Result<TempDir> {
    let archive = shell::target().join(format!("{RELEASE}-{purpose}.tar"));
    if !archive.exists() {
        let part = shell::target().join(format!("{purpose}-part.tar"));
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--variant=minbase"])
            .arg(format!("--include={included}"))
            .arg(RELEASE);
        shell::output(make.arg(&part))?;
        std::fs::rename(&part, &archive)?;
    }
    let root = tempfile::tempdir_in(shell::target())?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(&archive).arg("-C").arg(root.path());
    shell::output(&mut unpack)?;
    Ok(root)
}

/// A command in the Debian, with processes and mounts of its own.
pub(crate) fn inside(root: &Path, command: &str) -> Command {
    let mut unshare = Command::new("unshare");
    unshare
        .args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--root",
        ])
        .arg(root)
        .args(["sh", "-c", command])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root")
        .env("DEBIAN_FRONTEND", "noninteractive");
    unshare
}
