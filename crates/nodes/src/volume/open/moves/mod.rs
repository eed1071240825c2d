//! Moving extents while their volumes are open.
//!
//! ```text
//! begin    metadata: pvmoveN ─► for each step: copied, and changed at both places
//! step     copied and flushed ─► metadata: moved ─► the new place is read and written
//! end      metadata: no pvmoveN, with the last step ─► nothing reads the old places ─► other changes may have them
//! ```
//!
//! # Invariants
//!
//! * The metadata are those of LVM's pvmove ([`crate::volume::pvmove`]): at each moment the places that they name have every
//!   change that was flushed, so that an interrupted move is resumed or ended by any side.
//! * Where a text may or may not have been written, both places take every change until the volumes are closed.
//! * A place that cannot be read or written ends the move: what was not moved stays where it was.
//! * No other change of the group is made before the old places are read by nothing.
//!
//! # What it does not do
//!
//! It continues no move by itself: a group with an interrupted one is served from the places that have its bytes.

mod live_move;
mod places;
mod steps;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use engine::clock;

use self::live_move::MoveCommand;
pub use self::live_move::{LiveMove, LiveMoveOptions, LiveMoveState};
use self::steps::StepError;
use super::VolumeSet;
use super::change::OpenChangeError;
use super::plan::VolumeUse;
use crate::volume::edit::{EditStamp, ExtentMove, GroupEdit, MoveRequest};
use crate::volume::movable::{CopyPace, OldPlace};

/// Time between two looks whether old places are still read.
const RELEASE_TICK: Duration = Duration::from_millis(20);

impl VolumeSet {
    /// The last move of extents, which may be running.
    #[must_use]
    pub fn last_move(&self) -> Option<Arc<LiveMove>> {
        let last = self.last_move.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn running_move(&self) -> Option<Arc<LiveMove>> {
        let last = self.last_move();
        last.filter(|last| last.state() == LiveMoveState::Running)
    }

    /// Begins a move; without a request the one that was interrupted goes on. The metadata are at change `sequence`. The caller runs
    /// it ([`run_move`](Self::run_move)).
    ///
    /// # Errors
    /// [`OpenChangeError`]: nothing is moved. Unless it is `Unfinished` the metadata are as before.
    pub async fn begin_move(
        &self,
        sequence: u64,
        request: Option<&MoveRequest>,
        options: LiveMoveOptions,
    ) -> Result<Arc<LiveMove>, OpenChangeError> {
        let mut parts = self.parts.lock().await;
        let group = self.group();
        self.check_change(&group, sequence, &parts)?;
        let mut edit = GroupEdit::open(group.group.clone())?;
        if let Some(request) = request {
            edit.begin_move(request)?;
        }
        let moves = edit.moves()?;
        if moves.is_empty() {
            return Err(OpenChangeError::NoMove(group.group.name.clone()));
        }
        // The places of extents are those of volumes that are open.
        for volume in &group.group.volumes {
            let is_moved = |one: &ExtentMove| {
                let after = edit.group().volume(&volume.name);
                after.is_some_and(|after| {
                    let mut areas = after.segments.iter().flat_map(|segment| segment.areas());
                    areas.any(|area| area.on == one.name)
                })
            };
            if moves.iter().any(is_moved) {
                self.open_store_of(&group, &volume.name, &mut parts).await?;
            }
        }
        for segment in moves.iter().flat_map(|one| &one.segments) {
            if !segment.moved {
                self.check_step(segment)?;
            }
        }
        let live = self.live_move(&edit, &moves, options);
        if request.is_some() {
            let report = self
                .write_edit(edit, &live.options.stamp, &mut parts)
                .await?;
            for failed in &report.failed {
                tracing::error!(
                    "{} did not take the metadata: {}",
                    failed.name,
                    failed.source
                );
            }
        }
        parts.is_moving = true;
        let mut last = self
            .last_move
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Some(live.clone());
        Ok(live)
    }

    fn live_move(
        &self,
        edit: &GroupEdit,
        moves: &[ExtentMove],
        options: LiveMoveOptions,
    ) -> Arc<LiveMove> {
        let disk_name = |member: &str| match self.member_index(member) {
            Some(index) => self.disk_name(index),
            None => member.to_owned(),
        };
        let mut to: Vec<String> = Vec::new();
        for segment in moves.iter().flat_map(|one| &one.segments) {
            let name = disk_name(&segment.to.on);
            if !to.contains(&name) {
                to.push(name);
            }
        }
        let group = edit.group();
        let bytes = |count: fn(&ExtentMove) -> u64| group.bytes(moves.iter().map(count).sum());
        let from = moves.first().and_then(ExtentMove::source);
        Arc::new(LiveMove {
            from: from.map_or_else(String::new, disk_name),
            to,
            bytes: bytes(ExtentMove::extents),
            names: moves.iter().map(|one| one.name.clone()).collect(),
            options,
            copied: bytes(ExtentMove::extents_moved).into(),
            command: MoveCommand::Run.into(),
            state: LiveMoveState::Running.into(),
            ended: tokio::sync::Notify::new(),
        })
    }

    /// The new places of a move that is begun.
    #[must_use]
    pub fn move_uses(&self) -> Vec<VolumeUse> {
        let group = self.group();
        let Ok(moves) = GroupEdit::open(group.group.clone()).and_then(|edit| edit.moves()) else {
            return Vec::new();
        };
        let segments = moves.iter().flat_map(|one| &one.segments);
        let uses = segments.filter_map(|segment| {
            let to = self.member_range(&segment.to, segment.extents)?;
            Some(VolumeUse {
                at: None,
                member: to.member,
                range: to.range,
            })
        });
        uses.collect()
    }

    /// Moves extents until all are moved, or the move is ended. Its end is in [`LiveMove::state`].
    pub async fn run_move(&self, live: &LiveMove) {
        let mut pace = CopyPace::new(live.options.bytes_per_second, self.movable.users());
        let mut old = Vec::new();
        let moved = self.run_steps(live, &mut pace, &mut old).await;
        let state = match moved {
            Ok(true) => LiveMoveState::Done,
            Ok(false) if live.command() == MoveCommand::Stop => LiveMoveState::Stopped,
            Ok(false) => match self.end_moves(live).await {
                Ok(()) => LiveMoveState::Aborted,
                Err(error) => LiveMoveState::Failed(error.to_string()),
            },
            Err(error) => LiveMoveState::Failed(self.end_failed(live, &error).await),
        };
        while state != LiveMoveState::Stopped && !old.iter().all(OldPlace::is_unused) {
            clock::sleep(RELEASE_TICK).await;
        }
        self.parts.lock().await.is_moving = false;
        live.set_ended(state);
    }

    async fn end_moves(&self, live: &LiveMove) -> Result<(), StepError> {
        let group = self.group();
        let left = live
            .names
            .iter()
            .filter(|name| group.group.volume(name).is_some());
        let ended = self.write_step(live, |edit| {
            for name in left {
                edit.end_move(name)?;
            }
            Ok(())
        });
        ended.await
    }

    /// Ends a move that has failed; what to say about it.
    async fn end_failed(&self, live: &LiveMove, error: &StepError) -> String {
        let is_certain = match error {
            StepError::Read { .. } | StepError::Write { .. } => true,
            StepError::Change(_) | StepError::Metadata { .. } => false,
        };
        let ended = match is_certain {
            true => self.end_moves(live).await.is_ok(),
            false => false,
        };
        match ended {
            true => format!("{error}; what was not moved stays where it was"),
            false => format!("{error}; nothing is lost, and the move can be resumed or ended"),
        }
    }

    /// Ends the move that is running, or was interrupted, where it is.
    ///
    /// # Errors
    /// [`OpenChangeError`], or why a move that was running has not ended so.
    pub async fn abort_move(&self, stamp: &EditStamp) -> Result<(), OpenChangeError> {
        if let Some(running) = self.running_move() {
            running.end_by(MoveCommand::Abort).await;
        }
        let mut parts = self.parts.lock().await;
        let group = self.group();
        self.check_change(&group, group.group.sequence, &parts)?;
        let mut edit = GroupEdit::open(group.group.clone())?;
        let moves = edit.moves()?;
        if moves.is_empty() {
            return Ok(());
        }
        for one in &moves {
            edit.end_move(&one.name)?;
        }
        self.write_edit(edit, stamp, &mut parts).await?;
        for one in &moves {
            parts.forget(&one.name);
        }
        Ok(())
    }

    /// Interrupts a move that is running; it can be resumed.
    pub async fn stop_move(&self) {
        if let Some(running) = self.running_move() {
            running.end_by(MoveCommand::Stop).await;
        }
    }
}
