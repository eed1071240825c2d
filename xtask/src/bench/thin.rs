//! Rows of thin volumes: 4 KiB reads against a plain file, and opening a pool of 1 TiB.
//!
//! Neither we nor a machine without device-mapper make thin pools. So the bench does: two linear volumes hold data and metadata of a
//! pool that it adds to the text of the group, and the metadata map each chunk of one thin volume to another place.
//!
//! ```text
//! block 0    superblock
//! block 1    device 1 ─► root        block 2    device 1 ─► chunks that are mapped
//! from 3 on  leaves: chunk ─► data chunk, then each level above them; the root is the last block
//! ```

use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use crc::{Algorithm, CRC_32_ISCSI, CRC_32_ISO_HDLC, Crc};

use super::figures::Sample;
use super::fio::Until;
use super::graph::AgainstPlain;
use super::work::Load;
use super::{Args, DISK_SIZE, Measured, disk, one, ready, rounds};
use crate::servers::{Launcher, Server};
use crate::{clock, data, process, shell};

const BLOCK: usize = 4096;
const CHUNK: u64 = 64 << 10;
/// Entries of a full node.
const ENTRIES: u64 = 252;
const EXTENT: u64 = 4 << 20;
/// Checksum of the text and of its area's header.
const LVM: Crc<u32> = Crc::<u32>::new(&Algorithm {
    init: 0xf597_a6cf_u32.reverse_bits(),
    xorout: 0,
    ..CRC_32_ISO_HDLC
});
/// Checksum of the blocks of a pool.
const CASTAGNOLI: Crc<u32> = Crc::<u32>::new(&Algorithm {
    xorout: 0,
    ..CRC_32_ISCSI
});
/// First byte of the extents of a disk.
const DATA_START: u64 = 1 << 20;
/// First byte of the metadata area, and of its ring of texts.
const AREA: usize = 4096;
const RING: usize = 512;
/// The pool that is opened.
const LARGE: u64 = 1 << 40;

/// A thin volume and a plain file, both in the page cache, and both served by us.
pub(super) fn load(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    load: &Load,
) -> Result<Vec<Measured>> {
    let plain = disk(&launcher.folder)?;
    let thin = launcher.folder.join("thin.img");
    data::fill(&thin, disk_len(DISK_SIZE), 60)?;
    make(binary, &thin, DISK_SIZE)?;
    let pair = AgainstPlain {
        ours: &expression(&thin),
        plain: &plain.to_string_lossy(),
        files: vec![&thin, &plain],
        first: None,
    };
    let measured = pair.measure(launcher, args, load);
    std::fs::remove_file(&thin).ok();
    measured
}

/// Opening a pool of 1 TiB, and the memory of the server once most of its mappings were used.
pub(super) fn open(
    launcher: &Launcher,
    args: &Args,
    binary: &Path,
    load: &Load,
) -> Result<Vec<Measured>> {
    let thin = launcher.folder.join("thin-large.img");
    data::hollow(&thin, disk_len(LARGE))?;
    make(binary, &thin, LARGE)?;
    let measured = rounds(args, vec!["outboard".to_owned()], |_| {
        ready(&thin)?;
        let start = clock::now();
        let serving = launcher.start(Server::Ours, &expression(&thin))?;
        let seconds = start.elapsed().as_secs_f64();
        let used = one(&serving, load, Until::Seconds(args.seconds))?;
        Ok(Sample {
            seconds: Some(seconds),
            server_mib: Some(process::memory_kib(serving.id())? / 1024.0),
            ..used
        })
    });
    std::fs::remove_file(&thin).ok();
    measured
}

fn expression(disk: &Path) -> String {
    format!("volume({},name=bench/thin)", disk.display())
}

/// Bytes of the metadata of a pool of `size`, whole extents.
fn metadata_len(size: u64) -> u64 {
    let blocks = 3 + levels(size / CHUNK).iter().sum::<u64>();
    (blocks * BLOCK as u64).next_multiple_of(EXTENT)
}

/// Bytes of a disk with a pool of `size`.
fn disk_len(size: u64) -> u64 {
    DATA_START + metadata_len(size) + size + EXTENT
}

/// Makes a group of one disk with a pool of `size`, all of it mapped by one thin volume.
fn make(binary: &Path, disk: &Path, size: u64) -> Result<()> {
    let backups = disk.with_extension("backups");
    for (name, len, more) in [
        (
            "bench/meta",
            metadata_len(size),
            &["--force", "--disks"][..],
        ),
        ("bench/chunks", size, &[]),
    ] {
        let mut command = Command::new(binary);
        command.args(["volume", "create", name, "--extents"]);
        command.arg((len / EXTENT).to_string()).args(more).arg(disk);
        command.env("XDG_DATA_HOME", &backups);
        shell::output(&mut command)?;
    }
    std::fs::remove_dir_all(&backups).ok();
    add_to_text(disk, &pool_text(size / EXTENT))?;
    write_metadata(disk, size / CHUNK)
}

/// The pool and its volume, as LVM describes them.
fn pool_text(extents: u64) -> String {
    let volume = |name: &str, id: &str, visible: &str, segment: &str| {
        format!(
            "{name} {{\nid = \"{id}\"\nstatus = [\"READ\", \"WRITE\"{visible}]\nflags = []\ncreation_time = 1\n\
             creation_host = \"bench\"\nsegment_count = 1\n\nsegment1 {{\nstart_extent = 0\nextent_count = {extents}\n\
             {segment}\n}}\n}}\n\n"
        )
    };
    let pool = format!(
        "type = \"thin-pool\"\nmetadata = \"meta\"\npool = \"chunks\"\ntransaction_id = 0\nchunk_size = {}\n\
         discards = \"passdown\"\nzero_new_blocks = 0",
        CHUNK / 512
    );
    let thin = "type = \"thin\"\nthin_pool = \"pool\"\ntransaction_id = 0\ndevice_id = 1";
    volume("pool", "pooooo-oool-oool-oool-oool-oool-oooool", "", &pool)
        + &volume(
            "thin",
            "thiiii-iiin-iiin-iiin-iiin-iiin-iiiiin",
            ", \"VISIBLE\"",
            thin,
        )
}

/// Adds volumes to the text of a group that was just made: it does not reach the end of its ring.
fn add_to_text(disk: &Path, volumes: &str) -> Result<()> {
    let file = opened(disk)?;
    let mut area = vec![0; 1 << 18];
    file.read_exact_at(&mut area, AREA as u64)?;
    let [at, len] = [40, 48].map(|field| number(&area, field));
    let (at, len) = (usize::try_from(at)?, usize::try_from(len)?);
    let text = area.get(at..at + len - 1).context("the text is there")?;
    let text = std::str::from_utf8(text)?;
    let head = "logical_volumes {\n";
    let (before, after) = text.split_once(head).context("the group has volumes")?;
    let mut text = format!("{before}{head}{volumes}{after}").into_bytes();
    text.push(0);
    ensure!(RING + text.len() <= area.len(), "the text is too long");
    put(&mut area, 40, RING as u64);
    put(&mut area, 48, text.len() as u64);
    area[56..60].copy_from_slice(&LVM.checksum(&text).to_le_bytes());
    let sum = LVM.checksum(&area[4..RING]);
    area[..4].copy_from_slice(&sum.to_le_bytes());
    area[RING..RING + text.len()].copy_from_slice(&text);
    file.write_all_at(&area, AREA as u64)?;
    Ok(())
}

/// Nodes of each level of a tree of so many mappings, from the leaves up.
fn levels(mappings: u64) -> Vec<u64> {
    let mut levels = vec![mappings.div_ceil(ENTRIES)];
    while let Some(below) = levels.last().filter(|nodes| **nodes > 1) {
        levels.push(below.div_ceil(ENTRIES));
    }
    levels
}

/// Writes the metadata of a pool of which all chunks are mapped.
fn write_metadata(disk: &Path, chunks: u64) -> Result<()> {
    let levels = levels(chunks);
    let blocks = 3 + levels.iter().sum::<u64>();
    let file = opened(disk)?;
    file.write_all_at(&superblock(chunks, blocks), DATA_START)?;
    let mut out = BufWriter::with_capacity(
        1 << 20,
        PositionedWriter {
            file,
            at: DATA_START + BLOCK as u64,
        },
    );
    let root = [(1, blocks - 1)];
    out.write_all(&node(1, 2, 8, root.into_iter()))?;
    out.write_all(&node(2, 2, 24, [(1, chunks)].into_iter()))?;
    let mut block = 3;
    for first in (0..chunks).step_by(usize::try_from(ENTRIES)?) {
        let keys = first..chunks.min(first + ENTRIES);
        // No chunk lies behind the one before it.
        let entries = keys.map(|chunk| (chunk, (chunks - 1 - chunk) << 24));
        out.write_all(&node(block, 2, 8, entries))?;
        block += 1;
    }
    let (mut below, mut keys) = (3, ENTRIES);
    for pair in levels.windows(2) {
        for first in (0..pair[0]).step_by(usize::try_from(ENTRIES)?) {
            let children = first..pair[0].min(first + ENTRIES);
            let entries = children.map(|child| (child * keys, below + child));
            out.write_all(&node(block, 1, 8, entries))?;
            block += 1;
        }
        (below, keys) = (below + pair[0], keys * ENTRIES);
    }
    ensure!(block == blocks, "every block is written");
    out.flush()?;
    Ok(())
}

/// Writes behind what it wrote before.
struct PositionedWriter {
    file: std::fs::File,
    at: u64,
}

impl std::io::Write for PositionedWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.sync_all()
    }
}

fn superblock(chunks: u64, blocks: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    for (at, value) in [
        (32, 27_022_010),
        (64, chunks),
        (72, chunks),
        (192, blocks),
        (200, blocks),
        (320, 1),
        (328, 2),
        (344, blocks),
    ] {
        put(&mut block, at, value);
    }
    for (at, value) in [(40, 2_u32), (336, 128), (340, 8)] {
        block[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    seal(&mut block, 160_774);
    block
}

/// A node: a leaf has flags 2, an internal one 1. Values of more than 8 bytes are filled up with zeroes.
fn node(
    number: u64,
    flags: u32,
    value_len: usize,
    entries: impl Iterator<Item = (u64, u64)>,
) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    let max = (BLOCK - 32) / (8 + value_len) / 3 * 3;
    let mut count = 0;
    for (index, (key, value)) in entries.enumerate() {
        put(&mut block, 32 + index * 8, key);
        put(&mut block, 32 + max * 8 + index * value_len, value);
        count = index + 1;
    }
    block[4..8].copy_from_slice(&flags.to_le_bytes());
    put(&mut block, 8, number);
    for (at, value) in [(16, count), (20, max), (24, value_len)] {
        let value = u32::try_from(value).expect("a block has 4096 bytes");
        block[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    seal(&mut block, 121_107);
    block
}

/// Writes the checksum of a block.
fn seal(block: &mut [u8], constant: u32) {
    let sum = CASTAGNOLI.checksum(&block[4..]) ^ constant;
    block[..4].copy_from_slice(&sum.to_le_bytes());
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn opened(disk: &Path) -> Result<std::fs::File> {
    super::open(disk, std::fs::OpenOptions::new().read(true).write(true))
}
