//! `cargo xtask netboot`: machines without a disk boot Debian from `outboard netboot`, in QEMU.
//!
//! 1. A BIOS with iPXE on the card, where a router gives the addresses: `outboard netboot` with dnsmasq as a proxy. The machine
//!    boots to a login, writes a file, and writes more while `outboard netboot` is killed and started again.
//! 2. It reboots: the files are there.
//! 3. Another card, UEFI that has no iPXE, no router: dnsmasq gives the addresses. It boots the same image and has none of the
//!    files of the first.
//!
//! 4. The same with an image that has its initramfs of dracut, and a BIOS.
//!
//! At the end the image is as it was. All programs are real; the network is one of namespaces ([`network`]).
//!
//! It is no part of `ci`: it needs root, namespaces and taps, and emulates four boots.

mod client;
mod golden;
mod network;
mod record;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::shell::Running;
use crate::{clock, packages, shell};
use client::{Client, Firmware};
use golden::Maker;
use network::{BOX_ADDRESS, CARD, Network, TAPS};

/// Addresses for machines where there is no router.
const OWN_RANGE: &str = "10.77.0.200,10.77.0.220";
/// How long a server may take to start.
const START_MAX: Duration = Duration::from_secs(60);
/// How long the server is unreachable.
const OUTAGE: Duration = Duration::from_secs(5);
/// Cards of the two machines.
const CARDS: [&str; 2] = ["52:54:00:12:34:01", "52:54:00:12:34:02"];
/// Words for the kernel, and a console that the test reads.
const APPEND: &str = crate::guest::KERNEL_OPTIONS;

/// What is made once.
struct Stage {
    network: Network,
    folder: PathBuf,
    image: PathBuf,
    /// The disk that is served: the image.
    root: String,
    binary: PathBuf,
    begin: Instant,
}

/// What is booted.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Boot one machine, and write what it reads of its root disk to this file: the trace of the bench's row `bucket-boot`.
    #[arg(long)]
    record: Option<PathBuf>,
}

/// Boots them all.
pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(&[packages::NETBOOT])?;
    let binary = shell::build()?;
    let folder = shell::target().join("netboot");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder)?;
    let image = folder.join("golden.img");
    let mut stage = Stage {
        network: Network::create()?,
        root: image.to_string_lossy().into_owned(),
        image,
        folder,
        binary,
        begin: clock::now(),
    };
    golden::build(
        &stage.image,
        Maker::InitramfsTools,
        &stage.binary,
        &stage.folder,
    )?;
    let before = golden::checksum(&stage.image)?;
    stage.log("golden image", 0.0);
    if let Some(trace) = &args.record {
        packages::ensure(&[packages::TESTS])?;
        record::record(&mut stage, trace)?;
        std::fs::remove_dir_all(&stage.folder).ok();
        return Ok(());
    }
    let mut cpu_seconds = first_machine(&stage)?;
    cpu_seconds += other_machine(&stage, Firmware::Uefi, "UEFI, addresses from us")?;
    let after = golden::checksum(&stage.image)?;
    ensure!(before == after, "the golden image was written");
    let overlays = overlays(&stage.folder.join("served/overlays"))?;
    ensure!(
        overlays == 2,
        "there are {overlays} overlays for two machines"
    );
    stage.log("golden image unchanged, two overlays", 0.0);
    golden::build(&stage.image, Maker::Dracut, &stage.binary, &stage.folder)?;
    stage.log("golden image with dracut", 0.0);
    cpu_seconds += other_machine(&stage, Firmware::Bios, "dracut, addresses from us")?;
    println!("netboot: ok, {cpu_seconds:.0} s of QEMU's processor time");
    std::fs::remove_dir_all(&stage.folder).ok();
    Ok(())
}

impl Stage {
    fn log(&self, what: &str, cpu_seconds: f64) {
        let elapsed = self.begin.elapsed().as_secs_f64();
        println!("netboot: {elapsed:>5.0} s, {cpu_seconds:>4.0} s of QEMU's: {what}");
    }

    /// The words behind `ip` that run `outboard netboot` on the box.
    fn words(&self, more: &[&str]) -> Vec<String> {
        let paths = [&self.binary, &self.folder.join("served")];
        let [binary, served] = paths.map(|path| path.to_string_lossy().into_owned());
        let netboot = [&binary, "netboot", &served, "--root", &self.root];
        let on_box = &self.network.on_box()[1..];
        let words = [
            on_box,
            &netboot,
            &["--interface", CARD, "--append", APPEND],
            more,
        ];
        words.concat().into_iter().map(str::to_owned).collect()
    }

    /// Starts `outboard netboot` and waits until it serves. Its log is kept under `name`.
    fn serve(&self, name: &str, more: &[&str]) -> Result<Running> {
        let log = self.folder.join(name).with_extension("log");
        let words = self.words(more);
        let mut server = Running::start("ip", words, &log)?;
        let uri = format!("nbd://{BOX_ADDRESS}/root");
        let printed = || std::fs::read_to_string(&log).unwrap_or_default();
        let started = clock::poll(START_MAX, || {
            (printed().contains(&uri) || server.still_runs().is_err()).then_some(())
        });
        started.with_context(|| format!("no server: {}", printed()))?;
        server.still_runs().with_context(printed)?;
        Ok(server)
    }
}

/// Where a router gives the addresses; returns the processor time of QEMU.
fn first_machine(stage: &Stage) -> Result<f64> {
    let router = stage.network.start_router(&stage.folder)?;
    let mut server = stage.serve("proxy", &[])?;
    let [tap, _] = TAPS;
    let [card, _] = CARDS;
    let mut client = Client::start(&stage.network, Firmware::Bios, tap, card, &stage.folder)?;
    client.log_in()?;
    stage.log("BIOS, iPXE, proxy DHCP: login", client.cpu_seconds());
    client.step("mark")?;
    client.begin("write")?;
    client.wait_for("@written 5\r\n")?;
    server.kill();
    let begun = client.count_after(OUTAGE / 5, "@written ");
    let later = client.count_after(OUTAGE, "@written ");
    ensure!(later == begun, "writes with fsync ended without a server");
    // dnsmasq of the killed one still runs, and is replaced.
    let server = stage.serve("restarted", &[])?;
    client.finish("write")?;
    stage.log(
        "the server was killed under writes: data is whole",
        client.cpu_seconds(),
    );
    client.type_line("reboot")?;
    client.log_in()?;
    stage.log("rebooted: login", client.cpu_seconds());
    client.step("kept")?;
    let cpu_seconds = client.cpu_seconds();
    drop(client);
    end(server)?;
    drop(router);
    Ok(cpu_seconds)
}

/// Where there is no router: it has none of the first machine's files.
fn other_machine(stage: &Stage, firmware: Firmware, what: &str) -> Result<f64> {
    let server = stage.serve("range", &["--dhcp-range", OWN_RANGE])?;
    let [_, tap] = TAPS;
    let [_, card] = CARDS;
    let mut client = Client::start(&stage.network, firmware, tap, card, &stage.folder)?;
    client.log_in()?;
    stage.log(&format!("{what}: login"), client.cpu_seconds());
    client.step("empty")?;
    let cpu_seconds = client.cpu_seconds();
    drop(client);
    end(server)?;
    Ok(cpu_seconds)
}

/// Ends a server as systemd does; dnsmasq ends with it.
fn end(mut server: Running) -> Result<()> {
    let status = server.terminate(START_MAX)?;
    ensure!(status.success(), "outboard netboot ended with {status}");
    let mut find = Command::new("pgrep");
    find.args(["--full", "netboot/served/dnsmasq.conf"]);
    let left = find.output()?.stdout;
    ensure!(left.is_empty(), "dnsmasq is left behind");
    Ok(())
}

/// Overlays below a folder.
fn overlays(folder: &Path) -> Result<usize> {
    let mut find = Command::new("find");
    let found = shell::output(find.arg(folder).args(["-name", "*.cow"]))?;
    Ok(found.lines().count())
}
