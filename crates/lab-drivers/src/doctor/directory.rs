//! A directory: fio on a file of it, and what is known of the path below.

mod file;
mod first_load;
mod lower_layers;
mod readahead;

use std::cell::RefCell;
use std::time::Duration;

use attach::{CacheCounts, ServerUse};
use engine::clock;
use lab::doctor::load::{Load, LoadResult, LoadSource};
use lab::doctor::{
    Bound, CacheUse, CpuUse, DeviceFlushes, DoctorJob, Evidence, Examination, Sign, Stage,
};
use lab::fio::process::{Fio, RunError};
use lab::host::residency;
use lab::plan::{Direction, Pattern};
use lab::sensors::read;
use lab::units::{Bytes, Nanos, Rate};

use self::file::TestFile;
use self::lower_layers::ExportBehind;
use super::directory_info::DirectoryInfo;
use super::export::{DeeperQueue, begun, busy, no_processor, queue, settle};
use super::pairs::{Retrial, measure_pairs};
use super::report::ReportSpan;
use super::session::DoctorSession;
use crate::DriverError;

/// Less than this of what was read came from the device: memory answered.
const DEVICE_PART_MIN: f64 = 0.1;
/// Less than this of a file in memory is none of it.
const COLD: f64 = 0.2;
/// More than this of a file in memory is all of it.
const RESIDENT_ALL: f64 = 0.9;

/// A directory that is examined.
struct Directory<'a, 'b> {
    session: &'a DoctorSession<'b>,
    place: &'a DirectoryInfo,
    file: &'a TestFile,
    load: Load<'a>,
    job: DoctorJob,
    source: LoadSource,
    /// The job goes through the page cache, and the file is not in it: each measurement begins like that.
    is_cold: bool,
    /// The server's processes, where they are on this machine.
    server: Vec<u32>,
}

/// Examines reading, and writing too if a file may be written.
pub(super) fn examine(session: &DoctorSession<'_>) -> Result<Vec<Examination>, DriverError> {
    let fio = Fio::find().map_err(DriverError::new)?;
    let place = DirectoryInfo::find(std::path::Path::new(&session.args.target))?;
    let file = TestFile::find(session, &place)?;
    let stop = || session.is_cancelled();
    let load = || Load {
        fio: &fio,
        work: session.folder(),
        stop: &stop,
    };
    let (engine, direct) = load()
        .choose(&file.path, session.args.buffered)
        .map_err(|error| failed(session, &error))?;
    let mut directions = vec![Direction::Read];
    directions.extend(session.args.write.then_some(Direction::Write));
    let mut all = Vec::new();
    for direction in directions {
        session.restart();
        let directory = Directory {
            session,
            place: &place,
            file: &file,
            load: load(),
            job: DoctorJob {
                direction,
                ..session.job
            },
            source: LoadSource::File {
                path: file.path.clone(),
                size: file.size,
                engine,
                direct,
            },
            is_cold: !direct && is_cold(&file),
            server: lower_layers::server(session, &place),
        };
        let examination = directory.examine()?;
        let flush = examination.flush;
        let flushed = flush.and_then(|flush| flush.examination(&examination));
        all.push(examination);
        all.extend(flushed);
    }
    Ok(all)
}

/// Whether nearly nothing of the file is in the page cache.
fn is_cold(file: &TestFile) -> bool {
    let found = residency::look(&file.path, file.size);
    found.is_some_and(|found| found.part() < COLD)
}

fn failed(session: &DoctorSession<'_>, error: &RunError) -> DriverError {
    match session.go_on() {
        Err(stopped) => stopped,
        Ok(()) => DriverError::new(format!("fio on {}: {error}", session.args.target)),
    }
}

impl Directory<'_, '_> {
    fn examine(&self) -> Result<Examination, DriverError> {
        let way = self.way(self.is_buffered());
        let mut e = begun(self.session, self.place.about(), way);
        e.peer = self.place.peer().filter(|_| e.way.contains(&Stage::Server));
        e.job = self.job;
        let used = self.place.server_now();
        e.server = used.as_ref().map(|used| used.server.clone());
        let counts = self.place.cache_counts();
        e.remarks.extend(self.file.remark.clone());
        e.remarks.extend(self.place.remark(&self.job));
        if !self.is_buffered() {
            residency::forget(&self.file.path, self.file.size);
        }
        let (watched, flushes) = self.flushed_meanwhile(|| self.watched())?;
        let first = &watched.load;
        e.rate = first.rate;
        // The export by itself shows more of reads.
        if self.job.direction == Direction::Write {
            self.watched_writes(&mut e, &watched);
        }
        e.in_flight_part = self.job.in_flight().0 as f64 / first.result.bytes.0.max(1) as f64;
        e.remark_in_flight(first.result.bytes);
        let one = RefCell::new(None);
        let deeper = queue(self.session, &mut e, |depth| {
            let job = DoctorJob { depth, ..self.job };
            let report = ReportSpan::begin(self.session, self.server.first().copied());
            let rate = self.run(&self.source, job)?.rate;
            let served = self.served(report).filter(|_| depth == 1);
            *one.borrow_mut() = one.take().or(served);
            Ok(rate)
        })?;
        if let (Some(served), Some(one)) = (&mut e.served, one.take()) {
            served.compare_alone(&one);
        }
        let what = "fio by itself, on requests that are done at once";
        if self.session.has_time(&mut e, Stage::Generator, what)? {
            let nothing = self.run(&LoadSource::Nothing, self.job)?;
            e.bounds
                .push(Bound::alone(Stage::Generator, nothing.rate, what));
        }
        let second = self.cache(&mut e)?;
        let is_cached = e.signs.iter().any(|sign| sign.part == Stage::Cache);
        let is_sequential = self.job.pattern == Pattern::Sequential;
        let is_read = self.job.direction == Direction::Read;
        if self.is_buffered() && is_read && is_sequential && !is_cached {
            self.readahead(&mut e)?;
        }
        e.cache = self.cache_use(counts.as_ref());
        let remote = self.behind(&mut e)?;
        let third = self.run(&self.source, self.job)?.rate;
        e.remarks.extend(e.cache.as_ref().map(CacheUse::remark));
        e.remarks.extend(self.server_change(used));
        settle(&mut e, &[first.rate, second, third]);
        e.share_disk();
        self.pairs(&mut e, deeper, remote.as_ref())?;
        self.busy(&mut e, first);
        if self.job.direction == Direction::Write {
            self.flush(&mut e, flushes);
        }
        Ok(e)
    }

    /// What is close to the target is measured again, each time right after it.
    fn pairs(
        &self,
        e: &mut Examination,
        deeper: Option<DeeperQueue>,
        remote: Option<&ExportBehind<'_, '_>>,
    ) -> Result<(), DriverError> {
        let repeats = remote.map(|behind| behind.remote.take_repeats());
        let repeats = repeats.unwrap_or_default();
        let mut retrials = Vec::new();
        if let Some(behind) = remote {
            retrials.extend(behind.remote.retrials(&repeats));
            let again = |time| behind.remote.read_for(time, self.job.depth);
            retrials.push(Retrial {
                index: behind.index,
                measure: Box::new(again),
            });
        }
        let at_depth = |time, depth| {
            let job = DoctorJob { depth, ..self.job };
            Ok(self.run_for(&self.source, job, time)?.rate)
        };
        retrials
            .extend(deeper.map(|deeper| deeper.retrial(move |time| at_depth(time, deeper.depth))));
        let target = |time| at_depth(time, self.job.depth);
        measure_pairs(self.session, e, &retrials, target)
    }

    fn run(&self, source: &LoadSource, job: DoctorJob) -> Result<LoadResult, DriverError> {
        self.run_for(source, job, self.session.slice())
    }

    fn run_for(
        &self,
        source: &LoadSource,
        job: DoctorJob,
        time: Duration,
    ) -> Result<LoadResult, DriverError> {
        if self.is_cold {
            residency::forget(&self.file.path, self.file.size);
        }
        let follow = [self.place.client(), self.server.clone()];
        let measured = self.load.run(source, &job, time, &follow);
        measured.map_err(|error| failed(self.session, &error))
    }

    /// `measured`, and what its device flushed meanwhile.
    fn flushed_meanwhile<T>(
        &self,
        measured: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<(T, Option<DeviceFlushes>), DriverError> {
        let device = self.place.device.as_deref();
        let look = || device.and_then(read::flushes);
        let (begun, before) = (clock::now(), look());
        let measured = measured()?;
        let elapsed = Nanos::from_duration(clock::now().saturating_duration_since(begun));
        let flushes = match (device, before, look()) {
            (Some(device), Some(before), Some(after)) => {
                DeviceFlushes::between(device.to_owned(), before, after, elapsed)
            }
            _ => None,
        };
        Ok((measured, flushes))
    }

    /// What a flush adds to a write, and whether writes wait for flushes that the doctor did not request.
    fn flush(&self, e: &mut Examination, flushes: Option<DeviceFlushes>) {
        let one = e.bounds.iter().find_map(|bound| match bound.evidence {
            Evidence::InFlight { latency, .. } => Some(latency),
            _ => None,
        });
        let transfer = Nanos::of_transfer(self.job.block_size, e.rate);
        let alone = one.unwrap_or_default().max(transfer);
        // Through the page cache a write takes no time, and the flush all of it.
        if !self.is_buffered() {
            e.flush = self.file.flush_times(self.job.block_size, alone);
        }
        let sign = flushes.and_then(|flushes| flushes.sign(one?));
        if let Some(sign) = sign {
            e.signs.push(sign);
            e.way.push(Stage::Flush);
        }
    }

    /// The stages of the path. Of reads, those behind a cache file are not on it until they are known to be.
    fn way(&self, with_cache: bool) -> Vec<Stage> {
        let is_cached = self.place.cache().is_some() && self.job.direction == Direction::Read;
        let export = self.place.export().filter(|_| !is_cached);
        self.place.way(with_cache, export)
    }

    /// The reads that a cache file answered since it had counted `before`.
    fn cache_use(&self, before: Option<&CacheCounts>) -> Option<CacheUse> {
        if self.job.direction == Direction::Write {
            return None;
        }
        let (before, now) = (before?, self.place.cache_counts()?);
        Some(CacheUse {
            file: now.file.display().to_string(),
            disk: self.place.cache()?.target.to_string(),
            hits: now.hits.saturating_sub(before.hits),
            misses: now.misses.saturating_sub(before.misses),
        })
    }

    /// A remark where another server took the place of the one that was used in the beginning.
    fn server_change(&self, before: Option<ServerUse>) -> Option<String> {
        let (before, now) = (before?, self.place.server_now()?);
        (now.server_changes > before.server_changes).then(|| {
            format!(
                "Another server took the place of {} meanwhile, and {} is used now: what was measured may be both. Run the \
                 doctor again.",
                before.server, now.server
            )
        })
    }

    fn is_buffered(&self) -> bool {
        matches!(self.source, LoadSource::File { direct: false, .. })
    }

    /// Bytes that the device has read since it was there.
    fn device_reads(&self) -> u64 {
        let device = self.place.device.as_deref().and_then(read::device);
        device.map_or(0, |device| device.read.0)
    }

    /// Measures once more, and looks whether memory answered in place of what is behind.
    fn cache(&self, e: &mut Examination) -> Result<Rate, DriverError> {
        let resident = residency::look(&self.file.path, self.file.size);
        let before = self.device_reads();
        let measured = self.run(&self.source, self.job)?;
        let moved = Bytes(self.device_reads().saturating_sub(before));
        if self.is_buffered() && !self.session.args.buffered {
            e.remarks.push(
                "There is no direct I/O here, so all of it goes through the page cache.".to_owned(),
            );
        }
        if self.job.direction == Direction::Write {
            return Ok(measured.rate);
        }
        let read = measured.result.bytes;
        let part = moved.0 as f64 / read.0.max(1) as f64;
        let is_resident = resident.is_some_and(|found| found.part() >= RESIDENT_ALL);
        let text = match &self.place.device {
            _ if self.place.mount.is_memory() => {
                format!("{} is memory, not storage.", self.place.mount.filesystem)
            }
            Some(device) if part < DEVICE_PART_MIN => format!(
                "{read} were read, and {device} was asked for {moved}: the rest came from the page cache."
            ),
            _ if self.is_buffered() && is_resident && !self.is_cold => {
                format!("All {} of the file were in the page cache.", self.file.size)
            }
            _ => return Ok(measured.rate),
        };
        let part = Stage::Cache;
        e.signs.push(Sign { part, text });
        e.way = self.way(true);
        if self.is_buffered() {
            self.past_the_cache(e);
        }
        Ok(measured.rate)
    }

    /// What the cache hides.
    fn past_the_cache(&self, e: &mut Examination) {
        residency::forget(&self.file.path, self.file.size);
        let Ok((engine, true)) = self.load.choose(&self.file.path, false) else {
            return;
        };
        let source = LoadSource::File {
            path: self.file.path.clone(),
            size: self.file.size,
            engine,
            direct: true,
        };
        if let Ok(past) = self.run(&source, self.job) {
            e.remarks
                .push(format!("Past the page cache it is {}.", past.rate));
        }
    }

    /// What the threads of both ends had to do.
    fn busy(&self, e: &mut Examination, first: &LoadResult) {
        let followed = |index: usize| first.followed.get(index).cloned().flatten();
        let client = [first.generator.clone(), followed(0)];
        for cpu in client.into_iter().flatten() {
            e.bounds.extend(Bound::busy(Stage::Client, e.rate, cpu));
        }
        if e.way.contains(&Stage::Server) {
            let why = no_processor(e);
            let cpu: Option<CpuUse> = followed(1);
            busy(e, Stage::Server, cpu, None, why);
        }
    }
}
