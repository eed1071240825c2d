//! `cargo xtask package --check`: lintian, and the packages in a Debian of their own.
//!
//! What is done inside is in `tests/package/check.sh`; its exit status is the verdict. The Debian is made once and kept
//! as an archive below the target folder: each check begins with an untouched one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{packages, shell};

const RELEASE: &str = "bookworm";
/// What the packages depend on and the steps use: nothing is fetched inside.
const INCLUDED: &str = "--include=adduser,libgcc-s1,bash";

/// Tags of lintian that do not concern us.
///
/// A package is not uploaded to Debian: nothing there closes a bug by it, and the publisher sets the
/// address of the maintainer.
const SUPPRESSED: &str =
    "initial-upload-closes-no-bugs,bogus-mail-host,bogus-mail-host-in-debian-changelog";

/// Checks the packages that were made.
pub(super) fn run(made: &[PathBuf]) -> Result<()> {
    packages::ensure(&[packages::PACKAGE_CHECK])?;
    judge(made)?;
    let archive = debian()?;
    let root = tempfile::tempdir_in(shell::target())?;
    shell::output(
        Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(root.path()),
    )?;
    let folder = root.path().join("packages");
    std::fs::create_dir_all(&folder)?;
    for package in made {
        let name = package.file_name().context("a package has a name")?;
        std::fs::copy(package, folder.join(name))?;
    }
    let steps = root.path().join("packages/check.sh");
    std::fs::copy(shell::root().join("tests/package/check.sh"), steps)?;
    let outcome = shell::run(&mut inside(root.path(), "sh /packages/check.sh"));
    // What is mounted inside ends with its namespace.
    outcome.context("the packages are not as they should be")?;
    println!("packages: ok");
    Ok(())
}

/// lintian's errors are ours.
fn judge(made: &[PathBuf]) -> Result<()> {
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

/// The archive of the Debian.
fn debian() -> Result<PathBuf> {
    let archive = shell::target().join(format!("{RELEASE}-packages.tar"));
    if !archive.exists() {
        let part = shell::target().join("packages-part.tar");
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--variant=minbase", INCLUDED, RELEASE]);
        shell::output(make.arg(&part))?;
        std::fs::rename(&part, &archive)?;
    }
    Ok(archive)
}

/// A command in the Debian, with processes and mounts of its own.
fn inside(root: &Path, command: &str) -> Command {
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
