//! Doing one thing with an array, wherever it is, waiting for what that begins, and reporting how it is then.

use nodes::array::Array;
use nodes::array::format::Level;

use super::offline::Offline;
use super::progress::{Bar, TICK};
use super::target::{ArrayArgs, ArrayTarget, Served, lasting};
use super::words;
use crate::arrays::report::{ArrayReport, SyncOperation};
use crate::arrays::show;
use crate::commands::inspect::{on_the_engine, unnamed};
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{self, Format};

/// Whether a command waits for the work in the background that it begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::Args)]
pub(super) struct Waits {
    /// An array that a server runs: wait until the work in the background is done
    #[arg(long, conflicts_with = "no_wait")]
    pub(super) wait: bool,

    /// Given members: leave the work to the next open of the array
    #[arg(long)]
    pub(super) no_wait: bool,
}

impl Waits {
    /// The work is left to the process that has the array.
    pub(super) const NOT: Self = Self {
        wait: false,
        no_wait: true,
    };
}

/// What is done with an array.
pub(super) trait Change {
    /// It, with an array that is so; `None`: nothing but to wait. `whose`: which process opens disks.
    fn step(&self, report: &ArrayReport, whose: Whose) -> Result<Option<ArrayStep>, Failure>;

    /// The level that the array is to have.
    fn wanted_level(&self) -> Option<Level> {
        None
    }

    /// The level that an array which is so gets while no process has it open, instead of a step.
    fn level_of_members(&self, _: &ArrayReport) -> Result<Option<Level>, Failure> {
        Ok(None)
    }
}

/// The process that does it, and opens the disks that are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Another process, which may run in another folder.
    Server,
    /// This one.
    Own,
}

impl Whose {
    /// A disk in words that it understands.
    pub(super) fn disk(self, text: &str) -> Result<String, Failure> {
        match self {
            Self::Server => lasting(text),
            Self::Own => Ok(unnamed(text)?.text),
        }
    }
}

/// Does `change`, and prints how the array is then.
pub(super) fn apply(
    array: &ArrayArgs,
    change: &impl Change,
    waits: Waits,
    format: Format,
) -> Result<(), Failure> {
    let report = match array.find()? {
        ArrayTarget::Served(mut served) => {
            let before = served.report.clone();
            if let Some(step) = change.step(&before, Whose::Server)? {
                served.ask(step)?;
            }
            report_new_members(&before, &served.report);
            report_dropped_logs(&before, &served.report);
            if waits.wait {
                wait_for_server(&mut served)?;
            }
            if let Some(level) = change.wanted_level() {
                report_later_level(&mut served, level, waits.wait)?;
            }
            // An array that is reshaped first releases its disks when that has ended.
            report_released(&before, &served.report);
            served.report
        }
        ArrayTarget::Members(members) => {
            let interrupt = Interrupt::watch()?;
            on_the_engine(async || {
                let mut offline = Box::pin(Offline::open(&members, &array.how, true)).await?;
                let level = change.level_of_members(&offline.report())?;
                if let Some(level) = level {
                    offline = Box::pin(offline.change_level(&members, &array.how, level)).await?;
                }
                let done = async {
                    if level.is_none()
                        && let Some(step) = change.step(&offline.report(), Whose::Own)?
                    {
                        offline.apply(step).await?;
                    }
                    match waits.no_wait {
                        false => wait_here(offline.array(), &interrupt).await,
                        true => Ok(()),
                    }
                };
                let done = Box::pin(done).await;
                offline.close(done).await
            })?
        }
    };
    format.print(&report, || show::tree(&report))
}

/// The next start must name members that came, where it is written what is served.
fn report_new_members(before: &ArrayReport, now: &ArrayReport) {
    if let Some(disk) = show::with_newcomers(before, now) {
        let name = now.short_name();
        let export = now.export.as_deref().unwrap_or_default();
        output::remark(&format!(
            "{name} has other members now: the next start of {export} needs {disk}"
        ));
    }
}

/// A level that an array gets once a reshape has ended: waits until it has it, or says so.
fn report_later_level(served: &mut Served, level: Level, waits: bool) -> Result<(), Failure> {
    let has_level =
        |report: &ArrayReport| words::level(&report.level).is_ok_and(|now| now == level);
    let name = served.report.short_name().to_owned();
    if !waits {
        if !has_level(&served.report) {
            output::remark(&format!(
                "{name} becomes {level}, and releases a disk, when parity has been moved to its last member: outboard array wait"
            ));
        }
        return Ok(());
    }
    for _ in 0..LEVEL_LOOKS_MAX {
        if has_level(&served.report) {
            return Ok(());
        }
        std::thread::sleep(TICK);
        served.look()?;
    }
    let next = "the log of the server says why; then grow it again";
    Err(Failure::new(format!("{name} is not {level}")).next(next))
}

/// What an array that became a stripe has no more: disks, which the next start must not name, and a bitmap.
fn report_released(before: &ArrayReport, now: &ArrayReport) {
    if before.level == now.level
        || !words::level(&now.level).is_ok_and(|level| level == Level::Raid0)
    {
        return;
    }
    let (name, level) = (now.short_name(), &now.level);
    if before.bitmap.is_some() {
        output::remark(&format!("{name} ({level}) keeps no bitmap from now on"));
    }
    let names = |report: &ArrayReport| -> Vec<String> {
        report
            .members
            .iter()
            .map(|member| member.name.clone())
            .collect()
    };
    let left = names(now);
    let export = now.export.as_deref().unwrap_or_default();
    for released in names(before).iter().filter(|name| !left.contains(name)) {
        output::remark(&format!(
            "{released} is no member of {name} any more: the next start of {export} needs array({})",
            left.join(", ")
        ));
    }
}

/// Partial parity logs that members keep no more are in the log of the server: the user of the command may not see that.
fn report_dropped_logs(before: &ArrayReport, now: &ArrayReport) {
    if !before.ppl || now.ppl {
        return;
    }
    let (name, level) = (now.short_name(), &now.level);
    let is_reshaping = now
        .sync
        .as_ref()
        .is_some_and(|sync| sync.kind == SyncOperation::Reshape);
    output::remark(&match is_reshaping {
        true => format!(
            "{name} ({level}) keeps no partial parity logs until the reshape has ended: after a power cut all parity is computed again, \
             and an array that lacks a member too is refused"
        ),
        false => format!("{name} ({level}) keeps no partial parity logs from now on"),
    });
}

/// Looks at an array that was reshaped before it gets its level.
const LEVEL_LOOKS_MAX: u32 = 300;

/// Looks at a spare that does not begin to take a missing part's place, before that is given up: it may
/// be too small for it.
const SPARE_LOOKS_MAX: u32 = 50;

/// Waits until nothing is done in the background of an array that a server runs.
pub(super) fn wait_for_server(served: &mut Served) -> Result<(), Failure> {
    let interrupt = Interrupt::watch()?;
    let bar = Bar::new();
    let mut spare_looks = 0;
    loop {
        served.look()?;
        let waits = served.report.is_about_to_recover() && spare_looks < SPARE_LOOKS_MAX;
        if !served.report.is_busy() && !waits {
            return Ok(());
        }
        spare_looks += u32::from(!served.report.is_busy());
        if interrupt.came() {
            drop(bar);
            return Err(Failure::new("interrupted").next("the server goes on with it"));
        }
        bar.show(&served.report);
        std::thread::sleep(TICK);
    }
}

/// The same for one that is open here.
pub(super) async fn wait_here(array: &Array, interrupt: &Interrupt) -> Result<(), Failure> {
    let bar = Bar::new();
    let mut synced = std::pin::pin!(array.synced());
    loop {
        if let Ok(done) = engine::clock::timeout(TICK, synced.as_mut()).await {
            return done.map_err(Failure::from);
        }
        if interrupt.came() {
            drop(bar);
            let next = "it goes on from there when the array is opened next";
            return Err(Failure::new("interrupted").next(next));
        }
        bar.show(&ArrayReport::of(None, &array.status()));
    }
}
