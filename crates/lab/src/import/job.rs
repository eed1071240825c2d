//! One file of fio as jobs: json and json+ of fio 2 and 3. Pure; any text is a reason at worst.
//!
//! fio 2 counts `io_bytes` in KiB and latencies in microseconds; fio 3 in bytes and nanoseconds. Which of
//! the two a count is in is not taken from the version but from the file's own rate and time, since
//! distributions mixed them (source: fio's HOWTO, "JSON output", and `stat.c` of 2.1 to 3.36).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{concurrent, title};
use crate::checks::{Check, Finding, data};
use crate::fio::JobResult;
use crate::fio::parse::{generator_cpu, histogram, option, without_remarks};
use crate::plan::{Direction, Pattern, size};
use crate::units::{Bytes, Nanos, Rate};

/// Faster than any medium and any memory, bytes per second: a unit was taken for another.
const RATE_MAX: f64 = 1e12;

/// What a file holds.
pub(super) struct File {
    pub(super) version: String,
    /// When it was made, where it says.
    pub(super) unix_ms: Option<u64>,
    pub(super) jobs: Vec<Imported>,
}

/// One way of one job.
#[derive(Debug, Clone)]
pub(super) struct Imported {
    /// fio's group: its jobs ran at the same time.
    pub(super) group: u64,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) pattern: Pattern,
    /// Zero where that is not known.
    pub(super) block_size: Bytes,
    pub(super) jobs: u32,
    /// Bytes that it was configured to use; zero where that is not known.
    pub(super) size: Bytes,
    pub(super) limit_ms: u64,
    pub(super) target: String,
    /// Those of fio's options that say what was written.
    pub(super) options: BTreeMap<String, String>,
    pub(super) result: JobResult,
    /// What weighs on this figure.
    pub(super) findings: Vec<Finding>,
    /// What the file does not say.
    pub(super) remarks: Vec<&'static str>,
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<File, String> {
    let json = without_remarks(text);
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let root = match values.next() {
        Some(Ok(root)) => root,
        Some(Err(error)) => return Err(format!("it is no JSON: {error}")),
        None => return Err("it is empty".into()),
    };
    let version = root["fio version"]
        .as_str()
        .ok_or("it is not fio's: it has no \"fio version\"")?
        .to_owned();
    let jobs = root["jobs"].as_array().ok_or("it has no jobs")?;
    let mut found = Vec::new();
    for job in jobs {
        let error = job["error"].as_i64().unwrap_or(0);
        if error != 0 {
            let name = job["jobname"].as_str().unwrap_or("?");
            return Err(format!("its job {name} failed with error {error}"));
        }
        found.extend(ways(&root, job)?);
    }
    if found.is_empty() {
        return Err("none of its jobs moved a byte".into());
    }
    let jobs = concurrent::merged(found);
    // The rates of jobs that ran at the same time are added up.
    jobs.iter().try_for_each(possible)?;
    let millis = root["timestamp_ms"].as_u64();
    let seconds = root["timestamp"]
        .as_u64()
        .map(|time| time.saturating_mul(1000));
    Ok(File {
        version,
        unix_ms: millis.or(seconds),
        jobs,
    })
}

/// Each way in which the job moved bytes.
fn ways(root: &Value, job: &Value) -> Result<Vec<Imported>, String> {
    let moved = [Direction::Read, Direction::Write]
        .into_iter()
        .filter(|way| job[way.as_str()]["io_bytes"].as_u64().unwrap_or(0) > 0);
    let moved: Vec<Direction> = moved.collect();
    moved
        .iter()
        .map(|way| one(root, job, *way, moved.len() > 1))
        .collect()
}

fn one(root: &Value, job: &Value, direction: Direction, mixed: bool) -> Result<Imported, String> {
    let name = job["jobname"].as_str().unwrap_or("job");
    let section = &job[direction.as_str()];
    let runtime = runtime(section).ok_or_else(|| format!("its job {name} has no runtime"))?;
    let (bytes, printed_rate) =
        counted(section, runtime).map_err(|why| format!("its job {name} {why}"))?;
    let ios = section["total_ios"].as_u64().unwrap_or(0);
    let mut remarks = Vec::new();
    let mut said = |names: &[&str], unless: &'static str| {
        let found = option(root, job, names);
        if found.is_none() {
            remarks.push(unless);
        }
        found
    };
    let rw = said(
        &["rw", "readwrite"],
        "it does not say where requests went; sequential is assumed",
    );
    let depth = said(
        &["iodepth"],
        "it does not say its depth, which is 1 by default",
    );
    let depth = depth.and_then(|depth| depth.parse().ok()).unwrap_or(1);
    let block_size = block_size(root, job, direction);
    if block_size.is_none() {
        remarks.push("it does not say its block size; that of the operations counted is taken");
    }
    let block_size = block_size.unwrap_or(Bytes(bytes.0 / ios.max(1)));
    let latencies = histogram(section).unwrap_or_default();
    if latencies.count() == 0 {
        remarks.push("it has no latency histogram (that needs --output-format=json+), so there are no percentiles");
    }
    let direct = option(root, job, &["direct"]) == Some("1");
    let pattern = pattern(rw);
    let result = JobResult {
        fsync: false,
        direction,
        bytes,
        ios,
        runtime,
        printed_rate,
        engine: option(root, job, &["ioengine"])
            .unwrap_or("psync")
            .to_owned(),
        block_size: block_size.0.to_string(),
        depth,
        direct,
        generator_cpu: generator_cpu(job),
        latencies,
    };
    Ok(Imported {
        group: job["groupid"].as_u64().unwrap_or(0),
        name: name.to_owned(),
        title: title(name, pattern, direction),
        pattern,
        block_size,
        jobs: whole(root, job, "numjobs").unwrap_or(1),
        size: option(root, job, &["size"])
            .and_then(size::parse)
            .unwrap_or_default(),
        limit_ms: limit_ms(root, job),
        target: target(root, job),
        options: data_options(root, job),
        findings: findings(name, direction, mixed, direct),
        result,
        remarks,
    })
}

/// How long it was to run at most; 0 where that is not known.
fn limit_ms(root: &Value, job: &Value) -> u64 {
    let limit = option(root, job, &["runtime"]);
    limit.and_then(milliseconds).unwrap_or(0)
}

fn runtime(section: &Value) -> Option<Nanos> {
    let millis = section["runtime"].as_u64().filter(|time| *time > 0);
    millis.map(Nanos::from_ms)
}

/// Where requests went, by fio's `rw`.
fn pattern(rw: Option<&str>) -> Pattern {
    if rw.is_some_and(|rw| rw.starts_with("rand")) {
        Pattern::Random
    } else {
        Pattern::Sequential
    }
}

/// Refuses a job that was faster than any medium, by its bytes and time or by the rate printed.
fn possible(job: &Imported) -> Result<(), String> {
    let result = &job.result;
    match result.rate().0.max(result.printed_rate.0) > RATE_MAX {
        true => Err(format!(
            "its job {} has {} bytes in {} s: no medium is that fast",
            job.name,
            result.bytes.0,
            result.runtime.seconds()
        )),
        false => Ok(()),
    }
}

/// Bytes and the rate printed, by the units that fit together; or what is wrong with them.
fn counted(section: &Value, runtime: Nanos) -> Result<(Bytes, Rate), &'static str> {
    const WRONG: &str = "has bytes, rate and time that do not belong together";
    let count = section["io_bytes"].as_u64().ok_or(WRONG)?;
    let printed = section["bw_bytes"]
        .as_f64()
        .or_else(|| Some(section["bw"].as_f64()? * 1024.0))
        .ok_or(WRONG)?;
    // Short jobs print rates of few digits; the two readings are a factor of 1024 apart.
    let near = |bytes: u64| {
        let rate = bytes as f64 / runtime.seconds();
        (0.2..5.0).contains(&(rate / printed))
    };
    let kib = count.saturating_mul(1024);
    match (near(count), near(kib)) {
        (true, _) => Ok((Bytes(count), Rate(printed))),
        (false, true) => Ok((Bytes(kib), Rate(printed))),
        (false, false) => Err(WRONG),
    }
}

/// What weighs on the figure in any case.
fn findings(name: &str, direction: Direction, mixed: bool, direct: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(asked) = heading(name).filter(|asked| *asked != direction && !mixed) {
        findings.push(Finding::remark(
            Check::Label,
            format!(
                "its name says {} and the bytes were a {}: the figure is that of the bytes",
                asked.as_str(),
                direction.as_str()
            ),
        ));
    }
    if mixed {
        findings.push(Finding::remark(
            Check::Asymmetry,
            "reads and writes were mixed: neither is comparable with one by itself",
        ));
    }
    if !direct {
        findings.push(Finding::remark(
            Check::Cache,
            "it went through the page cache, and what was in it is unknown",
        ));
    }
    findings
}

/// The direction that a name says, if it says one.
fn heading(name: &str) -> Option<Direction> {
    let name = name.to_lowercase();
    match (name.contains("read"), name.contains("write")) {
        (true, false) => Some(Direction::Read),
        (false, true) => Some(Direction::Write),
        _ => None,
    }
}

fn whole(root: &Value, job: &Value, key: &str) -> Option<u32> {
    option(root, job, &[key])?.parse().ok()
}

/// `bs` may be one size, or one for each way: `4k,8k`.
fn block_size(root: &Value, job: &Value, direction: Direction) -> Option<Bytes> {
    let text = option(root, job, &["bs", "blocksize"])?;
    let mut parts = text.split(',');
    let read = parts.next()?;
    let part = match direction {
        Direction::Read => read,
        Direction::Write => parts.next().unwrap_or(read),
    };
    size::parse(part)
}

/// `30`, `30s`, `500ms`, `2m`.
fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let value: u64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "" | "s" => value.checked_mul(1000),
        "ms" => Some(value),
        "us" => Some(value / 1000),
        "m" => value.checked_mul(60_000),
        "h" => value.checked_mul(3_600_000),
        _ => None,
    }
}

/// What was written, by fio's options.
fn data_options(root: &Value, job: &Value) -> BTreeMap<String, String> {
    let given = data::WRITTEN.into_iter().filter_map(|name| {
        let value = option(root, job, &[name])?;
        Some((name.to_owned(), value.to_owned()))
    });
    given.collect()
}

/// Where it was, by fio's options.
fn target(root: &Value, job: &Value) -> String {
    option(root, job, &["filename", "directory", "uri"])
        .unwrap_or("unknown")
        .replace("\\:", ":")
}
