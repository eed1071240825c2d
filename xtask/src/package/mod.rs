//! `cargo xtask package`: Debian packages of this tree, and static binaries in tarballs, in `target/packages`.
//!
//! | package | has |
//! |---|---|
//! | `outboard` | the stripped binary, manual pages, completions, units, configuration, guides |
//! | `outboard-dbgsym` | its line tables, found by its build ID |
//! | `outboard-initramfs` | the hook that puts outboard into the initramfs |
//! | `outboard-VERSION-linux-ARCHITECTURE.tar.gz` | with `--static`: a binary that needs no library, pages, completions, units |
//!
//! They are for this machine's architecture, or with `--arch` for others ([`target`]).
//!
//! # Invariants
//!
//! * Two builds of one commit give equal bytes: paths are remapped, times are the commit's, archives are sorted;
//!   `--twice` compares them ([`reproduction`]).
//! * Everything in a package comes from this tree or from the binary that was just built.
//!
//! # What it does not do
//!
//! It signs nothing and publishes nothing.

mod check;
mod contents;
mod control;
mod emulation;
mod newcomer;
mod reproduction;
mod tarball;
mod target;
mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{packages, shell};
use control::Release;
use target::{Architecture, Libc, Target};
use tree::Tree;

/// Directories that a build would otherwise write into the binary, and what it writes instead.
const CARGO_HOME_AS: &str = "/usr/share/cargo";
const SOURCE_AS: &str = "/usr/src/outboard";

/// What is built, and what is done then.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Build for this architecture; may be given several times. That of this machine when not given
    #[arg(long, value_enum, value_name = "ARCHITECTURE")]
    arch: Vec<Architecture>,
    /// Build a tarball with a static binary in place of packages
    #[arg(long = "static")]
    is_static: bool,
    /// Install, upgrade, use and purge the packages in a Debian of their own, run lintian, and have a newcomer's
    /// session in a booted one; what is for other architectures serves, copies and inspects a disk under QEMU
    #[arg(long)]
    check: bool,
    /// The same with the packages for this machine that the last run made
    #[arg(long, conflicts_with_all = ["arch", "is_static", "check"])]
    check_only: bool,
    /// Build a second time in a clone, and compare byte by byte
    #[arg(long, conflicts_with = "check_only")]
    twice: bool,
}

/// Builds the packages and prints where they are.
pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(&[packages::PACKAGE])?;
    let here = Architecture::of_this_machine()?;
    let architectures = match &args.arch[..] {
        [] => vec![here],
        chosen => chosen.to_vec(),
    };
    let folder = shell::target().join("packages");
    if args.check_only {
        return check_all(&made_before(&folder, here)?);
    }
    if args.twice {
        reproduction::ensure_committed()?;
    }
    std::fs::remove_dir_all(&folder).ok();
    for &architecture in &architectures {
        let libc = match args.is_static {
            true => Libc::Musl,
            false => Libc::Gnu,
        };
        let target = Target { architecture, libc };
        let release = Release::of_this_tree(architecture)?;
        let (built, made) = make(target, &release, &folder)?;
        if !args.check {
            continue;
        }
        match architecture == here && !args.is_static {
            true => check_all(&made)?,
            false => {
                if libc == Libc::Gnu {
                    check::judge(&made)?;
                }
                emulation::run(target, &built, &release)?;
            }
        }
    }
    if args.twice {
        let mut arguments = Vec::new();
        for architecture in architectures {
            arguments.extend(["--arch", architecture.name()]);
        }
        if args.is_static {
            arguments.push("--static");
        }
        reproduction::run(&folder, &arguments)?;
    }
    Ok(())
}

/// All that can be checked of packages for this machine.
fn check_all(made: &[PathBuf]) -> Result<()> {
    check::run(made)?;
    newcomer::run(made)
}

/// The packages that are in the folder: those for this machine, and those for all.
fn made_before(folder: &Path, here: Architecture) -> Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(folder).context("no packages were made")?;
    let mut made = Vec::new();
    for file in files {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_for_here = [here.name(), "all"]
            .iter()
            .any(|architecture| name.ends_with(&format!("_{architecture}.deb")));
        if is_for_here {
            made.push(path);
        }
    }
    made.sort();
    ensure!(
        !made.is_empty(),
        "no packages for {} in {}",
        here.name(),
        folder.display()
    );
    Ok(made)
}

/// Builds the binary and what has it; returns both.
fn make(target: Target, release: &Release, folder: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
    target.ensure()?;
    let built = build(target, release)?;
    let work = folder.join("work");
    std::fs::create_dir_all(&work)?;
    let binary = contents::split(target, &built, &work)?;
    let mut made = Vec::new();
    match target.libc {
        Libc::Gnu => {
            for tree in contents::trees(release, &binary, &work)? {
                made.push(write(&tree, release, folder)?);
            }
        }
        Libc::Musl => made.push(tarball::write(release, &binary, &work, folder)?),
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
    Ok((built, made))
}

/// The binary in the profile `packaged`.
fn build(target: Target, release: &Release) -> Result<PathBuf> {
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
    let rust_flags = format!("{} {}", flags("--remap-path-prefix"), target.rust_flags());
    let mut command = shell::cargo(["build", "--profile", "packaged", "--package", "outboard"]);
    command
        .args(["--target", target.triple()])
        .env("RUSTFLAGS", rust_flags.trim())
        .env("CFLAGS", flags("-ffile-prefix-map"))
        .env("OUTBOARD_VERSION", release.to_string())
        .env("SOURCE_DATE_EPOCH", release.seconds.to_string());
    target.set_tools(&mut command, &shell::target().join("linkers"))?;
    shell::run(&mut command)?;
    let folder = shell::target().join(target.triple());
    Ok(folder.join("packaged/outboard"))
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
