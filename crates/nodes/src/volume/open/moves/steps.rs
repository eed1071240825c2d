//! The steps of a move: copied, recorded, switched to.

use super::super::VolumeSet;
use super::super::change::OpenChangeError;
use super::super::segments::OpenParts;
use super::live_move::LiveMove;
use super::places::{MemberRange, StepPart};
use crate::volume::edit::{EditError, GroupEdit, MoveSegment};
use crate::volume::movable::{CopyPace, OldPlace, Place, RelocateError};

/// How a step ended.
pub(super) enum StepEnd {
    Moved(Vec<OldPlace>),
    Interrupted,
}

/// Why a step was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    #[error(transparent)]
    Change(#[from] OpenChangeError),
    #[error("{disk} cannot be read: {source}")]
    Read { disk: String, source: RelocateError },
    #[error("{disk} cannot be written: {source}")]
    Write { disk: String, source: RelocateError },
    #[error("{disk} did not take the metadata, others did: {source}")]
    Metadata {
        disk: String,
        source: block::IoError,
    },
}

/// One step of a move.
struct MoveStep<'a> {
    /// The volume that describes the move.
    name: &'a str,
    segment: &'a MoveSegment,
    is_last: bool,
}

impl VolumeSet {
    /// Whether all is moved.
    pub(super) async fn run_steps(
        &self,
        live: &LiveMove,
        pace: &mut CopyPace,
        old: &mut Vec<OldPlace>,
    ) -> Result<bool, StepError> {
        for name in &live.names {
            loop {
                let moves = GroupEdit::open(self.group().group.clone())
                    .and_then(|edit| edit.moves())
                    .map_err(OpenChangeError::from)?;
                let Some(one) = moves.into_iter().find(|one| one.name == *name) else {
                    break;
                };
                let mut left = one.segments.iter().filter(|segment| !segment.moved);
                let Some(segment) = left.next() else {
                    self.write_step(live, |edit| edit.end_move(name)).await?;
                    break;
                };
                let is_last = left.next().is_none();
                let step = MoveStep {
                    name,
                    segment,
                    is_last,
                };
                match self.run_step(live, pace, &step).await? {
                    StepEnd::Moved(places) => old.extend(places),
                    StepEnd::Interrupted => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    async fn run_step(
        &self,
        live: &LiveMove,
        pace: &mut CopyPace,
        step: &MoveStep<'_>,
    ) -> Result<StepEnd, StepError> {
        let (from, to, parts) = self.check_step(step.segment)?;
        let copied = self.copy_step(live, pace, (&from, &to), &parts).await;
        if !matches!(copied, Ok(true)) {
            cancel(&parts).await;
            return copied.map(|_| StepEnd::Interrupted);
        }
        let MoveStep {
            name,
            segment,
            is_last,
        } = *step;
        let written = self.write_step(live, |edit| {
            edit.set_moved(name, segment.start)?;
            match is_last {
                true => edit.end_move(name),
                false => Ok(()),
            }
        });
        match written.await {
            // Either text may count: both places take every change from here on.
            Err(error @ StepError::Change(OpenChangeError::Unfinished(_))) => Err(error),
            Err(error @ StepError::Change(_)) => {
                cancel(&parts).await;
                Err(error)
            }
            written => {
                let mut old = Vec::new();
                for (disk, ..) in &parts {
                    old.extend(disk.switch().await);
                }
                written.map(|()| StepEnd::Moved(old))
            }
        }
    }

    /// Whether all of a step is at its new place, durably, which takes every change from here on.
    async fn copy_step(
        &self,
        live: &LiveMove,
        pace: &mut CopyPace,
        (from, to): (&MemberRange, &MemberRange),
        parts: &[StepPart],
    ) -> Result<bool, StepError> {
        let failed = |source: RelocateError| match source {
            RelocateError::Read(_) | RelocateError::Settle(_) => StepError::Read {
                disk: from.name.clone(),
                source,
            },
            RelocateError::Write(_) | RelocateError::Cancelled => StepError::Write {
                disk: to.name.clone(),
                source,
            },
        };
        for (disk, range, below) in parts {
            let offset = to.range.offset + (below - from.range.offset);
            let target = Place::new(to.disk.clone(), to.member, offset);
            disk.begin(*range, target).await.map_err(failed)?;
        }
        for (disk, ..) in parts {
            let copied = disk.copy(pace, &live.copied, || live.goes_on()).await;
            if !copied.map_err(failed)? {
                return Ok(false);
            }
        }
        for (disk, ..) in parts {
            disk.require_target().await.map_err(failed)?;
        }
        Ok(true)
    }

    /// Writes a text of a move.
    pub(super) async fn write_step(
        &self,
        live: &LiveMove,
        change: impl FnOnce(&mut GroupEdit) -> Result<(), EditError>,
    ) -> Result<(), StepError> {
        let mut parts = self.parts.lock().await;
        let mut edit =
            GroupEdit::open(self.group().group.clone()).map_err(OpenChangeError::from)?;
        change(&mut edit).map_err(OpenChangeError::from)?;
        let mut report = self
            .write_edit(edit, &live.options.stamp, &mut parts)
            .await?;
        self.forget_ended(live, &mut parts);
        match report.failed.pop() {
            None => Ok(()),
            Some(failed) => Err(StepError::Metadata {
                disk: failed.name,
                source: failed.source,
            }),
        }
    }

    /// Forgets the volumes that described moves which have ended: their names may be used again.
    fn forget_ended(&self, live: &LiveMove, parts: &mut OpenParts) {
        let group = self.group();
        for name in &live.names {
            if group.group.volume(name).is_none() {
                parts.forget(name);
            }
        }
    }
}

async fn cancel(parts: &[StepPart]) {
    for (disk, ..) in parts {
        if let Err(error) = disk.cancel().await {
            tracing::warn!("writes that were cancelled where extents were moved to: {error}");
        }
    }
}
