//! `cargo xtask package --check` for binaries that no Debian is made for here: other architectures, and static ones.
//!
//! The binary prints its version, serves a disk, copies onto it, verifies the copy and inspects it; foreign ones under QEMU.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::control::Release;
use super::target::Target;
use crate::shell;

/// Under emulation everything takes its time.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

/// Bytes that are copied; not a multiple of a sector.
const BYTES: usize = 3_000_001;

/// Checks `binary`.
pub(super) fn run(target: Target, binary: &Path, release: &Release) -> Result<()> {
    let folder = tempfile::tempdir_in(shell::target())?;
    let outboard = |args: &[&str]| -> Result<Command> {
        let mut command = target.execute(binary)?;
        command.args(args).current_dir(folder.path());
        Ok(command)
    };
    let version = shell::output(&mut outboard(&["--version"])?)?;
    ensure!(
        version.trim() == format!("outboard {release}"),
        "it is {version}"
    );
    let data: Vec<u8> = (0..=250).cycle().take(BYTES).collect();
    fs::write(folder.path().join("data"), &data)?;
    shell::output(&mut outboard(&["disk", "create", "media.img", "64M"])?)?;
    let mut server = outboard(&["serve", "media=media.img", "--listen", "unix:socket"])?
        .spawn()
        .context("it serves nothing")?;
    let outcome = use_disk(&outboard, folder.path());
    shell::terminate(server.id());
    let ended = server.wait()?;
    outcome?;
    ensure!(ended.success(), "the server ended with {ended}");
    let image = fs::read(folder.path().join("media.img"))?;
    ensure!(image.starts_with(&data), "the image has other data");
    println!("{}: ok", target.triple());
    Ok(())
}

fn use_disk(outboard: &dyn Fn(&[&str]) -> Result<Command>, folder: &Path) -> Result<()> {
    let socket = folder.join("socket");
    let end = crate::clock::now() + LIMIT;
    while !socket.exists() {
        ensure!(crate::clock::now() < end, "it does not listen");
        std::thread::sleep(LOOK);
    }
    let uri = "nbd+unix:///media?socket=socket";
    shell::output(&mut outboard(&[
        "copy", "--force", "--verify", "data", uri,
    ])?)?;
    let inspected = shell::output(&mut outboard(&["inspect", uri])?)?;
    ensure!(inspected.contains("64"), "inspect printed {inspected}");
    Ok(())
}
