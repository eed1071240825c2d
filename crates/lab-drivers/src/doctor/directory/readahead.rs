//! One reader through the page cache, with the kernel's readahead and with others in its place.
//!
//! # Invariants
//!
//! * No setting is changed: another readahead is requested for this reader alone (posix_fadvise(2)), window by window as the
//!   kernel does: the next window is requested when the reader enters the one before.
//! * Nothing of the file is in the page cache when a pass over it begins.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::clock;
use lab::doctor::{Examination, ReadaheadTrial, ReadaheadTrials, Stage};
use lab::host::residency;
use lab::units::{Bytes, Nanos, Rate};
use rustix::fs::{Advice, fadvise};

use super::super::session::DoctorSession;
use super::Directory;
use crate::DriverError;

/// Times the readahead of now that are tried.
const TIMES: [u64; 3] = [4, 16, 64];
/// The least that is tried besides none.
const LEAST: u64 = 512 << 10;
/// The most.
const MOST: u64 = 32 << 20;
/// What is requested ahead with one call: of more, the kernel leaves out what is beyond its own readahead.
const PIECE: u64 = 128 << 10;
/// Part of the time that is not counted.
const RAMP: f64 = 0.25;

/// What the kernel reads ahead of a reader of the device with this number, and the file that sets it.
fn current((major, minor): (u32, u32)) -> Option<(PathBuf, Bytes)> {
    // A partition has that of its disk.
    let device = format!("/sys/dev/block/{major}:{minor}");
    let paths = [
        format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"),
        format!("{device}/queue/read_ahead_kb"),
        format!("{device}/../queue/read_ahead_kb"),
    ];
    paths.into_iter().find_map(|path| {
        let kib: u64 = std::fs::read_to_string(&path).ok()?.trim().parse().ok()?;
        let path = std::fs::canonicalize(path).ok()?;
        Some((path, Bytes(kib << 10)))
    })
}

impl Directory<'_, '_> {
    /// Tries other readaheads, where the job goes through the page cache in order.
    pub(super) fn readahead(&self, e: &mut Examination) -> Result<(), DriverError> {
        let Some((setting, size)) = current(self.place.mount.number) else {
            return Ok(());
        };
        let sizes = TIMES.map(|times| (size.0.saturating_mul(times)).clamp(LEAST, MOST));
        let mut sizes = sizes.to_vec();
        sizes.retain(|other| *other > size.0);
        sizes.dedup();
        let time = self.session.slice();
        let count = u32::try_from(sizes.len() + 2).unwrap_or(u32::MAX);
        let what = "other readaheads";
        if !self
            .session
            .has_time_of(time * count, e, Stage::Readahead, what)?
        {
            return Ok(());
        }
        let reader = Reader {
            session: self.session,
            path: &self.file.path,
            size: self.file.size,
            block: self.job.block_size,
            time,
        };
        let now = ReadaheadTrial {
            size,
            rate: reader.rate(None)?,
        };
        let without = Some(reader.rate(Some(0))?);
        let mut larger = Vec::new();
        for size in sizes {
            let rate = reader.rate(Some(size))?;
            larger.push(ReadaheadTrial {
                size: Bytes(size),
                rate,
            });
        }
        let file = setting.display().to_string();
        ReadaheadTrials {
            file,
            now,
            without,
            larger,
        }
        .add_to(e);
        Ok(())
    }
}

/// One reader.
struct Reader<'a> {
    session: &'a DoctorSession<'a>,
    path: &'a Path,
    size: Bytes,
    block: Bytes,
    time: Duration,
}

impl Reader<'_> {
    /// What it gets with a readahead of its own, or the kernel's.
    fn rate(&self, ahead: Option<u64>) -> Result<Rate, DriverError> {
        let failed = |error: std::io::Error| {
            DriverError::because(format!("cannot read {}", self.path.display()), error)
        };
        let file = File::open(self.path).map_err(failed)?;
        let advice = if ahead.is_some() {
            Advice::Random
        } else {
            Advice::Normal
        };
        fadvise(&file, 0, None, advice).map_err(|error| failed(error.into()))?;
        // Whole windows and blocks.
        let window = ahead
            .filter(|ahead| *ahead > 0)
            .map(|ahead| ahead.max(self.block.0));
        let mut piece = vec![0; usize::try_from(self.block.0).unwrap_or(1 << 20)];
        let (begun, mut counted, mut bytes) = (clock::now(), None, 0);
        let mut at = 0;
        loop {
            let now = clock::now();
            let spent = now.saturating_duration_since(begun);
            if spent >= self.time.mul_f64(RAMP) {
                counted.get_or_insert((now, bytes));
            }
            if spent >= self.time {
                let (from, before) = counted.unwrap_or((begun, 0));
                let time = Nanos::from_duration(now.saturating_duration_since(from));
                return Ok(Rate::of(Bytes(bytes - before), time).unwrap_or(Rate(0.0)));
            }
            self.session.go_on()?;
            if at == 0 {
                residency::forget(self.path, self.size);
            }
            if let Some(window) = window {
                self.request(&file, at, window, begun)?;
            }
            file.read_exact_at(&mut piece, at).map_err(failed)?;
            bytes += self.block.0;
            at += self.block.0;
            if at + self.block.0 > self.size.0 {
                at = 0;
            }
        }
    }

    /// Requests the window after the one that the reader enters with this block, and at the beginning that one, too.
    fn request(
        &self,
        file: &File,
        at: u64,
        window: u64,
        begun: Instant,
    ) -> Result<(), DriverError> {
        let is_first = at / window * window + self.block.0 > at;
        if !is_first {
            return Ok(());
        }
        let begin = at / window * window;
        let from = if at == 0 { 0 } else { begin + window };
        let end = (begin + 2 * window).min(self.size.0);
        let mut from = from;
        while let Some(len) = NonZeroU64::new(end.saturating_sub(from).min(PIECE)) {
            // A full queue of the device makes each of these wait.
            self.session.go_on()?;
            if clock::now().saturating_duration_since(begun) >= self.time {
                break;
            }
            // A kernel that does not read ahead shows that in the rate.
            if let Err(error) = fadvise(file, from, Some(len), Advice::WillNeed) {
                tracing::debug!("posix_fadvise: {error}");
                break;
            }
            from += len.get();
        }
        Ok(())
    }
}
