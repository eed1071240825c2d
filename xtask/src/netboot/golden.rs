//! Golden images: a Debian as `docs/guide/netboot.md` makes one, with our binary, our files of `packaging/initramfs-tools` or
//! `packaging/dracut`, and the steps of the test.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::guest::stripped;
use crate::package::{debian, inside};
use crate::shell;

/// What each Debian has besides its least.
const INCLUDED: &str = "linux-image-cloud-amd64,systemd-sysv,udev,kmod,zstd,iproute2,fdisk";
/// The initramfs of initramfs-tools has these modules and what they need, and no others: it is fetched by TFTP.
const MODULES: &str = "virtio_pci\nvirtio_net\next4\n";
const SETTINGS: &str = "MODULES=list\nCOMPRESS=zstd\n";
/// The filesystem, mostly holes.
const IMAGE_BYTES: u64 = 1 << 30;
/// The user of the console.
pub(super) const LOGIN: &str = "root:netboot";

/// What makes the initramfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    InitramfsTools,
    Dracut,
}

/// Writes `image`.
pub(super) fn build(image: &Path, maker: Maker, binary: &Path, work: &Path) -> Result<()> {
    let (purpose, more) = match maker {
        Maker::InitramfsTools => ("netboot", "initramfs-tools,busybox"),
        Maker::Dracut => ("netboot-dracut", "dracut,dracut-network,dbus"),
    };
    let root = debian(purpose, &format!("{INCLUDED},{more}"))?;
    let root = root.path();
    install(&stripped(binary, work)?, &root.join("usr/bin/outboard"))?;
    let steps = shell::root().join("tests/netboot/client.sh");
    install(&steps, &root.join("usr/local/sbin/netboot-client"))?;
    fs::write(root.join("etc/hostname"), "netboot\n")?;
    fs::write(root.join("etc/fstab"), "")?;
    let command = match maker {
        Maker::InitramfsTools => for_initramfs_tools(root)?,
        Maker::Dracut => for_dracut(root)?,
    };
    let command = format!("echo {LOGIN} | chpasswd && {command}");
    shell::output(&mut inside(root, &command)).context("cannot build the initramfs")?;
    fs::File::create(image)?.set_len(IMAGE_BYTES)?;
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-d"]).arg(root).arg(image);
    shell::output(&mut mkfs).map(drop)
}

/// Installs our files, as the guide does; returns the command that makes the initramfs.
fn for_initramfs_tools(root: &Path) -> Result<&'static str> {
    let packaging = shell::root().join("packaging/initramfs-tools");
    let tools = root.join("etc/initramfs-tools");
    install(&packaging.join("hook"), &tools.join("hooks/outboard"))?;
    let local_top = tools.join("scripts/local-top/outboard");
    install(&packaging.join("local-top"), &local_top)?;
    fs::write(tools.join("modules"), MODULES)?;
    fs::write(tools.join("conf.d/netboot"), SETTINGS)?;
    Ok("update-initramfs -u")
}

/// The same for dracut. The container that it runs in is not the machine that boots.
fn for_dracut(root: &Path) -> Result<&'static str> {
    let to = root.join("usr/lib/dracut/modules.d/95outboard");
    fs::create_dir_all(&to)?;
    for file in fs::read_dir(shell::root().join("packaging/dracut/95outboard"))? {
        let file = file?;
        install(&file.path(), &to.join(file.file_name()))?;
    }
    Ok("for kernel in /lib/modules/*; do version=${kernel##*/}; \
        dracut --quiet --force --no-hostonly /boot/initrd.img-$version $version; done")
}

fn install(from: &Path, to: &Path) -> Result<()> {
    let mut install = Command::new("install");
    shell::output(install.args(["-m", "755"]).arg(from).arg(to)).map(drop)
}

/// A checksum of the image.
pub(super) fn checksum(image: &Path) -> Result<String> {
    let printed = shell::output(Command::new("sha256sum").arg(image))?;
    let sum = printed
        .split(' ')
        .next()
        .context("sha256sum printed nothing")?;
    Ok(sum.to_owned())
}
