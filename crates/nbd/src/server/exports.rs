//! [`Export`]: a disk under a name, and the table that clients choose from.

use block::Node;
use engine::InFlight;
use nbd_proto::{ExportInfo, Refusal, limits};

use super::error::ServeError;
use super::plan;

/// A disk that clients can ask for by name.
#[derive(Debug, Clone)]
pub struct Export {
    /// Its name: any text up to 4096 bytes; never a path to anything.
    pub name: String,
    /// A text for people.
    pub description: String,
    /// The disk.
    pub disk: Node,
}

/// An export as its connections see it.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) export: Export,
    /// Connections that are over but for requests that their disk has not answered.
    pub(super) leaving: InFlight,
}

/// The exports of a server. The first is also the default, which has the empty name.
#[derive(Debug)]
pub(super) struct Exports(Vec<Served>);

impl Exports {
    pub(super) fn new(exports: Vec<Export>) -> Result<Self, ServeError> {
        for (index, export) in exports.iter().enumerate() {
            if export.name.len() > limits::STRING_MAX {
                return Err(ServeError::NameTooLong(export.name.clone()));
            }
            if exports[..index].iter().any(|e| e.name == export.name) {
                return Err(ServeError::NameTwice(export.name.clone()));
            }
        }
        if exports.is_empty() {
            return Err(ServeError::NoExports);
        }
        let serve = |export| Served {
            export,
            leaving: InFlight::new(),
        };
        Ok(Self(exports.into_iter().map(serve).collect()))
    }

    pub(super) fn find(&self, name: &str) -> Option<&Served> {
        let named = self.0.iter().find(|s| s.export.name == name);
        named.or_else(|| self.0.first().filter(|_| name.is_empty()))
    }

    /// Names and descriptions.
    pub(super) fn list(&self) -> Vec<(String, String)> {
        let pair = |e: &Export| (e.name.clone(), e.description.clone());
        self.iter().map(pair).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Export> {
        self.0.iter().map(|served| &served.export)
    }
}

/// What a client is told of an export.
pub(super) fn describe(served: Option<&Served>, payload_max: u32) -> Result<ExportInfo, Refusal> {
    let export = &served.ok_or(Refusal::Unknown)?.export;
    let geometry = export.disk.geometry();
    Ok(ExportInfo {
        name: export.name.clone(),
        description: export.description.clone(),
        size: geometry.size,
        flags: plan::transmission_flags(geometry),
        block_size_min: geometry.block_size,
        block_size_preferred: geometry.preferred_block_size.max(geometry.block_size),
        block_size_max: payload_max,
    })
}
