//! `outboard volume move` without disks: the server that has the group open moves its extents, while clients read and write.
//!
//! # Invariants
//!
//! * The move is planned here, from the server's metadata, and the server begins it only if these are still the same.
//! * The backup is written here before the server gets the request.
//! * The command only watches: its end is not that of the move.

use nodes::volume::edit::{ExtentMove, GroupEdit};

use super::backup;
use super::change::{self, ChangeReport, host, parsed, stamp};
use super::move_extents::{Args, aborted, bar, begin_with, check_resume, ended, summary};
use super::open_group::refused;
use super::report::GroupReport;
use super::snapshot::target::{self, ServedTarget};
use crate::commands::reload::unexpected_answer;
use crate::control::{ControlAnswer, ControlRequest, MoveChanged, MoveExtents, MoveStep};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::volume_moves::report::{MoveProgress, MoveReport};

/// Time between two looks.
const TICK: std::time::Duration = std::time::Duration::from_millis(100);

/// Has the server of the group move extents, and waits for the end.
pub(super) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let interrupt = Interrupt::watch()?;
    let target = target::find(&args.path.group, &args.server)?;
    let names = target.names();
    let mut edit = target.edit()?;
    let unmoved = |error| refused(error, names);
    let begun = edit.moves().map_err(unmoved)?;
    let step = match args.abort {
        true if begun.is_empty() => return Err(nothing_to_end(args)),
        true => MoveStep::Abort,
        false => plan(&target, &mut edit, &begun, args)?,
    };
    let moves = edit.moves().map_err(unmoved)?;
    let (after, summary) = match args.abort {
        true => aborted(&mut edit, &begun, args, names)?,
        false => (
            ended(&edit, &moves).map_err(unmoved)?,
            summary(&args.path.group, &moves, names, edit.group().extent),
        ),
    };
    let mut report = ChangeReport {
        summary,
        dry_run: args.options.dry_run,
        before: Some(GroupReport::of(target.group(), names)),
        after: GroupReport::of(&after, names),
        backup: None,
        failed: Vec::new(),
    };
    if !args.options.dry_run {
        let text = target.group().text.print();
        let directory = args.options.backup.as_deref();
        report.backup = Some(backup::write(directory, target.group(), &text)?);
        let mut changed = request(&target, step)?;
        if !args.abort {
            wait(&target, &interrupt)?;
            changed.text = target.reread()?;
        } else if let Some(last) = changed.report.filter(|one| one.state == MoveProgress::Done) {
            // It was done before it could be ended.
            report.summary = last.line();
        }
        report.after = GroupReport::of(&parsed(&changed.text)?, names);
    }
    change::print(&report, format)
}

/// Plans the move here, as the server will.
fn plan(
    target: &ServedTarget,
    edit: &mut GroupEdit,
    begun: &[ExtentMove],
    args: &Args,
) -> Result<MoveStep, Failure> {
    let from = target.member_names(args.from.as_slice())?.pop();
    let to = target.member_names(&args.to)?;
    let bytes_per_second = args.max_rate.map(|rate| rate.0);
    if !begun.is_empty() {
        check_resume(begun, from, target.names(), args)?;
        return Ok(MoveStep::Resume { bytes_per_second });
    }
    let request = begin_with(edit, from, to, args, target.names())?;
    Ok(MoveStep::Begin {
        from: request.from,
        to: request.to,
        volume: request.volume,
        id: request.id,
        bytes_per_second,
    })
}

fn nothing_to_end(args: &Args) -> Failure {
    let group = &args.path.group;
    Failure::new(format!("no move of {group} is running or was interrupted"))
}

fn request(target: &ServedTarget, step: MoveStep) -> Result<MoveChanged, Failure> {
    let stamp = stamp();
    let request = MoveExtents {
        group: target.group().id.clone(),
        sequence: target.group().sequence,
        step,
        seconds: stamp.seconds,
        host: host(),
        description: stamp.description,
    };
    match target.request(ControlRequest::MoveExtents(request))? {
        ControlAnswer::MoveExtents(changed) => Ok(*changed),
        _ => Err(unexpected_answer()),
    }
}

/// Shows how far the move is until it has ended.
fn wait(target: &ServedTarget, interrupt: &Interrupt) -> Result<(), Failure> {
    let group = &target.group().name;
    let bar = bar(0);
    let resume = format!("outboard volume move {group} without --from resumes it, --abort ends it");
    loop {
        let report = last_move(target)?;
        bar.set_length(report.bytes);
        bar.set_position(report.copied);
        match report.state {
            MoveProgress::Running if interrupt.came() => {
                drop(bar);
                return Err(Failure::new("interrupted").next(format!(
                    "the server goes on with it: outboard volume move {group} --abort ends it"
                )));
            }
            MoveProgress::Running => std::thread::sleep(TICK),
            MoveProgress::Done => return Ok(()),
            MoveProgress::Aborted => {
                return Err(Failure::new(report.line()).next("another command has ended it"));
            }
            MoveProgress::Stopped => return Err(Failure::new(report.line()).next(resume)),
            MoveProgress::Failed => return Err(Failure::new(report.line())),
        }
    }
}

fn last_move(target: &ServedTarget) -> Result<MoveReport, Failure> {
    let ControlAnswer::Moves(moves) = target.request(ControlRequest::Moves)? else {
        return Err(unexpected_answer());
    };
    let group = &target.group().name;
    let mut moves = moves.into_iter();
    let found = moves.find(|report| report.group == *group);
    found.ok_or_else(|| Failure::new(format!("the server does not know the move of {group}")))
}
