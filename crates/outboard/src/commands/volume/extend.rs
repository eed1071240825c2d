//! `outboard volume extend`: more extents at the end of a volume.

use nodes::volume::edit::{EditError, GroupEdit, free_runs};

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
    let free = match args.amount.is_share() {
        true => free_extents(&edit, name, &on).map_err(|error| refused(error, &names))?,
        false => 0,
    };
    let extents = args.amount.extents(AmountBase {
        extent: open.group().extent,
        free,
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
    Box::pin(open.commit_size(edit, &args.volume, &args.options)).await
}

/// The extents that a share is of: those that are free, or of a volume of RAID those that it can get.
fn free_extents(edit: &GroupEdit, name: &str, on: &[String]) -> Result<u64, EditError> {
    if let Some(largest) = edit.largest_raid_extension(name, on)? {
        return Ok(largest);
    }
    let free = free_runs(edit.group())?;
    let free = free
        .iter()
        .filter(|run| on.is_empty() || on.contains(&run.member));
    Ok(free.map(|run| run.count).sum())
}
