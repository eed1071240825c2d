//! The Debian packages that a command needs, why, and how they get here.
//!
//! With root rights what lacks is installed; without, the one command that does it is printed and the
//! command ends. Nothing is ever removed or upgraded.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::shell;

/// One package and what it is needed for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package {
    name: &'static str,
    why: &'static str,
}

const fn package(name: &'static str, why: &'static str) -> Package {
    Package { name, why }
}

/// What `bench` runs.
pub(crate) const BENCH: &[Package] = &[
    package("e2fsprogs", "the filesystem of the attach row"),
    package("fio", "makes the load and measures it"),
    package("fuse3", "mounts nbdfuse"),
    package("libnbd-bin", "nbdfuse, nbdcopy and nbdinfo, peers"),
    package("nbd-server", "a peer"),
    package("nbdkit", "the peer that the marks are set against"),
    package("python3-libnbd", "libnbd as a client"),
    package("qemu-utils", "qemu-nbd and qemu-img, peers"),
    package("util-linux", "setpriv, losetup and mount"),
];

/// What `demo` runs.
pub(crate) const DEMO: &[Package] = &[
    package("e2fsprogs", "mkfs.ext4"),
    package("fio", "the lab's load"),
    package("fuse3", "attach without the kernel's nbd"),
    package("util-linux", "losetup and mount"),
];

/// What the tests run.
pub(crate) const TESTS: &[Package] = &[
    package("bonnie++", "a workload of the lab"),
    package("btrfs-progs", "a filesystem that inspect recognizes"),
    package("cryptsetup-bin", "a LUKS disk that inspect recognizes"),
    package("curl", "fetches by TFTP what machines boot from"),
    package("dbench", "a workload of the lab"),
    package("dnsmasq-base", "DHCP and TFTP of netboot"),
    package("dosfstools", "mkfs.vfat, in partitions that we make"),
    package("e2fsprogs", "mkfs.ext4 and fsck of what was attached"),
    package("f2fs-tools", "a filesystem that inspect recognizes"),
    package("fdisk", "sfdisk writes partition tables and judges ours"),
    package(
        "file",
        "nbdinfo detects with it what an export holds; without it, its JSON is not UTF-8",
    ),
    package("fio", "the lab, and the nbd engine as a client"),
    package("fish", "asks for our completions"),
    package("fuse3", "attach without the kernel's nbd"),
    package("gcc", "compiles in a workload of the lab"),
    package("gdisk", "sgdisk writes partition tables and judges ours"),
    package("iperf3", "a workload of the lab"),
    package("iproute2", "a slow wire for the lab and the doctor"),
    package("ipxe", "what machines fetch from netboot"),
    package("libc6-dev", "what gcc compiles and cargo links with"),
    package("libnbd-bin", "nbdinfo, nbdcopy and nbdfuse as clients"),
    package("lvm2", "judges the volumes that we make"),
    package("make", "a workload of the lab"),
    package("man-db", "shows our manual pages"),
    package("mandoc", "judges our manual pages"),
    package("mdadm", "judges what inspect reports of arrays"),
    package("nbdkit", "a server for our client, a client of our server"),
    package(
        "nbd-client",
        "the list of exports as the stock client sees it",
    ),
    package("nbd-server", "a server for our client"),
    package("ntfs-3g", "a filesystem that inspect recognizes"),
    package("openssh-client", "what sshfs talks through"),
    package("openssh-server", "the other end of SSHFS in the lab"),
    package("procps", "pgrep, on the hosts of the guides' consoles"),
    package(
        "prometheus",
        "scrapes our metrics, and judges rules about them",
    ),
    package("python3-libnbd", "nbdsh"),
    package("qemu-utils", "qemu-img, qemu-io and qemu-nbd as peers"),
    package("sshfs", "a mount that the lab measures"),
    package("stress-ng", "a workload of the lab"),
    package(
        "thin-provisioning-tools",
        "writes and dumps metadata of thin pools and caches, and judges what we read of them",
    ),
    package(
        "util-linux",
        "losetup, mount, nsenter, prlimit, setpriv, taskset, unshare",
    ),
    package("xfsprogs", "mkfs.xfs and its check"),
    package("xz-utils", "a packed file that inspect recognizes"),
    package("zsh", "asks for our completions"),
];

/// The cluster that images of Ceph are tested on.
pub(crate) const CEPH: &[Package] = &[
    package(
        "ceph-common",
        "ceph and rbd, which make images and judge ours",
    ),
    package("ceph-mon", "the monitor"),
    package("ceph-osd", "the OSD, on a file"),
    package("librbd1", "Ceph's client library, which we load"),
];

/// What the rows of images of Ceph run besides, next to a cluster.
pub(crate) const BENCH_CEPH: &[Package] = &[
    package("qemu-block-extra", "qemu-nbd's driver of images, a peer"),
    package("rbd-nbd", "Ceph's own client of the kernel's nbd, a peer"),
];

/// What the tests of the report run.
pub(crate) const BROWSER: &[Package] = &[
    package("chromium", "opens the lab's report"),
    package("nodejs", "runs Playwright, which drives Chromium"),
];

/// What installs Playwright where Node.js comes without it.
pub(crate) const NPM: &[Package] = &[package("npm", "installs Playwright from its lock file")];

/// What `units` runs.
pub(crate) const UNITS: &[Package] = &[
    package("debootstrap", "a Debian with systemd"),
    package("systemd-container", "boots it"),
];

/// What `netboot` runs.
pub(crate) const NETBOOT: &[Package] = &[
    package("binutils", "strip, to keep the golden image small"),
    package("dnsmasq-base", "DHCP and TFTP"),
    package("e2fsprogs", "makes the golden image, and reads its kernel"),
    package("iproute2", "a network of namespaces"),
    package("ipxe", "what machines with UEFI fetch"),
    package("ipxe-qemu", "the firmware of network cards"),
    package("mmdebstrap", "the Debian that machines boot"),
    package("ovmf", "UEFI for QEMU"),
    package("procps", "pgrep"),
    package("qemu-system-x86", "the machines"),
    package("util-linux", "setpriv and unshare"),
];

/// What `package` runs.
pub(crate) const PACKAGE: &[Package] = &[
    package("binutils", "objcopy and readelf, to take the symbols out"),
    package("dpkg-dev", "dpkg-shlibdeps, which names the libraries"),
    package("git", "the commit that a package is built from"),
];

/// What builds for 64-bit PCs on other machines.
pub(crate) const CROSS_AMD64: &[Package] = &[
    package("gcc-x86-64-linux-gnu", "compiles and links for amd64"),
    package("libc6-dev-amd64-cross", "the C library of amd64"),
];

/// What builds for 64-bit ARM on other machines.
pub(crate) const CROSS_ARM64: &[Package] = &[
    package("gcc-aarch64-linux-gnu", "compiles and links for arm64"),
    package("libc6-dev-arm64-cross", "the C library of arm64"),
];

/// What builds for 32-bit ARM on other machines.
pub(crate) const CROSS_ARMHF: &[Package] = &[
    package("gcc-arm-linux-gnueabihf", "compiles and links for armhf"),
    package("libc6-dev-armhf-cross", "the C library of armhf"),
];

/// What runs binaries of other machines.
pub(crate) const EMULATORS: &[Package] = &[package(
    "qemu-user-static",
    "runs binaries of other architectures",
)];

/// What builds static binaries.
pub(crate) const MUSL: &[Package] = &[package("musl-tools", "compiles C code against musl")];

/// What `package --check` runs.
pub(crate) const PACKAGE_CHECK: &[Package] = &[
    package("lintian", "judges the packages"),
    package("mmdebstrap", "a Debian that they are installed in"),
];

/// What `soak` runs.
pub(crate) const SOAK: &[Package] = &[
    package("libnbd-bin", "nbdcopy as a client"),
    package("python3-libnbd", "libnbd as a client"),
    package("qemu-utils", "qemu-io as a client"),
    package("util-linux", "setpriv"),
];

/// What `guest` builds the guest from.
pub(crate) const GUEST: &[Package] = &[
    package("binutils", "strip, to keep the guest small"),
    package("busybox-static", "the guest's userland"),
    package("dmsetup", "device mapper in the guest"),
    package("e2fsprogs", "mkfs.ext4 and fsck in the guest"),
    package("fdisk", "sfdisk in the guest"),
    package("gdisk", "sgdisk in the guest"),
    package("kmod", "depmod, which lists what modules depend on"),
    package("libnbd-bin", "fills arrays that the guest judges"),
    package("lvm2", "volume groups in the guest"),
    package("lz4", "unpacks the guest's kernel"),
    package("mdadm", "arrays in the guest"),
    package("mount", "losetup in the guest"),
    package("nbd-client", "the stock client in the guest"),
    package("qemu-system-x86", "the guest's machine"),
    package("qemu-utils", "writes to arrays that the guest judges"),
    package("util-linux", "blkid and partx in the guest"),
    package("xfsprogs", "mkfs.xfs and xfs_repair in the guest"),
];

/// What the lab's guest has besides: programs that plans start.
pub(crate) const GUEST_LAB: &[Package] = &[
    package("bonnie++", "a workload in the lab's guest"),
    package("btrfs-progs", "mkfs.btrfs in the lab's guest"),
    package("dbench", "a workload in the lab's guest"),
    package("fio", "the lab's load in its guest"),
    package("fuse3", "attach without nbd in the lab's guest"),
    package("iperf3", "a workload in the lab's guest"),
    package(
        "iproute2",
        "another network, and a slow wire, in the lab's guest",
    ),
    package("linux-libc-dev", "a source tree in the lab's guest"),
    package("netbase", "names of services in the lab's guest"),
    package(
        "openssh-client",
        "what sshfs talks through in the lab's guest",
    ),
    package(
        "openssh-server",
        "the other end of SSHFS in the lab's guest",
    ),
    package("sshfs", "a mount in the lab's guest"),
    package("stress-ng", "a workload in the lab's guest"),
    package("tar", "a workload in the lab's guest"),
];

/// What `fuzz` builds with.
pub(crate) const FUZZ: &[Package] = &[package("g++", "builds libFuzzer")];

/// Sees to it that all of `sets` are installed.
pub(crate) fn ensure(sets: &[&[Package]]) -> Result<()> {
    let missing = missing(sets)?;
    if missing.is_empty() {
        return Ok(());
    }
    for package in &missing {
        println!("needs {}: {}", package.name, package.why);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if !is_root()? {
        bail!(
            "install what lacks with: sudo apt-get install --no-install-recommends {}",
            names.join(" ")
        );
    }
    let apt = |args: &[&str]| {
        shell::run(
            Command::new("apt-get")
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args(["-qq", "-o", "DPkg::Lock::Timeout=120"])
                .args(args),
        )
    };
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"], &names[..]].concat())
        .context("apt-get could not install what lacks")
}

/// Downloads packages, with options of apt-get, and unpacks them into `tree`, which is new; nothing is installed.
pub(crate) fn unpack(
    folder: &Path,
    packages: &[&str],
    tree: &Path,
    options: &[String],
) -> Result<()> {
    let fetched = folder.join("download");
    std::fs::remove_dir_all(&fetched).ok();
    std::fs::create_dir_all(&fetched)?;
    // The sandbox user of apt may not write here.
    let mut get = Command::new("apt-get");
    get.args(["-qq", "-o", "APT::Sandbox::User=root"])
        .args(options)
        .arg("download")
        .args(packages)
        .current_dir(&fetched);
    shell::output(&mut get)?;
    std::fs::remove_dir_all(tree).ok();
    let mut count = 0;
    for deb in std::fs::read_dir(&fetched)? {
        let deb = deb?.path();
        shell::output(Command::new("dpkg").arg("-x").arg(&deb).arg(tree))?;
        count += 1;
    }
    ensure!(
        count == packages.len(),
        "apt-get downloaded {count} of {} packages",
        packages.len()
    );
    std::fs::remove_dir_all(&fetched)?;
    Ok(())
}

fn missing(sets: &[&[Package]]) -> Result<Vec<Package>> {
    let installed = installed()?;
    let mut seen = BTreeSet::new();
    Ok(sets
        .iter()
        .flat_map(|set| set.iter())
        .filter(|package| !installed.contains(package.name) && seen.insert(package.name))
        .copied()
        .collect())
}

/// The packages that this machine has.
pub(crate) fn installed() -> Result<BTreeSet<String>> {
    let output = Command::new("dpkg-query")
        .args([
            "--show",
            "--showformat",
            "${db:Status-Status} ${Package}\\n",
        ])
        .output()
        .context("cannot run dpkg-query: the tests need a Debian or Ubuntu machine")?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let installed = listed
        .lines()
        .filter_map(|line| line.strip_prefix("installed "));
    Ok(installed.map(str::to_owned).collect())
}

/// Whether this command may do everything.
pub(crate) fn is_root() -> Result<bool> {
    Ok(shell::output(Command::new("id").arg("-u"))?.trim() == "0")
}
