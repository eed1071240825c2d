//! Commits: what members must know, written to all of them at once for all tasks that wait for it.
//!
//! # Invariants
//!
//! * A superblock of a remote member is read, and compared with what was written last, before anything of the commit is
//!   written: where it is not ours no member is written, and the next commit goes without that member.
//! * There is one commit at a time. A task of the array drives it next to the tasks that wait: where the futures of users are
//!   dropped, or not polled for long, it goes on all the same, and no member times out because its answer was not polled.
//! * It ends with the array: another process that opens the members next finds nothing of it in flight.
//! * It ends under the lock of the state, before any task that waits for it goes on.
//! * Superblocks 0.90 have several sectors, and a cut of the power may leave one half written: one is written after the
//!   other, so that this befalls one member at most.

use std::pin::Pin;

use block::{IoError, IoFuture, Operation, Range, WriteFlags};
use bytes::Bytes;
use futures_util::future::{FutureExt, Shared, join_all};
use tokio::task::JoinHandle;

use super::super::external_input::seconds;
use super::bits::Page;
use super::members::Target;
use super::plan::{CommitTarget, Outcome, Plan};
use super::state::State;
use super::{Guarded, RedundantArray};

/// What a commit ends with, for all tasks that wait.
type Commit = Shared<Pin<Box<dyn Future<Output = Result<(), IoError>> + Send>>>;

/// A commit that is under way, and the task that drives it until this is dropped.
#[derive(Debug)]
pub(super) struct Driven {
    commit: Commit,
    task: JoinHandle<()>,
}

impl Driven {
    fn new(run: impl Future<Output = Result<(), IoError>> + Send + 'static) -> Self {
        let commit = (Box::pin(run) as Pin<Box<dyn Future<Output = _> + Send>>).shared();
        let task = engine::spawn(commit.clone().map(drop));
        Self { commit, task }
    }

    /// The commit, to be waited for.
    pub(super) fn wait(&self) -> Commit {
        self.commit.clone()
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RedundantArray {
    /// Waits until `enough` is true, carrying out commits until then.
    ///
    /// # Errors
    /// A member that cannot be failed does not take what it must know.
    pub(super) async fn record(&self, enough: impl Fn(&State) -> bool) -> Result<(), IoError> {
        loop {
            self.fence.check(Operation::Write, None)?;
            let commit = {
                let mut guarded = self.lock();
                if enough(&guarded.state) {
                    return Ok(());
                }
                self.commit(&mut guarded)
            };
            commit.await?;
        }
    }

    /// Carries out commits until members know everything.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub(super) async fn record_all(&self) -> Result<(), IoError> {
        self.record(|state| !state.must_commit() && state.is_recorded())
            .await
    }

    /// Carries out commits until superblocks say which members failed, and which were missing when the array was opened: before what
    /// they lack is forgotten.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub(super) async fn record_missing(&self) -> Result<(), IoError> {
        self.lock().state.note_missing();
        self.record(State::is_recorded).await
    }

    /// Carries out commits until members know everything that is pending now. What others change meanwhile is theirs to
    /// wait for: under a steady load something is always pending.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub(super) async fn record_pending(&self) -> Result<(), IoError> {
        let begun = self.lock().state.ledger.commits_begun();
        self.record(|state| {
            let is_covered = state.ledger.is_durable_since(begun) || !state.must_commit();
            is_covered && state.is_recorded()
        })
        .await
    }

    /// The commit that is under way, or one that begins.
    fn commit(&self, guarded: &mut Guarded) -> Commit {
        if let Some(commit) = &guarded.commit {
            return commit.wait();
        }
        assert!(
            guarded.state.must_commit(),
            "a commit is awaited only for what one writes"
        );
        let plan = guarded.state.plan(seconds());
        let array = self.own.clone();
        let run = async move {
            let outcome = carry_out(&plan).await;
            // The array was dropped: no task waits.
            let Some(array) = array.upgrade() else {
                return Ok(());
            };
            array.committed(&plan, outcome)
        };
        guarded.commit.insert(Driven::new(run)).wait()
    }

    fn committed(&self, plan: &Plan, outcome: Outcome) -> Result<(), IoError> {
        let mut guarded = self.lock();
        let (failed, result) = guarded.state.committed(&plan.after, outcome);
        let commit = guarded.commit.take();
        drop(guarded);
        drop(commit);
        for (slot, why) in failed {
            self.report_failed(slot, &why);
        }
        self.work.notify_waiters();
        result.map_err(|error| {
            let why = format!("the array's superblocks and bitmap cannot be written: {error}");
            IoError::new(error.errno, Operation::Write, None).because(why)
        })
    }
}

async fn carry_out(plan: &Plan) -> Outcome {
    let mut outcome = Outcome::default();
    let target = plan
        .members
        .iter()
        .filter(|target| target.superblock.is_some());
    each(target, &mut outcome, |target| {
        Box::pin(target.target.verify())
    })
    .await;
    if !outcome.failures.is_empty() {
        outcome.cancelled = true;
        return outcome;
    }
    if plan.flush_first {
        let holders = plan.members.iter().filter(|target| target.holds);
        each(holders, &mut outcome, |target| {
            Box::pin(target.target.flush())
        })
        .await;
        if !outcome.failures.is_empty() {
            outcome.cancelled = true;
            return outcome;
        }
    }
    let behind = plan
        .members
        .iter()
        .filter(|target| target.catch_up.is_some());
    in_turn(behind, &mut outcome, |target| {
        write_image(target, target.catch_up.as_ref())
    })
    .await;
    if !outcome.failures.is_empty() {
        outcome.cancelled = true;
        return outcome;
    }
    if !plan.pages.is_empty() {
        let runs = runs(&plan.pages);
        let holders = plan
            .members
            .iter()
            .filter(|target| target.bitmap_at.is_some());
        each(holders, &mut outcome, |target| write_bitmap(target, &runs)).await;
    }
    let failed: Vec<_> = outcome.failures.iter().map(|(slot, _)| *slot).collect();
    let left = plan
        .members
        .iter()
        .filter(|target| !failed.contains(&target.target.slot));
    if plan.one_by_one {
        in_turn(left, &mut outcome, write_superblock).await;
    } else if plan.holders_first {
        let (holders, others): (Vec<_>, Vec<_>) = left.partition(|target| target.holds);
        let (count, before) = (holders.len(), outcome.failures.len());
        each(holders.into_iter(), &mut outcome, write_superblock).await;
        if outcome.failures.len() - before < count {
            each(others.into_iter(), &mut outcome, write_superblock).await;
        }
    } else {
        each(left, &mut outcome, write_superblock).await;
    }
    outcome
}

/// Does the same for many members at once.
async fn each<'a>(
    members: impl Iterator<Item = &'a CommitTarget>,
    outcome: &mut Outcome,
    each: impl Fn(&'a CommitTarget) -> IoFuture<'a, ()>,
) {
    let (slots, requests): (Vec<_>, Vec<_>) = members
        .map(|target| (target.target.slot, each(target)))
        .unzip();
    for (slot, answer) in slots.into_iter().zip(join_all(requests).await) {
        outcome
            .failures
            .extend(answer.err().map(|error| (slot, error)));
    }
}

/// Does the same for members, one after the other.
async fn in_turn<'a>(
    members: impl Iterator<Item = &'a CommitTarget>,
    outcome: &mut Outcome,
    act: impl Fn(&'a CommitTarget) -> IoFuture<'a, ()>,
) {
    for member in members {
        each(std::iter::once(member), outcome, &act).await;
    }
}

/// Pages that follow each other, together.
fn runs(pages: &[Page]) -> Vec<(u64, Bytes)> {
    let mut runs: Vec<(usize, Vec<u8>)> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((at, bytes)) if *at + bytes.len() == page.at => bytes.extend(&page.bytes),
            _ => runs.push((page.at, page.bytes.clone())),
        }
    }
    let runs = runs.into_iter();
    runs.map(|(at, bytes)| (at as u64, bytes.into())).collect()
}

fn write_bitmap<'a>(target: &'a CommitTarget, runs: &'a [(u64, Bytes)]) -> IoFuture<'a, ()> {
    Box::pin(async move {
        let start = target.bitmap_at.expect("asked for where there is one");
        for (at, bytes) in runs {
            let place = Range::new(start + at, bytes.len() as u64);
            write(&target.target, place, bytes.clone()).await?;
        }
        Ok(())
    })
}

fn write_superblock(target: &CommitTarget) -> IoFuture<'_, ()> {
    Box::pin(async move {
        // The log first: the superblock says whether it has entries.
        if let Some((place, bytes)) = &target.log {
            write(&target.target, *place, bytes.clone()).await?;
        }
        write_image(target, target.superblock.as_ref()).await
    })
}

fn write_image<'a>(
    target: &'a CommitTarget,
    image: Option<&'a (Range, Bytes)>,
) -> IoFuture<'a, ()> {
    Box::pin(async move {
        match image {
            Some((place, bytes)) => target.target.write_superblock(*place, bytes.clone()).await,
            None => Ok(()),
        }
    })
}

/// Writes something durably.
async fn write(target: &Target, place: Range, bytes: Bytes) -> Result<(), IoError> {
    let data = std::iter::once(bytes).collect();
    target.write_at(place, data, WriteFlags::FUA).await
}
