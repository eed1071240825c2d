//! A root filesystem for a guest to boot over the network: busybox, our binary with its libraries where
//! the script wants it, and `tests/guest/rootfs/init.sh` as the first process.
//!
//! It is made without root rights (`mkfs.ext4 -d`), and looked at when the guest has ended: the checker
//! must find it whole, and it must hold the proof that the guest has spoken of.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::image::{find_program, libraries};
use crate::shell;

/// Empty folders of the root filesystem.
const FOLDERS: &[&str] = &[
    "proc", "sys", "dev", "run", "tmp", "mnt", "sbin", "bin", "usr/bin",
];

/// Writes a root filesystem of `size` bytes into `image`.
pub(super) fn build(image: &Path, size: u64, binary: Option<&Path>) -> Result<()> {
    let tree = image.with_extension("tree");
    for folder in FOLDERS {
        std::fs::create_dir_all(tree.join(folder))?;
    }
    put(&find_program("busybox")?, &tree, Path::new("/bin/busybox"))?;
    let init = shell::root().join("tests/guest/rootfs/init.sh");
    put(&init, &tree, Path::new("/sbin/init"))?;
    if let Some(binary) = binary {
        put(binary, &tree, Path::new("/usr/bin/outboard"))?;
        for library in libraries(binary)? {
            put(&library, &tree, &library)?;
        }
    }
    std::fs::File::create(image)?.set_len(size)?;
    let mut mkfs = Command::new(find_program("mkfs.ext4")?);
    mkfs.args(["-q", "-F", "-d"]).arg(&tree).arg(image);
    shell::output(&mut mkfs)?;
    std::fs::remove_dir_all(&tree)?;
    Ok(())
}

/// Copies a program to its place in the tree.
fn put(from: &Path, tree: &Path, to: &Path) -> Result<()> {
    let to: PathBuf = tree.join(to.strip_prefix("/")?);
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    let mut chmod = Command::new("chmod");
    shell::output(chmod.arg("755").arg(&to)).map(drop)
}

/// Whether the filesystem in `image` is whole and holds the proof.
pub(super) fn check(image: &Path, proof: &str) -> Result<()> {
    let mut fsck = Command::new(find_program("e2fsck")?);
    shell::output(fsck.args(["-fn"]).arg(image)).context("the root filesystem is damaged")?;
    let mut read = Command::new(find_program("debugfs")?);
    let held = shell::output(read.args(["-R", "cat /proof"]).arg(image))?;
    ensure!(
        held.trim() == proof,
        "the root filesystem holds the proof {:?}, the guest reported {proof}",
        held.trim()
    );
    Ok(())
}
