//! `outboard volume remove`: removing a volume: its extents become free. Its bytes stay where they were.

use super::amount::in_words;
use super::change::{self, ChangeOptions, ChangeReport};
use super::open_group::refused;
use super::volume_args::VolumeArgs;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Arguments of `volume remove`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    volume: VolumeArgs,

    #[command(flatten)]
    options: ChangeOptions,
}

/// Removes a volume.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    change::run(&args.options, format, async |builder: &mut Builder| {
        remove(builder, args).await
    })
}

async fn remove(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let open = args.volume.open(builder).await?;
    let mut edit = open.edit()?;
    let removed = edit.remove(args.volume.name());
    removed.map_err(|error| refused(error, &open.names()))?;
    let freed = in_words(args.volume.extents(open.group()), open.group().extent);
    let summary = format!("{} is removed, {freed} are free", args.volume.path);
    Box::pin(open.commit(edit, summary, &args.options)).await
}
