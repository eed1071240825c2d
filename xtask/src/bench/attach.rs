//! ext4 on our attachment against ext4 on nbdfuse, both through a loop device with direct I/O.
//!
//! Both clients talk to our server, each to its own copy of the same filesystem, so that only the way
//! from the wire to the mount differs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::fio::{self, Target, Until};
use super::work::Load;
use super::{Args, Measured, rounds};
use crate::mounted_attachment::Attached;
use crate::servers::{Launcher, Server, Serving};
use crate::shell::{self, Running};
use crate::{clock, data, process};

/// Size of the file inside the filesystem that is read.
const FILE_SIZE: u64 = 512 << 20;

/// Measures both, each mounted during the whole row.
pub(super) fn measure(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    load: &Load,
) -> Result<Vec<Measured>> {
    let [our_image, their_image, earlier_image] =
        ["ext4-a.img", "ext4-b.img", "ext4-c.img"].map(|name| launcher.folder.join(name));
    for image in [&our_image, &their_image, &earlier_image] {
        make_filesystem(&launcher.folder, image)?;
    }
    let our_server = launcher.start(Server::Ours, &our_image.to_string_lossy())?;
    let their_server = launcher.start(Server::Ours, &their_image.to_string_lossy())?;
    let earlier_server = launcher.start(Server::Ours, &earlier_image.to_string_lossy())?;
    let attach = |binary: &Path, server: &Serving, mount| {
        let mount = launcher.folder.join(mount);
        Attached::new(binary, &server.uri(), &["--via", "fuse"], mount)
    };
    let ours = attach(binary, &our_server, "mount-a")?;
    let earlier = args.before.as_ref();
    let earlier = earlier.map(|binary| attach(binary, &earlier_server, "mount-c"));
    let earlier = earlier.transpose()?;
    let theirs = LoopOnNbdfuse::new(&their_server, &launcher.folder)?;
    let mut contenders = vec![(&our_server, &ours.mount), (&their_server, &theirs.mount)];
    let mut names = vec!["outboard".to_owned(), "nbdfuse + loop".to_owned()];
    if let Some(earlier) = &earlier {
        contenders.push((&earlier_server, &earlier.mount));
        names.push(Server::Before.to_string());
    }
    let measured = rounds(args, names, |which| {
        let (server, mount) = contenders[which];
        let before = process::cpu_seconds(server.id())?;
        let file = mount.join("data");
        let outcome = fio::run(load, Target::File(&file), Until::Seconds(args.seconds))?;
        let spent = process::cpu_seconds(server.id())? - before;
        let mut sample = outcome.sample;
        sample.server_cpu_us = Some(spent * 1e6 / outcome.requests);
        Ok(sample)
    });
    ours.detach()?;
    earlier.map_or(Ok(()), Attached::detach)?;
    theirs.take_down()?;
    measured
}

/// An image with ext4 and one file of data in it, made without mounting anything.
fn make_filesystem(folder: &Path, image: &Path) -> Result<()> {
    let content = folder.join("content");
    std::fs::create_dir_all(&content)?;
    let file = content.join("data");
    if !std::fs::metadata(&file).is_ok_and(|found| found.len() == FILE_SIZE) {
        data::fill(&file, FILE_SIZE, 2)?;
    }
    std::fs::remove_file(image).ok();
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-d"])
        .arg(content)
        .arg(image)
        .arg("1G");
    shell::output(&mut mkfs).map(drop)
}

/// nbdfuse with a loop device and a mount on it, taken down when dropped.
#[derive(Debug)]
struct LoopOnNbdfuse {
    mount: PathBuf,
    fuse: PathBuf,
    device: Option<String>,
    mounted: bool,
    nbdfuse: Option<Running>,
}

impl LoopOnNbdfuse {
    fn new(server: &Serving, folder: &Path) -> Result<Self> {
        let mount = folder.join("mount-b");
        let fuse = folder.join("nbdfuse");
        std::fs::create_dir_all(&mount)?;
        std::fs::create_dir_all(&fuse)?;
        let file = fuse.join("disk");
        let uri = server.uri();
        let args = [file.as_os_str(), uri.as_ref()];
        let nbdfuse = Running::start("nbdfuse", args, &folder.join("nbdfuse.log"))?;
        let mut made = Self {
            mount,
            fuse,
            device: None,
            mounted: false,
            nbdfuse: Some(nbdfuse),
        };
        clock::poll(Duration::from_secs(10), || {
            std::fs::metadata(&file)
                .is_ok_and(|found| found.len() > 0)
                .then_some(())
        })
        .context("nbdfuse shows no file")?;
        let mut losetup = Command::new("losetup");
        losetup
            .args(["--direct-io=on", "--find", "--show"])
            .arg(&file);
        let device = shell::output(&mut losetup)?.trim().to_owned();
        made.device = Some(device.clone());
        shell::output(Command::new("mount").arg(device).arg(&made.mount))?;
        made.mounted = true;
        Ok(made)
    }

    fn take_down(mut self) -> Result<()> {
        self.run_take_down()
    }

    fn run_take_down(&mut self) -> Result<()> {
        if std::mem::take(&mut self.mounted) {
            shell::output(Command::new("umount").arg(&self.mount))?;
        }
        if let Some(device) = self.device.take() {
            shell::output(Command::new("losetup").arg("--detach").arg(device))?;
        }
        if let Some(mut nbdfuse) = self.nbdfuse.take() {
            shell::output(Command::new("fusermount3").arg("-u").arg(&self.fuse))?;
            nbdfuse.wait(Duration::from_secs(10));
        }
        Ok(())
    }
}

impl Drop for LoopOnNbdfuse {
    fn drop(&mut self) {
        self.run_take_down().ok();
    }
}
