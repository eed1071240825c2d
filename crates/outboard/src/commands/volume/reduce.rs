//! `outboard volume reduce`: fewer extents at the end of a volume.
//!
//! # Invariants
//!
//! * What a filesystem has is not cut off, nor anything that is not known, unless `--force` is given.

use super::amount::{AmountArgs, AmountBase, AmountSign};
use super::change::{self, ChangeOptions, ChangeReport};
use super::content::read_volume_start;
use super::filesystem::{VolumeContent, identify};
use super::open_group::{OpenGroup, refused};
use super::volume_args::VolumeArgs;
use super::volume_path::VolumePath;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Arguments of `volume reduce`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    volume: VolumeArgs,

    #[command(flatten)]
    amount: AmountArgs,

    /// Cut off any content behind the new end
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    options: ChangeOptions,
}

/// Reduces a volume.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    change::run(&args.options, format, async |builder: &mut Builder| {
        reduce(builder, args).await
    })
}

async fn reduce(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let open = args.volume.open(builder).await?;
    let mut edit = open.edit()?;
    let (path, name) = (&args.volume.path, args.volume.name());
    let has = args.volume.extents(open.group());
    let extent = open.group().extent;
    if args.amount.is_share() {
        let what = "a share of the free extents is for volumes that are created or extended";
        return Err(Failure::usage(what).next("give a size"));
    }
    let extents = args.amount.extents(AmountBase { extent, free: 0 })?;
    let left = match extents.sign {
        AmountSign::Total => extents.count,
        AmountSign::Less => has.saturating_sub(extents.count),
        AmountSign::More => {
            let what = format!("{path} cannot be reduced by more than nothing");
            return Err(Failure::usage(what).next("outboard volume extend makes it larger"));
        }
    };
    let reduced = edit.reduce(name, left);
    reduced.map_err(|error| refused(error, &open.names()))?;
    if !args.force {
        let now = args.volume.extents(edit.group());
        refuse_cut(&open, path, now.saturating_mul(extent)).await?;
    }
    Box::pin(open.commit_size(edit, &args.volume, &args.options)).await
}

/// Refuses to leave a volume of `size` bytes if what is in it may be larger.
async fn refuse_cut(open: &OpenGroup, path: &VolumePath, size: u64) -> Result<(), Failure> {
    let start = read_volume_start(open, &path.volume).await?;
    let forced = "--force cuts it off all the same";
    match identify(&start) {
        VolumeContent::Known { what, size: needs } if needs <= size => {
            tracing::debug!("{what} of {needs} bytes has room in {size}");
            Ok(())
        }
        VolumeContent::Known { what, size: needs } => {
            let what = format!(
                "{path} holds {what} of {needs} bytes, {size} would be left; nothing was changed"
            );
            Err(Failure::new(what).next(format!("make the filesystem smaller first; {forced}")))
        }
        VolumeContent::Opaque(what) => {
            let what = format!(
                "{path} holds {what}, how large that is cannot be seen; nothing was changed"
            );
            Err(Failure::new(what).next(forced))
        }
        VolumeContent::Unknown => {
            let what = format!("what {path} holds is not known; nothing was changed");
            Err(Failure::new(what).next(forced))
        }
    }
}
