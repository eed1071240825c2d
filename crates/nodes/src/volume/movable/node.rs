//! [`MovableDisk`] as a disk: requests are cut where places change, and changes go where the state says.

use block::{
    BlockDevice, Extent, FileRegion, Geometry, Identity, IoBufs, IoFuture, Operation, Range, TryIo,
    WriteFlags, merge_extents,
};
use futures_util::future::{join_all, try_join_all};

use super::run::Run;
use super::{MovableDisk, first_failure};
use crate::blocks::slice;
use crate::guard::{about, admit, admit_change, assert_checked, assert_len, len_of};

/// The part of the data of `range` that a run takes.
fn part_of(range: Range, data: &IoBufs, run: &Run) -> IoBufs {
    if run.range == range {
        return data.clone();
    }
    let start = Range::new(0, run.range.offset - range.offset).len_usize();
    slice(data, start, run.range.len_usize())
}

impl BlockDevice for MovableDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        assert_checked(&self.geometry, range);
        self.users.count();
        let runs = self.state().runs(range);
        Box::pin(async move {
            // Each run keeps its place until it was read.
            let reads = runs.iter().map(|run| run.place.disk.read(run.below));
            let read = match runs.as_slice() {
                [only] => only.place.disk.read(only.below).await,
                _ => try_join_all(reads)
                    .await
                    .map(|parts| parts.into_iter().flatten().collect()),
            };
            about(Some(range), Operation::Read, read)
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Write, range)?;
            assert_len(range, len_of(&data));
            let data = &data;
            let send = move |run: Run, flags| async move {
                let part = part_of(range, data, &run);
                run.write(part, flags).await
            };
            self.change(Operation::Write, range, flags, send).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(self.flush_all())
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit_change(&self.geometry, Operation::WriteZeroes, range, flags)?;
            let send = |run: Run, flags| async move { run.write_zeroes(flags).await };
            let changed = self.change(Operation::WriteZeroes, range, flags, send);
            changed.await
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let flags = WriteFlags::empty();
            admit_change(&self.geometry, Operation::Trim, range, flags)?;
            let send = |run: Run, _| async move { run.trim().await };
            self.change(Operation::Trim, range, flags, send).await
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        assert_checked(&self.geometry, range);
        let runs = self.state().runs(range);
        Box::pin(async move {
            let mut extents = Vec::new();
            for run in runs {
                let found = run.place.disk.extents(run.below).await;
                let found = about(Some(range), Operation::Extents, found)?;
                extents.extend(found.into_iter().map(|extent| {
                    let offset = extent.range.offset - run.below.offset + run.range.offset;
                    Extent {
                        range: Range::new(offset, extent.range.len),
                        kind: extent.kind,
                    }
                }));
            }
            Ok(merge_extents(extents))
        })
    }

    /// It has none: its bytes may be elsewhere the next time.
    fn identity(&self) -> Option<Identity> {
        None
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.repair().await;
            let disks = self.disks();
            first_failure(join_all(disks.iter().map(|disk| disk.settle())).await)
        })
    }

    fn connection_epoch(&self) -> u64 {
        let disks = self.disks();
        let epochs = disks.iter().map(|disk| disk.connection_epoch());
        epochs.fold(0, u64::wrapping_add)
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, into.len());
        self.users.count();
        let state = self.state();
        let (place, below) = state.first_run(range);
        if below.len < range.len {
            return TryIo::WouldBlock;
        }
        place.disk.try_read(below, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, data.len());
        if self.geometry.read_only {
            return TryIo::WouldBlock;
        }
        let Some(_pass) = self.gate.try_enter() else {
            return TryIo::WouldBlock;
        };
        self.users.count();
        let state = self.state();
        if state.is_relocating(range) {
            drop(state);
            return self.try_write_relocating(range, data);
        }
        let (place, below) = state.first_run(range);
        if below.len < range.len {
            return TryIo::WouldBlock;
        }
        place.disk.try_write(below, data)
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        self.users.count();
        let state = self.state();
        let (place, below) = state.first_run(range);
        if below.len < range.len {
            return None;
        }
        place.file_region(below)
    }
}
