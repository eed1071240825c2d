//! `outboard volume move`: extents go to other disks of the group, as with LVM's pvmove. Given disks, they are opened for it;
//! without any, the server on this machine that has the group open does it (`live_move.rs`).
//!
//! # Invariants
//!
//! * The metadata say at any time which place has the bytes: a move that is interrupted loses nothing, and
//!   is resumed by the same command or by `pvmove`, and ours resumes one of `pvmove`.

use std::pin::pin;
use std::time::Duration;

use engine::clock;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use nodes::copy::CopyProgress;
use nodes::volume::edit::{EditError, ExtentMove, GroupEdit, MoveRequest};
use nodes::volume::format::VolumeGroup;
use nodes::volume::pvmove::{PvmoveDisks, PvmoveError};
use nodes::volume::random_id;

use super::amount::in_words;
use super::backup;
use super::change::{self, ChangeOptions, ChangeReport, host, stamp};
use super::open_group::{OpenGroup, refused};
use super::report::{DiskNames, GroupReport};
use super::snapshot::target::ServerArgs;
use super::volume_path::GroupPath;
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::graph::builder::Builder;
use crate::interrupt::Interrupt;
use crate::output::Format;

/// Time between two updates of the progress bar.
const TICK: Duration = Duration::from_millis(50);
/// How long writes in flight may take to complete after an interruption.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Arguments of `volume move`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The group; or one volume, of which alone extents are moved
    #[arg(value_name = "GROUP[/VOLUME]")]
    pub(super) path: GroupPath,

    /// All disks of the group: files, devices or any other disks; none if a server here has it open
    #[arg(value_name = "DISK")]
    disks: Vec<String>,

    /// Move extents away from this disk, as it stands above, or as the server calls it; without it an interrupted move is
    /// resumed
    #[arg(long, value_name = "DISK")]
    pub(super) from: Option<String>,

    /// Move them to this disk only; again for several, which are used in that order
    #[arg(long, value_name = "DISK", requires = "from")]
    pub(super) to: Vec<String>,

    /// End a move that is running in a server, or was interrupted: what was not moved yet stays where it was
    #[arg(long, conflicts_with_all = ["from", "to"])]
    pub(super) abort: bool,

    /// Without disks: copy at most so many bytes a second, like 50M; as many as the disks take without it
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["disks", "abort"])]
    pub(super) max_rate: Option<ByteSize>,

    #[command(flatten)]
    pub(super) server: ServerArgs,

    #[command(flatten)]
    pub(super) options: ChangeOptions,
}

/// A move that is to be carried out.
struct Work {
    /// The moves, and the group in which they are begun.
    moves: Vec<ExtentMove>,
    group: VolumeGroup,
}

/// Moves extents.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    if args.disks.is_empty() {
        return super::live_move::run(args, format);
    }
    let interrupt = Interrupt::watch()?;
    change::run(&args.options, format, async |builder: &mut Builder| {
        move_extents(builder, args, &interrupt).await
    })
}

async fn move_extents(
    builder: &mut Builder,
    args: &Args,
    interrupt: &Interrupt,
) -> Result<ChangeReport, Failure> {
    let group = &args.path.group;
    let open = Box::pin(OpenGroup::open_whole(builder, group, &args.disks)).await?;
    let names = open.names();
    let mut edit = open.edit()?;
    let unmoved = |error| refused(error, &names);
    let begun = edit.moves().map_err(unmoved)?;
    if args.abort {
        return abort(&open, edit, &begun, args).await;
    }
    let is_new = begun.is_empty();
    let from = open.member_names(args.from.as_slice())?.pop();
    if is_new {
        let to = open.member_names(&args.to)?;
        begin_with(&mut edit, from, to, args, &names)?;
    } else {
        check_resume(&begun, from, &names, args)?;
    }
    let moves = edit.moves().map_err(unmoved)?;
    let after = ended(&edit, &moves).map_err(unmoved)?;
    let mut report = ChangeReport {
        summary: summary(group, &moves, &names, edit.group().extent),
        dry_run: args.options.dry_run,
        before: Some(GroupReport::of(open.group(), &names)),
        after: GroupReport::of(&after, &names),
        backup: None,
        failed: Vec::new(),
    };
    if args.options.dry_run {
        return Ok(report);
    }
    if let Some(before) = open.text() {
        let directory = args.options.backup.as_deref();
        report.backup = Some(backup::write(directory, &before.group, &before.text)?);
    }
    let disks = PvmoveDisks {
        members: open.member_nodes(),
        areas: open.areas(open.group()),
        stamp: stamp(),
    };
    let group = match is_new {
        true => {
            let committed = disks.commit(edit).await;
            committed.map_err(|error| Failure::from_error(&error))?
        }
        false => edit.group().clone(),
    };
    let work = Work { moves, group };
    let moved = Box::pin(carry_out(&disks, work, interrupt)).await?;
    report.after = GroupReport::of(&moved, &names);
    Ok(report)
}

/// Begins the move that the options describe, between these physical volumes.
pub(super) fn begin_with(
    edit: &mut GroupEdit,
    from: Option<String>,
    to: Vec<String>,
    args: &Args,
    names: &DiskNames,
) -> Result<MoveRequest, Failure> {
    let Some(from) = from else {
        let what = format!("no move of {} was interrupted", args.path.group);
        let next = "--from names the disk to move extents away from";
        return Err(Failure::usage(what).next(next));
    };
    let request = MoveRequest {
        from,
        to,
        volume: args.path.volume.clone(),
        id: random_id(),
        seconds: stamp().seconds,
        host: host(),
    };
    let begun = edit.begin_move(&request);
    begun.map_err(|error| refused(error, names))?;
    Ok(request)
}

/// Refuses options that describe another move than the one that was interrupted.
pub(super) fn check_resume(
    begun: &[ExtentMove],
    from: Option<String>,
    names: &DiskNames,
    args: &Args,
) -> Result<(), Failure> {
    let is_same = |from: &String| {
        let mut sources = begun.iter().filter_map(ExtentMove::source);
        args.to.is_empty() && sources.any(|source| source == from)
    };
    match from.is_none_or(|from| is_same(&from)) {
        true => Ok(()),
        false => Err(refuse_second(begun, names, args)),
    }
}

/// The group as it is once these moves have come to their end.
pub(super) fn ended(edit: &GroupEdit, moves: &[ExtentMove]) -> Result<VolumeGroup, EditError> {
    let mut edit = edit.clone();
    for one in moves {
        for segment in &one.segments {
            edit.set_moved(&one.name, segment.start)?;
        }
        edit.end_move(&one.name)?;
    }
    Ok(edit.group().clone())
}

/// Copies, and shows how far that is.
async fn carry_out(
    disks: &PvmoveDisks,
    work: Work,
    interrupt: &Interrupt,
) -> Result<VolumeGroup, Failure> {
    let extents = |one: &ExtentMove| one.extents() - one.extents_moved();
    let total: u64 = work.moves.iter().map(extents).sum();
    let bar = bar(work.group.bytes(total));
    let progress = CopyProgress::default();
    let moved = {
        let all = async {
            let mut group = work.group;
            for one in &work.moves {
                group = Box::pin(disks.run(group, &one.name, &progress)).await?;
            }
            Ok::<_, PvmoveError>(group)
        };
        let mut all = pin!(all);
        loop {
            match clock::timeout(TICK, all.as_mut()).await {
                Ok(moved) => break Some(moved),
                Err(_) if interrupt.came() => break None,
                Err(_) => {
                    let counts = progress.counts();
                    bar.set_position(counts.written + counts.zeroed + counts.kept);
                }
            }
        }
    };
    bar.finish_and_clear();
    let resume = "nothing is lost: outboard volume move without --from goes on, --abort ends it";
    match moved {
        Some(Ok(group)) => Ok(group),
        Some(Err(error)) => Err(Failure::from_error(&error).next(resume)),
        None => {
            for (_, disk) in disks.members.values() {
                drop(clock::timeout(SETTLE_TIMEOUT, disk.settle()).await);
            }
            Err(Failure::new("interrupted").next(resume))
        }
    }
}

/// A progress bar of so many bytes.
pub(super) fn bar(total: u64) -> ProgressBar {
    let template = "moving {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    let bar = ProgressBar::new(total).with_finish(ProgressFinish::AndClear);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Ends all moves where they are.
async fn abort(
    open: &OpenGroup,
    mut edit: GroupEdit,
    begun: &[ExtentMove],
    args: &Args,
) -> Result<ChangeReport, Failure> {
    if begun.is_empty() {
        let group = &args.path.group;
        return Err(Failure::new(format!("no move of {group} was interrupted")));
    }
    let (_, summary) = aborted(&mut edit, begun, args, &open.names())?;
    Box::pin(open.commit(edit, summary, &args.options)).await
}

/// Ends the moves in the group; returns what it is then, and the line about it.
pub(super) fn aborted(
    edit: &mut GroupEdit,
    begun: &[ExtentMove],
    args: &Args,
    names: &DiskNames,
) -> Result<(VolumeGroup, String), Failure> {
    for one in begun {
        let aborted = edit.end_move(&one.name);
        aborted.map_err(|error| refused(error, names))?;
    }
    let moved = begun.iter().map(ExtentMove::extents_moved).sum();
    let left: u64 = begun.iter().map(ExtentMove::extents).sum::<u64>() - moved;
    let extent = edit.group().extent;
    let group = &args.path.group;
    let summary = format!(
        "{group}: the move is ended; {} stay where they were, {} are moved",
        in_words(left, extent),
        in_words(moved, extent)
    );
    Ok((edit.group().clone(), summary))
}

pub(super) fn summary(group: &str, moves: &[ExtentMove], names: &DiskNames, extent: u64) -> String {
    let extents = moves.iter().map(ExtentMove::extents).sum();
    let sources: Vec<String> = moves.iter().map(|one| source(one, names)).collect();
    let (sources, extents) = (sources.join(" and "), in_words(extents, extent));
    format!("{group}: {extents} moved away from {sources}")
}

/// What the disk is called that a move is away from.
fn source(one: &ExtentMove, names: &DiskNames) -> String {
    let member = one.source().unwrap_or_default();
    names.get(member).map_or(member, String::as_str).to_owned()
}

fn refuse_second(begun: &[ExtentMove], names: &DiskNames, args: &Args) -> Failure {
    let sources: Vec<String> = begun.iter().map(|one| source(one, names)).collect();
    let sources = sources.join(" and ");
    let (group, disks) = match args.disks.is_empty() {
        true => (&args.path.group, ""),
        false => (&args.path.group, " DISK…"),
    };
    let failure = Failure::new(format!("a move away from {sources} was interrupted"));
    failure.next(format!(
        "outboard volume move {group}{disks} without --from finishes it, --abort ends it"
    ))
}
