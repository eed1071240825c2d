//! `outboard ls`: the exports of a server.

use nbd::client::{ClientConfig, ClientError, Survey, Surveyed, Target, survey};
use serde::Serialize;

use super::inspect::{on_the_engine, server, visible};
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::output::{Format, columns};

/// Arguments of `ls`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server: nbd://HOST, nbd+unix:///?socket=PATH
    #[arg(value_name = "URI")]
    server: String,
}

/// One export, for programs.
#[derive(Debug, Serialize)]
struct ExportRow {
    name: String,
    uri: String,
    description: String,
    /// Bytes; missing if the server would not describe what it lists.
    size: Option<u64>,
    read_only: Option<bool>,
    /// Why it would not.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Lists them.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let target = server(&args.server)?;
    let timeout = ClientConfig::default().request_timeout;
    let survey = on_the_engine(async || {
        let survey = Box::pin(survey(&target, timeout)).await;
        survey.map_err(|error| {
            let failure = Failure::from_error(&error);
            match error {
                // It answered, and would not.
                ClientError::Handshake { .. } if !error.wants_tls() => {
                    failure.next("an export whose name you know can be used all the same")
                }
                _ => failure,
            }
        })
    })?;
    let rows = rows(survey, &target);
    format.print(&rows, || text(&rows))
}

fn rows(survey: Survey, server: &Target) -> Vec<ExportRow> {
    let row = |Surveyed { listed, described }: Surveyed| {
        let uri = Target {
            export: listed.name.clone(),
            ..server.clone()
        };
        let told = described.as_ref().ok();
        ExportRow {
            uri: uri.to_string(),
            size: told.map(|told| told.export.size),
            read_only: told.map(|told| {
                let mut flags = told.export.flags.iter_names();
                flags.any(|(flag, _)| flag == "READ_ONLY")
            }),
            refused: described.err().map(|error| error.to_string()),
            name: listed.name,
            description: listed.description,
        }
    };
    survey.exports.into_iter().map(row).collect()
}

fn text(rows: &[ExportRow]) -> String {
    if rows.is_empty() {
        return "the server lists no export".to_owned();
    }
    let head = ["NAME", "SIZE", "", "DESCRIPTION"].map(str::to_owned);
    let line = |row: &ExportRow| {
        let name = if row.name.is_empty() {
            "(default)"
        } else {
            &row.name
        };
        let size = row
            .size
            .map_or_else(|| "-".to_owned(), |size| ByteSize(size).to_string());
        let access = match row.read_only {
            Some(true) => "read-only",
            Some(false) => "",
            None => "refused",
        };
        [
            visible(name),
            size,
            access.to_owned(),
            visible(&row.description),
        ]
    };
    let rows: Vec<_> = std::iter::once(head).chain(rows.iter().map(line)).collect();
    columns(&rows)
}
