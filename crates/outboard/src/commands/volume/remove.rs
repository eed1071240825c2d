//! `outboard volume remove`: removing a volume: its extents become free. Its bytes stay where they were.

use nodes::volume::edit::PartialGroupEdit;

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

    /// Disks of the group may be missing, as long as the volume lies on none of them
    #[arg(long)]
    partial: bool,

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
    let (open, missing) = match args.partial {
        true => args.volume.open_partial(builder).await?,
        false => (args.volume.open(builder).await?, Vec::new()),
    };
    let refused = |error| refused(error, &open.names());
    let mut edit = PartialGroupEdit::open(open.group().clone(), missing).map_err(refused)?;
    edit.remove(args.volume.name()).map_err(refused)?;
    let freed = in_words(args.volume.extents(open.group()), open.group().extent);
    let summary = format!("{} is removed, {freed} are free", args.volume.path);
    Box::pin(open.commit(edit.into_edit(), summary, &args.options)).await
}
