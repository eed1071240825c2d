//! The configuration file of `serve`: text -> [`ServerPlan`] -> [`Changes`]. Pure: nothing is opened.
//!
//! ```text
//! text ── file.rs (TOML, serde) ─► File ── check.rs ─► Plan ─┐
//!                                                            ├─ changes.rs ─► Changes
//!                                        the plan that runs ─┘
//! ```
//!
//! # Invariants
//!
//! * A key that is not known is an error: a slip of the pen must not leave an export open to all.
//! * Every error has the line and the column of what is wrong and says what would be right.
//! * No text panics ([`TEXT_MAX`] bounds it).
//! * A [`ServerPlan`] is valid as far as that can be checked without access to the machine.

mod changes;
mod check;
mod error;
mod file;
mod overlay;
mod page;
mod standby;
#[cfg(test)]
mod tests;
mod values;
mod writers;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bucket::StorePrices;
use nbd::server::{Limits, Rules};
use nbd::tls::{Demand, ServerTlsFiles};
use serde::de::DeserializeOwned;

use crate::commands::serve::listen::ListenPlace;
use crate::failure::Failure;
use crate::graph::NamedDisk;
use crate::live_page::PagePlan;

pub(crate) use changes::{Changes, changes};
pub(crate) use check::parse;
pub(crate) use error::ConfigError;
use error::Slip;
pub(crate) use overlay::{NO_QUOTA, OverlayPlace, OverlayPlan, quota};
pub(crate) use page::is_host_name;
pub(crate) use standby::{StandbyOptions, standby};
pub(crate) use writers::{WriterOptions, WrittenDisk};

/// Longest configuration, bytes.
pub(crate) const TEXT_MAX: u64 = 1 << 20;

/// A validated configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerPlan {
    /// Where it listens; if empty, loopback or the sockets that systemd handed over.
    pub(crate) listen: Vec<ListenPlace>,
    /// Other machines may be served without TLS.
    pub(crate) insecure: bool,
    /// The exports, the default one first.
    pub(crate) exports: Vec<ExportPlan>,
    /// Bounds.
    pub(crate) limits: Limits,
    /// Certificates.
    pub(crate) tls: Option<TlsPlan>,
    /// The control socket; `None`: one in the runtime directory.
    pub(crate) control: Option<PathBuf>,
    /// The address of the metrics.
    pub(crate) metrics: Option<SocketAddr>,
    /// The live page.
    pub(crate) http: Option<PagePlan>,
    /// The user that the server switches to once its sockets are open.
    pub(crate) user: Option<String>,
    /// The program that is run at array events, and its first arguments.
    pub(crate) on_event: Option<Vec<String>>,
    /// What object stores charge.
    pub(crate) store_prices: Option<StorePrices>,
}

impl ServerPlan {
    /// The same with the control socket that the command line named, if it did.
    pub(crate) fn with_socket(self, named: Option<PathBuf>) -> Self {
        Self {
            control: named.or(self.control),
            ..self
        }
    }

    /// The same with the exports that commands added to the server that runs as `running`, but for those of names that
    /// are in the file.
    ///
    /// # Errors
    /// As [`validate_new`](Self::validate_new).
    pub(crate) fn with_added(mut self, running: &Self) -> Result<Self, String> {
        let names: HashSet<String> = self.exports.iter().map(|own| own.name.clone()).collect();
        for export in &running.exports {
            if export.is_added && !names.contains(&export.name) {
                self.validate_new(export)?;
                self.exports.push(export.clone());
            }
        }
        Ok(self)
    }

    /// Validates that `export` can be one more.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn validate_new(&self, export: &ExportPlan) -> Result<(), String> {
        let name = &export.name;
        if name.len() > check::STRING_MAX {
            let max = check::STRING_MAX;
            return Err(format!("the name of an export has {max} bytes at most"));
        }
        if self.exports.iter().any(|other| other.name == *name) {
            return Err(format!("there is an export {name:?} already"));
        }
        if let Some(other) = check::same_record(&self.exports, export) {
            return Err(format!(
                "export {name:?} would have the same writer file as {other:?}"
            ));
        }
        match self.exports.len() < check::EXPORTS_MAX {
            true => Ok(()),
            false => Err(format!("more than {} exports", check::EXPORTS_MAX)),
        }
    }
}

/// An export as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExportPlan {
    /// Its name.
    pub(crate) name: String,
    /// Its text for people.
    pub(crate) description: String,
    /// Its disk.
    pub(crate) disk: NamedDisk,
    /// Refuse writes.
    pub(crate) read_only: bool,
    /// Which clients may use it, and how.
    pub(crate) rules: Rules,
    /// Where the overlays of its clients are, if each has one of its own.
    pub(crate) overlay: Option<OverlayPlan>,
    /// Another server may have the disk, until a client is going to write to it here.
    pub(crate) is_standby: bool,
    /// Whether a command added it to the running server.
    pub(crate) is_added: bool,
}

/// Where certificates are, and which clients must use TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsPlan {
    /// The server's files.
    pub(crate) files: ServerTlsFiles,
    /// Which clients must use it.
    pub(crate) demand: Demand,
}

/// Reads and parses the file. Relative paths of disks are relative to the working directory, as on the command line.
pub(crate) fn read(path: &Path) -> Result<ServerPlan, ConfigError> {
    read_with(path, parse)
}

/// Reads a file with the fields of `T` as its keys.
pub(crate) fn read_as<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    read_with(path, |text| {
        toml::from_str(text).map_err(|error| Slip::of_toml(text, &error))
    })
}

/// Reads the section `[store_prices]` of the file of an option, which may be the configuration of a server.
#[cfg(feature = "bucket")]
pub(crate) fn store_prices(path: Option<&Path>) -> Result<Option<StorePrices>, Failure> {
    #[derive(serde::Deserialize)]
    struct PricesFile {
        store_prices: StorePrices,
    }
    let read = |path| {
        let file: PricesFile = read_as(path).map_err(|e| Failure::usage(e.to_string()))?;
        Ok(file.store_prices)
    };
    path.map(read).transpose()
}

/// There are no volumes that cost anything.
#[cfg(not(feature = "bucket"))]
pub(crate) fn store_prices(path: Option<&Path>) -> Result<Option<StorePrices>, Failure> {
    match path {
        None => Ok(None),
        Some(_) => Err(Failure::usage(
            "--store-prices: this build has no volumes on object stores (feature bucket)",
        )),
    }
}

fn read_with<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, Slip>,
) -> Result<T, ConfigError> {
    use std::io::Read as _;
    let failed = |source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).open(path).map_err(failed)?;
    let mut text = String::new();
    let bounded = file.take(TEXT_MAX + 1).read_to_string(&mut text);
    bounded.map_err(failed)?;
    if text.len() as u64 > TEXT_MAX {
        let path = path.to_owned();
        return Err(ConfigError::TooLong { path });
    }
    parse(&text).map_err(|slip| ConfigError::Slip {
        path: path.to_owned(),
        slip,
    })
}
