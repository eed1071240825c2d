//! [`CollectionRecord`]: the data objects that a collection found unused, and when. JSON.
//!
//! # Invariants
//!
//! * An object in it was unused at its time and is never used again, so that a record which another command replaces at the same time, or
//!   that still has objects which are gone, misleads no later one: it only makes an object wait for longer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::json::{of_version, to_bytes};
use super::names::{DataObject, data_object};

/// What it is, at the start of the object.
const FORMAT: &str = "outboard collection";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Unused data objects, and when each was found first: in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CollectionRecord {
    /// By object.
    pub(crate) found: BTreeMap<DataObject, u64>,
}

/// A record of a collection that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CollectionFormatError {
    /// No record at all.
    #[error("it is no record of a collection: {0}")]
    Json(String),
    /// Of another version.
    #[error("it has version {0}, and this program reads version {VERSION}")]
    Version(u64),
    /// The name of no data object.
    #[error("{0:?} is the name of no data object")]
    Object(String),
}

/// As JSON.
#[derive(Debug, Serialize, Deserialize)]
struct RecordJson {
    format: String,
    version: u32,
    found: Vec<FoundJson>,
}

/// Objects that were found at the same time.
#[derive(Debug, Serialize, Deserialize)]
struct FoundJson {
    time: u64,
    objects: Vec<String>,
}

impl CollectionRecord {
    /// As the bytes of an object.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut by_time: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (object, time) in &self.found {
            by_time.entry(*time).or_default().push(object.to_string());
        }
        let found = by_time.into_iter();
        let json = RecordJson {
            format: FORMAT.to_owned(),
            version: VERSION,
            found: found
                .map(|(time, objects)| FoundJson { time, objects })
                .collect(),
        };
        to_bytes(&json)
    }

    /// The record with these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CollectionFormatError> {
        let json: RecordJson = of_version(
            bytes,
            (FORMAT, VERSION),
            CollectionFormatError::Json,
            CollectionFormatError::Version,
        )?;
        let mut found = BTreeMap::new();
        for FoundJson { time, objects } in json.found {
            for name in objects {
                let object = data_object(&name).ok_or(CollectionFormatError::Object(name))?;
                found.insert(object, time);
            }
        }
        Ok(Self { found })
    }
}
