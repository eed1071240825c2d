//! The options of an export about its writers -> [`WriterRules`]. Pure.

use std::path::{Path, PathBuf};

use nbd::client::WriterPolicy;
use nbd::server::WriterRules;
use serde::{Deserialize, Serialize};
use toml::{Spanned, Value};

use super::error::Slip;
use super::file::ExportTable;
use super::values::Values;
use crate::graph::Disk;

/// The writer options of an export, in the configuration or on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriterOptions {
    /// Any number of clients.
    pub(crate) many: bool,
    /// One client, and the last one is recorded.
    pub(crate) single: bool,
    /// Where.
    pub(crate) record: Option<PathBuf>,
}

/// The other options of that export that matter here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenDisk<'a> {
    pub(crate) disk: &'a Disk,
    /// Writes are refused.
    pub(crate) read_only: bool,
    /// Each client writes to a disk of its own.
    pub(crate) has_overlays: bool,
}

impl WriterOptions {
    /// The rules, or why these options do not fit together.
    pub(crate) fn rules(self, of: WrittenDisk<'_>) -> Result<WriterRules, String> {
        let Self {
            many,
            single,
            record,
        } = self;
        if !single {
            if record.is_some() {
                return Err(
                    "a writer file is for a single writer (single_writer, --single-writer)"
                        .to_owned(),
                );
            }
            let policy = match many {
                true => WriterPolicy::Many,
                false => WriterPolicy::One,
            };
            return Ok(WriterRules {
                policy,
                record: None,
            });
        }
        if many {
            return Err("a single writer and many writers contradict each other".to_owned());
        }
        if of.read_only {
            return Err("a single writer of a read-only export: no client can write".to_owned());
        }
        if of.has_overlays {
            return Err(
                "a single writer of overlays: each client has one of its own to write to"
                    .to_owned(),
            );
        }
        let record = match (record, of.disk) {
            (Some(path), _) => path,
            (None, Disk::File { path, .. }) => record_path(path),
            (None, _) => {
                return Err(
                    "the disk is not one file next to which the last writer could be recorded: set the path \
                     (writer_file, --writer-file)"
                        .to_owned(),
                );
            }
        };
        if record.starts_with("/dev") {
            return Err(format!(
                "{} would be gone at the next boot: set another path for the record of the last writer \
                 (writer_file, --writer-file)",
                record.display()
            ));
        }
        Ok(WriterRules {
            policy: WriterPolicy::Fenced,
            record: Some(record),
        })
    }
}

/// `IMAGE.writer`
fn record_path(image: &Path) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(".writer");
    name.into()
}

/// What an export of the file says.
pub(super) fn writers(
    values: Values<'_>,
    table: &ExportTable,
    disk: &Disk,
) -> Result<WriterRules, Slip> {
    let many = table.writers.as_ref();
    let many = many.map(|value| is_many(values, value)).transpose()?;
    let options = WriterOptions {
        many: many.unwrap_or_default(),
        single: table.single_writer,
        record: table
            .writer_file
            .as_ref()
            .map(|path| path.get_ref().clone()),
    };
    let rules = options.rules(WrittenDisk {
        disk,
        read_only: table.read_only,
        has_overlays: table.overlay.is_some(),
    });
    rules.map_err(|why| values.slip(&table.name, why))
}

fn is_many(values: Values<'_>, value: &Spanned<Value>) -> Result<bool, Slip> {
    match value.get_ref() {
        Value::Integer(1) => Ok(false),
        Value::String(text) if text == "many" => Ok(true),
        _ => Err(values.slip(value, "the writers of an export are 1 or \"many\"")),
    }
}
