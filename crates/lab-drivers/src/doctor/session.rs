//! [`DoctorSession`]: one run of the doctor: its job, its time limit, its folder, and its cancellation.

use std::path::Path;
use std::time::{Duration, Instant};

use engine::clock;
use lab::doctor::{DoctorJob, Examination, Stage};
use tempfile::TempDir;

use super::DoctorRequest;
use super::watcher::Watcher;
use crate::DriverError;

/// Measurements that a verdict takes at most, with room for what is started in between.
const STEPS: f64 = 15.0;
/// No measurement needs longer.
const SLICE_MAX: Duration = Duration::from_secs(2);
/// A shorter one says little.
const SLICE_MIN: Duration = Duration::from_millis(200);

/// One run.
#[derive(Debug)]
pub(super) struct DoctorSession<'a> {
    pub(super) args: &'a DoctorRequest<'a>,
    pub(super) job: DoctorJob,
    /// What looks at the server's machine, if that was requested.
    pub(super) watcher: Option<Watcher>,
    folder: TempDir,
    limit: Duration,
    started: std::cell::Cell<Instant>,
}

impl<'a> DoctorSession<'a> {
    pub(super) fn begin(args: &'a DoctorRequest<'a>) -> Result<Self, DriverError> {
        let folder = tempfile::Builder::new()
            .prefix("outboard-doctor-")
            .tempdir();
        let folder = folder
            .map_err(|error| DriverError::because("cannot make a temporary folder", error))?;
        if args.agents.len() > 1 {
            let what = "one server is examined, so one --agent is all that is of use";
            return Err(DriverError::usage(what));
        }
        let watcher = args
            .agents
            .first()
            .cloned()
            .map(|agent| Watcher::meet(agent, &args.cancel))
            .transpose()?;
        Ok(Self {
            args,
            watcher,
            job: args.job,
            folder,
            limit: Duration::from_secs(args.seconds),
            started: std::cell::Cell::new(clock::now()),
        })
    }

    /// Another verdict begins, with time of its own.
    pub(super) fn restart(&self) {
        self.started.set(clock::now());
    }

    /// For files of this run; removed with it.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How long one measurement takes.
    pub(super) fn slice(&self) -> Duration {
        self.limit.div_f64(STEPS).clamp(SLICE_MIN, SLICE_MAX)
    }

    /// Whether there is time for one more measurement, of `part`; if not, `what` is reported as missing. A
    /// failure if the user wants to stop.
    pub(super) fn has_time(
        &self,
        e: &mut Examination,
        part: Stage,
        what: &str,
    ) -> Result<bool, DriverError> {
        self.has_time_of(self.slice(), e, part, what)
    }

    /// The same for a measurement that takes `time`.
    pub(super) fn has_time_of(
        &self,
        time: Duration,
        e: &mut Examination,
        part: Stage,
        what: &str,
    ) -> Result<bool, DriverError> {
        self.go_on()?;
        let has_time = self.has_left(time);
        if !has_time {
            let why = format!("{what}: no time was left for it; more --seconds helps");
            e.note_unmeasured(part, why);
        }
        Ok(has_time)
    }

    /// Whether `time` is left before the limit.
    pub(super) fn has_left(&self, time: Duration) -> bool {
        let spent = clock::now().saturating_duration_since(self.started.get());
        spent + time <= self.limit
    }

    /// A failure if the user wants to stop.
    pub(super) fn go_on(&self) -> Result<(), DriverError> {
        match self.is_cancelled() {
            true => Err(DriverError::new("interrupted: no verdict")),
            false => Ok(()),
        }
    }

    /// Whether the user wants to stop.
    pub(super) fn is_cancelled(&self) -> bool {
        self.args.cancel.is_cancelled()
    }

    /// The job with other requests at once.
    pub(super) fn at_depth(&self, depth: u32) -> DoctorJob {
        DoctorJob { depth, ..self.job }
    }
}
