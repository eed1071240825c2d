//! `outboard bucket journal …`: the local journal of a volume.

use bucket::{BucketJournal, discard_journal, status};
use clap::Subcommand;

use super::{BucketTarget, failed};
use crate::failure::Failure;
use crate::output::Format;

/// What can be done with the local journal of a volume.
#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// Give up the journal that a volume has open, with all changes that are not in the store
    ///
    /// For a journal that is lost, with its machine or its disk. The volume is then what its last commit made it, and can be opened without the
    /// journal. A server that has the volume open loses it, and the journal is refused from then on.
    Discard(DiscardArgs),
}

/// A journal to be given up.
#[derive(Debug, clap::Args)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    target: BucketTarget,

    /// Give up changes that a flush acknowledged
    #[arg(long)]
    force: bool,
}

pub(super) async fn run(command: &JournalCommand, format: Format) -> Result<(), Failure> {
    match command {
        JournalCommand::Discard(args) => discard(args, format).await,
    }
}

async fn discard(args: &DiscardArgs, format: Format) -> Result<(), Failure> {
    let (uri, options) = (&args.target.uri, args.target.options());
    if !args.force {
        let status = status(uri, &options).await.map_err(failed)?;
        if let Some(journal) = status.journal {
            let what = format!(
                "cannot discard the journal of {uri}: {} may have changes that a flush acknowledged",
                text(&journal)
            );
            return Err(Failure::new(what).next("write --force to give them up"));
        }
    }
    let discarded = discard_journal(uri, &options).await.map_err(failed)?;
    format.print(&discarded, || {
        let journal = text(&discarded.journal);
        format!("{uri}: discarded {journal}, with all records behind that")
    })
}

pub(super) fn text(journal: &BucketJournal) -> String {
    let BucketJournal {
        host, path, stored, ..
    } = journal;
    format!("{path} on {host}, in the store up to its record {stored}")
}
