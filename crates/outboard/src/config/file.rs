//! The shape of the file, as TOML has it: no meaning yet, every value that may be wrong with its place.

use std::path::PathBuf;

use bucket::StorePrices;
use serde::Deserialize;
use toml::{Spanned, Value};

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) listen: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) insecure: bool,
    pub(super) control: Option<PathBuf>,
    pub(super) metrics: Option<Spanned<String>>,
    pub(super) http: Option<Spanned<String>>,
    pub(super) http_admin: Option<Spanned<PathBuf>>,
    #[serde(default)]
    pub(super) http_hosts: Vec<Spanned<String>>,
    pub(super) user: Option<Spanned<String>>,
    pub(super) on_event: Option<Spanned<EventCommand>>,
    pub(super) tls: Option<Tls>,
    pub(super) store_prices: Option<StorePrices>,
    #[serde(default)]
    pub(super) limits: LimitsTable,
    #[serde(default)]
    pub(super) export: Vec<Spanned<ExportTable>>,
}

/// A program, or a program and its first arguments.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a program, or a list of it and its arguments, is wanted"
)]
pub(super) enum EventCommand {
    Program(String),
    WithArguments(Vec<String>),
}

/// `[tls]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    pub(super) directory: PathBuf,
    #[serde(default)]
    pub(super) demand: Demand,
    #[serde(default)]
    pub(super) clients: Clients,
    #[serde(default)]
    pub(super) minimum: Minimum,
}

/// The oldest version of TLS.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) enum Minimum {
    #[serde(rename = "1.2")]
    Tls12,
    #[default]
    #[serde(rename = "1.3")]
    Tls13,
}

/// Which clients must use TLS.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Demand {
    Optional,
    #[default]
    Network,
    All,
}

/// Whether clients need certificates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Clients {
    Ignored,
    Welcome,
    #[default]
    Required,
}

/// A number, or a text with a unit.
pub(super) type Amount = Option<Spanned<Value>>;

/// `[limits]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsTable {
    pub(super) connections_max: Amount,
    pub(super) connections_per_address_max: Amount,
    pub(super) handshake_timeout: Amount,
    pub(super) stall_timeout: Amount,
    pub(super) stop_timeout: Amount,
    pub(super) payload_max: Amount,
    pub(super) in_flight_requests_max: Amount,
    pub(super) in_flight_bytes_max: Amount,
    pub(super) in_flight_bytes_total_max: Amount,
}

/// `[[export]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportTable {
    pub(super) name: Spanned<String>,
    pub(super) disk: Spanned<String>,
    #[serde(default)]
    pub(super) description: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) read_only: bool,
    #[serde(default)]
    pub(super) standby: bool,
    pub(super) allow: Option<Vec<Spanned<String>>>,
    pub(super) allow_certificates: Option<Vec<Spanned<String>>>,
    pub(super) connections_max: Amount,
    pub(super) writers: Amount,
    #[serde(default, alias = "single-writer")]
    pub(super) single_writer: bool,
    pub(super) writer_file: Option<Spanned<PathBuf>>,
    pub(super) identity: Option<Spanned<String>>,
    pub(super) overlay: Option<Spanned<String>>,
    pub(super) overlay_directory: Option<Spanned<PathBuf>>,
    pub(super) overlay_name: Option<Spanned<String>>,
    pub(super) overlay_quota: Amount,
    pub(super) overlays_max: Amount,
}
