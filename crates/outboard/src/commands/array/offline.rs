//! [`Offline`]: an array that no process runs, opened from its members for the time of a command.
//!
//! # Invariants
//!
//! * Its members are locked meanwhile: no other process writes them.
//! * However the command ends, it is stopped before that: its members are marked clean.

use std::path::PathBuf;
use std::sync::Arc;

use nodes::array::format::Level;
use nodes::array::{Array, ArrayOptions, Candidate, open};

use super::target::{How, servers};
use crate::arrays::backup_file::BackupPath;
use crate::arrays::change::{self, OpenClaims, Opener};
use crate::arrays::report::ArrayReport;
use crate::arrays::{show, stop_one, stop_opened};
use crate::commands::inspect::unnamed;
use crate::control::client::statuses;
use crate::control::{ArrayStep, place};
use crate::failure::Failure;
use crate::graph::NamedDisk;
use crate::graph::builder::{BuildError, Builder};
use crate::output;

/// What stands for a part without a member.
pub(super) const MISSING: &str = "missing";

/// An array that is open here.
#[derive(Debug)]
pub(super) struct Offline {
    array: Arc<Array>,
    writable: bool,
    beside: Beside,
    /// Arrays among its members.
    below: Vec<Arc<Array>>,
}

impl Offline {
    /// Opens the array of these members.
    pub(super) async fn open(
        members: &[String],
        how: &How,
        writable: bool,
    ) -> Result<Self, Failure> {
        let mut builder = Builder::new(!writable);
        let (candidates, options) =
            Box::pin(candidates(&mut builder, members, how, writable)).await?;
        let array = open(candidates, options).await.map_err(|error| {
            if let Some(next) = error.next() {
                // It is written for expressions.
                let next = next.replace("run=true", "--run");
                let next = next.replace("prefer=", "--prefer ");
                return Failure::from_error(&error).next(next);
            }
            let failure = Failure::from(error);
            let all = members.join(" ");
            failure.next(format!(
                "outboard inspect {all} shows the superblock of each"
            ))
        })?;
        Ok(Self {
            array,
            writable,
            below: builder.arrays().to_vec(),
            beside: Beside(OpenClaims::by(builder)),
        })
    }

    /// The array.
    pub(super) fn array(&self) -> &Array {
        &self.array
    }

    /// How it is.
    pub(super) fn report(&self) -> ArrayReport {
        ArrayReport::of(None, &self.array.status())
    }

    /// Does something with it.
    pub(super) async fn apply(&mut self, step: ArrayStep) -> Result<(), Failure> {
        change::apply(&self.array, step, &mut self.beside).await
    }

    /// Stops it, gives it another level by its superblocks, and opens it again: without members that were released.
    pub(super) async fn change_level(
        self,
        members: &[String],
        how: &How,
        level: Level,
    ) -> Result<Self, Failure> {
        self.close(Ok(())).await?;
        let mut builder = Builder::new(false);
        let (candidates, options) = Box::pin(candidates(&mut builder, members, how, true)).await?;
        let changed = nodes::array::change_level(candidates, &options, level).await?;
        drop(builder);
        if let Some(what) = changed.dropped {
            output::remark(&format!(
                "members keep no {what} any more: {level} has none"
            ));
        }
        for name in &changed.released {
            output::remark(&format!("{name} is no member of the array any more"));
        }
        let is_left = |text: &&String| {
            let named = unnamed(text).map(|named| named.text);
            !named.is_ok_and(|name| changed.released.contains(&name))
        };
        let left: Vec<String> = members.iter().filter(is_left).cloned().collect();
        Self::open(&left, how, true).await
    }

    /// Stops it, and reports how it was at last if what was done with it went well.
    pub(super) async fn close(self, done: Result<(), Failure>) -> Result<ArrayReport, Failure> {
        let stopped = match self.writable {
            true => {
                let stopped = stop_one(&self.array).await;
                stopped.and(stop_opened(&self.below).await)
            }
            false => Ok(()),
        };
        let report = self.report();
        match (done, stopped) {
            (Ok(()), Ok(())) => Ok(report),
            (Ok(()), Err(why)) => Err(Failure::new(why)),
            (Err(failure), Ok(())) => Err(failure),
            (Err(failure), Err(why)) => {
                tracing::error!("{why}; {}", show::health(&report));
                Err(failure)
            }
        }
    }
}

/// Opens members in addition to those that it has, and names the process that has one that cannot be opened.
#[derive(Debug)]
struct Beside(OpenClaims);

impl Opener for Beside {
    async fn open(&mut self, disk: &NamedDisk) -> Result<Candidate, Failure> {
        let candidate = self.0.candidate(disk).await;
        candidate.map_err(|error| in_use(error, disk))
    }
}

/// The members as candidates, and how their array is opened.
async fn candidates(
    builder: &mut Builder,
    members: &[String],
    how: &How,
    writable: bool,
) -> Result<(Vec<Candidate>, ArrayOptions), Failure> {
    let prefer = how
        .prefer
        .as_ref()
        .map(|side| preferred(members, side))
        .transpose()?;
    let mut candidates = Vec::with_capacity(members.len());
    for text in members.iter().filter(|text| *text != MISSING) {
        candidates.push(Box::pin(candidate(builder, text)).await?);
    }
    let backup = how.backup_file.as_deref().map(BackupPath::of);
    let options = ArrayOptions {
        read_only: !writable,
        // To look at what is left does no harm.
        run: how.run || !writable,
        missing: members.len() - candidates.len(),
        force_dirty_degraded: !writable,
        backup: backup.transpose()?,
        prefer,
        ..ArrayOptions::default()
    };
    Ok((candidates, options))
}

/// Which of the members `--prefer` names.
fn preferred(members: &[String], side: &str) -> Result<usize, Failure> {
    let mut here = members.iter().filter(|text| *text != MISSING);
    let at = here.position(|member| member == side);
    at.ok_or_else(|| {
        let what = format!("--prefer {side}: it is none of the members");
        Failure::usage(what).next(format!(
            "write one of {} as it stands there",
            members.join(", ")
        ))
    })
}

/// Opens a disk that is, or shall be, a member.
pub(super) async fn candidate(builder: &mut Builder, text: &str) -> Result<Candidate, Failure> {
    let named = unnamed(text)?;
    let candidate = builder.candidate(&named).await;
    candidate.map_err(|error| in_use(error, &named))
}

/// Says how an array can be reached with a member that a server here has, or an attachment.
fn in_use(error: BuildError, named: &NamedDisk) -> Failure {
    let Some(process) = error.in_use_by() else {
        return error.into();
    };
    let mut statuses = statuses().into_iter();
    let server = statuses.find(|server| server.process == process);
    let arrays = server.map_or_else(|| attached(process), |server| server.arrays);
    if arrays.is_empty() {
        return error.into();
    }
    let names: Vec<&str> = arrays.iter().map(ArrayReport::short_name).collect();
    let what = format!("{} is in use: process {process} runs its array", named.text);
    let names = names.join(", ");
    Failure::new(what).next(format!("name the array instead of its members: {names}"))
}

/// The arrays below a disk that this process has attached.
fn attached(process: u32) -> Vec<ArrayReport> {
    let own = format!("attached-{process}");
    let servers = servers(&How::default()).unwrap_or_default().into_iter();
    let of = |(socket, arrays): (PathBuf, _)| (place::name(&socket) == own).then_some(arrays);
    servers.filter_map(of).next().unwrap_or_default()
}
