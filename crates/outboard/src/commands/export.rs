//! `outboard export`: the exports of a running server.

use crate::commands::reload::{WhichServer, unexpected_answer};
use crate::completion;
use crate::control::{ControlAnswer, ControlRequest};
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::output::{Format, columns};

/// What can be done with them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List exports with their usage
    List(WhichServer),
    /// Refresh the size of a disk that has grown; new clients see the new size
    Resize(ResizeArgs),
}

/// Arguments of `export resize`.
#[derive(Debug, clap::Args)]
pub(crate) struct ResizeArgs {
    /// The export's name
    #[arg(add = completion::exports())]
    name: String,

    #[command(flatten)]
    which: WhichServer,
}

/// Does it.
pub(crate) fn run(command: Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::List(which) => list(&which, format),
        Command::Resize(args) => resize(args, format),
    }
}

fn list(which: &WhichServer, format: Format) -> Result<(), Failure> {
    let ControlAnswer::Status(status) = which.request(ControlRequest::Status)? else {
        return Err(unexpected_answer());
    };
    let exports = &status.figures.exports;
    format.print(exports, || {
        let head = ["EXPORT", "SIZE", "CLIENTS", "DESCRIPTION"].map(str::to_owned);
        let rows = exports.iter().map(|export| {
            [
                export.name.clone(),
                ByteSize(export.size).to_string(),
                export.clients.len().to_string(),
                export.description.clone(),
            ]
        });
        columns(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
    })
}

fn resize(args: ResizeArgs, format: Format) -> Result<(), Failure> {
    let export = args.name.clone();
    let answer = args.which.request(ControlRequest::Resize { export })?;
    let ControlAnswer::Resized { from, to } = answer else {
        return Err(unexpected_answer());
    };
    format.print(&serde_json::json!({ "from": from, "to": to }), || {
        let (from, to) = (ByteSize(from), ByteSize(to));
        if from == to {
            return format!("{}: {to}, as before", args.name);
        }
        format!(
            "{}: {to}, before {from}; clients see it when they connect again",
            args.name
        )
    })
}
