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
use crate::failure::Failure;
use crate::graph::{ByteSize, SECTOR};
use crate::interrupt::Interrupt;
use crate::output::Format;

/// Arguments of `disk create`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to make; must not exist
    path: PathBuf,

    /// Its size: 20G, 1.5T, 500MB… (K, M, G are powers of 1024; KB, MB, GB of 1000)
    size: ByteSize,

    /// Make a filesystem on it
    #[arg(long, value_name = "TYPE", value_parser = Filesystem::parse)]
    fs: Option<Filesystem>,

    /// Take the space now, so that it cannot run out later
    #[arg(long)]
    allocate: bool,

    /// Write zeroes over all of it, which also takes the space
    #[arg(long, conflicts_with = "allocate")]
    zero: bool,
}

/// What was made.
#[derive(Debug, Serialize)]
struct Made<'a> {
    path: &'a Path,
    size: u64,
    filesystem: Option<&'a str>,
    space: Space,
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
    let tool = args.fs.map(Filesystem::tool).transpose()?;
    let space = match (args.allocate, args.zero) {
        (true, _) => Space::Allocated,
        (_, true) => Space::Zeroed,
        _ => Space::Sparse,
    };
    let interrupt = Interrupt::watch()?;
    let image = Image::create(&args.path)?;
    image.take_space(size, space, &interrupt)?;
    if let Some(tool) = tool {
        let keep = if space == Space::Sparse {
            Keep::Holes
        } else {
            Keep::Space
        };
        tool.run(&args.path, keep, &interrupt)?;
    }
    image.finish(&interrupt)?;
    let filesystem = args.fs.map(Filesystem::name);
    let made = Made {
        path: &args.path,
        size: size.0,
        filesystem,
        space,
    };
    format.print(&made, || {
        let on_it = filesystem.map_or_else(String::new, |name| format!(", {name}"));
        format!("{}: {size}{on_it}", args.path.display())
    })
}

/// A file that is removed unless it is finished.
#[derive(Debug)]
struct Image<'a> {
    path: &'a Path,
    file: File,
    finished: bool,
}

impl<'a> Image<'a> {
    fn create(path: &'a Path) -> Result<Self, Failure> {
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
            // Filesystems that cannot tell will say so when they are full.
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
        Err(Failure::new(what).next("free some space, or leave --allocate and --zero away"))
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

    fn go_on(&self, interrupt: &Interrupt) -> Result<(), Failure> {
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

impl Drop for Image<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // It was made here a moment ago; if it is gone already, so much the better.
            drop(std::fs::remove_file(self.path));
        }
    }
}

fn cannot_make(path: &Path, error: &io::Error) -> Failure {
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
