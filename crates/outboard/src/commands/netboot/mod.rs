//! `outboard netboot`: machines without disks boot from an image, each on an overlay of its own.
//!
//! ```text
//! --root IMAGE ─ debugfs ─► kernel, initramfs ─┐
//! iPXE, a card's boot partition ───────────────┼─► FOLDER ─► dnsmasq: DHCP, TFTP
//! interface, address ─► files.rs ──────────────┘        └─► serve --config: the disk over NBD
//! ```
//!
//! # Invariants
//!
//! * All that the two servers read is in the folder, and stays as its user edited it; nothing else of the machine is changed.
//! * The image is never written: each client has an overlay, selected by the address that it connects from.
//! * Both servers run, or neither.
//!
//! # What it does not do
//!
//! No UEFI HTTP boot, no Secure Boot, no TLS: firmware has none of our certificates. It changes no DHCP server of others.

mod dnsmasq;
mod files;
mod folder;
mod image;
mod interface;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::commands::serve;
use crate::failure::Failure;
use crate::graph::{Disk, absolute};
use crate::output::Format;
use dnsmasq::Dnsmasq;
use files::{AddressRange, INITRD, IPXE, KERNEL, Netboot};
use folder::{NetbootFolder, TextOutcome};
use interface::Subnet;

/// Where Debian's package `ipxe` has its programs.
const IPXE_FOLDERS: [&str; 2] = ["/usr/lib/ipxe", "/usr/share/ipxe"];
/// Files of a card that are written for the network.
const CARD_TEXTS: [&str; 2] = ["cmdline.txt", "config.txt"];

/// Arguments of `netboot`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of boot files and configurations; it is made, and what is edited in it stays
    folder: PathBuf,

    /// The golden image with the root filesystem; it is never written
    #[arg(long, value_name = "DISK")]
    root: String,

    /// The network card that the clients are behind
    #[arg(long, value_name = "NAME", value_parser = interface::name)]
    interface: String,

    /// Give these addresses to clients, on a network without a DHCP server
    #[arg(long, value_name = "FIRST,LAST", value_parser = range)]
    dhcp_range: Option<AddressRange>,

    /// The kernel of PCs, instead of the newest in /boot of the image
    #[arg(long, value_name = "FILE", requires = "initrd")]
    kernel: Option<PathBuf>,

    /// The initramfs of PCs
    #[arg(long, value_name = "FILE", requires = "kernel")]
    initrd: Option<PathBuf>,

    /// More words for the command line of the kernel
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true, value_parser = one_line)]
    append: String,

    /// Boot Raspberry Pis with the files of this folder, a card's boot partition
    #[arg(long, value_name = "DIR")]
    pi_boot: Option<PathBuf>,

    /// The golden image of Raspberry Pis, where --root is that of PCs
    #[arg(long, value_name = "DISK", requires = "pi_boot")]
    pi_root: Option<String>,

    /// Write the folder, and serve nothing
    #[arg(long)]
    write_only: bool,
}

/// What was written.
#[derive(Debug, Serialize)]
struct Report {
    folder: String,
    /// The version of the kernel that was taken from the image.
    kernel: Option<String>,
    written: Vec<&'static str>,
    edited: Vec<&'static str>,
}

/// Writes the folder, and serves it until a signal stops it.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let folder = absolute_folder(&args.folder)?;
    let plain = files::is_plain(&folder).ok_or_else(|| {
        let what = format!(
            "{} has characters that end a value of dnsmasq",
            folder.display()
        );
        Failure::usage(what).next("take a folder without blanks, quotes, commas, # and \\")
    })?;
    let subnet = Subnet::of(&args.interface)?;
    if let Some((first, last)) = args.dhcp_range
        && !(subnet.contains(first) && subnet.contains(last))
    {
        let (network, bits) = (subnet.network(), subnet.prefix);
        let what = format!("--dhcp-range is not in {network}/{bits}, the network of this machine");
        return Err(Failure::usage(what));
    }
    let root = lasting(&args.root)?;
    let (pc, pi) = match (&args.pi_boot, &args.pi_root) {
        (None, _) => (Some(root), None),
        (Some(_), None) => (None, Some(root)),
        (Some(_), Some(other)) => (Some(root), Some(lasting(other)?)),
    };
    let netboot = Netboot {
        folder: plain,
        interface: &args.interface,
        subnet,
        range: args.dhcp_range,
        pc,
        pi,
        append: &args.append,
    };
    let is_stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register(signal, is_stopped.clone());
        registered.map_err(|error| Failure::because("cannot watch for signals", &error))?;
    }
    let target = NetbootFolder::create(&folder)?;
    let lock = (!args.write_only).then(|| target.lock()).transpose()?;
    write(args, &netboot, &target)?.print(format)?;
    if lock.is_none() {
        return Ok(());
    }
    let serve = serve::Args::of_config(&folder.join("outboard.toml"))?;
    if is_stopped.load(Ordering::Acquire) {
        return Err(Failure::new("stopped before anything was served"));
    }
    let dnsmasq = Dnsmasq::start(&folder, is_stopped)?;
    let served = serve::run(serve, format);
    let stopped = dnsmasq.stop();
    drop(lock);
    served.and(stopped)
}

/// Writes all that the folder has.
fn write(args: &Args, netboot: &Netboot<'_>, folder: &NetbootFolder) -> Result<Report, Failure> {
    let mut texts = vec![
        ("outboard.toml", netboot.server()),
        ("dnsmasq.conf", netboot.dnsmasq()),
    ];
    let mut kernel = None;
    if netboot.pc.is_some() {
        kernel = write_pc(args, folder)?;
        texts.push(("tftp/boot.ipxe", netboot.ipxe()));
    }
    if let Some(card) = &args.pi_boot {
        let read = |name: &str| {
            let read = std::fs::read_to_string(card.join(name));
            let what = format!("{} is no boot partition of a Raspberry Pi", card.display());
            read.map_err(|error| Failure::because(format!("{what}: {name}"), &error))
        };
        let [cmdline, config] = CARD_TEXTS;
        texts.push(("tftp/cmdline.txt", netboot.pi_cmdline(&read(cmdline)?)));
        texts.push(("tftp/config.txt", files::pi_config(&read(config)?)));
        folder.publish_card(card, &CARD_TEXTS)?;
    }
    let mut report = Report {
        folder: netboot.folder.to_owned(),
        kernel,
        written: Vec::new(),
        edited: Vec::new(),
    };
    for (name, text) in texts {
        match folder.write(name, &text)? {
            TextOutcome::Written => report.written.push(name),
            TextOutcome::Edited => report.edited.push(name),
            TextOutcome::Unchanged => {}
        }
    }
    Ok(report)
}

/// Kernel, initramfs and iPXE; returns the version of a kernel from the image.
fn write_pc(args: &Args, folder: &NetbootFolder) -> Result<Option<String>, Failure> {
    let work = folder.work()?;
    let names = [KERNEL, INITRD];
    let version = match (&args.kernel, &args.initrd) {
        (Some(kernel), Some(initrd)) => {
            image::copy([kernel, initrd], work.path(), names)?;
            None
        }
        _ => {
            let image = plain_image(&args.root)?;
            Some(image::extract(&image, work.path(), names)?.version)
        }
    };
    for name in IPXE {
        let mut places = IPXE_FOLDERS.iter().map(|place| Path::new(place).join(name));
        let Some(program) = places.find(|path| path.is_file()) else {
            let missing = Failure::new(format!("iPXE is not installed: there is no {name}"));
            return Err(missing.next("apt install ipxe"));
        };
        let copied = std::fs::copy(&program, work.path().join(name));
        let what = || format!("cannot copy {}", program.display());
        copied.map_err(|error| Failure::because(what(), &error))?;
    }
    for name in names.into_iter().chain(IPXE) {
        folder.publish(&work, name)?;
    }
    Ok(version)
}

/// The path of an image that is a filesystem as a whole, as far as the command line shows.
fn plain_image(root: &str) -> Result<PathBuf, Failure> {
    match crate::commands::inspect::unnamed(root)?.disk {
        Disk::File { path, .. } => Ok(std::path::absolute(&path).unwrap_or(path)),
        _ => {
            let what = format!("{root} is no plain image: its kernel is not read");
            Err(Failure::usage(what).next("give both with --kernel and --initrd"))
        }
    }
}

impl Report {
    fn print(&self, format: Format) -> Result<(), Failure> {
        format.print(self, || self.text())
    }

    fn text(&self) -> String {
        let Self { folder, kernel, .. } = self;
        let mut lines = Vec::new();
        lines.extend(
            kernel
                .as_ref()
                .map(|version| format!("{folder}: Linux {version} of the image")),
        );
        if !self.written.is_empty() {
            lines.push(format!("{folder}: {} written", self.written.join(", ")));
        }
        for name in &self.edited {
            lines.push(format!("{folder}: {name} was edited and stays as it is"));
        }
        if lines.is_empty() {
            lines.push(format!("{folder}: unchanged"));
        }
        lines.join("\n")
    }
}

fn absolute_folder(path: &Path) -> Result<PathBuf, Failure> {
    let what = || format!("cannot use {}", path.display());
    std::path::absolute(path).map_err(|error| Failure::because(what(), &error))
}

/// A disk as the server's configuration has it: with absolute paths.
fn lasting(disk: &str) -> Result<String, Failure> {
    let named = crate::commands::inspect::unnamed(disk)?;
    absolute(&named).map_err(|error| Failure::because(format!("cannot use {disk}"), &error))
}

/// `--dhcp-range`
fn range(text: &str) -> Result<AddressRange, String> {
    let wrong = || "not two addresses, like 10.0.0.100,10.0.0.199".to_owned();
    let (first, last) = text.split_once(',').ok_or_else(wrong)?;
    let parse = |text: &str| text.parse::<Ipv4Addr>().map_err(|_| wrong());
    let (first, last) = (parse(first)?, parse(last)?);
    match first <= last {
        true => Ok((first, last)),
        false => Err("the first address is the larger one".to_owned()),
    }
}

/// `--append`: iPXE would expand `${`.
fn one_line(text: &str) -> Result<String, String> {
    match text.contains(char::is_control) || text.contains("${") {
        true => Err("not words of one line, without ${".to_owned()),
        false => Ok(text.to_owned()),
    }
}
