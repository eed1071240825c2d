//! [`VolumeDisk`]: a logical volume as users get it: with an identity of its own, and read-only where its state says so.

use std::sync::Arc;

use block::{
    BlockDevice, Extent, Geometry, Identity, IoBufs, IoFuture, Node, Operation, Range, TryIo,
    WriteFlags,
};

use super::VolumeSet;
use crate::guard::admit;

/// A logical volume. Bytes are at their place in the disk below it.
#[derive(Debug)]
pub(super) struct VolumeDisk {
    disk: Node,
    geometry: Geometry,
    /// `None`: that of the disk, computed when it is needed: it may take long where a volume is referred to often.
    identity: Option<Identity>,
    /// Kept open, so that other volumes of the group share what this one uses.
    _set: Option<Arc<VolumeSet>>,
}

impl VolumeDisk {
    /// `disk` as the volume of that identity.
    pub(super) fn new(
        disk: Node,
        read_only: bool,
        identity: Identity,
        set: Arc<VolumeSet>,
    ) -> Self {
        Self {
            identity: Some(identity),
            _set: Some(set),
            ..Self::read_only_if(read_only, disk)
        }
    }

    /// `disk`, never written.
    pub(super) fn read_only(disk: Node) -> Self {
        Self::read_only_if(true, disk)
    }

    fn read_only_if(read_only: bool, disk: Node) -> Self {
        let mut geometry = disk.geometry().clone();
        geometry.read_only |= read_only;
        Self {
            identity: None,
            geometry,
            disk,
            _set: None,
        }
    }

    fn refused(&self, operation: Operation, range: Range) -> Option<IoFuture<'_, ()>> {
        let refused = admit(&self.geometry, operation, range).err()?;
        Some(Box::pin(std::future::ready(Err(refused))))
    }
}

impl BlockDevice for VolumeDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.disk.read(range)
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        match self.refused(Operation::Write, range) {
            Some(refused) => refused,
            None => self.disk.write(range, data, flags),
        }
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.disk.flush()
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        match self.refused(Operation::WriteZeroes, range) {
            Some(refused) => refused,
            None => self.disk.write_zeroes(range, flags),
        }
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        match self.refused(Operation::Trim, range) {
            Some(refused) => refused,
            None => self.disk.trim(range),
        }
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.disk.extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        match &self.identity {
            Some(identity) => Some(identity.clone()),
            None => self.disk.identity(),
        }
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.disk.settle()
    }

    fn connection_epoch(&self) -> u64 {
        self.disk.connection_epoch()
    }

    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        Some((&self.disk, range))
    }

    fn remap_start(&self, range: Range) -> Option<(&Node, Range)> {
        Some((&self.disk, range))
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        self.disk.try_read(range, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        if self.geometry.read_only {
            return TryIo::WouldBlock;
        }
        self.disk.try_write(range, data)
    }
}
