//! Workloads: what is done to each target, by fio or by another tool. Pure data.
//!
//! Invariants: a workload without `tool` is fio's. fio's own options can be given only as far as they
//! name no file, run no program and are not set by the lab itself ([`OPTIONS`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de};
use toml::{Table, Value};

use super::sweep::{Series, Sweep};
use super::{BLOCK_SIZE_MAX, DEPTH_MAX, JOBS_MAX, bounds, size};
use crate::tools::Tool;
use crate::units::{Bytes, MIB, Nanos};

/// fio's options that a plan may set.
pub(crate) const OPTIONS: [&str; 24] = [
    "bssplit",
    "buffer_compress_percentage",
    "dedupe_percentage",
    "end_fsync",
    "fdatasync",
    "fixedbufs",
    "fsync",
    "gtod_reduce",
    "hipri",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "norandommap",
    "percentage_random",
    "ramp_time",
    "random_distribution",
    "rate",
    "rate_iops",
    "refill_buffers",
    "registerfiles",
    "sqthread_poll",
    "sync",
    "thinktime",
    "zero_buffers",
];

/// One test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Workload {
    /// Short, unique in its plan: letters, digits and dashes.
    pub name: String,
    /// For people: `Sequential read`.
    pub title: String,
    /// The targets it is for; all of them when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// Which point of which curve it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// What is done.
    #[serde(flatten)]
    pub job: Job,
}

/// What is done, and by which tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Job {
    /// fio.
    Fio(FioJob),
    /// Another tool.
    Tool(Tool),
}

/// What fio does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FioJob {
    /// Where requests go.
    pub pattern: Pattern,
    /// Which way the bytes go.
    pub direction: Direction,
    /// Bytes of one request.
    #[serde(with = "size")]
    pub block_size: Bytes,
    /// Requests each job keeps in flight.
    pub depth: u32,
    /// Jobs at once.
    pub jobs: u32,
    /// The longest one measurement takes; it ends sooner when every block was touched once.
    pub runtime_ms: u64,
    /// Where in the data it begins.
    #[serde(default, with = "size", skip_serializing_if = "is_zero")]
    pub offset: Bytes,
    /// The same in hundredths of the data, for data whose size is only known when it is there: a whole disk.
    #[serde(default, skip_serializing_if = "is_start")]
    pub place: u32,
    /// Bytes of the data it uses from there; all when 0.
    #[serde(default, with = "size", skip_serializing_if = "is_zero")]
    pub extent: Bytes,
    /// The most bytes that one measurement moves; all of its part of the data when 0.
    #[serde(default, with = "size", skip_serializing_if = "is_zero")]
    pub bytes_max: Bytes,
    /// Goes on from the start until its time ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub time_based: bool,
    /// Through the page cache, where others go past it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub buffered: bool,
    /// More of fio's options, of those in [`OPTIONS`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// Where requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after the other from the start.
    Sequential,
    /// Each block once, shuffled.
    Random,
}

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the target.
    Read,
    /// To the target.
    Write,
}

impl Direction {
    /// As fio names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl FioJob {
    /// Bytes that are requested and not yet answered at any one time.
    #[must_use]
    pub fn in_flight(&self) -> Bytes {
        Bytes(self.block_size.0 * u64::from(self.depth) * u64::from(self.jobs))
    }

    /// The longest one measurement takes.
    #[must_use]
    pub const fn runtime(&self) -> Nanos {
        Nanos::from_ms(self.runtime_ms)
    }

    /// Where it begins in data of this size; in whole MiB, if it is given in hundredths.
    #[must_use]
    pub fn begin(&self, size: Bytes) -> Bytes {
        let place = u64::from(self.place);
        match place {
            0 => self.offset,
            _ => Bytes((size.0 / 100 * place + size.0 % 100 * place / 100) / MIB * MIB),
        }
    }

    /// Bytes that it uses in data of this size: none where that ends before it begins.
    #[must_use]
    pub fn room(&self, size: Bytes) -> Bytes {
        let left = size.0.saturating_sub(self.begin(size).0);
        match self.extent.0 {
            0 => Bytes(left),
            extent => Bytes(extent.min(left)),
        }
    }

    /// Bytes that one measurement moves at most in data of this size, unless it goes on from the start.
    #[must_use]
    pub fn moved_max(&self, size: Bytes) -> Bytes {
        let room = self.room(size);
        match self.bytes_max.0 {
            0 => room,
            _ => room.min(self.bytes_max),
        }
    }

    /// The first value that makes no sense on `data`.
    pub(super) fn check(&self, data: Bytes) -> Result<(), String> {
        let block = self.block_size;
        if block.0 == 0 || !block.0.is_multiple_of(512) || block > BLOCK_SIZE_MAX {
            return Err(format!(
                "block_size is {block}, it must be a multiple of 512 B and at most {BLOCK_SIZE_MAX}"
            ));
        }
        bounds::within("depth", self.depth, 1..=DEPTH_MAX)?;
        bounds::within("jobs", self.jobs, 1..=JOBS_MAX)?;
        if self.runtime_ms == 0 {
            return Err("runtime_ms is 0".into());
        }
        if !self.offset.0.is_multiple_of(512) {
            return Err(format!(
                "offset is {}, it must be a multiple of 512 B",
                self.offset
            ));
        }
        if self.place >= 100 || (self.place > 0 && self.offset.0 > 0) {
            return Err(format!(
                "place is {} and offset is {}, give one of them, and a place from 0 to 99",
                self.place, self.offset
            ));
        }
        if self.bytes_max.0 > 0 && self.bytes_max < self.in_flight() {
            return Err(format!(
                "bytes_max is {}, and {} are in flight",
                self.bytes_max,
                self.in_flight()
            ));
        }
        let end = self.offset.0.saturating_add(self.extent.0);
        if end > data.0 || self.in_flight() > self.room(data) {
            return Err(format!(
                "{} in flight from {} on do not fit in the {data} of data",
                self.in_flight(),
                self.begin(data)
            ));
        }
        match self
            .options
            .keys()
            .find(|key| !OPTIONS.contains(&key.as_str()))
        {
            Some(key) => Err(format!(
                "the lab does not hand {key:?} on to fio; it hands on {}",
                OPTIONS.join(", ")
            )),
            None => Ok(()),
        }
    }
}

impl Workload {
    /// fio's job, unless another tool does it.
    #[must_use]
    pub const fn fio(&self) -> Option<&FioJob> {
        match &self.job {
            Job::Fio(job) => Some(job),
            Job::Tool(_) => None,
        }
    }

    /// The same, to be changed.
    #[must_use]
    pub const fn fio_mut(&mut self) -> Option<&mut FioJob> {
        match &mut self.job {
            Job::Fio(job) => Some(job),
            Job::Tool(_) => None,
        }
    }

    /// The other tool.
    #[must_use]
    pub const fn tool(&self) -> Option<&Tool> {
        match &self.job {
            Job::Fio(_) => None,
            Job::Tool(tool) => Some(tool),
        }
    }

    /// Which way the bytes go, where there is one way.
    #[must_use]
    pub const fn direction(&self) -> Option<Direction> {
        match &self.job {
            Job::Fio(job) => Some(job.direction),
            Job::Tool(_) => None,
        }
    }

    /// How long one measurement usually takes at most.
    #[must_use]
    pub fn usual(&self) -> Nanos {
        match &self.job {
            Job::Fio(job) => job.runtime(),
            Job::Tool(tool) => tool.kind().usual(),
        }
    }

    /// Whether it is for the target of this name.
    #[must_use]
    pub fn is_for(&self, target: &str) -> bool {
        self.on.is_empty() || self.on.iter().any(|name| name == target)
    }
}

impl Job {
    /// Reads what is left of a workload's keys.
    fn of(mut keys: Table) -> Result<Self, String> {
        let is_fio = match keys.get("tool") {
            None => true,
            Some(Value::String(tool)) => tool == "fio",
            Some(_) => false,
        };
        if !is_fio {
            return keys
                .try_into()
                .map(Self::Tool)
                .map_err(|error| plain(&error));
        }
        keys.remove("tool");
        keys.try_into()
            .map(Self::Fio)
            .map_err(|error| plain(&error))
    }
}

/// What every workload has, with any tool.
#[derive(Deserialize)]
struct Head {
    name: String,
    title: String,
    #[serde(default)]
    on: Vec<String>,
    #[serde(default)]
    series: Option<Series>,
    #[serde(default)]
    sweep: Option<Sweep>,
}

/// The keys of a [`Head`].
const HEAD: [&str; 5] = ["name", "title", "on", "series", "sweep"];

/// Reads workloads; one with a `sweep` becomes one for each of its points.
pub(super) fn expanded<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Workload>, D::Error> {
    let tables = Vec::<Table>::deserialize(deserializer)?;
    let mut workloads = Vec::with_capacity(tables.len());
    for table in tables {
        let name = table
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or("?")
            .to_owned();
        let found =
            read(table).map_err(|why| de::Error::custom(format!("workload {name:?}: {why}")))?;
        workloads.extend(found);
    }
    Ok(workloads)
}

fn read(mut table: Table) -> Result<Vec<Workload>, String> {
    let mut head = Table::new();
    for key in HEAD {
        head.extend(table.remove_entry(key));
    }
    let head: Head = head.try_into().map_err(|error| plain(&error))?;
    let one = |keys, series: Option<Series>, name, title| {
        Ok(Workload {
            name,
            title,
            on: head.on.clone(),
            series,
            job: Job::of(keys)?,
        })
    };
    let Some(sweep) = &head.sweep else {
        let workload = one(
            table,
            head.series.clone(),
            head.name.clone(),
            head.title.clone(),
        )?;
        return Ok(vec![workload]);
    };
    sweep
        .points(&head.name, &head.title)?
        .into_iter()
        .map(|point| {
            let mut keys = table.clone();
            if keys.insert(point.key.to_owned(), point.value).is_some() {
                return Err(format!("{} is swept and set", point.key));
            }
            one(keys, Some(point.series), point.name, point.title)
        })
        .collect()
}

/// A reader's report in one line.
fn plain(error: &toml::de::Error) -> String {
    super::one_line(error.message())
}

const fn is_zero(bytes: &Bytes) -> bool {
    bytes.0 == 0
}

const fn is_start(place: &u32) -> bool {
    *place == 0
}
