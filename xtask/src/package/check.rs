//! `cargo xtask package --check`: lintian, and the packages in a Debian of their own.
//!
//! What is done inside is in `tests/package/check.sh`; its exit status is the verdict. The Debian is made once and kept
//! as an archive below the target folder: each check begins with an untouched one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::systemd::RELEASE;
use crate::{packages, shell};

/// What the packages depend on and the steps use: nothing is fetched inside.
const INCLUDED: &str = "adduser,libgcc-s1,bash";

/// Tags of lintian that do not concern us.
///
/// A package is not uploaded to Debian: nothing there closes a bug by it, and the publisher sets the
/// address of the maintainer.
const SUPPRESSED: &str =
    "initial-upload-closes-no-bugs,bogus-mail-host,bogus-mail-host-in-debian-changelog";

/// Checks the packages that were made.
pub(super) fn run(made: &[PathBuf]) -> Result<()> {
    judge(made)?;
    let root = debian("packages", INCLUDED)?;
    copy_packages(made, root.path())?;
    let steps = root.path().join("packages/check.sh");
    std::fs::copy(shell::root().join("tests/package/check.sh"), steps)?;
    let outcome = shell::run(&mut inside(root.path(), "sh /packages/check.sh"));
    // What is mounted inside ends with its namespace.
    outcome.context("the packages are not as they should be")?;
    println!("packages: ok");
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

/// Copies the packages into `/packages` of a Debian.
pub(super) fn copy_packages(made: &[PathBuf], root: &Path) -> Result<()> {
    let folder = root.join("packages");
    std::fs::create_dir_all(&folder)?;
    for package in made {
        let name = package.file_name().context("a package has a name")?;
        std::fs::copy(package, folder.join(name))?;
    }
    Ok(())
}

/// An untouched Debian with these packages. Its archive is made once for each `purpose`.
pub(super) fn debian(purpose: &str, included: &str) -> Result<TempDir> {
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
