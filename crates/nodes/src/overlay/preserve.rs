//! Preserving: what the base holds goes into the store before a writer of the base changes it.
//!
//! Only for an overlay with a base that is written while it is open ([`Overlay::of_origin`]).
//!
//! # Invariants
//!
//! * A chunk is copied once: it is claimed like one that is written for the first time, so that a
//!   write of the overlay and several writers of the base wait for each other.
//! * The base may be written once [`Overlay::make_listed`] has returned that was called after the copy, and not
//!   before. That covers exceptions that another change put into the store, too.
//! * Callers that wait at the same time share one commit of the tables.

use block::{IoError, Operation, Range, TryIo, WriteFlags};
use engine::Buffer;
use futures_util::stream::{self, StreamExt};

use super::Overlay;
use super::change::IN_FLIGHT;
use super::map::ChunkPiece;
use super::plan::sections;

/// Bytes that are claimed and copied together.
const PRESERVE_LEN_MAX: u64 = 4 << 20;
/// Neighbouring chunks that are copied on the fast path, bytes at most.
const COPY_NOW_MAX: u64 = 64 * 1024;

impl Overlay {
    /// Copies what the base holds of `range` into the store, where it is not yet. It is durable after
    /// [`Overlay::make_listed`].
    ///
    /// # Errors
    /// What reading the base or writing the store fails with; `NoSpace` when the store is full.
    pub(crate) async fn copy_from_base(&self, range: Range) -> Result<(), IoError> {
        for section in sections(range, PRESERVE_LEN_MAX) {
            self.copy_section(section).await?;
        }
        Ok(())
    }

    async fn copy_section(&self, range: Range) -> Result<(), IoError> {
        let mut change = self.begin(Operation::Write, range).await?;
        let Some(id) = change.work.claim else {
            return Ok(());
        };
        let pieces = self.state().claimed(id);
        change.in_flight = true;
        let copied = stream::iter(pieces)
            .map(|piece| self.copy_piece(piece))
            .buffer_unordered(IN_FLIGHT)
            .fold(Ok(()), async |all, one| all.and(one))
            .await;
        change.in_flight = false;
        copied?;
        change.publish();
        Ok(())
    }

    async fn copy_piece(&self, piece: ChunkPiece) -> Result<(), IoError> {
        let Some(at) = piece.store else {
            return Ok(());
        };
        let to = Range::new(at, piece.at.len);
        if self.copy_piece_now(piece.at, to) == TryIo::Done {
            return Ok(());
        }
        let data = self.base.read(piece.at).await?;
        self.store.write(to, data, WriteFlags::empty()).await
    }

    fn copy_piece_now(&self, from: Range, to: Range) -> TryIo {
        if from.len > COPY_NOW_MAX {
            return TryIo::WouldBlock;
        }
        let mut data = Buffer::take(from.len_usize());
        if self.base.try_read(from, &mut data) == TryIo::WouldBlock {
            return TryIo::WouldBlock;
        }
        self.store.try_write(to, &data)
    }
}
