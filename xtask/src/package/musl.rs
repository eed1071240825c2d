//! A compiler of C against musl for another architecture: Debian's cross compiler with the headers of Debian's own package
//! of musl. Debian has `musl-gcc` for the machine's architecture alone, and with glibc's headers C code calls what musl lacks.
//!
//! # Invariants
//!
//! * Nothing is installed: the package is downloaded and unpacked below the target folder, with lists of its own.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{packages, shell};

/// Debian's package of the headers.
const PACKAGE: &str = "musl-dev";

/// A script in `folder` that compiles for `architecture` (Debian's name) with the cross compiler `compiler`.
pub(super) fn compiler(architecture: &str, compiler: &str, folder: &Path) -> Result<PathBuf> {
    let headers = headers(architecture, &folder.join(format!("musl-{architecture}")))?;
    // Those of the compiler itself: stdarg.h and others.
    let mut own = Command::new(compiler);
    let own = shell::output(own.arg("-print-file-name=include"))?;
    let script = format!(
        "#!/bin/sh\nexec {compiler} -nostdinc -isystem '{}' -isystem '{}' \"$@\"\n",
        headers.display(),
        own.trim()
    );
    let path = folder.join(format!("musl-gcc-{architecture}"));
    fs::write(&path, script)?;
    fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    Ok(path)
}

/// The folder of the headers, below `root`; they are downloaded where they are missing.
fn headers(architecture: &str, root: &Path) -> Result<PathBuf> {
    if let Some(found) = in_tree(root) {
        return Ok(found);
    }
    let work = tempfile::tempdir()?;
    let lists = work.path().join("lists");
    fs::create_dir_all(lists.join("partial"))?;
    let options = [
        format!("APT::Architecture={architecture}"),
        format!("APT::Architectures={architecture}"),
        format!("Dir::State::lists={}", lists.display()),
        format!("Dir::Cache={}/cache", work.path().display()),
        "Dir::State::status=/dev/null".to_owned(),
        "Debug::NoLocking=1".to_owned(),
    ];
    let options = options.map(|option| format!("-o{option}"));
    let mut update = Command::new("apt-get");
    shell::output(update.arg("-qq").args(&options).arg("update"))?;
    packages::unpack(work.path(), &[PACKAGE], root, &options)
        .with_context(|| format!("Debian's {PACKAGE} for {architecture} is missing"))?;
    in_tree(root).with_context(|| format!("{PACKAGE} for {architecture} has no headers"))
}

/// The folder with `stdio.h` that the package has below /usr/include.
fn in_tree(root: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(root.join("usr/include")).ok()?;
    let mut folders = folders.filter_map(Result::ok).map(|entry| entry.path());
    folders.find(|folder| folder.join("stdio.h").exists())
}
