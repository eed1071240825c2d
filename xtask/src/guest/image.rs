//! The guest's kernel and filesystem, built once from Debian's packages and kept under the target folder.
//!
//! The kernel is downloaded and unpacked, never installed. The base archive holds busybox, the modules,
//! and the programs that make, check and attach filesystems, with their libraries. It is built again when
//! the list of its parts or the kernel changes; a script and our binary come in a second archive.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::cpio::Archive;
use super::{kernel, modules};
use crate::{packages, shell};

/// The package that always depends on the newest kernel.
const KERNEL: &str = "linux-image-cloud-amd64";

/// Modules in the guest; what they depend on comes along.
pub(super) const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_net",
    "virtio_blk",
    "vsock",
    "vsock_loopback",
    "nbd",
    "loop",
    "fuse",
    "brd",
    "ext4",
    "xfs",
    "crc32c_generic",
    "dm-mod",
    "dm-snapshot",
    "dm-zero",
    "dm-flakey",
    "dm-raid",
    "dm-mirror",
    "dm-thin-pool",
    "dm-cache",
    "dm-cache-smq",
    "md-mod",
    "linear",
    "raid0",
    "raid1",
    "raid10",
    "raid456",
    "nfs",
    "cifs",
];

/// Programs in the guest besides busybox.
const PROGRAMS: &[&str] = &[
    "mkfs.ext4",
    "e2fsck",
    "fsck.ext4",
    "mkfs.xfs",
    "xfs_repair",
    "nbd-client",
    "blkid",
    "dmsetup",
    "losetup",
    "lvm",
    "mdadm",
    "partx",
    "sfdisk",
    "sgdisk",
];

/// Files that a program of the guest reads.
const FILES: &[&str] = &["/etc/mke2fs.conf"];

/// What a machine is started from.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) kernel: PathBuf,
    pub(super) base: PathBuf,
    /// As the kernel calls itself.
    pub(super) version: String,
    /// The folder of all its modules.
    pub(super) modules: PathBuf,
}

/// Builds what is not there yet.
pub(super) fn build(folder: &Path) -> Result<Image> {
    std::fs::create_dir_all(folder)?;
    let package = kernel_package()?;
    let version = package
        .strip_prefix("linux-image-")
        .with_context(|| format!("{package} is not named like a kernel"))?;
    let tree = folder.join(version);
    let packed = tree.join(format!("boot/vmlinuz-{version}"));
    if !packed.exists() {
        download(folder, &package, &tree)?;
    }
    let kernel = kernel::unpack(&packed, tree.join("boot/vmlinux"))?;
    let base = folder.join("base.cpio");
    let key_file = folder.join("base.key");
    let key = [&[version], MODULES, PROGRAMS, FILES].concat().join("\n");
    let kept = std::fs::read_to_string(&key_file).is_ok_and(|kept| kept == key);
    if !kept || !base.exists() {
        println!("guest: building its filesystem for Linux {version}");
        std::fs::write(&base, base_archive(&tree, version)?)?;
        std::fs::write(&key_file, key)?;
    }
    Ok(Image {
        kernel,
        base,
        version: version.to_owned(),
        modules: tree.join("lib/modules").join(version),
    })
}

/// The archive that is put behind the base: what changes from run to run.
pub(super) fn overlay(script: &str, binary: Option<&Path>) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    archive.program("init", include_bytes!("init.sh"))?;
    archive.file("guest/script.sh", script.as_bytes())?;
    archive.program("usr/bin/host", include_bytes!("host.sh"))?;
    let local_top = include_bytes!("../../../packaging/initramfs-tools/local-top");
    archive.program("guest/local-top", local_top)?;
    let attach_root = include_bytes!("../../../tests/guest/rootfs/attach-root.sh");
    archive.program("guest/attach-root", attach_root)?;
    let attach_swap = include_bytes!("../../../tests/guest/rootfs/attach-swap.sh");
    archive.program("guest/attach-swap", attach_swap)?;
    let arrays = include_bytes!("../../../tests/guest/arrays/guest.sh");
    archive.file("guest/arrays.sh", arrays)?;
    let volumes = include_bytes!("../../../tests/guest/volumes/guest.sh");
    archive.file("guest/volumes.sh", volumes)?;
    if let Some(binary) = binary {
        let data =
            std::fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
        archive.program("usr/bin/outboard", &data)?;
        for library in libraries(binary)? {
            archive.copy(&library)?;
        }
    }
    archive.finish()
}

/// The package of the kernel itself.
fn kernel_package() -> Result<String> {
    let ask = || shell::output(Command::new("apt-cache").args(["depends", KERNEL]));
    let find = |printed: &str| {
        printed
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .find(|name| name.starts_with("linux-image-"))
            .map(str::to_owned)
    };
    if let Some(found) = ask().ok().as_deref().and_then(find) {
        return Ok(found);
    }
    shell::run(Command::new("apt-get").args(["-qq", "update"]))
        .context("the list of packages is empty; run apt-get update as root")?;
    find(&ask()?)
        .with_context(|| format!("apt knows no {KERNEL}: the guest needs Debian's packages"))
}

fn download(folder: &Path, package: &str, tree: &Path) -> Result<()> {
    println!("guest: downloading {package}");
    let unpacked = folder.join("unpacked");
    packages::unpack(folder, &[package], &unpacked, &[])?;
    let version = package.trim_start_matches("linux-image-");
    shell::output(
        Command::new("/sbin/depmod")
            .arg("--basedir")
            .arg(&unpacked)
            .arg(version),
    )?;
    std::fs::remove_dir_all(tree).ok();
    std::fs::rename(&unpacked, tree)?;
    Ok(())
}

fn base_archive(tree: &Path, version: &str) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    let busybox = find_program("busybox")?;
    archive.program("bin/busybox", &std::fs::read(busybox)?)?;
    let modules = tree.join("lib/modules").join(version);
    let read = |name: &str| -> Result<String> {
        let path = modules.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (dep, builtin) = (read("modules.dep")?, read("modules.builtin")?);
    let inside = format!("lib/modules/{version}");
    for name in ["modules.dep", "modules.builtin", "modules.alias"] {
        archive.file(&format!("{inside}/{name}"), read(name)?.as_bytes())?;
    }
    for file in modules::closure(&dep, &builtin, MODULES)? {
        archive.file(
            &format!("{inside}/{file}"),
            &std::fs::read(modules.join(&file))?,
        )?;
    }
    let mut needed: BTreeSet<PathBuf> = FILES.iter().map(PathBuf::from).collect();
    for name in PROGRAMS {
        let program = find_program(name)?;
        needed.extend(libraries(&program)?);
        let data = std::fs::read(&program)?;
        archive.program(&format!("usr/sbin/{name}"), &data)?;
    }
    for path in needed {
        archive.copy(&path)?;
    }
    archive.finish()
}

pub(super) fn find_program(name: &str) -> Result<PathBuf> {
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .into_iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is nowhere on this machine"))
}

/// The shared libraries of a program, the loader among them, as `ldd` lists them.
pub(super) fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let printed = shell::output(Command::new("ldd").arg(program))?;
    Ok(printed
        .lines()
        .flat_map(|line| line.split_whitespace())
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}
