//! One piece of a copy: read and written, zeroed, or compared; here or on another core.

use std::sync::Arc;

use block::{IoBufs, IoError, Node, Range, WriteFlags};
use futures_util::future::{BoxFuture, try_join};
use tokio::sync::oneshot;

use super::plan::{self, Action, DataRun};
use super::{CopyError, Counts, PIECE_MAX};
use crate::zeroes::zeroes;

/// Both disks of a copy.
#[derive(Debug)]
pub(super) struct Disks {
    pub(super) source: Node,
    pub(super) target: Node,
    /// Zeroes are looked for in cells of so many bytes, if at all.
    pub(super) cell: Option<u64>,
}

impl Disks {
    /// Does what was decided on a piece.
    pub(super) async fn carry_out(self: Arc<Self>, piece: DataRun) -> Result<Counts, CopyError> {
        let range = piece.range;
        match piece.action {
            Action::Keep => Ok(Counts {
                kept: range.len,
                ..Counts::default()
            }),
            Action::Zero => {
                self.zero(range).await.map_err(CopyError::Target)?;
                Ok(Counts {
                    zeroed: range.len,
                    ..Counts::default()
                })
            }
            Action::Data { onto_zeroes } => self.transfer(range, onto_zeroes).await,
        }
    }

    async fn transfer(&self, range: Range, onto_zeroes: bool) -> Result<Counts, CopyError> {
        let data = self.source.read(range).await.map_err(CopyError::Source)?;
        let mut counts = Counts {
            read: range.len,
            ..Counts::default()
        };
        let Some(cell) = self.cell else {
            let written = self.target.write(range, data, WriteFlags::empty()).await;
            written.map_err(CopyError::Target)?;
            counts.written = range.len;
            return Ok(counts);
        };
        for part in plan::parts(range, &data, cell) {
            let Range { offset, len } = part.range;
            let done = if !part.zero {
                counts.written += len;
                let start = Range::new(0, offset - range.offset).len_usize();
                let slice = crate::blocks::slice(&data, start, part.range.len_usize());
                self.target
                    .write(part.range, slice, WriteFlags::empty())
                    .await
            } else if onto_zeroes {
                counts.kept += len;
                Ok(())
            } else {
                counts.zeroed += len;
                self.zero(part.range).await
            };
            done.map_err(CopyError::Target)?;
        }
        Ok(counts)
    }

    /// Zeroes a range of the target; its space is given back where that can be.
    async fn zero(&self, range: Range) -> Result<(), IoError> {
        if self.target.geometry().write_zeroes.any() {
            return self.target.write_zeroes(range, WriteFlags::empty()).await;
        }
        let mut at = range.offset;
        while at < range.end() {
            let piece = Range::new(at, PIECE_MAX.min(range.end() - at));
            let data: IoBufs = zeroes(piece.len_usize());
            self.target.write(piece, data, WriteFlags::empty()).await?;
            at = piece.end();
        }
        Ok(())
    }

    /// Compares a piece.
    pub(super) async fn compare(self: Arc<Self>, range: Range) -> Result<Counts, CopyError> {
        let source = async { self.source.read(range).await.map_err(CopyError::Source) };
        let target = async { self.target.read(range).await.map_err(CopyError::Target) };
        let (source, target) = try_join(source, target).await?;
        match plan::first_difference(&source, &target) {
            Some(within) => Err(CopyError::Differs {
                offset: range.offset + within,
            }),
            None => Ok(Counts {
                verified: range.len,
                ..Counts::default()
            }),
        }
    }
}

/// Runs `work` on the next of `cores`, or where the future is polled. It ends with the future.
pub(super) fn spread(
    cores: Option<&engine::Handle>,
    work: impl Future<Output = Result<Counts, CopyError>> + Send + 'static,
) -> BoxFuture<'static, Result<Counts, CopyError>> {
    let Some(cores) = cores else {
        return Box::pin(work);
    };
    let (mut tell, told) = oneshot::channel();
    cores.spawn_on(cores.next_core(), move || async move {
        let done = tokio::select! {
            done = work => done,
            () = tell.closed() => return,
        };
        // Fails only where the receiver is gone.
        drop(tell.send(done));
    });
    Box::pin(async move { told.await.unwrap_or(Err(CopyError::Ending)) })
}
