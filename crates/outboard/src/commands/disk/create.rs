//! `outboard disk create`: a new file that holds a disk.
//!
//! # Invariants
//!
//! * Nothing that exists is overwritten.
//! * A file that was not finished is removed: after a failure, a signal, a full disk.
//! * When the command says that the image is there, its bytes are on the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use rustix::fs::FallocateFlags;
use serde::Serialize;

use super::mkfs::{Filesystem, Keep};
use super::part_options::PartOptions;
use super::partitions::{MadeTable, PartitionPlan, TableKind};
use crate::failure::Failure;
use crate::graph::{ByteSize, SECTOR};
use crate::interrupt::Interrupt;
use crate::output::Format;

/// Arguments of `disk create`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to create; must not exist
    path: PathBuf,

    /// Its size: 20G, 1.5T, 500MB… (K, M, G are powers of 1024; KB, MB, GB of 1000)
    size: ByteSize,

    /// Write a partition table; mbr for machines before 2010, up to 2 TiB [default: gpt with --part]
    #[arg(long, value_enum)]
    table: Option<TableKind>,

    #[command(flatten)]
    parts: PartOptions,

    /// Blocks of the disk that the table is for: 512, or 4096 for a drive of such blocks
    #[arg(long, value_name = "BYTES", value_parser = block_size, default_value = "512")]
    block_size: u32,

    /// Allocate the space now, so that it cannot run out later
    #[arg(long)]
    allocate: bool,

    /// Write zeroes over all of it, which also allocates the space
    #[arg(long, conflicts_with = "allocate")]
    zero: bool,
}

/// What was made.
#[derive(Debug, Serialize)]
struct CreateReport<'a> {
    path: &'a Path,
    size: u64,
    filesystem: Option<&'a str>,
    space: Space,
    #[serde(flatten)]
    table: Option<MadeTable>,
}

/// How the space of an image is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Space {
    /// As it is written.
    Sparse,
    /// At once.
    Allocated,
    /// At once, by zeroes.
    Zeroed,
}

/// Allocated or written between two looks at the signals, bytes.
const STEP: u64 = 64 << 20;
/// Zeroes written at once, bytes.
const ZEROES: usize = 1 << 20;

/// Makes the image.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let size = args.size;
    if !size.is_of_a_disk() {
        let what = format!(
            "a disk's size is a multiple of {SECTOR} bytes, {} is none",
            size.0
        );
        let nearest = size.0.next_multiple_of(SECTOR).max(SECTOR);
        return Err(Failure::usage(what).next(format!("{nearest} would be one")));
    }
    let PartOptions { whole, parts } = &args.parts;
    if args.table.is_some() && whole.is_some() {
        let what = "a disk has a partition table or a filesystem, not both";
        return Err(Failure::usage(what).next("put --part SIZE:TYPE before --fs"));
    }
    let tool = whole.map(|filesystem| filesystem.tool(args.block_size));
    let tool = tool.transpose()?;
    let table = args.table.or((!parts.is_empty()).then_some(TableKind::Gpt));
    let plan = table.map(|table| PartitionPlan::new(size, table, args.block_size, parts));
    let plan = plan.transpose()?;
    let space = match (args.allocate, args.zero) {
        (true, _) => Space::Allocated,
        (_, true) => Space::Zeroed,
        _ => Space::Sparse,
    };
    let interrupt = Interrupt::watch()?;
    let image = UnfinishedImage::create(&args.path)?;
    image.take_space(size, space, &interrupt)?;
    if let Some(tool) = tool {
        let keep = if space == Space::Sparse {
            Keep::Holes
        } else {
            Keep::Space
        };
        tool.run(&args.path, keep, &interrupt)?;
    }
    if let Some(plan) = &plan {
        plan.apply(&image, &interrupt)?;
    }
    image.finish(&interrupt)?;
    let filesystem = whole.map(Filesystem::name);
    let made = CreateReport {
        path: &args.path,
        size: size.0,
        filesystem,
        space,
        table: plan.as_ref().map(PartitionPlan::made),
    };
    format.print(&made, || {
        let on_it = match (&plan, filesystem) {
            (Some(plan), _) => format!(", {}", plan.shown()),
            (None, Some(name)) => format!(", {name}"),
            (None, None) => String::new(),
        };
        format!("{}: {size}{on_it}", args.path.display())
    })
}

/// The sizes of blocks that drives have.
fn block_size(text: &str) -> Result<u32, String> {
    match text {
        "512" => Ok(512),
        "4096" | "4K" | "4k" => Ok(4096),
        _ => Err("512 and 4096 are known".to_owned()),
    }
}

/// A file that is removed unless it is finished.
#[derive(Debug)]
pub(super) struct UnfinishedImage<'a> {
    pub(super) path: &'a Path,
    pub(super) file: File,
    finished: bool,
}

impl<'a> UnfinishedImage<'a> {
    /// Makes an empty one.
    pub(super) fn create(path: &'a Path) -> Result<Self, Failure> {
        let opened = OpenOptions::new().write(true).create_new(true).open(path);
        let file = opened.map_err(|error| {
            let failure = cannot_make(path, &error);
            match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    failure.next("it is left as it is: choose another path, or remove it first")
                }
                io::ErrorKind::NotFound => failure.next("make its directory first"),
                _ => failure,
            }
        })?;
        Ok(Self {
            path,
            file,
            finished: false,
        })
    }

    fn take_space(
        &self,
        size: ByteSize,
        space: Space,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        if space != Space::Sparse {
            self.check_free(size)?;
        }
        match space {
            Space::Sparse => self
                .file
                .set_len(size.0)
                .map_err(|error| cannot_make(self.path, &error)),
            Space::Allocated => self.allocate(size, interrupt),
            Space::Zeroed => self.write_zeroes(size, interrupt),
        }
    }

    fn check_free(&self, size: ByteSize) -> Result<(), Failure> {
        let Ok(stat) = rustix::fs::fstatvfs(&self.file) else {
            // Not every filesystem reports its free space; a full one fails the writes.
            return Ok(());
        };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if size.0 <= free {
            return Ok(());
        }
        let what = format!(
            "cannot make {}: {} bytes are wanted, {free} are free there",
            self.path.display(),
            size.0
        );
        Err(Failure::new(what).next("free some space, or omit --allocate and --zero"))
    }

    fn allocate(&self, size: ByteSize, interrupt: &Interrupt) -> Result<(), Failure> {
        for offset in (0..size.0.div_ceil(STEP)).map(|step| step * STEP) {
            self.go_on(interrupt)?;
            let len = STEP.min(size.0 - offset);
            rustix::fs::fallocate(&self.file, FallocateFlags::empty(), offset, len)
                .map_err(|error| self.no_space(error.into()))?;
        }
        Ok(())
    }

    fn write_zeroes(&self, size: ByteSize, interrupt: &Interrupt) -> Result<(), Failure> {
        let bar = progress(size);
        let zeroes = vec![0_u8; ZEROES];
        let mut left = size.0;
        while left > 0 {
            self.go_on(interrupt)?;
            let len = usize::try_from(left).unwrap_or(ZEROES).min(ZEROES);
            let written = (&self.file).write_all(&zeroes[..len]);
            written.map_err(|error| self.no_space(error))?;
            left -= len as u64;
            bar.set_position(size.0 - left);
        }
        Ok(())
    }

    fn no_space(&self, error: io::Error) -> Failure {
        let failure = cannot_make(self.path, &error);
        match error.kind() {
            io::ErrorKind::Unsupported => {
                failure.next("its filesystem cannot allocate: use --zero instead")
            }
            io::ErrorKind::StorageFull => failure.next("the unfinished file was removed"),
            _ => failure,
        }
    }

    /// Fails if the user wants to stop.
    pub(super) fn go_on(&self, interrupt: &Interrupt) -> Result<(), Failure> {
        if interrupt.came() {
            let what = format!("interrupted: {} was not made", self.path.display());
            return Err(Failure::new(what));
        }
        Ok(())
    }

    fn finish(mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        self.go_on(interrupt)?;
        self.file
            .sync_all()
            .map_err(|error| cannot_make(self.path, &error))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for UnfinishedImage<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // It was made here a moment ago; if it is gone already, so much the better.
            drop(std::fs::remove_file(self.path));
        }
    }
}

pub(super) fn cannot_make(path: &Path, error: &io::Error) -> Failure {
    Failure::because(format!("cannot make {}", path.display()), error)
}

/// A bar on standard error, where that is a terminal; gone when it is dropped.
fn progress(size: ByteSize) -> ProgressBar {
    let template = "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    let bar = ProgressBar::new(size.0).with_finish(ProgressFinish::AndClear);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
