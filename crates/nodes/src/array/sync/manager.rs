//! [`SyncManager`]: resyncs the copies of a redundant array, one job after the other.
//!
//! ```text
//! copies may differ (crash)            ─► resync
//! a member holds its part up to here   ─► recovery, from there on
//! a part has no holder, and there is a spare ─► the spare gets the part ─► recovery
//! a member has a replacement           ─► recovery: that becomes a copy of it, and takes its place
//! another form was requested           ─► reshape ─► partial parity logs again, where it dropped them
//! a scrub was requested                ─► check, repair
//! ```
//!
//! # Invariants
//!
//! * One job at a time, and one worker. Windows of it are under way side by side, in order, and each holds its
//!   bytes while it works on them: users read and write meanwhile.
//! * What is written down as done (synced up to, rebuilt up to, bits that are clear) was done, and flushed. A job that
//!   ends early writes down how far it came.
//! * What cannot be done is logged and left until members change; it is not retried for ever.
//!
//! # What it does not do
//!
//! It does not decide when: [`driver`](super::driver) calls it, or a test.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::Range;
use engine::clock;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::super::parity::unreadable::Ranges;
use super::super::redundant::RedundantArray;
use super::super::{
    ArrayError, ArrayEvent, ArrayOptions, ArrayStatus, Candidate, SyncKind, SyncRates,
};
use super::absent::Absences;
use super::job::Job;
use super::plan::Walk;
use super::rate::Rate;
use super::sync_job::SyncJob;
use super::sync_state::SyncState;
use super::window::{self, Done, Stop};

/// How often it is written down how far a job is.
const CHECKPOINT: Duration = Duration::from_secs(10);
/// And how often at least, of what there is to do.
const CHECKPOINTS: u64 = 16;
/// Shortest window, bytes: for small arrays.
const WINDOW_MIN: u64 = 4096;
/// How long users may be gone before that is seen.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// How a job ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    Well,
    /// Something else has to be done first, or it was cancelled.
    Early,
}

/// What of a member is copied when it is rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RebuildMode {
    /// All of it.
    Full,
    /// The chunks with bits set in the bitmap.
    Bitmap,
}

/// Keeps the copies of a redundant array in sync.
#[derive(Debug)]
pub(in crate::array) struct SyncManager {
    pub(in crate::array) array: Arc<RedundantArray>,
    rates: SyncRates,
    since: Instant,
    state: Mutex<SyncState>,
    /// One worker at a time.
    pub(super) worker: tokio::sync::Mutex<()>,
    /// One change of members at a time.
    pub(super) life: tokio::sync::Mutex<()>,
    pub(super) absences: Mutex<Absences>,
    /// Members that are to come back before anything else is done, and how they are rebuilt.
    pub(super) waiting: Mutex<Vec<(Candidate, RebuildMode)>>,
    /// There may be something to do.
    pub(super) wanted: Arc<tokio::sync::Notify>,
    /// Something ended.
    ended: tokio::sync::Notify,
}

/// A window that has ended: which, how long it took, and how it went.
type Ended = (Range, Duration, Result<Done, Stop>);
/// Windows under way.
type Open<'a> = FuturesUnordered<BoxFuture<'a, Ended>>;

impl SyncManager {
    pub(in crate::array) fn new(array: Arc<RedundantArray>, options: &ArrayOptions) -> Self {
        Self {
            wanted: array.work(),
            array,
            rates: options.rates,
            since: clock::now(),
            state: Mutex::default(),
            worker: tokio::sync::Mutex::default(),
            life: tokio::sync::Mutex::default(),
            absences: Mutex::default(),
            waiting: Mutex::default(),
            ended: tokio::sync::Notify::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the array was opened.
    pub(super) fn now(&self) -> Duration {
        clock::now().saturating_duration_since(self.since)
    }

    /// Does all that is to be done.
    ///
    /// # Errors
    /// What could not be done, and why.
    pub(in crate::array) async fn work(&self) -> Result<(), ArrayError> {
        let _one = self.worker.lock().await;
        self.let_in().await;
        while let Some(job) = self.next().await {
            self.carry_out(job).await;
        }
        self.restore_logs().await;
        self.ended.notify_waiters();
        match self.state().why() {
            Some(why) => Err(ArrayError::refused(why, None)),
            None => Ok(()),
        }
    }

    /// Whether there is anything to do.
    pub(super) fn has_work(&self) -> bool {
        self.choose().is_some() || self.free_spare().is_some() || self.has_waiting()
    }

    /// Resolves once there is nothing to do.
    ///
    /// # Errors
    /// What could not be done, and why.
    pub(in crate::array) async fn synced(&self) -> Result<(), ArrayError> {
        loop {
            let ended = self.ended.notified();
            let mut ended = std::pin::pin!(ended);
            ended.as_mut().enable();
            if self.state().stopped || !self.has_work() && !self.must_restore_logs() {
                break;
            }
            ended.await;
        }
        match self.state().why() {
            Some(why) => Err(ArrayError::refused(why, None)),
            None => Ok(()),
        }
    }

    async fn carry_out(&self, job: Job) {
        let kind = job.kind();
        let name = self.array.name();
        self.array.send_event(ArrayEvent::RebuildStarted(kind));
        tracing::debug!("{name}: {kind} begins");
        let ended = self.run(job).await;
        let mismatches = self.state().end(job, matches!(ended, Ok(End::Well)));
        match ended {
            Ok(end) => {
                tracing::debug!("{name}: {kind} has ended: {end:?}");
                self.array
                    .send_event(ArrayEvent::RebuildFinished { kind, mismatches });
            }
            Err(Stop::Failed(error) | Stop::Lost(error)) => {
                let why = format!("{kind} cannot go on: {error}");
                tracing::error!("{name}: {why}");
                self.state().record_failure(job, why.clone());
                if job == Job::Reshape {
                    self.array.send_event(ArrayEvent::ReshapePaused { why });
                }
            }
            Err(Stop::Partial(error)) => {
                let why = format!("the {kind} is not complete: {error}");
                tracing::error!("{name}: {why}");
                self.state().record_failure(job, why);
            }
        }
        self.ended.notify_waiters();
    }

    /// Carries out a job, windows of it side by side.
    async fn run(&self, job: Job) -> Result<End, Stop> {
        let mut sync_job = self.sync_job(job);
        if job == Job::Reshape {
            let end = self.reshape_rows(&mut sync_job).await?;
            if end == End::Well {
                self.restore_logs().await;
            }
            return Ok(end);
        }
        if job == Job::Resync && self.array.view().holders().nth(1).is_none() {
            // One copy is like itself.
            return self.conclude(&sync_job).await;
        }
        let mut open = Open::new();
        loop {
            if self.is_over(&sync_job) {
                while let Some(ended) = open.next().await {
                    self.ended(&mut sync_job, ended)?;
                }
                if self.has_come_on(&mut sync_job) {
                    self.array.checkpoint().await.map_err(Stop::Failed)?;
                }
                return Ok(End::Early);
            }
            let wait = self.pause(&mut sync_job);
            if wait.is_zero() && open.len() < sync_job.rate.windows() {
                if self.begin(&mut sync_job, &open) {
                    continue;
                }
                if open.is_empty() {
                    return self.conclude(&sync_job).await;
                }
            }
            tokio::select! {
                biased;
                Some(ended) = open.next() => self.ended(&mut sync_job, ended)?,
                () = clock::sleep(wait.min(LOOK)), if !wait.is_zero() => {}
            }
            if self.is_noted(&mut sync_job) {
                self.note(&mut sync_job, &mut open).await?;
            }
        }
    }

    /// Checkpoints a job. A task that is not polled keeps its turn in the queue of a member: windows go on
    /// meanwhile, or the flush behind them waits for ever. Where users fill the members that takes seconds: others
    /// begin meanwhile, too, behind what is written down.
    async fn note<'a>(&'a self, sync_job: &mut SyncJob, open: &mut Open<'a>) -> Result<(), Stop> {
        let mut told = std::pin::pin!(self.array.checkpoint());
        loop {
            let wait = self.pause(sync_job);
            let may = wait.is_zero() && open.len() < sync_job.rate.windows();
            if may
                && sync_job.rate.yields()
                && !self.is_over(sync_job)
                && self.begin(sync_job, open)
            {
                continue;
            }
            tokio::select! {
                biased;
                told = &mut told => return told.map_err(Stop::Failed),
                Some(ended) = open.next() => self.ended(sync_job, ended)?,
                () = clock::sleep(wait.min(LOOK)), if !wait.is_zero() => {}
            }
        }
    }

    /// Looks for users; how long to wait before another window may begin.
    pub(super) fn pause(&self, sync_job: &mut SyncJob) -> Duration {
        let now = self.now();
        sync_job.rate.users_have(self.array.under_way());
        sync_job.rate.look(now, self.array.requests());
        sync_job.rate.wait(now)
    }

    /// Begins the next window. Whether there is one.
    fn begin<'a>(&'a self, sync_job: &mut SyncJob, open: &Open<'a>) -> bool {
        let Some(window) = self.next_window(sync_job) else {
            return false;
        };
        let job = sync_job.job;
        sync_job.rate.take(self.now(), window.len);
        open.push(Box::pin(async move {
            let begun = self.now();
            let answer = self.one(job, window).await;
            (window, self.now().saturating_sub(begun), answer)
        }));
        true
    }

    fn sync_job(&self, job: Job) -> SyncJob {
        let (from, end) = job.span(&self.array);
        let now = self.now();
        self.state().begin(job, now, from, end);
        SyncJob {
            job,
            walk: Walk::new(from, end),
            rate: Rate::new(self.rates, now, self.array.requests()),
            end,
            told: from,
            noted: (from, now),
            needs: self.array.needs(),
            lost: Ranges::default(),
        }
    }

    fn next_window(&self, sync_job: &mut SyncJob) -> Option<Range> {
        let len = sync_job.rate.window().min(sync_job.end / CHECKPOINTS);
        let len = (len / WINDOW_MIN * WINDOW_MIN).max(WINDOW_MIN);
        let job = sync_job.job;
        sync_job.walk.next(len, |at| job.wanted(&self.array, at))
    }

    /// Whether a job need not, or cannot, go on.
    fn is_over(&self, sync_job: &SyncJob) -> bool {
        let state = self.state();
        if state.stopped {
            return true;
        }
        match sync_job.job {
            Job::Resync | Job::Reshape => false,
            Job::Recovery { part, .. } => {
                let rebuilding = self.array.rebuilding();
                !rebuilding.iter().any(|(other, ..)| *other == part)
            }
            Job::Replacement { part, .. } => {
                let replacing = self.array.replacing();
                self.array.needs() != sync_job.needs
                    || !replacing.iter().any(|(other, _)| *other == part)
            }
            Job::Scrub { .. } => {
                state.requested.is_none()
                    || self.array.needed(0).is_some()
                    || !self.array.rebuilding().is_empty()
                    || !self.array.replacing().is_empty()
                    || self.array.is_reshaping()
            }
        }
    }

    async fn one(&self, job: Job, window: Range) -> Result<Done, Stop> {
        match job {
            Job::Resync => window::resync(&self.array, window).await,
            Job::Recovery { part, .. } => window::recover(&self.array, part, window).await,
            Job::Replacement { part, .. } => window::replace(&self.array, part, window).await,
            Job::Reshape => unreachable!("it has windows of its own"),
            Job::Scrub { repair } => window::compare(&self.array, window, repair).await,
        }
    }

    /// A window has ended.
    fn ended(&self, sync_job: &mut SyncJob, (window, took, answer): Ended) -> Result<(), Stop> {
        let done = answer?;
        if done.worked > 0 {
            sync_job.rate.took(done.worked, took);
        }
        sync_job.walk.finish(window);
        sync_job.add_lost(&done.lost)?;
        let mut state = self.state();
        state.advance(self.now(), done.worked, sync_job.walk.reached());
        state.differed(done.mismatches, &done.places);
        state.rewrote(done.rewritten);
        Ok(())
    }

    /// Reports to the array how far the job is. Whether that is further than its members know.
    fn has_come_on(&self, sync_job: &mut SyncJob) -> bool {
        let reached = sync_job.walk.reached();
        match sync_job.job {
            Job::Resync if self.array.needs() == sync_job.needs => {
                let from = self.array.chunk_of(sync_job.told);
                sync_job.mark_synced(&self.array, Range::new(from, reached - from));
            }
            Job::Recovery { part, .. } => self.array.rebuilt(part, reached),
            Job::Replacement { part, .. } => self.array.replaced(part, reached, sync_job.needs),
            _ => {}
        }
        sync_job.told = reached;
        !matches!(sync_job.job, Job::Scrub { .. }) && reached > sync_job.noted.0
    }

    /// The same, and whether a checkpoint is due now.
    fn is_noted(&self, sync_job: &mut SyncJob) -> bool {
        let come_on = self.has_come_on(sync_job);
        let (at, when) = sync_job.noted;
        let (reached, now) = (sync_job.told, self.now());
        let far = reached - at >= (sync_job.end / CHECKPOINTS).max(1);
        let late = now.saturating_sub(when) >= CHECKPOINT;
        if !come_on || !(far || late) {
            return false;
        }
        sync_job.noted = (reached, now);
        true
    }

    /// All windows of a job have ended.
    async fn conclude(&self, sync_job: &SyncJob) -> Result<End, Stop> {
        match sync_job.job {
            Job::Resync if self.array.needs() == sync_job.needs => {
                sync_job.mark_synced(&self.array, Range::new(0, sync_job.end));
                self.array.checkpoint().await.map_err(Stop::Failed)?;
                if let Some(lost) = sync_job.partial() {
                    return Err(lost);
                }
            }
            // Copies began to differ meanwhile: it is done again.
            Job::Resync => return Ok(End::Early),
            Job::Recovery { part, .. } => {
                self.array.in_sync(part).await.map_err(Stop::Failed)?;
                // A reshape that waited may go on with it.
                self.state().forget_failure(Job::Reshape);
            }
            Job::Replacement { part, .. } => {
                let copied = (sync_job.end, sync_job.needs);
                let taken = self.array.take_place(part, copied).await;
                if !taken.map_err(Stop::Failed)? {
                    return Ok(End::Early);
                }
            }
            Job::Reshape | Job::Scrub { .. } => {}
        }
        Ok(End::Well)
    }

    /// Ends it all: nothing is begun any more, what is under way ends, and the array is marked clean.
    ///
    /// # Errors
    /// Members cannot be written.
    pub(in crate::array) async fn end(&self) -> Result<(), ArrayError> {
        self.leave();
        drop(self.worker.lock().await);
        self.ended.notify_waiters();
        let stopped = self.array.stop().await;
        stopped.map_err(|error| super::members::not_updated(&error))
    }

    /// How the array is, and what is being done.
    pub(in crate::array) fn status(&self) -> ArrayStatus {
        let (sync, scrubbed) = self.state().status(self.now());
        let sync = sync.or_else(|| self.reshape_status());
        let status = self.array.status();
        let resyncs = sync
            .as_ref()
            .is_some_and(|sync| sync.kind == SyncKind::Resync);
        ArrayStatus {
            resync_pending: status.resync_pending && !resyncs,
            sync,
            scrubbed,
            reshape_pause: self.reshape_pause(),
            ..status
        }
    }

    /// Whether it is to end.
    pub(super) fn is_left(&self) -> bool {
        self.state().stopped || self.array.takeover().is_some()
    }

    /// The same, at once: the worker sees it.
    pub(in crate::array) fn leave(&self) {
        self.state().stopped = true;
        self.wanted.notify_waiters();
    }
}
