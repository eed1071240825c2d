//! [`Binary`]: a binary that was built for a package, in two: what runs, and what a debugger wants.
//!
//! # Invariants
//!
//! * The binary that a package installs has volumes on object stores, but on [32-bit ARM](Volumes::of_installed); the one in an
//!   initramfs has none, and is small.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::target::{Architecture, Libc, Target};
use crate::shell;

/// Whether a binary has volumes on object stores: a third of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Volumes {
    /// The feature `bucket`.
    With,
    Without,
}

impl Volumes {
    /// What the binary of a package has. Boards with 32-bit systems have little memory and slow cards.
    pub(super) const fn of_installed(architecture: Architecture) -> Self {
        match architecture {
            Architecture::Amd64 | Architecture::Arm64 => Self::With,
            Architecture::Armhf => Self::Without,
        }
    }

    /// Arguments of cargo.
    pub(super) const fn features(self) -> &'static [&'static str] {
        match self {
            Self::With => &["--features=outboard/bucket"],
            Self::Without => &[],
        }
    }

    /// The file that a build leaves: the one with volumes is renamed, since the next one would replace it.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::With => "outboard-with-volumes",
            Self::Without => "outboard",
        }
    }

    /// Bytes of a stripped binary, at most: an initramfs has a copy of the one without volumes. A static one has libc in it.
    const fn size_max(self, libc: Libc) -> u64 {
        match (self, libc) {
            (Self::With, _) => 26 << 20,
            (Self::Without, Libc::Gnu) => 15 << 20,
            (Self::Without, Libc::Musl) => 16 << 20,
        }
    }
}

/// A binary in two.
#[derive(Debug)]
pub(super) struct Binary {
    pub(super) target: Target,
    pub(super) volumes: Volumes,
    /// As it was built, to be run here.
    built: PathBuf,
    pub(super) stripped: PathBuf,
    pub(super) symbols: PathBuf,
    /// Where debuggers look for the symbols: the build ID as a path.
    pub(super) symbols_at: String,
}

/// Those of packages.
#[derive(Debug)]
pub(super) struct Binaries {
    /// `/usr/bin/outboard`.
    pub(super) installed: Binary,
    /// That of an initramfs.
    pub(super) initramfs: Binary,
}

impl Binary {
    /// Runs it, under an emulator where it is not for this machine.
    pub(super) fn command(&self) -> Result<Command> {
        self.target.execute(&self.built)
    }

    /// Takes the symbols out of a binary.
    pub(super) fn split(
        target: Target,
        volumes: Volumes,
        built: &Path,
        work: &Path,
    ) -> Result<Self> {
        ensure!(built.exists(), "no run has built {}", built.display());
        let part = |what: &str| work.join(format!("{}-{what}", volumes.file()));
        let (stripped, symbols) = (part("stripped"), part("symbols"));
        let objcopy = |args: &[&str], from: &Path, to: &Path| -> Result<()> {
            let mut command = target.tool("objcopy");
            shell::output(command.args(args).arg(from).arg(to)).map(drop)
        };
        objcopy(
            &["--only-keep-debug", "--compress-debug-sections"],
            built,
            &symbols,
        )?;
        objcopy(
            &["--strip-all", "--remove-section=.comment"],
            built,
            &stripped,
        )?;
        let (size, most) = (
            fs::metadata(&stripped)?.len(),
            volumes.size_max(target.libc),
        );
        println!("{}: {size} bytes stripped", volumes.file());
        ensure!(
            size < most,
            "the stripped binary has {size} bytes, and {most} are the limit"
        );
        let mut readelf = target.tool("readelf");
        let notes = shell::output(readelf.args(["--notes", "--wide"]).arg(built))?;
        let id = build_id(&notes).context("the binary has no build ID")?;
        let (folder, file) = id.split_at(2);
        Ok(Self {
            target,
            volumes,
            built: built.to_owned(),
            stripped,
            symbols,
            symbols_at: format!("usr/lib/debug/.build-id/{folder}/{file}.debug"),
        })
    }
}

/// The build ID among the notes that readelf prints.
fn build_id(notes: &str) -> Option<&str> {
    let (_, behind) = notes.split_once("Build ID: ")?;
    let id = behind.split_whitespace().next()?;
    (id.len() > 2).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let notes =
            "  GNU 0x14 NT_GNU_BUILD_ID  Build ID: 5d41402abc4b\n  GNU 0x10 NT_GNU_ABI_TAG\n";
        assert_eq!(build_id(notes), Some("5d41402abc4b"));
        assert_eq!(build_id("nothing"), None);
    }
}
