//! `cargo xtask package`: Debian packages of this tree, for this machine's architecture, in `target/packages`.
//!
//! | package | has |
//! |---|---|
//! | `outboard` | the stripped binary, manual pages, completions, units, configuration, guides |
//! | `outboard-dbgsym` | its line tables, found by its build ID |
//! | `outboard-initramfs` | the hook that puts outboard into the initramfs |
//!
//! # Invariants
//!
//! * Two builds of one commit give equal bytes: paths are remapped, times are the commit's, archives are sorted.
//! * Everything in a package comes from this tree or from the binary that was just built.
//!
//! # What it does not do
//!
//! Other architectures: cargo gets no `--target`. It signs nothing and publishes nothing.

mod check;
mod contents;
mod control;
mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{packages, shell};
use control::Release;
use tree::Tree;

/// Directories that a build would otherwise write into the binary, and what it writes instead.
const CARGO_HOME_AS: &str = "/usr/share/cargo";
const SOURCE_AS: &str = "/usr/src/outboard";

/// What to do besides.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Install, upgrade, use and purge the packages in a Debian of their own, and run lintian
    #[arg(long)]
    check: bool,
}

/// Builds the packages and prints where they are.
pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(&[packages::PACKAGE])?;
    let release = Release::of_this_tree()?;
    let binary = build(&release)?;
    let folder = shell::target().join("packages");
    std::fs::remove_dir_all(&folder).ok();
    let work = folder.join("work");
    std::fs::create_dir_all(&work)?;
    let parts = contents::split(&binary, &work)?;
    let mut made = Vec::new();
    for tree in contents::trees(&release, &parts, &work)? {
        made.push(write(&tree, &release, &folder)?);
    }
    std::fs::remove_dir_all(&work).ok();
    for package in &made {
        let size = std::fs::metadata(package)?.len();
        println!(
            "{} ({:.1} MiB)",
            package.display(),
            size as f64 / f64::from(1 << 20)
        );
    }
    match args.check {
        true => check::run(&made),
        false => Ok(()),
    }
}

/// The binary in the profile `packaged`.
fn build(release: &Release) -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let maps = [
        home.map(|home| (home, CARGO_HOME_AS)),
        Some((shell::root(), SOURCE_AS)),
    ];
    let maps: Vec<String> = maps
        .iter()
        .flatten()
        .map(|(from, to)| format!("{}={to}", from.display()))
        .collect();
    let flags = |option: &str| {
        let flags = maps.iter().map(|map| format!("{option}={map}"));
        flags.collect::<Vec<_>>().join(" ")
    };
    let mut command = shell::cargo(["build", "--profile", "packaged", "--package", "outboard"]);
    command
        .env("RUSTFLAGS", flags("--remap-path-prefix"))
        .env("CFLAGS", flags("-ffile-prefix-map"))
        .env("OUTBOARD_VERSION", release.to_string())
        .env("SOURCE_DATE_EPOCH", release.seconds.to_string());
    shell::run(&mut command)?;
    Ok(shell::target().join("packaged/outboard"))
}

/// Writes one package into `folder`.
fn write(tree: &Tree, release: &Release, folder: &Path) -> Result<PathBuf> {
    let file = folder.join(format!(
        "{}_{}_{}.deb",
        tree.name, release.version, tree.architecture
    ));
    let mut command = Command::new("dpkg-deb");
    command
        .args(["--root-owner-group", "-Zxz", "--build"])
        .arg(&tree.root)
        .arg(&file)
        .env("SOURCE_DATE_EPOCH", release.seconds.to_string());
    shell::output(&mut command).with_context(|| format!("cannot make {}", file.display()))?;
    Ok(file)
}
