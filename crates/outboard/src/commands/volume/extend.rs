//! `outboard volume extend`: more extents at the end of a volume.

use nodes::volume::edit::free_runs;

use super::amount::{AmountArgs, AmountBase, AmountSign, in_words};
use super::change::{self, ChangeOptions, ChangeReport};
use super::open_group::refused;
use super::volume_args::VolumeArgs;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Arguments of `volume extend`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    volume: VolumeArgs,

    #[command(flatten)]
    amount: AmountArgs,

    /// Use only this disk, as it stands above; again for several
    #[arg(long, value_name = "DISK")]
    on: Vec<String>,

    #[command(flatten)]
    options: ChangeOptions,
}

/// Extends a volume.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    change::run(&args.options, format, async |builder: &mut Builder| {
        extend(builder, args).await
    })
}

async fn extend(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let open = args.volume.open(builder).await?;
    let names = open.names();
    let on = open.member_names(&args.on)?;
    let mut edit = open.edit()?;
    let (path, name) = (&args.volume.path, args.volume.name());
    let has = args.volume.extents(open.group());
    let free = free_runs(open.group()).map_err(|error| refused(error, &names))?;
    let free = free
        .iter()
        .filter(|run| on.is_empty() || on.contains(&run.member));
    let extents = args.amount.extents(AmountBase {
        extent: open.group().extent,
        free: free.map(|run| run.count).sum(),
    })?;
    let more = match extents.sign {
        AmountSign::More => extents.count,
        // A share of what is free is never a whole.
        AmountSign::Total if args.amount.is_share() => extents.count,
        AmountSign::Total => extents.count.saturating_sub(has),
        AmountSign::Less => {
            let what = format!("{path} cannot be extended by less than nothing");
            return Err(Failure::usage(what).next("outboard volume reduce makes it smaller"));
        }
    };
    if more == 0 && open.group().volume(name).is_some() {
        let size = in_words(has, open.group().extent);
        let what = format!("{path} has {size} already");
        return Err(Failure::new(what).next("--size +5G extends it by 5 GiB"));
    }
    let extended = edit.extend(name, more, &on);
    extended.map_err(|error| refused(error, &names))?;
    let summary = args.volume.resized(open.group(), edit.group());
    Box::pin(open.commit(edit, summary, &args.options)).await
}
