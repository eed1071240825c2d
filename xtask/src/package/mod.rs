//! `cargo xtask package`: Debian packages of this tree, and static binaries in tarballs, in `target/packages`.
//!
//! | package | has |
//! |---|---|
//! | `outboard` | the stripped binary, with volumes on object stores (but on 32-bit ARM), manual pages, completions, units, configuration, guides |
//! | `outboard-dbgsym` | the line tables of both binaries, found by their build IDs |
//! | `outboard-initramfs` | a binary without these volumes, and the hook and the module of dracut that put it into the initramfs |
//! | `outboard-VERSION-linux-ARCHITECTURE.tar.gz` | with `--static`: a binary that needs no library, without these volumes, pages, completions, units |
//!
//! They are for this machine's architecture, or with `--arch` for others ([`target`]).
//!
//! # Invariants
//!
//! * Two builds of one commit give equal bytes: paths are remapped, times are the commit's, archives are sorted;
//!   `--twice` compares them ([`reproduction`]).
//! * Everything in a package comes from this tree, or from the binary that was built from it.
//! * A run removes only what it makes again: files for other architectures and of other versions stay.
//!
//! # What it does not do
//!
//! It signs nothing and publishes nothing.

mod binary;
mod check;
mod contents;
mod control;
mod copyright;
mod emulation;
mod musl;
mod newcomer;
mod reproduction;
mod tarball;
mod target;
mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{packages, shell};
use binary::{Binaries, Binary, Volumes};
pub(crate) use check::{debian, inside};
use control::Release;
use target::{Architecture, Libc, Target};
use tree::Tree;

/// Directories that a build would otherwise write into the binary, and what it writes instead.
const CARGO_HOME_AS: &str = "/usr/share/cargo";
const SOURCE_AS: &str = "/usr/src/outboard";
const TARGET_AS: &str = "/usr/src/outboard/target";
/// Symbols name the types that generic code was compiled for: in backtraces, and where the size of the binary is examined.
const SYMBOLS: &str = "-Csymbol-mangling-version=v0";

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
    /// Build no binary: pack that of the last run with the files of this tree, for work on the packages
    #[arg(long, conflicts_with_all = ["check_only", "twice"])]
    repack: bool,
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
        return check_all(&made_before(&folder, &Release::of_this_tree(here)?)?);
    }
    if args.twice {
        reproduction::ensure_committed()?;
    }
    let mut all_made = Vec::new();
    for &architecture in &architectures {
        let libc = match args.is_static {
            true => Libc::Musl,
            false => Libc::Gnu,
        };
        let target = Target { architecture, libc };
        let mut release = Release::of_this_tree(architecture)?;
        if args.repack {
            release.commit = commit_of(target)?;
        }
        let made = make(target, &release, &folder, args.repack)?;
        if args.check {
            match architecture == here && !args.is_static {
                true => check_all(&made)?,
                false => {
                    if libc == Libc::Gnu {
                        check::judge(&made)?;
                    }
                    emulation::run(target, &made, &release)?;
                }
            }
        }
        all_made.extend(made);
    }
    if args.twice {
        let mut arguments = Vec::new();
        for architecture in architectures {
            arguments.extend(["--arch", architecture.name()]);
        }
        if args.is_static {
            arguments.push("--static");
        }
        reproduction::run(&all_made, &arguments)?;
    }
    Ok(())
}

/// All that can be checked of packages for this machine.
fn check_all(made: &[PathBuf]) -> Result<()> {
    check::run(made)?;
    newcomer::run(made)
}

/// The packages of this release that are in the folder: those for its architecture, and those for all.
fn made_before(folder: &Path, release: &Release) -> Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(folder).context("no packages were made")?;
    let mut made = Vec::new();
    for file in files {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_made(&name, release, Libc::Gnu) {
            made.push(path);
        }
    }
    made.sort();
    ensure!(
        !made.is_empty(),
        "no packages of {} for {} in {}",
        release.version,
        release.architecture.name(),
        folder.display()
    );
    Ok(made)
}

/// Whether a file with this name is one of those that are made for a release.
fn is_made(name: &str, release: &Release, libc: Libc) -> bool {
    let version = &release.version;
    match libc {
        Libc::Gnu => [release.architecture.name(), "all"]
            .iter()
            .any(|architecture| name.ends_with(&format!("_{version}_{architecture}.deb"))),
        Libc::Musl => name == tarball::file_name(release),
    }
}

/// Removes what is to be made, and what a run left that was interrupted: no file of before is taken for a new one.
fn remove_before(folder: &Path, release: &Release, libc: Libc) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        if is_made(&file.file_name().to_string_lossy(), release, libc) {
            std::fs::remove_file(file.path())?;
        }
    }
    let work = folder.join("work");
    std::fs::remove_dir_all(&work).ok();
    Ok(())
}

/// Builds the binaries, unless those of the last run are to be packed, and what has them.
fn make(target: Target, release: &Release, folder: &Path, repack: bool) -> Result<Vec<PathBuf>> {
    target.ensure()?;
    remove_before(folder, release, target.libc)?;
    let work = folder.join("work");
    std::fs::create_dir_all(&work)?;
    let binary = |volumes| -> Result<Binary> {
        let built = binary_of(target, volumes);
        if !repack {
            build(target, volumes, release)?;
        }
        Binary::split(target, volumes, &built, &work)
    };
    let mut made = Vec::new();
    match target.libc {
        Libc::Gnu => {
            let binaries = Binaries {
                installed: binary(Volumes::of_installed(target.architecture))?,
                initramfs: binary(Volumes::Without)?,
            };
            for tree in contents::trees(release, &binaries, &work)? {
                made.push(write(&tree, release, folder)?);
            }
        }
        Libc::Musl => {
            let binary = binary(Volumes::Without)?;
            made.push(tarball::write(release, &binary, &work, folder)?);
        }
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
    Ok(made)
}

/// Where the profile `packaged` has the binary.
fn binary_of(target: Target, volumes: Volumes) -> PathBuf {
    let folder = shell::target().join(target.triple());
    folder.join("packaged").join(volumes.file())
}

/// The commit that the last binary prints as its own.
fn commit_of(target: Target) -> Result<String> {
    let binary = binary_of(target, Volumes::Without);
    let printed = shell::output(target.execute(&binary)?.arg("--version"))
        .with_context(|| format!("no run has built {}", binary.display()))?;
    let commit = printed.trim().rsplit_once('(');
    let commit = commit.and_then(|(_, commit)| commit.strip_suffix(')'));
    let commit = commit.with_context(|| format!("{} is {printed}", binary.display()))?;
    Ok(commit.to_owned())
}

/// What paths are written as: the last that fits counts, for rustc and for the compiler of C.
fn remaps(home: Option<PathBuf>, root: PathBuf, target: PathBuf) -> Vec<String> {
    let maps = [
        home.map(|home| (home, CARGO_HOME_AS)),
        Some((root, SOURCE_AS)),
        // It may be outside of the tree.
        Some((target, TARGET_AS)),
    ];
    let maps = maps.into_iter().flatten();
    maps.map(|(from, to)| format!("{}={to}", from.display()))
        .collect()
}

/// A binary in the profile `packaged`.
fn build(target: Target, volumes: Volumes, release: &Release) -> Result<()> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let maps = remaps(home, shell::root(), std::path::absolute(shell::target())?);
    let flags = |option: &str| {
        let flags = maps.iter().map(|map| format!("{option}={map}"));
        flags.collect::<Vec<_>>().join(" ")
    };
    let remaps = flags("--remap-path-prefix");
    let rust_flags = format!("{remaps} {SYMBOLS} {}", target.rust_flags());
    let mut command = shell::cargo(["build", "--profile", "packaged", "--package", "outboard"]);
    command
        .args(["--target", target.triple()])
        .args(volumes.features())
        .env("RUSTFLAGS", rust_flags.trim())
        .env("CFLAGS", flags("-ffile-prefix-map"))
        .env("OUTBOARD_VERSION", release.to_string())
        .env("SOURCE_DATE_EPOCH", release.seconds.to_string());
    target.set_tools(&mut command, &shell::target().join("linkers"))?;
    shell::run(&mut command)?;
    let (built, kept) = (
        binary_of(target, Volumes::Without),
        binary_of(target, volumes),
    );
    std::fs::rename(&built, &kept)
        .with_context(|| format!("cannot rename {} to {}", built.display(), kept.display()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn release(architecture: Architecture) -> Release {
        Release {
            version: "0.2.0".to_owned(),
            commit: String::new(),
            seconds: 0,
            date: String::new(),
            architecture,
        }
    }

    #[test]
    fn a_run_removes_only_what_it_makes_again() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "outboard-0.2.0-linux-arm64.tar.gz",
            "outboard-initramfs_0.2.0_amd64.deb",
            "outboard_0.1.0_arm64.deb",
            "outboard_0.2.0_amd64.deb",
            "outboard_0.2.0_arm64.deb",
        ];
        for name in names {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let left = || -> Vec<String> {
            let files = std::fs::read_dir(folder.path()).unwrap();
            let name = |file: std::io::Result<std::fs::DirEntry>| {
                file.unwrap().file_name().to_string_lossy().into_owned()
            };
            let mut left: Vec<String> = files.map(name).collect();
            left.sort();
            left
        };
        let arm64 = release(Architecture::Arm64);
        remove_before(folder.path(), &arm64, Libc::Gnu).unwrap();
        assert_eq!(left(), names[..4]);
        remove_before(folder.path(), &arm64, Libc::Musl).unwrap();
        assert_eq!(left(), names[1..4]);
        let amd64 = release(Architecture::Amd64);
        let before = made_before(folder.path(), &amd64).unwrap();
        assert_eq!(
            before,
            [names[1], names[3]].map(|name| folder.path().join(name))
        );
    }

    #[test]
    fn a_target_folder_anywhere_is_written_as_the_one_of_the_tree() {
        let of = |target: &str| {
            remaps(
                Some("/home/a/.cargo".into()),
                "/home/a/tree".into(),
                target.into(),
            )
        };
        let inside = of("/home/a/tree/target");
        let outside = of("/var/tmp/out");
        assert_eq!(inside[2], "/home/a/tree/target=/usr/src/outboard/target");
        assert_eq!(outside[2], "/var/tmp/out=/usr/src/outboard/target");
        assert_eq!(inside[..2], outside[..2]);
        assert_eq!(outside[1], "/home/a/tree=/usr/src/outboard");
    }
}
