//! [`TestFile`]: the file of a directory that is read: the largest that is there, or one of our own.

use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::clock;
use lab::doctor::FlushTimes;
use lab::units::{Bytes, MIB, Nanos};
use tempfile::NamedTempFile;

use super::super::directory_info::DirectoryInfo;
use super::super::session::DoctorSession;
use crate::DriverError;

/// The size of a file of our own, if it can be written in time.
const OWN: Bytes = Bytes(256 * MIB);
/// A smaller file is not worth measuring.
const LEAST: Bytes = Bytes(8 * MIB);
/// Part of the time that writing it may take.
const OWN_TIME: f64 = 0.25;
/// Writes that are flushed to find out what a flush takes.
const FLUSHES: usize = 9;
/// They take about this long at most.
const FLUSH_TIME: Duration = Duration::from_millis(600);
/// Entries of directories that are looked at.
const ENTRIES_MAX: usize = 20_000;
/// Of a disk, leave at least as much free as is written.
const FREE_TIMES: u64 = 2;

/// A file that is read; one of our own is removed when this is dropped.
#[derive(Debug)]
pub(super) struct TestFile {
    pub(super) path: PathBuf,
    /// Bytes of it that are used.
    pub(super) size: Bytes,
    pub(super) remark: Option<String>,
    own: Option<NamedTempFile>,
}

impl TestFile {
    /// The largest file of the directory and what is below it, or one that is made.
    pub(super) fn find(
        session: &DoctorSession<'_>,
        place: &DirectoryInfo,
    ) -> Result<Self, DriverError> {
        if session.args.write {
            return Self::make(session, place);
        }
        let least = session.job.in_flight().max(LEAST);
        let until = clock::now() + session.slice();
        let Largest { found, is_all } = largest(&place.directory, until);
        let Some((path, size)) = found.filter(|(_, size)| *size >= least) else {
            let whole = if is_all { "" } else { " as far as was looked" };
            let what = format!(
                "no file in {}{whole} has {least}, which is the least to read",
                place.directory.display()
            );
            return Err(
                DriverError::new(what).next("--write makes one for the time, and removes it")
            );
        };
        let mut remark = format!("{} was read, {size} of it.", path.display());
        if !is_all {
            remark.push_str(" There may be larger files: not all of the directory was looked at.");
        }
        Ok(Self {
            remark: Some(remark),
            path,
            size,
            own: None,
        })
    }

    fn make(session: &DoctorSession<'_>, place: &DirectoryInfo) -> Result<Self, DriverError> {
        let directory = &place.directory;
        let failed = |error: std::io::Error| {
            let what = format!("cannot write a file into {}", directory.display());
            DriverError::because(what, error)
        };
        let free = rustix::fs::statvfs(directory).map_err(|error| failed(error.into()))?;
        let free = free.f_bavail.saturating_mul(free.f_frsize);
        let wanted = OWN.0.min(free / FREE_TIMES / MIB * MIB);
        if wanted < LEAST.0 {
            let what = format!(
                "{} has too little space for a test file",
                directory.display()
            );
            return Err(DriverError::new(what).next("free some"));
        }
        let named = tempfile::Builder::new()
            .prefix(".outboard-doctor-")
            .tempfile_in(directory);
        let mut own = named.map_err(failed)?;
        let limit = Duration::from_secs(session.args.seconds).mul_f64(OWN_TIME);
        let start = clock::now();
        let mut written = 0;
        let mut piece = vec![0; 1 << 20];
        // Data that neither compresses nor repeats.
        let mut state = u64::from(std::process::id());
        while written < wanted && clock::now().saturating_duration_since(start) < limit {
            session.go_on()?;
            fill(&mut piece, &mut state);
            own.write_all(&piece).map_err(failed)?;
            written += piece.len() as u64;
            // What is not on the disk yet would be written while it is measured.
            own.as_file().sync_data().map_err(failed)?;
        }
        if written < LEAST.0 {
            let what = format!(
                "{} takes too long to write a test file",
                directory.display()
            );
            return Err(DriverError::new(what).next("give more --seconds"));
        }
        Ok(Self {
            path: own.path().to_owned(),
            size: Bytes(written),
            remark: (written < wanted).then(|| {
                let (written, wanted) = (Bytes(written), Bytes(wanted));
                format!(
                    "The file has {written} instead of {wanted}: no time was left to write more."
                )
            }),
            own: Some(own),
        })
    }
}

impl TestFile {
    /// What a flush of a file of our own adds to a write of `len` bytes, which takes `alone` past the page cache; none
    /// where it is not our own, or where it fails.
    pub(super) fn flush_times(&self, len: Bytes, alone: Nanos) -> Option<FlushTimes> {
        let file = self.own.as_ref()?.as_file();
        let mut piece = vec![0; usize::try_from(len.0).ok()?];
        fill(&mut piece, &mut u64::from(std::process::id()));
        let start = clock::now();
        let mut all = Vec::new();
        while all.len() < FLUSHES && clock::now().saturating_duration_since(start) < FLUSH_TIME {
            let begun = clock::now();
            file.write_all_at(&piece, 0).ok()?;
            let written = clock::now();
            file.sync_data().ok()?;
            let flushed = clock::now();
            let time = |from: Instant, to: Instant| {
                Nanos::from_duration(to.saturating_duration_since(from))
            };
            all.push((time(begun, written), time(written, flushed)));
        }
        FlushTimes::middle(&all, alone)
    }
}

/// xorshift64 (Marsaglia).
fn fill(piece: &mut [u8], state: &mut u64) {
    for word in piece.chunks_exact_mut(8) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
}

/// The largest file that was found.
struct Largest {
    found: Option<(PathBuf, Bytes)>,
    /// Whether everything was looked at.
    is_all: bool,
}

/// The largest file on this filesystem that has its bytes and may be read, of those seen by then.
fn largest(directory: &Path, until: Instant) -> Largest {
    let device = std::fs::metadata(directory).map(|found| found.dev()).ok();
    let mut waiting = vec![directory.to_owned()];
    let mut best: Option<(PathBuf, Bytes)> = None;
    let mut looked = 0;
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            looked += 1;
            // A slow server's directories are not worth more time than what is to be measured.
            if looked > ENTRIES_MAX || clock::now() > until {
                return Largest {
                    found: best,
                    is_all: false,
                };
            }
            let Ok(found) = entry.metadata() else {
                continue;
            };
            if found.is_dir() && Some(found.dev()) == device {
                waiting.push(entry.path());
            } else if found.is_file() && has_its_bytes(&found) {
                let size = Bytes(found.len());
                if best.as_ref().is_none_or(|(_, most)| size > *most) && may_read(&entry.path()) {
                    best = Some((entry.path(), size));
                }
            }
        }
    }
    Largest {
        found: best,
        is_all: true,
    }
}

/// Holes are read without the disk.
fn has_its_bytes(found: &std::fs::Metadata) -> bool {
    found.blocks().saturating_mul(512) >= found.len() / 2
}

fn may_read(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok()
}
