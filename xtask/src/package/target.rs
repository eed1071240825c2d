//! The machines that packages are built for: Debian's name, Rust's, and the tools of each.
//!
//! # Invariants
//!
//! * A foreign binary is linked by Debian's own cross compiler, with Rust's LLD, against the libraries of Debian's own cross
//!   packages.
//! * What a binary prints of itself (manual pages, completions) comes from that binary: a foreign one runs under QEMU.
//!
//! # What it does not do
//!
//! It installs no toolchain but the part of Rust's standard library that rustup adds.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::musl;
use crate::packages::{self, Package};
use crate::shell;

/// An architecture, by Debian's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Architecture {
    /// 64-bit PCs and servers.
    Amd64,
    /// 64-bit systems of Raspberry Pi 3 and later.
    Arm64,
    /// 32-bit systems of Raspberry Pi 2 and later.
    Armhf,
}

/// The C library of a binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Libc {
    /// That of the system.
    Gnu,
    /// In the binary itself: it runs on every distribution.
    Musl,
}

/// What a binary is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) architecture: Architecture,
    pub(super) libc: Libc,
}

impl Architecture {
    /// That of this machine.
    pub(super) fn of_this_machine() -> Result<Self> {
        let mut dpkg = Command::new("dpkg");
        let printed = shell::output(dpkg.arg("--print-architecture"))?;
        let name = printed.trim();
        Self::from_str(name, false)
            .ok()
            .with_context(|| format!("there are no packages for {name}"))
    }

    /// Debian's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::Armhf => "armhf",
        }
    }

    /// The triple of Debian's toolchain.
    const fn toolchain(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
            Self::Armhf => "arm-linux-gnueabihf",
        }
    }

    /// QEMU's program that runs binaries of this architecture.
    const fn emulator(self) -> &'static str {
        match self {
            Self::Amd64 => "qemu-x86_64-static",
            Self::Arm64 => "qemu-aarch64-static",
            Self::Armhf => "qemu-arm-static",
        }
    }

    /// What building for it here takes.
    const fn packages(self) -> &'static [Package] {
        match self {
            Self::Amd64 => packages::CROSS_AMD64,
            Self::Arm64 => packages::CROSS_ARM64,
            Self::Armhf => packages::CROSS_ARMHF,
        }
    }
}

impl Target {
    /// The triple of Rust.
    pub(super) const fn triple(self) -> &'static str {
        match (self.architecture, self.libc) {
            (Architecture::Amd64, Libc::Gnu) => "x86_64-unknown-linux-gnu",
            (Architecture::Amd64, Libc::Musl) => "x86_64-unknown-linux-musl",
            (Architecture::Arm64, Libc::Gnu) => "aarch64-unknown-linux-gnu",
            (Architecture::Arm64, Libc::Musl) => "aarch64-unknown-linux-musl",
            (Architecture::Armhf, Libc::Gnu) => "armv7-unknown-linux-gnueabihf",
            (Architecture::Armhf, Libc::Musl) => "armv7-unknown-linux-musleabihf",
        }
    }

    /// Whether binaries of it run here.
    fn is_native(self) -> Result<bool> {
        Ok(self.architecture == Architecture::of_this_machine()?)
    }

    /// Installs what building for it takes.
    pub(super) fn ensure(self) -> Result<()> {
        if !self.is_native()? {
            packages::ensure(&[self.architecture.packages(), packages::EMULATORS])?;
        }
        if self.libc == Libc::Musl {
            packages::ensure(&[packages::MUSL])?;
        }
        let mut rustup = Command::new("rustup");
        rustup
            .args(["target", "add", self.triple()])
            .current_dir(shell::root());
        shell::output(&mut rustup)
            .map(drop)
            .with_context(|| format!("Rust's standard library for {} is missing", self.triple()))
    }

    /// A program of Debian's toolchain for it.
    pub(super) fn tool(self, name: &str) -> Command {
        Command::new(format!("{}-{name}", self.architecture.toolchain()))
    }

    /// Where dpkg-shlibdeps finds the libraries of a foreign binary.
    pub(super) fn libraries(self) -> Result<Option<String>> {
        let folder = format!("-l/usr/{}/lib", self.architecture.toolchain());
        Ok((!self.is_native()?).then_some(folder))
    }

    /// Runs a binary of it.
    pub(super) fn execute(self, binary: &Path) -> Result<Command> {
        if self.is_native()? {
            return Ok(Command::new(binary));
        }
        let mut command = Command::new(self.architecture.emulator());
        command
            .args(["-L", &format!("/usr/{}", self.architecture.toolchain())])
            .arg(binary);
        Ok(command)
    }

    /// Flags of rustc for it alone.
    pub(super) const fn rust_flags(self) -> &'static str {
        match self.architecture {
            // The structures of io_uring(7) are the same on all architectures; the crate's list has no 32-bit ARM.
            Architecture::Armhf => "--cfg=io_uring_skip_arch_check",
            _ => "",
        }
    }

    /// Has cargo and the C code of crates use the toolchain. A static binary is linked with Rust's own copy of musl.
    pub(super) fn set_tools(self, command: &mut Command, folder: &Path) -> Result<()> {
        let triple = self.triple().replace('-', "_");
        let cross = format!("{}-gcc", self.architecture.toolchain());
        let compiler = if self.is_native()? { "cc" } else { &cross };
        let of_crates = match (self.is_native()?, self.libc) {
            (true, Libc::Gnu) => None,
            (true, Libc::Musl) => Some(PathBuf::from("musl-gcc")),
            (false, Libc::Gnu) => Some(PathBuf::from(&cross)),
            (false, Libc::Musl) => {
                fs::create_dir_all(folder)?;
                Some(musl::compiler(self.architecture.name(), &cross, folder)?)
            }
        };
        if let Some(of_crates) = of_crates {
            command.env(format!("CC_{triple}"), of_crates);
        }
        let variable = format!("CARGO_TARGET_{}_LINKER", triple.to_uppercase());
        command.env(variable, self.linker(compiler, folder)?);
        Ok(())
    }

    /// A script in `folder` that links with LLD, as rustup brings it: equal functions get one place, and relocations are
    /// packed (glibc 2.36 and musl 1.2.4 know that). These are no flags of rustc: its symbols' names would have them.
    fn linker(self, compiler: &str, folder: &Path) -> Result<PathBuf> {
        let mut rustc = Command::new("rustc");
        rustc
            .args(["--print", "target-libdir"])
            .current_dir(shell::root());
        let printed = shell::output(&mut rustc)?;
        let lld = Path::new(printed.trim()).with_file_name("bin/gcc-ld");
        ensure!(
            lld.is_dir(),
            "{} is missing, which rustup installs",
            lld.display()
        );
        let script = format!(
            "#!/bin/sh\nexec {compiler} '-B{}' -fuse-ld=lld -Wl,--icf=all -Wl,-z,pack-relative-relocs \"$@\"\n",
            lld.display()
        );
        fs::create_dir_all(folder)?;
        let path = folder.join(format!("link-{}", self.triple()));
        fs::write(&path, script)?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_have_the_names_that_debian_gives_them() {
        for architecture in Architecture::value_variants() {
            let parsed = Architecture::from_str(architecture.name(), false);
            assert_eq!(parsed.as_ref(), Ok(architecture));
        }
    }

    #[test]
    fn only_foreign_binaries_and_static_ones_need_other_tools() {
        let Ok(here) = Architecture::of_this_machine() else {
            return;
        };
        for &architecture in Architecture::value_variants() {
            let mut command = Command::new("cargo");
            let target = Target {
                architecture,
                libc: Libc::Gnu,
            };
            let folder = tempfile::tempdir().unwrap();
            target.set_tools(&mut command, folder.path()).unwrap();
            // What links is set for all.
            assert_eq!(command.get_envs().count() == 1, architecture == here);
        }
    }
}
