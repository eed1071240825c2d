//! Sweeps: one workload at several values of one of its keys, for a curve. Pure.

use serde::{Deserialize, Serialize};
use toml::Value;

use super::size;
use crate::units::Bytes;

/// The most points of one curve.
const POINTS_MAX: usize = 64;

/// Which point of which curve a workload is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// The swept workload's name.
    pub name: String,
    /// And what it is called for people.
    pub title: String,
    /// The key that varies.
    pub varies: Varies,
    /// Its value here: bytes, or a number of things.
    pub point: u64,
}

/// What varies along a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Varies {
    /// Bytes of one request.
    BlockSize,
    /// Requests in flight.
    Depth,
    /// Jobs at once.
    Jobs,
    /// Where it begins, in bytes.
    Offset,
    /// Where it begins, in hundredths of what is there.
    TargetPlace,
    /// dbench's clients.
    Clients,
    /// iperf3's connections.
    Streams,
}

/// A workload's `sweep`: one key with its values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sweep {
    block_size: Vec<String>,
    depth: Vec<u32>,
    jobs: Vec<u32>,
    offset: Vec<String>,
    place: Vec<u32>,
    clients: Vec<u32>,
    streams: Vec<u32>,
}

/// One point.
pub(super) struct SweepPoint {
    pub(super) series: Series,
    pub(super) name: String,
    pub(super) title: String,
    /// The key to be set.
    pub(super) key: &'static str,
    /// To this.
    pub(super) value: Value,
}

impl Varies {
    /// The key in a plan.
    const fn key(self) -> &'static str {
        match self {
            Self::BlockSize => "block_size",
            Self::Depth => "depth",
            Self::Jobs => "jobs",
            Self::Offset => "offset",
            Self::TargetPlace => "place",
            Self::Clients => "clients",
            Self::Streams => "streams",
        }
    }

    const fn is_size(self) -> bool {
        matches!(self, Self::BlockSize | Self::Offset)
    }

    /// A value for people: `4 KiB`, `depth 8`.
    #[must_use]
    pub fn shown(self, point: u64) -> String {
        match self {
            Self::BlockSize => Bytes(point).to_string(),
            Self::Offset => format!("at {}", Bytes(point)),
            Self::TargetPlace => format!("at {point} % of it"),
            Self::Depth => format!("depth {point}"),
            Self::Jobs => format!("{point} jobs"),
            Self::Clients => format!("{point} clients"),
            Self::Streams => format!("{point} streams"),
        }
    }
}

impl Sweep {
    /// Every point in the order given.
    pub(super) fn points(&self, name: &str, title: &str) -> Result<Vec<SweepPoint>, String> {
        let (varies, values) = self.values()?;
        if values.len() > POINTS_MAX {
            return Err(format!(
                "{} points; a sweep has at most {POINTS_MAX}",
                values.len()
            ));
        }
        let point = |value: u64| SweepPoint {
            series: Series {
                name: name.to_owned(),
                title: title.to_owned(),
                varies,
                point: value,
            },
            name: match varies.is_size() {
                true => format!("{name}-{}", size::format(Bytes(value)).to_lowercase()),
                false => format!("{name}-{value}"),
            },
            title: format!("{title}, {}", varies.shown(value)),
            key: varies.key(),
            value: match varies.is_size() {
                true => Value::String(size::format(Bytes(value))),
                false => Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)),
            },
        };
        Ok(values.into_iter().map(point).collect())
    }

    fn values(&self) -> Result<(Varies, Vec<u64>), String> {
        let numbers = |values: &[u32]| values.iter().copied().map(u64::from).collect::<Vec<_>>();
        let mut all = vec![
            (Varies::BlockSize, sizes(&self.block_size)?),
            (Varies::Offset, sizes(&self.offset)?),
            (Varies::TargetPlace, numbers(&self.place)),
            (Varies::Depth, numbers(&self.depth)),
            (Varies::Jobs, numbers(&self.jobs)),
            (Varies::Clients, numbers(&self.clients)),
            (Varies::Streams, numbers(&self.streams)),
        ];
        all.retain(|(_, values)| !values.is_empty());
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Ok(one),
            _ => Err("a sweep has values of one key".into()),
        }
    }
}

fn sizes(texts: &[String]) -> Result<Vec<u64>, String> {
    texts
        .iter()
        .map(|text| {
            size::parse(text)
                .map(|found| found.0)
                .ok_or_else(|| format!("{text:?} is no size; write it as \"4K\" or \"1G\""))
        })
        .collect()
}
