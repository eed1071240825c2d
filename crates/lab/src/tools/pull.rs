//! A scenario: four drives as one, one of them is pulled and plugged in again, and what is lost.
//!
//! The study of the "Omni Drive" pulled drives by hand, made an empty file, and found that the device
//! "still seems to be operational". Here files with known bytes are on it; it is counted how many of
//! them can be read while the drive is away and after it is back, and timed when a program gets the first error.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::check_cancelled;
use super::layout::{RigLayout, shown as line};
use super::result::{ToolFigure, ToolResult, Unit};
use super::rig::{Rig, random_mib, write_random};
use super::{Installed, Program, Ran, Start, Tick, ToolDirs, ToolError, ToolKind, Writes};
use crate::host::residency;
use crate::plan::{bounds, size};
use crate::units::{Bytes, MIB, Nanos};

/// What has to be installed.
pub const PROGRAM: Program = Program {
    name: "mkfs.ext4",
    package: "e2fsprogs",
    version_args: &["-V"],
};
/// The drives in their order.
const DRIVES: [&str; 4] = ["a", "b", "c", "d"];
/// The least data.
pub(crate) const BYTES_MIN: Bytes = Bytes(16 << 20);

/// Its options, as a plan has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PullOptions {
    /// The drive that is pulled: `a` is the first of four.
    pub drive: String,
    /// Files on them together, of 1 MiB each; the four drives have twice that.
    #[serde(with = "size")]
    pub bytes: Bytes,
}

impl PullOptions {
    /// One drive's image.
    const fn image(&self) -> Bytes {
        Bytes(self.bytes.0 / 2 / MIB * MIB)
    }
}

/// What was seen of the files at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBack {
    /// Bytes that could not be read, or that were others.
    pub lost: Bytes,
    /// From the first read to the first error.
    pub told: Option<Nanos>,
}

/// What was seen in the whole scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullSeen {
    /// While the drive was away.
    pub pulled: ReadBack,
    /// After it came back.
    pub plugged: ReadBack,
    /// Whether an empty file could be made while it was away.
    pub touched: bool,
    /// Whether data could be written and flushed while it was away.
    pub wrote_pulled: bool,
    /// And after it came back.
    pub wrote_plugged: bool,
}

/// The figures; pure.
#[must_use]
pub fn figures(seen: &PullSeen) -> Vec<ToolFigure> {
    let lost = |look: &ReadBack| look.lost.0 as f64;
    let flag =
        |name: &str, yes: bool| ToolFigure::higher(name, f64::from(u8::from(yes)), Unit::Count);
    let mut figures = vec![ToolFigure::lower(
        "lost while pulled",
        lost(&seen.pulled),
        Unit::Bytes,
    )];
    figures.extend(
        seen.pulled
            .told
            .map(|told| ToolFigure::time("until a program is told", told)),
    );
    figures.push(ToolFigure::lower(
        "lost afterwards",
        lost(&seen.plugged),
        Unit::Bytes,
    ));
    figures.push(flag("an empty file could be made", seen.touched));
    figures.push(flag(
        "data could be written while pulled",
        seen.wrote_pulled,
    ));
    figures.push(flag("data could be written afterwards", seen.wrote_plugged));
    figures
}

/// The drives as one.
fn disk(layout: &RigLayout) -> String {
    let drives = DRIVES.map(|drive| layout.drive(drive)).join(", ");
    format!("linear({drives})")
}

/// Writes the files, each waited for until it is on the disk.
fn write_all(
    mounted: &Path,
    bytes: Bytes,
    seed: u64,
    tick: Tick<'_>,
) -> Result<Vec<PathBuf>, ToolError> {
    let each = (0..bytes.0 / MIB).map(|number| {
        let path = mounted.join(format!("file-{number:05}"));
        write_random(&path, Bytes(MIB), seed ^ number, tick)?;
        Ok(path)
    });
    each.collect()
}

/// A user that may attach may drop the whole cache, so one file is enough.
fn drop_caches(files: &[PathBuf], tick: Tick<'_>) {
    if let Some(file) = files.first() {
        residency::drop_caches(file, Bytes(MIB), false, tick);
    }
}

/// Reads every file, and holds it against what was written.
fn look(files: &[PathBuf], seed: u64, tick: Tick<'_>) -> Result<ReadBack, ToolError> {
    let started = engine::clock::now();
    let mut seen = ReadBack {
        lost: Bytes(0),
        told: None,
    };
    for (path, number) in files.iter().zip(0u64..) {
        check_cancelled(tick)?;
        match fs::read(path) {
            Ok(read) if read == random_mib(seed ^ number) => {}
            Ok(_) => seen.lost.0 += MIB,
            Err(_) => {
                seen.lost.0 += MIB;
                let waited = engine::clock::now().duration_since(started);
                seen.told.get_or_insert(Nanos::from_duration(waited));
            }
        }
    }
    Ok(seen)
}

impl ToolKind for PullOptions {
    fn program(&self) -> Program {
        PROGRAM
    }

    fn name(&self) -> &'static str {
        "pull"
    }

    fn check(&self) -> Result<(), String> {
        if !DRIVES.contains(&self.drive.as_str()) {
            let (drive, all) = (&self.drive, DRIVES.join(", "));
            return Err(format!("drive is {drive:?}, the drives are {all}"));
        }
        bounds::at_least("bytes", self.bytes, BYTES_MIN)
    }

    /// Written once and read three times at 100 MB/s.
    fn usual(&self) -> Nanos {
        Nanos::from_ms(self.bytes.0.saturating_mul(4) / 100_000 + 3000)
    }

    fn writes(&self) -> Writes {
        // All images together.
        Writes::AtMost(Bytes(self.image().0.saturating_mul(DRIVES.len() as u64)))
    }

    /// What is run; files are written and read besides.
    fn shown(&self, _: &Installed, place: &ToolDirs<'_>) -> Vec<String> {
        let layout = RigLayout::of(place);
        let images = DRIVES.map(|drive| layout.image_shown(drive, self.image()));
        let scenario = [
            line("outboard", layout.attach(&disk(&layout))),
            layout.pull_shown(&self.drive),
            layout.plug_shown(&self.drive),
            layout.detach_shown(),
        ];
        images.into_iter().chain(scenario).collect()
    }

    fn run(&self, start: Start<'_>) -> Result<Ran, ToolError> {
        let started = engine::clock::now();
        let mut rig = Rig::new(*start.place)?;
        for drive in DRIVES {
            rig.image(drive, self.image())?;
        }
        let mounted = rig.attach(&disk(&RigLayout::of(start.place)), start.tick)?;
        let files = write_all(&mounted, self.bytes, start.place.seed, start.tick)?;

        let write = |name: &str, tick: Tick<'_>| {
            write_random(&mounted.join(name), Bytes(MIB), start.place.seed, tick).is_ok()
        };
        drop_caches(&files, start.tick);
        rig.pull(&self.drive)?;
        let touched = fs::write(mounted.join("grass"), []).is_ok();
        let pulled = look(&files, start.place.seed, start.tick)?;
        let wrote_pulled = write("while-pulled", start.tick);
        rig.plug(&self.drive)?;
        drop_caches(&files, start.tick);
        let plugged = look(&files, start.place.seed, start.tick)?;
        let wrote_plugged = write("afterwards", start.tick);

        let seen = PullSeen {
            pulled,
            plugged,
            touched,
            wrote_pulled,
            wrote_plugged,
        };
        let commands = rig.commands.clone();
        rig.take_down()?;
        let elapsed = Nanos::from_duration(engine::clock::now().duration_since(started));
        Ok(Ran {
            result: ToolResult {
                bytes: Some(self.bytes),
                subject: Some(format!("four drives as one, drive {} pulled", self.drive)),
                ..start.result(figures(&seen), elapsed)
            },
            output: format!("{seen:?}\n"),
            commands,
            findings: Vec::new(),
        })
    }
}
