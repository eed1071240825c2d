//! [`record`]: what a machine reads of its root disk from power to a shell, for the row `bucket-boot` of the bench.
//!
//! nbdkit's filter `log` has the reads of the golden image, below the overlay of the machine: what the machine writes and reads again is
//! not in it. The trace is text: a head of lines with `#`, then a line for each read, in order: milliseconds since the first one, offset and
//! length in KiB.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::client::{Client, Firmware};
use super::network::TAPS;
use super::{CARDS, OWN_RANGE, START_MAX, Stage, end};
use crate::clock;
use crate::shell::{self, Running};

/// One read.
struct RecordedRead {
    /// Seconds of a day.
    time: f64,
    offset: u64,
    len: u64,
}

/// Boots a machine, and writes the trace.
pub(super) fn record(stage: &mut Stage, trace: &Path) -> Result<()> {
    // The kernel and the initramfs are fetched by TFTP.
    let image = stage.root.clone();
    shell::output(Command::new("ip").args(stage.words(&["--write-only"])))?;
    let (socket, log) = (stage.folder.join("nbdkit"), stage.folder.join("reads.log"));
    let socket = socket.to_string_lossy().into_owned();
    let logfile = format!("logfile={}", log.display());
    let words = [
        "-f",
        "-r",
        "-U",
        &socket,
        "--filter=log",
        "file",
        &image,
        &logfile,
    ];
    let nbdkit = Running::start("nbdkit", words, &stage.folder.join("nbdkit.log"))?;
    clock::poll(START_MAX, || Path::new(&socket).exists().then_some(())).context("no nbdkit")?;
    stage.root = format!("nbd+unix:///?socket={socket}");
    let boot = ["vmlinuz", "initrd.img"].map(|name| stage.folder.join(name));
    for file in &boot {
        let name = file.file_name().context("a name")?;
        let served = stage.folder.join("served/tftp").join(name);
        std::fs::copy(&served, file).with_context(|| format!("no {}", served.display()))?;
    }
    let [kernel, initrd] = boot.map(|file| file.to_string_lossy().into_owned());
    let more = [
        "--dhcp-range",
        OWN_RANGE,
        "--kernel",
        &kernel,
        "--initrd",
        &initrd,
    ];
    let server = stage.serve("recorded", &more)?;
    let before = std::fs::read_to_string(&log)?.len();
    let mut client = Client::start(
        &stage.network,
        Firmware::Bios,
        TAPS[0],
        CARDS[0],
        &stage.folder,
    )?;
    client.log_in()?;
    drop(client);
    end(server)?;
    drop(nbdkit);
    let reads = std::fs::read_to_string(&log)?;
    let reads = reads_of(&reads[before..])?;
    std::fs::write(trace, text_of(&reads))?;
    stage.log(&format!("{} reads recorded", reads.len()), 0.0);
    Ok(())
}

/// The reads in a log of nbdkit.
fn reads_of(log: &str) -> Result<Vec<RecordedRead>> {
    let lines = log.lines().filter(|line| line.contains(" Read id="));
    let reads: Vec<RecordedRead> = lines
        .filter_map(|line| {
            let field = |name: &str| {
                let (_, value) = line.split_once(&format!(" {name}="))?;
                let value = value.split_whitespace().next()?;
                u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()
            };
            let clock = line.split_whitespace().nth(1)?;
            let seconds = clock.split(':').try_fold(0.0, |seconds, part| {
                part.parse::<f64>().ok().map(|part| seconds * 60.0 + part)
            });
            Some(RecordedRead {
                time: seconds?,
                offset: field("offset")?,
                len: field("count")?,
            })
        })
        .collect();
    ensure!(!reads.is_empty(), "the log of nbdkit has no read");
    Ok(reads)
}

/// As the trace has them.
fn text_of(reads: &[RecordedRead]) -> String {
    let mut text = String::from(
        "# What a Debian read of its root over the network from power to a shell: `cargo xtask netboot --record FILE`.\n\
         # Milliseconds since the first read (of a machine that is emulated), offset and length in KiB.\n",
    );
    let first = reads.first().map_or(0.0, |read| read.time);
    for read in reads {
        let millis = ((read.time - first).rem_euclid(86_400.0) * 1000.0).round();
        let [offset, len] = [read.offset, read.len].map(|bytes| bytes >> 10);
        writeln!(text, "{millis} {offset} {len}").expect("a text takes it");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_a_log_become_a_trace() {
        let log = "2026-11-28 23:59:59.5 connection=1 Read id=1 offset=0x400 count=0x1000 ...\n\
                   2026-11-28 23:59:59.6 connection=1 ...Read id=1 return=0\n\
                   2026-11-29 00:00:00.25 connection=1 Read id=2 offset=0x100000 count=0x20000 ...\n";
        let text = text_of(&reads_of(log).unwrap());
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines, ["0 1 4", "750 1024 128"]);
        assert!(reads_of("").is_err());
    }
}
