//! `outboard export`: the exports of a running server.

use crate::commands::reload::{WhichServer, unexpected_answer};
use crate::commands::serve::exports::{WriteArgs, plan_added};
use crate::completion;
use crate::control::{AddedExport, ControlAnswer, ControlRequest, ExportRequest};
use crate::failure::Failure;
use crate::graph::{ByteSize, absolute, resolve};
use crate::output::{Format, columns};

/// What can be done with them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List exports with their usage
    List(WhichServer),
    /// Serve one more disk, until it is removed or the server ends
    Add(AddArgs),
    /// Stop serving a disk: its clients are disconnected, and it is flushed and closed
    Remove(NameArgs),
    /// Refresh the size of a disk that has grown; new clients see the new size
    Resize(NameArgs),
}

/// Arguments of `export add`.
#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// A disk and the name of its export: a path, memory(SIZE), nbd://HOST/EXPORT…
    #[arg(value_name = "NAME=DISK")]
    disk: String,

    #[command(flatten)]
    access: WriteArgs,

    /// Open a volume when a client is going to write to it: another server may have it until then
    #[arg(long, conflicts_with = "read_only")]
    standby: bool,

    #[command(flatten)]
    which: WhichServer,
}

/// The arguments of commands about one export.
#[derive(Debug, clap::Args)]
pub(crate) struct NameArgs {
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
        Command::Add(args) => add(args, format),
        Command::Remove(NameArgs { name, which }) => {
            let words = format!("export {name:?} is not served any more");
            change(&which, ExportRequest::Remove { name }, &words, format)
        }
    }
}

fn add(args: AddArgs, format: Format) -> Result<(), Failure> {
    let named = resolve(&args.disk)?;
    let cannot = |error| Failure::because(format!("cannot use {}", args.disk), &error);
    let disk = absolute(&named).map_err(cannot)?;
    let mut writers = args.access.writers();
    let record = writers.record.map(std::path::absolute).transpose();
    writers.record = record.map_err(cannot)?;
    let (name, read_only) = (named.name.unwrap_or_default(), args.access.read_only);
    let words = format!("export {name:?} is served until it is removed or the server ends");
    let export = AddedExport {
        name,
        disk,
        read_only,
        is_standby: args.standby,
        writers,
    };
    // What the command line alone shows to be wrong is not sent.
    plan_added(&export)?;
    change(&args.which, ExportRequest::Add(export), &words, format)
}

/// Requests a change, and prints what was done, in `words` or as JSON.
fn change(
    which: &WhichServer,
    request: ExportRequest,
    words: &str,
    format: Format,
) -> Result<(), Failure> {
    let request = ControlRequest::Export(request);
    let ControlAnswer::Reloaded(done) = which.request(request)? else {
        return Err(unexpected_answer());
    };
    format.print(&done, || words.to_owned())?;
    done.refuse_warnings()
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

fn resize(args: NameArgs, format: Format) -> Result<(), Failure> {
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
