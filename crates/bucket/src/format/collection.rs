//! [`CollectionRecord`]: the data objects that a collection found unused, and when. JSON.
//!
//! # Invariants
//!
//! * An object in it was unused at its time and is never used again, so that a record which another command replaces at the same time, or
//!   that still has objects which are gone, misleads no later one: it only makes an object wait for longer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
        let mut bytes = serde_json::to_vec_pretty(&json).expect("text and numbers are JSON");
        bytes.push(b'\n');
        bytes
    }

    /// The record with these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CollectionFormatError> {
        // The version first: another one may have other fields.
        let json: serde_json::Value = serde_json::from_slice(bytes).map_err(not_json)?;
        if json["format"] != FORMAT {
            let what = format!("its format is not {FORMAT:?}");
            return Err(CollectionFormatError::Json(what));
        }
        match json["version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            Some(other) => return Err(CollectionFormatError::Version(other)),
            None => {
                let what = "it has no version".to_owned();
                return Err(CollectionFormatError::Json(what));
            }
        }
        let json: RecordJson = serde_json::from_value(json).map_err(not_json)?;
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

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn not_json(error: serde_json::Error) -> CollectionFormatError {
    CollectionFormatError::Json(error.to_string())
}
