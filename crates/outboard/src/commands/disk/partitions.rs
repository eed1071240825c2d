//! The partitions of a new image: where they go, their table, and the filesystems in them.
//!
//! A filesystem is made in a sparse file of the partition's size next to the image, and its data extents are copied
//! into the image: this works with every `mkfs`, and needs no root.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom as At};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use nodes::partition::{
    DiskId, Guid, LayoutError, NewPartition, NewTable, PartitionKind, PartitionTable, Scheme,
    TableStep, lay_out, steps,
};
use rustix::fs::{SeekFrom, seek};
use serde::Serialize;

use super::create::{UnfinishedImage, cannot_make};
use super::mkfs::{Keep, Tool};
use super::part_options::PartOption;
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::interrupt::Interrupt;

/// `--table`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TableKind {
    Gpt,
    #[value(alias = "dos")]
    Mbr,
}

/// Partitions that fit the image.
#[derive(Debug)]
pub(super) struct PartitionPlan {
    table: PartitionTable,
    /// The `mkfs` of each requested partition, in order.
    tools: Vec<Option<Tool>>,
    names: Vec<Option<&'static str>>,
}

/// The table that was made, for programs.
#[derive(Debug, Serialize)]
pub(super) struct MadeTable {
    #[serde(rename = "table")]
    scheme: String,
    id: String,
    block_size: u32,
    partitions: Vec<MadePartition>,
}

/// A partition that was made, for programs.
#[derive(Debug, Serialize)]
struct MadePartition {
    number: u32,
    offset: u64,
    size: u64,
    #[serde(rename = "type")]
    kind: String,
    label: String,
    id: String,
    filesystem: Option<&'static str>,
}

/// Copied between two looks at the signals, bytes.
const STEP: u64 = 64 << 20;
/// Where the kernel gives random names.
const RANDOM: &str = "/proc/sys/kernel/random/uuid";

impl PartitionPlan {
    /// Lays `parts` out on a disk of `size`. Nothing is made yet.
    pub(super) fn new(
        size: ByteSize,
        table: TableKind,
        block_size: u32,
        parts: &[PartOption],
    ) -> Result<Self, Failure> {
        let scheme = match table {
            TableKind::Gpt => Scheme::Gpt,
            TableKind::Mbr => Scheme::Mbr,
        };
        let disk = random_guid()?;
        let id = match scheme {
            Scheme::Gpt => DiskId::Guid(disk),
            Scheme::Mbr => DiskId::Signature(signature_of(disk)),
        };
        let partitions = parts.iter().map(|part| new_partition(part, scheme));
        let new = NewTable {
            id,
            block_size,
            partitions: partitions.collect::<Result<_, _>>()?,
        };
        let table = lay_out(size.0, &new).map_err(|error| impossible(&error, scheme))?;
        let tools = parts.iter().map(|part| {
            let tool = part
                .filesystem
                .map(|filesystem| filesystem.tool(block_size));
            tool.transpose()
        });
        Ok(Self {
            tools: tools.collect::<Result<_, _>>()?,
            names: parts
                .iter()
                .map(|part| part.filesystem.map(super::mkfs::Filesystem::name))
                .collect(),
            table,
        })
    }

    /// Puts the table on the image, and the filesystems into it.
    pub(super) fn apply(
        &self,
        image: &UnfinishedImage<'_>,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        for step in steps(&self.table) {
            if let TableStep::Write { offset, data } = step {
                let written = image.file.write_all_at(&data, offset);
                written.map_err(|error| cannot_make(image.path, &error))?;
            }
        }
        for ((entry, _), tool) in self.requested().zip(&self.tools) {
            if let Some(tool) = tool {
                fill(image, entry, tool, interrupt)?;
            }
        }
        Ok(())
    }

    /// The requested partitions with their filesystems, without the extended one that contains logical ones.
    fn requested(
        &self,
    ) -> impl Iterator<Item = (&nodes::partition::PartitionEntry, Option<&'static str>)> {
        let entries = self.table.partitions.iter();
        let data = entries.filter(|entry| !entry.kind.is_extended());
        data.zip(self.names.iter().copied())
    }

    /// What was made, for programs.
    pub(super) fn made(&self) -> MadeTable {
        let partition =
            |(entry, filesystem): (&nodes::partition::PartitionEntry, _)| MadePartition {
                number: entry.number,
                offset: entry.range.offset,
                size: entry.range.len,
                kind: entry.kind.to_string(),
                label: entry.label.clone(),
                id: entry.id.to_string(),
                filesystem,
            };
        MadeTable {
            scheme: self.table.scheme.to_string().to_lowercase(),
            id: self.table.id.to_string(),
            block_size: self.table.block_size,
            partitions: self.requested().map(partition).collect(),
        }
    }

    /// What was made, for people: a line for each partition.
    pub(super) fn shown(&self) -> String {
        let rows: Vec<[String; 5]> = self
            .requested()
            .map(|(entry, filesystem)| {
                [
                    format!("  {}", entry.number),
                    ByteSize(entry.range.len).to_string(),
                    entry.kind.to_string(),
                    filesystem.unwrap_or("-").to_owned(),
                    entry.label.clone(),
                ]
            })
            .collect();
        let head = self.table.scheme.to_string();
        if rows.is_empty() {
            return format!("{head} without partitions");
        }
        format!("{head}\n{}", crate::output::columns(&rows))
    }
}

fn new_partition(part: &PartOption, scheme: Scheme) -> Result<NewPartition, Failure> {
    let kind = PartitionKind::parse(&part.kind, scheme)
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(NewPartition {
        size: part.size.map(|size| size.0),
        kind,
        label: part.label.clone(),
        id: random_guid()?,
    })
}

fn impossible(error: &LayoutError, scheme: Scheme) -> Failure {
    let failure = Failure::usage(error.to_string());
    match error {
        LayoutError::NoRoom { .. } => {
            failure.next("make the disk larger, or one of them take what is left: rest:TYPE")
        }
        LayoutError::NoLabels(_) => failure.next("leave it out, or use --table gpt"),
        LayoutError::TooMany { .. } if scheme == Scheme::Mbr => failure.next("use --table gpt"),
        _ => failure,
    }
}

fn random_guid() -> Result<Guid, Failure> {
    let cannot = |why: &(dyn std::error::Error + 'static)| {
        Failure::because("cannot make a random name for a partition", why)
    };
    let text = std::fs::read_to_string(RANDOM).map_err(|error| cannot(&error))?;
    text.trim().parse().map_err(|error| cannot(&error))
}

/// A signature is random too, and never 0: that says that there is none.
fn signature_of(guid: Guid) -> u32 {
    let [a, b, c, d, ..] = guid.to_bytes();
    u32::from_le_bytes([a, b, c, d]).max(1)
}

/// Makes a filesystem and puts it into its partition.
fn fill(
    image: &UnfinishedImage<'_>,
    entry: &nodes::partition::PartitionEntry,
    tool: &Tool,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let path = hidden_sibling(image.path, entry.number);
    let scratch = UnfinishedImage::create(&path)?;
    let failed = |error: io::Error| cannot_make(image.path, &error);
    scratch.file.set_len(entry.range.len).map_err(failed)?;
    tool.run(&path, Keep::Holes, interrupt)?;
    // Some of them replace the file.
    let made = OpenOptions::new().read(true).open(&path);
    let made = made.map_err(failed)?;
    let mut at = 0;
    while let Some(run) = next_data(&made, at).map_err(failed)? {
        image.go_on(interrupt)?;
        let len = run
            .end
            .min(entry.range.len)
            .saturating_sub(run.start)
            .min(STEP);
        if len == 0 {
            break;
        }
        let copied = copy(&made, run.start, &image.file, entry.range.offset, len);
        copied.map_err(failed)?;
        at = run.start + len;
    }
    Ok(())
}

/// A hidden name in the same folder, so that the data stays on the same filesystem.
fn hidden_sibling(path: &Path, number: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.partition-{number}"))
}

/// The next run of data from `at` on.
fn next_data(file: &File, at: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = seek(file, SeekFrom::Hole(start))?;
    Ok(Some(start..end))
}

/// `len` bytes at `at`, to the same place behind `base`.
fn copy(mut from: &File, at: u64, mut to: &File, base: u64, len: u64) -> io::Result<()> {
    from.seek(At::Start(at))?;
    to.seek(At::Start(base + at))?;
    let copied = io::copy(&mut from.take(len), &mut to)?;
    if copied == len {
        return Ok(());
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}
