//! fio as the doctor's load on a file: for a time, over and over the same part of it, reads only unless
//! the file is the doctor's own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{CpuUse, DoctorJob, cpu};
use crate::fio::process::{Fio, RunError};
use crate::fio::{Engine, JobResult, command, parse};
use crate::plan::{Direction, Pattern};
use crate::sensors::read;
use crate::units::{Bytes, Nanos, Rate};

/// Part of the time that goes by before anything is counted: rates that were saved up, first touches.
const RAMP: f64 = 0.25;
/// fio's time beyond what it was given.
const GRACE: Duration = Duration::from_secs(20);
/// One read.
const PROBE_LIMIT: Duration = Duration::from_secs(15);

/// A file, or what fio makes of nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadSource {
    /// The first bytes of a file or a device.
    File {
        /// Where it is.
        path: PathBuf,
        /// How many.
        size: Bytes,
        /// How to submit.
        engine: Engine,
        /// Past the page cache.
        direct: bool,
    },
    /// fio's own null engine: requests that are done at once.
    Nothing,
}

/// What came of a load.
#[derive(Debug, Clone)]
pub struct LoadResult {
    /// Throughput.
    pub rate: Rate,
    /// What fio's busiest thread took of a core; none if it could not be read.
    pub generator: Option<CpuUse>,
    /// What the busiest threads of the processes took that were followed, in their order.
    pub followed: Vec<Option<CpuUse>>,
    /// fio's message.
    pub result: JobResult,
}

/// fio and where it may write.
#[expect(missing_debug_implementations, reason = "it holds a function")]
pub struct Load<'a> {
    /// fio itself.
    pub fio: &'a Fio,
    /// For its output.
    pub work: &'a Path,
    /// Whether the user wants to stop.
    pub stop: &'a dyn Fn() -> bool,
}

impl Load<'_> {
    /// Runs `job` on `source` for `time`. `follow` are groups of processes, each with those below.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run(
        &self,
        source: &LoadSource,
        job: &DoctorJob,
        time: Duration,
        follow: &[Vec<u32>],
    ) -> Result<LoadResult, RunError> {
        let output = self.work.join("doctor.json");
        let args = arguments(source, job, time, &output);
        let own = std::process::id();
        let before_fio = read::children(own);
        let mut first: Option<CpuReading> = None;
        let mut last: Option<CpuReading> = None;
        let begun = engine::clock::now();
        let counted_from = begun + time.mul_f64(RAMP);
        let text = self.fio.run(&args, &output, time + GRACE, &mut |now| {
            if now >= counted_from {
                let mut started = read::children(own);
                started.retain(|child| !before_fio.contains(child));
                let reading = CpuReading::take(now, &started, follow);
                // fio is gone in the last look, and its figures with it.
                if !reading.generator.is_empty() {
                    first.get_or_insert_with(|| reading.clone());
                    last = Some(reading);
                }
            }
            !(self.stop)()
        })?;
        let result = parse(&text).map_err(|error| RunError::Failed(error.to_string()))?;
        let rate = Rate::of(result.bytes, result.runtime).unwrap_or(Rate(0.0));
        let (generator, followed) = match (first, last) {
            (Some(first), Some(last)) => last.since(&first),
            _ => (None, vec![None; follow.len()]),
        };
        Ok(LoadResult {
            rate,
            generator,
            followed,
            result,
        })
    }

    /// The first engine that reads `path` past the page cache, or else at all.
    ///
    /// # Errors
    /// [`RunError`] of the last one.
    pub fn choose(&self, path: &Path, buffered: bool) -> Result<(Engine, bool), RunError> {
        let output = self.work.join("probe.json");
        let mut last = RunError::Failed("fio has no engine".to_owned());
        for direct in [true, false] {
            if direct && buffered {
                continue;
            }
            for engine in Engine::ALL {
                let args = command::probe(command::Subject::File(path), engine, direct, &output);
                let ran = self
                    .fio
                    .run(&args, &output, PROBE_LIMIT, &mut |_| !(self.stop)());
                match ran.map(|text| parse(&text)) {
                    Ok(Ok(_)) => return Ok((engine, direct)),
                    Ok(Err(error)) => last = RunError::Failed(error.to_string()),
                    Err(RunError::Cancelled) => return Err(RunError::Cancelled),
                    Err(error) => last = error,
                }
            }
        }
        Err(last)
    }
}

/// The threads of all that is followed at one time.
#[derive(Debug, Clone)]
struct CpuReading {
    at: Instant,
    generator: cpu::ProcessorReading,
    followed: Vec<cpu::ProcessorReading>,
}

impl CpuReading {
    fn take(at: Instant, fio: &[u32], follow: &[Vec<u32>]) -> Self {
        Self {
            at,
            generator: cpu::ProcessorReading::of(fio),
            followed: follow
                .iter()
                .map(|group| cpu::ProcessorReading::of(group))
                .collect(),
        }
    }

    fn since(&self, first: &Self) -> (Option<CpuUse>, Vec<Option<CpuUse>>) {
        let elapsed = Nanos::from_duration(self.at.duration_since(first.at));
        let busy = |before: &cpu::ProcessorReading, after: &cpu::ProcessorReading| {
            after.since(before, elapsed)
        };
        let groups = first.followed.iter().zip(&self.followed);
        let followed = groups.map(|(before, after)| busy(before, after)).collect();
        // It is gone by now, and its name with it.
        let fio = busy(&first.generator, &self.generator).map(|cpu| CpuUse {
            who: "fio".to_owned(),
            ..cpu
        });
        (fio, followed)
    }
}

/// The arguments after `fio`. Reads are held to reads by fio itself.
fn arguments(source: &LoadSource, job: &DoctorJob, time: Duration, output: &Path) -> Vec<OsString> {
    let ramp = time.mul_f64(RAMP);
    let rw = match (job.pattern, job.direction) {
        (Pattern::Sequential, direction) => direction.as_str().to_owned(),
        (Pattern::Random, direction) => format!("rand{}", direction.as_str()),
    };
    let mut options = vec![
        ("name", "doctor".to_owned()),
        ("rw", rw),
        ("bs", job.block_size.0.to_string()),
        ("iodepth", job.depth.to_string()),
        ("time_based", "1".to_owned()),
        ("runtime", format!("{}ms", (time - ramp).as_millis().max(1))),
        ("ramp_time", format!("{}ms", ramp.as_millis())),
        // What a cache holds is part of what is measured; a caller that wants it empty empties it.
        ("invalidate", "0".to_owned()),
        ("randrepeat", "0".to_owned()),
        // Most programs do not announce how they read: fio would have the kernel read twice as much ahead.
        ("fadvise_hint", "0".to_owned()),
        ("norandommap", "1".to_owned()),
        ("allow_file_create", "0".to_owned()),
        ("fallocate", "none".to_owned()),
        ("eta", "never".to_owned()),
        ("lat_percentiles", "1".to_owned()),
        ("clat_percentiles", "0".to_owned()),
        ("output-format", "json+".to_owned()),
    ];
    match source {
        LoadSource::File {
            size,
            engine,
            direct,
            ..
        } => {
            let whole = size.0 / job.block_size.0 * job.block_size.0;
            options.push(("size", whole.to_string()));
            options.push(("ioengine", engine.as_str().to_owned()));
            options.push(("direct", u8::from(*direct).to_string()));
        }
        LoadSource::Nothing => {
            options.push(("size", "1g".to_owned()));
            options.push(("ioengine", "null".to_owned()));
        }
    }
    let mut args: Vec<OsString> = options
        .into_iter()
        .map(|(key, value)| format!("--{key}={value}").into())
        .collect();
    args.push("--thread".into());
    if job.direction == Direction::Read {
        args.push("--readonly".into());
    }
    if let LoadSource::File { path, .. } = source {
        args.push(command::file_name(path));
    }
    let mut to = OsString::from("--output=");
    to.push(output);
    args.push(to);
    args
}
