//! fio's JSON+ into one [`JobResult`]. Pure; any text is an error value at worst.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Histogram;
use crate::plan::Direction;
use crate::units::{Bytes, Nanos, Rate};

/// One measurement as fio reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// Where bytes were counted.
    pub direction: Direction,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Operations.
    pub ios: u64,
    /// The time they took, the last flush included.
    pub runtime: Nanos,
    /// What fio itself printed as the rate, to compare with bytes over time.
    pub printed_rate: Rate,
    /// The engine that was used.
    pub engine: String,
    /// Bytes of one request, as fio understood it.
    pub block_size: String,
    /// Requests in flight, as fio understood it.
    pub depth: u32,
    /// Whether O_DIRECT was requested.
    pub direct: bool,
    /// The part of one core that fio spent in user mode and in the kernel.
    pub generator_cpu: f64,
    /// Whether each write was followed by an fsync.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fsync: bool,
    /// Latencies, submission included; with `fsync` those of the fsyncs.
    pub latencies: Histogram,
}

/// Why fio's output is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not JSON.
    #[error("fio's output is no JSON: {0}")]
    NotJson(String),
    /// JSON without something that must be there.
    #[error("fio's output has no usable {0}")]
    Missing(&'static str),
    /// fio says that the job failed.
    #[error("fio reports error {0}")]
    Failed(i64),
    /// Bytes went both ways, or none did.
    #[error("fio moved bytes in {0} directions, one was expected")]
    Directions(usize),
}

/// Reads the output of one job (or one group).
///
/// # Errors
/// [`ParseError`] when it is no JSON+, reports a failure, or moved no bytes.
pub fn parse(text: &str) -> Result<JobResult, ParseError> {
    let root: Value = serde_json::from_slice(without_remarks(text).as_bytes())
        .map_err(|error| ParseError::NotJson(error.to_string()))?;
    // A fio that sent its job to another one calls the list differently.
    let jobs = root["jobs"].get(0);
    let job = jobs
        .or_else(|| root["client_stats"].get(0))
        .ok_or(ParseError::Missing("job"))?;
    let error = job["error"].as_i64().unwrap_or(0);
    if error != 0 {
        return Err(ParseError::Failed(error));
    }
    let (direction, section) = moved(job)?;
    let runtime = section["runtime"]
        .as_u64()
        .ok_or(ParseError::Missing("runtime"))?;
    let fsync = option(&root, job, &["fsync"]) == Some("1");
    let latencies = match fsync {
        true => histogram(&job["sync"]).or_else(|| whole(section)),
        false => histogram(section),
    };
    Ok(JobResult {
        direction,
        fsync,
        bytes: Bytes(
            section["io_bytes"]
                .as_u64()
                .ok_or(ParseError::Missing("io_bytes"))?,
        ),
        ios: section["total_ios"]
            .as_u64()
            .ok_or(ParseError::Missing("total_ios"))?,
        runtime: Nanos::from_ms(runtime.max(1)),
        printed_rate: Rate(
            section["bw_bytes"]
                .as_f64()
                .ok_or(ParseError::Missing("bw_bytes"))?,
        ),
        engine: option(&root, job, &["ioengine"])
            .unwrap_or("psync")
            .to_owned(),
        block_size: option(&root, job, &["bs"]).unwrap_or("4k").to_owned(),
        depth: option(&root, job, &["iodepth"])
            .and_then(|depth| depth.parse().ok())
            .unwrap_or(1),
        direct: option(&root, job, &["direct"]) == Some("1"),
        generator_cpu: generator_cpu(job),
        latencies: latencies.ok_or(ParseError::Missing("latency histogram"))?,
    })
}

fn moved(job: &Value) -> Result<(Direction, &Value), ParseError> {
    let mut found = [Direction::Read, Direction::Write]
        .into_iter()
        .map(|direction| (direction, &job[direction.as_str()]))
        .filter(|(_, section)| section["io_bytes"].as_u64().unwrap_or(0) > 0);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(ParseError::Directions(0)),
        (Some(_), Some(_)) => Err(ParseError::Directions(2)),
    }
}

/// The time of each operation with its fsync, where fio counted no fsync by itself: there was one write.
fn whole(section: &Value) -> Option<Histogram> {
    let ios = section["total_ios"].as_u64().filter(|ios| *ios > 0)?;
    let mut histogram = Histogram::default();
    histogram.add(Nanos::from_ms(section["runtime"].as_u64()? / ios), ios);
    Some(histogram)
}

/// fio's JSON: its remarks are in the same file, before it.
pub(crate) fn without_remarks(text: &str) -> &str {
    text.find('{').map_or(text, |start| &text[start..])
}

/// An option of the job, or of the whole command, by the first of its names that is there.
pub(crate) fn option<'a>(root: &'a Value, job: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| {
        job["job options"][name]
            .as_str()
            .or_else(|| root["global options"][name].as_str())
    })
}

/// The part of one core that fio spent on a job.
pub(crate) fn generator_cpu(job: &Value) -> f64 {
    let percent = |key| job[key].as_f64().unwrap_or(0.0);
    (percent("usr_cpu") + percent("sys_cpu")) / 100.0
}

/// The whole latency where fio kept it, else that from submission on; none where it kept none. fio 2 counts
/// microseconds.
pub(crate) fn histogram(section: &Value) -> Option<Histogram> {
    let kinds = [("lat_ns", 1), ("clat_ns", 1), ("lat", 1000), ("clat", 1000)];
    let (bins, unit) = kinds.into_iter().find_map(|(kind, unit)| {
        let bins = section[kind]["bins"].as_object();
        Some((bins.filter(|bins| !bins.is_empty())?, unit))
    })?;
    let mut histogram = Histogram::default();
    for (mid, count) in bins {
        // What is no bin is left out.
        if let (Ok(mid), Some(count)) = (mid.parse::<u64>(), count.as_u64()) {
            histogram.add(Nanos(mid.saturating_mul(unit)), count);
        }
    }
    Some(histogram)
}
