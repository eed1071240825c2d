//! Partition tables as they are reported.

use nodes::partition;
use serde::Serialize;

use super::DiskContent;

/// A partition table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TableReport {
    /// `gpt` or `mbr`.
    pub(crate) kind: String,
    /// What the disk is called in it.
    pub(crate) id: String,
    /// Whether it is damaged, so that it can only be read.
    pub(crate) read_only: bool,
    /// Its partitions, by number.
    pub(crate) partitions: Vec<Partition>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Partition {
    /// As the table counts, from 1.
    pub(crate) number: u32,
    /// Where it begins, bytes.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// GUID or byte.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// What that means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) type_name: Option<String>,
    /// Whether it is a frame for logical partitions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) extended: bool,
    /// Its label in the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// Its UUID in the table.
    pub(crate) uuid: String,
    /// What it holds.
    pub(crate) content: DiskContent,
}

impl TableReport {
    /// The report of a table, without the contents of its partitions.
    pub(crate) fn of(table: &partition::PartitionTable) -> Self {
        Self {
            kind: table.scheme.to_string().to_lowercase(),
            id: table.id.to_string(),
            read_only: table.is_read_only(),
            partitions: table.partitions.iter().map(Partition::of).collect(),
        }
    }
}

impl Partition {
    fn of(entry: &partition::PartitionEntry) -> Self {
        Self {
            number: entry.number,
            offset: entry.range.offset,
            size: entry.range.len,
            kind: match entry.kind {
                partition::PartitionKind::Gpt(guid) => guid.to_string(),
                partition::PartitionKind::Mbr(byte) => format!("0x{byte:02x}"),
            },
            type_name: entry.kind.name().map(|_| entry.kind.to_string()),
            extended: entry.kind.is_extended(),
            label: Some(entry.label.clone()).filter(|label| !label.is_empty()),
            uuid: entry.id.to_string(),
            content: DiskContent::default(),
        }
    }

    /// Its stable name.
    pub(crate) fn name(&self) -> String {
        format!("part/{}", self.number)
    }
}
