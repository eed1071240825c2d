//! [`RelocationRequest`]: data objects that the writer of a volume is to vacate. JSON, an object of its own for each command.
//!
//! # Invariants
//!
//! * It is advice: the writer finds by its own index which blocks are in an object, and moves those alone. A request that is old, made twice
//!   or of an interrupted command changes no block.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::json::{of_version, to_bytes};
use super::names::{DataObject, data_object};

/// What it is, at the start of the object.
const FORMAT: &str = "outboard relocation";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// What is to be vacated, and how far the writer is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RelocationRequest {
    /// The objects.
    pub(crate) objects: BTreeSet<DataObject>,
    /// How far the writer is.
    pub(crate) progress: RelocationProgress,
    /// The writer has ended with this problem, and some blocks are where they were.
    pub(crate) problem: Option<String>,
}

/// How far a writer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct RelocationProgress {
    /// Runs of the volume that were searched.
    pub(crate) runs: u64,
    /// Blocks that were moved.
    pub(crate) blocks: u64,
}

/// A request that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RelocationFormatError {
    /// No request at all.
    #[error("it is no request of a relocation: {0}")]
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
struct RequestJson {
    format: String,
    version: u32,
    objects: Vec<String>,
    progress: RelocationProgress,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl RelocationRequest {
    /// As the bytes of an object.
    pub(crate) fn encode(&self) -> Vec<u8> {
        to_bytes(&RequestJson {
            format: FORMAT.to_owned(),
            version: VERSION,
            objects: self.objects.iter().map(ToString::to_string).collect(),
            progress: self.progress,
            problem: self.problem.clone(),
        })
    }

    /// The request with these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RelocationFormatError> {
        let json: RequestJson = of_version(
            bytes,
            (FORMAT, VERSION),
            RelocationFormatError::Json,
            RelocationFormatError::Version,
        )?;
        let objects = json.objects.into_iter();
        let objects =
            objects.map(|name| data_object(&name).ok_or(RelocationFormatError::Object(name)));
        Ok(Self {
            objects: objects.collect::<Result<_, _>>()?,
            progress: json.progress,
            problem: json.problem,
        })
    }
}
