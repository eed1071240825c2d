//! `outboard client`: the clients of a running server.

mod overlays;

use crate::commands::reload::{WhichServer, unexpected_answer};
use crate::commands::status::{CLIENT_HEAD, client_rows};
use crate::completion;
use crate::control::{ControlAnswer, ControlRequest};
use crate::failure::Failure;
use crate::output::{Format, columns};

/// What can be done with them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the connected clients
    List(WhichServer),
    /// Disconnect a client after its requests in flight have completed
    Disconnect(DisconnectArgs),
    /// List the overlays of clients
    Overlays(overlays::ListArgs),
    /// Remove the overlay of a client, which starts from the image again
    DropOverlay(overlays::DropArgs),
}

/// Arguments of `client disconnect`.
#[derive(Debug, clap::Args)]
pub(crate) struct DisconnectArgs {
    /// The client's number, as `client list` shows it
    #[arg(add = completion::clients())]
    client: u64,

    #[command(flatten)]
    which: WhichServer,
}

/// Does it.
pub(crate) fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::List(which) => list(which, format),
        Command::Overlays(args) => overlays::list(args, format),
        Command::DropOverlay(args) => overlays::drop(args, format),
        Command::Disconnect(args) => {
            let client = args.client;
            match args.which.request(ControlRequest::Disconnect { client })? {
                ControlAnswer::Disconnected => {
                    let answer = serde_json::json!({ "disconnected": client });
                    format.print(&answer, || format!("client {client} is being disconnected"))
                }
                _ => Err(unexpected_answer()),
            }
        }
    }
}

fn list(which: &WhichServer, format: Format) -> Result<(), Failure> {
    let ControlAnswer::Status(status) = which.request(ControlRequest::Status)? else {
        return Err(unexpected_answer());
    };
    let clients = status
        .figures
        .exports
        .iter()
        .flat_map(|export| &export.clients);
    format.print(&clients.collect::<Vec<_>>(), || {
        let head = CLIENT_HEAD.map(str::to_owned);
        let rows = status.figures.exports.iter().flat_map(client_rows);
        columns(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
    })
}
