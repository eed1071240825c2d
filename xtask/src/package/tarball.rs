//! `cargo xtask package --static`: a tarball with a binary that needs no library, for every distribution.
//!
//! It is unpacked below `/` or `/usr/local`: its paths are `bin/outboard`, `share/man/…` and so on, below one folder with
//! its name.
//!
//! # What it does not do
//!
//! Unlike the packages it makes no user and starts nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::binary::Binary;
use super::contents::{add_completions, add_manual};
use super::control::Release;
use super::copyright;
use super::tree::{DATA, PROGRAM, Tree};
use crate::shell;

/// Files of the repository, and where they are.
const FILES: &[(&str, &str)] = &[
    ("packaging/outboard.toml", "etc/outboard.toml"),
    (
        "packaging/outboard.service",
        "lib/systemd/system/outboard.service",
    ),
    (
        "packaging/outboard.socket",
        "lib/systemd/system/outboard.socket",
    ),
    (
        "packaging/outboard-attach@.service",
        "lib/systemd/system/outboard-attach@.service",
    ),
    (
        "packaging/attach-example.toml",
        "share/doc/outboard/examples/attach.toml",
    ),
    ("README.md", "share/doc/outboard/README.md"),
    ("CHANGELOG.md", "share/doc/outboard/CHANGELOG.md"),
];

/// The folder in the tarball.
fn name(release: &Release) -> String {
    let architecture = release.architecture.name();
    format!("outboard-{}-linux-{architecture}", release.version)
}

/// The tarball.
pub(super) fn file_name(release: &Release) -> String {
    format!("{}.tar.gz", name(release))
}

/// Packs it into `folder`.
pub(super) fn write(
    release: &Release,
    binary: &Binary,
    work: &Path,
    folder: &Path,
) -> Result<PathBuf> {
    let name = name(release);
    let mut tree = Tree::new("static", release.architecture.name(), work)?;
    add_manual(&tree, binary, work)?;
    add_completions(&tree, binary)?;
    // The packages' paths begin with usr.
    let root = work.join(&name);
    fs::rename(tree.root.join("usr"), &root).context("no pages and completions were made")?;
    tree.root = root;
    tree.file("bin/outboard", &fs::read(&binary.stripped)?, PROGRAM)?;
    for (from, to) in FILES {
        tree.copy(from, to, DATA)?;
    }
    let rights = copyright::text(binary.target, binary.volumes)?;
    tree.file("share/doc/outboard/copyright", rights.as_bytes(), DATA)?;
    let file = folder.join(file_name(release));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", release.seconds))
        // Without a name and a time in the header.
        .args(["--use-compress-program", "gzip -9 -n", "-cf"])
        .arg(&file)
        .arg("-C")
        .arg(work)
        .arg(&name);
    shell::output(&mut tar).with_context(|| format!("cannot make {}", file.display()))?;
    Ok(file)
}
