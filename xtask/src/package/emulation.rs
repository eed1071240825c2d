//! `cargo xtask package --check` for binaries that no Debian is made for here: other architectures, and static ones.
//!
//! The binary is that of the package or tarball, unpacked. It prints its version, serves a disk, copies onto it, verifies the copy and inspects it; foreign ones under QEMU.

use std::fs;
use std::path::{Path, PathBuf};
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

/// Checks the binary in what was made.
pub(super) fn run(target: Target, made: &[PathBuf], release: &Release) -> Result<()> {
    let folder = tempfile::tempdir_in(shell::target())?;
    let binary = unpack(made, &folder.path().join("installed"))?;
    let outboard = |args: &[&str]| -> Result<Command> {
        let mut command = target.execute(&binary)?;
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

/// Unpacks the package or tarball with the binary, and returns where that is.
fn unpack(made: &[PathBuf], folder: &Path) -> Result<PathBuf> {
    fs::create_dir(folder)?;
    let is_main = |file: &&PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("outboard_") || name.ends_with(".tar.gz")
    };
    let main = made
        .iter()
        .find(is_main)
        .context("no file has the binary")?;
    let mut unpack = match main.extension().is_some_and(|ending| ending == "deb") {
        true => {
            let mut deb = Command::new("dpkg-deb");
            deb.arg("--extract").arg(main).arg(folder);
            deb
        }
        false => {
            let mut tar = Command::new("tar");
            tar.args(["--strip-components=1", "-xf"]).arg(main);
            tar.arg("-C").arg(folder);
            tar
        }
    };
    shell::output(&mut unpack)?;
    let places = ["usr/bin/outboard", "bin/outboard"].map(|place| folder.join(place));
    let found = places.into_iter().find(|place| place.is_file());
    found.with_context(|| format!("{} has no binary", main.display()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_that_runs_is_the_one_in_the_package_or_in_the_tarball() {
        let work = tempfile::tempdir().unwrap();
        let tree = work.path().join("outboard-1-linux-arm64");
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        fs::create_dir_all(tree.join("usr/bin")).unwrap();
        fs::create_dir_all(tree.join("bin")).unwrap();
        let control = "Package: outboard\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: c\n";
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        fs::write(tree.join("usr/bin/outboard"), "packed").unwrap();
        let package = work.path().join("outboard_1_arm64.deb");
        let mut pack = Command::new("dpkg-deb");
        shell::output(pack.arg("--build").arg(&tree).arg(&package)).unwrap();
        let other = work.path().join("outboard-dbgsym_1_arm64.deb");
        let binary = unpack(&[other, package], &work.path().join("a")).unwrap();
        assert_eq!(fs::read(binary).unwrap(), b"packed");
        fs::remove_dir_all(tree.join("usr")).unwrap();
        fs::write(tree.join("bin/outboard"), "static").unwrap();
        let tarball = work.path().join("outboard-1-linux-arm64.tar.gz");
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(&tarball).arg("-C").arg(work.path());
        shell::output(tar.arg("outboard-1-linux-arm64")).unwrap();
        let binary = unpack(&[tarball], &work.path().join("b")).unwrap();
        assert_eq!(fs::read(binary).unwrap(), b"static");
        assert!(unpack(&[], &work.path().join("c")).is_err());
    }
}
