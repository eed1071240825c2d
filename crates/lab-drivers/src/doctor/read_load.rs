//! The doctor's own load on a disk: so many reads at once for a time, in this process.
//!
//! It reads and does nothing else. Its offsets wrap around at the end of its window.
//!
//! # Invariants
//!
//! * Throughput is counted from one completed request to another: what is in flight at either end of the time is no part of it.
//!   Requests that complete many at once would otherwise count for one time too many or too few.

use std::cell::Cell;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use block::{IoError, Node, Range};
use engine::clock;
use futures_util::future::join_all;
use lab::doctor::{CpuUse, DoctorJob, StoreReading, StoreUse, cpu};
use lab::plan::Pattern;
use lab::units::{Bytes, Nanos, Rate};
use nodes::{File, Null};

use super::disk::ExaminedDisk;
use super::session::DoctorSession;
use super::wire::{ProbeTimes, probe_until};
use crate::DriverError;
use crate::runtime::on_engine;

/// Part of the time that goes by before anything is counted: rates that were saved up, first touches.
const RAMP: f64 = 0.25;
/// Timeout of a request.
const ANSWER: Duration = Duration::from_secs(30);
/// Interval at which the cancellation flag is read.
const TICK: Duration = Duration::from_millis(100);
/// Requests of a window at least, so that a sweep over it takes its time.
const WINDOW_REQUESTS: u64 = 4;

/// What is opened for a measurement.
#[derive(Debug, Clone)]
pub(super) enum Opening {
    /// A disk, read-only.
    Disk(Box<ExaminedDisk>),
    /// A file or a device that another process may have open for writing.
    Look(std::path::PathBuf),
    /// Nothing: the load's own ceiling.
    Nothing,
}

/// What to measure of it.
#[derive(Debug, Clone)]
pub(super) struct Measure {
    pub(super) job: DoctorJob,
    pub(super) time: Duration,
    /// The first bytes only.
    pub(super) window: Option<u64>,
    /// Requests before the first one, so that what a server has in memory since the measurement before is not read again.
    pub(super) skip: u64,
    /// Processes of the server, to be looked at meanwhile.
    pub(super) follow: Vec<u32>,
    /// Where a wire leads to, to measure its round trip meanwhile.
    pub(super) probe: Option<std::net::SocketAddr>,
}

impl Measure {
    /// All of it, without anything to follow.
    pub(super) const fn new(job: DoctorJob, time: Duration) -> Self {
        Self {
            job,
            time,
            window: None,
            skip: 0,
            follow: Vec::new(),
            probe: None,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) struct ReadResult {
    pub(super) rate: Rate,
    /// Bytes of it that are read again and again.
    pub(super) window: Bytes,
    /// Bytes that were read, those before counting began too.
    pub(super) read: Bytes,
    /// Requests until the end of this measurement, those that it skipped too.
    pub(super) requests: u64,
    pub(super) client: Option<CpuUse>,
    pub(super) server: Option<CpuUse>,
    /// What new connections took meanwhile.
    pub(super) probed: ProbeTimes,
    /// The stores of volumes that are open in this process.
    pub(super) stores: Vec<StoreUse>,
}

impl ReadResult {
    /// Fails if the disk holds no request of the job.
    pub(super) fn check_window(
        &self,
        session: &DoctorSession<'_>,
        named: impl fmt::Display,
    ) -> Result<(), DriverError> {
        if self.window.0 > 0 {
            return Ok(());
        }
        let size = session.job.block_size;
        let what = format!("{named} is too small for requests of {size}");
        Err(DriverError::new(what).next("give a smaller --block-size"))
    }
}

/// Opens `opening`, measures it and closes it.
pub(super) fn measure(
    session: &DoctorSession<'_>,
    opening: &Opening,
    measure: &Measure,
) -> Result<ReadResult, DriverError> {
    on_engine(async || {
        let work = async {
            let disk = open(session, opening).await?;
            let run = Run::new(disk, measure);
            let stores = || match opening {
                Opening::Disk(disk) => disk.opener.stores(),
                _ => Vec::new(),
            };
            let measured = run.measured(measure, &stores).await;
            measured.map_err(|error| DriverError::new(format!("cannot read: {error}")))
        };
        let mut work = Box::pin(work);
        let limit = clock::now() + measure.time + ANSWER;
        loop {
            match clock::timeout(TICK, work.as_mut()).await {
                Ok(done) => return done,
                Err(_) => session.go_on()?,
            }
            if clock::now() > limit {
                let secs = ANSWER.as_secs();
                return Err(DriverError::new(format!("no answer within {secs} s")));
            }
        }
    })
}

async fn open(session: &DoctorSession<'_>, opening: &Opening) -> Result<Node, DriverError> {
    match opening {
        Opening::Nothing => Ok(Arc::new(Null::new(1 << 40))),
        Opening::Look(path) => look(path).await,
        Opening::Disk(disk) => match &disk.file {
            Some(path) => look(path).await,
            None => disk.opener.open(session.args.connections).await,
        },
    }
}

async fn look(path: &std::path::Path) -> Result<Node, DriverError> {
    let (disk, _) = File::look_at(path).await.map_err(DriverError::from_error)?;
    Ok(Arc::new(disk))
}

/// Whether the first bytes of a disk are reported as a hole.
pub(super) fn is_hole(
    session: &DoctorSession<'_>,
    opening: &Opening,
    len: u64,
) -> Result<bool, DriverError> {
    on_engine(async || {
        let disk = open(session, opening).await?;
        let size = disk.geometry().size;
        if size < len {
            return Ok(false);
        }
        let told = clock::timeout(ANSWER, disk.extents(Range::new(0, len))).await;
        let Ok(Ok(extents)) = told else {
            return Ok(false);
        };
        let data = |extent: &block::Extent| extent.kind == block::ExtentKind::Data;
        Ok(!extents.is_empty() && !extents.iter().any(data))
    })
}

/// A load that runs.
struct Run {
    disk: Node,
    job: DoctorJob,
    window: u64,
    /// Requests begun.
    begun: Cell<u64>,
    /// Bytes read, whether counted or not.
    read: Cell<u64>,
    /// When the last request completed; the beginning before the first did.
    completed: Cell<std::time::Instant>,
    stop: Cell<bool>,
}

impl Run {
    fn new(disk: Node, measure: &Measure) -> Self {
        let block = measure.job.block_size.0;
        let size = disk.geometry().size;
        let least = block * WINDOW_REQUESTS * u64::from(measure.job.depth);
        let window = measure.window.map_or(size, |window| window.max(least));
        Self {
            window: window.min(size) / block * block,
            disk,
            job: measure.job,
            begun: Cell::new(measure.skip),
            read: Cell::new(0),
            completed: Cell::new(clock::now()),
            stop: Cell::new(false),
        }
    }

    async fn measured(
        &self,
        measure: &Measure,
        stores: &dyn Fn() -> Vec<StoreReading>,
    ) -> Result<ReadResult, IoError> {
        let start = clock::now();
        self.completed.set(start);
        let end = start + measure.time;
        let workers = join_all((0..self.job.depth).map(|_| self.work(end)));
        let watched = self.watch(measure, start, stores);
        let (done, watched) = futures_util::future::join(workers, watched).await;
        done.into_iter().collect::<Result<Vec<()>, _>>()?;
        let Watched {
            first,
            last,
            probed,
        } = watched;
        let between = |from: std::time::Instant, to: std::time::Instant| {
            Nanos::from_duration(to.saturating_duration_since(from))
        };
        let elapsed = between(first.at, last.at);
        // Where nothing completed meanwhile, there are no bytes either.
        let counted = between(first.completed, last.completed);
        let bytes = Bytes(last.read.saturating_sub(first.read));
        Ok(ReadResult {
            rate: Rate::of(bytes, counted).unwrap_or(Rate(0.0)),
            window: Bytes(self.window),
            read: Bytes(self.read.get()),
            requests: self.begun.get(),
            client: last.own.since(&first.own, elapsed),
            server: last.server.since(&first.server, elapsed),
            probed,
            stores: StoreUse::between(&first.stores, &last.stores, elapsed),
        })
    }

    /// One request after the other.
    async fn work(&self, end: std::time::Instant) -> Result<(), IoError> {
        let block = self.job.block_size.0;
        let blocks = self.window / block;
        if blocks == 0 {
            return Ok(());
        }
        while !self.stop.get() {
            let now = clock::now();
            if now >= end {
                break;
            }
            let number = self.begun.get();
            self.begun.set(number + 1);
            let at = match self.job.pattern {
                Pattern::Sequential => number % blocks,
                Pattern::Random => scattered(number) % blocks,
            };
            let range = Range::new(at * block, block);
            if let Err(error) = self.disk.read(range).await {
                self.stop.set(true);
                return Err(error);
            }
            self.read.set(self.read.get() + block);
            self.completed.set(clock::now());
            // A disk that answers without waiting would starve the other tasks.
            if number.is_multiple_of(64) {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    async fn watch(
        &self,
        measure: &Measure,
        start: std::time::Instant,
        stores: &dyn Fn() -> Vec<StoreReading>,
    ) -> Watched {
        let ramp = measure.time.mul_f64(RAMP);
        clock::sleep(ramp).await;
        let first = self.look(measure, stores());
        let end = start + measure.time;
        let probed = match measure.probe {
            Some(address) => probe_until(address, true, end).await,
            None => ProbeTimes::default(),
        };
        let mut until = pin!(clock::sleep(end.saturating_duration_since(clock::now())));
        until.as_mut().await;
        Watched {
            first,
            last: self.look(measure, stores()),
            probed,
        }
    }

    fn look(&self, measure: &Measure, stores: Vec<StoreReading>) -> LoadCounters {
        LoadCounters {
            stores,
            at: clock::now(),
            read: self.read.get(),
            completed: self.completed.get(),
            own: cpu::ProcessorReading::of_one(std::process::id()),
            server: cpu::ProcessorReading::of(&measure.follow),
        }
    }
}

/// What was seen while it ran.
struct Watched {
    first: LoadCounters,
    last: LoadCounters,
    probed: ProbeTimes,
}

struct LoadCounters {
    stores: Vec<StoreReading>,
    at: std::time::Instant,
    read: u64,
    completed: std::time::Instant,
    own: cpu::ProcessorReading,
    server: cpu::ProcessorReading,
}

/// A number without an order, from one with. The finaliser of splitmix64 (Vigna).
const fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
