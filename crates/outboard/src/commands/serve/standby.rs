//! [`standby`]: a volume on an object store that another server may have: its index fences the writer before.
//!
//! # Invariants
//!
//! * It is open for reading at all times, which fences no server.
//! * Nothing but the server of the export, its clients and requests keeps an opening: it is closed behind them.

use std::sync::Arc;

use block::Node;
use bucket::{BucketError, BucketVolume};
use nbd::server::{CannotOpen, ClientFuture, ExportDisk, StandbyDisk, StandbyOpening};

use crate::config::ExportPlan;
use crate::failure::Failure;
use crate::graph::NamedDisk;
use crate::graph::builder::Builder;

/// A volume in standby.
#[derive(Debug)]
struct StandbyVolume {
    disk: NamedDisk,
    reader: Node,
}

/// A volume that was taken over.
#[derive(Debug)]
struct VolumeOpening {
    disk: Node,
    volume: BucketVolume,
}

/// The disk of an export that stands by, of which `reader` is open.
pub(super) fn standby(export: &ExportPlan, reader: Node) -> ExportDisk {
    ExportDisk::Standby(Arc::new(StandbyVolume {
        disk: export.disk.clone(),
        reader,
    }))
}

impl StandbyVolume {
    async fn take_over(&self) -> Result<Arc<dyn StandbyOpening>, CannotOpen> {
        let mut builder = Builder::new(false).with_every_byte().in_standby();
        let built = Box::pin(builder.build(&self.disk)).await;
        let disk = built.map_err(|error| cannot_open(Failure::from(error).line()))?;
        let volume = builder.bucket_volumes().first().cloned();
        let volume = volume.ok_or_else(|| cannot_open("it has no volume".to_owned()))?;
        Ok(Arc::new(VolumeOpening { disk, volume }))
    }
}

/// The cause has paths of this machine, and is for the log.
fn cannot_open(cause: String) -> CannotOpen {
    CannotOpen {
        client_message:
            "the disk cannot be opened for writing; the log of the server has the reason".to_owned(),
        cause,
    }
}

impl StandbyDisk for StandbyVolume {
    fn reader(&self) -> &Node {
        &self.reader
    }

    fn open(&self) -> ClientFuture<'_, Result<Arc<dyn StandbyOpening>, CannotOpen>> {
        Box::pin(self.take_over())
    }
}

impl StandbyOpening for VolumeOpening {
    fn disk(&self) -> &Node {
        &self.disk
    }

    fn confirm(&self) -> ClientFuture<'_, Result<bool, CannotOpen>> {
        Box::pin(async {
            match self.volume.confirm().await {
                Ok(()) => Ok(true),
                Err(BucketError::Failed { .. }) => Ok(false),
                Err(error) => Err(cannot_open(error.to_string())),
            }
        })
    }

    fn lost(&self) -> ClientFuture<'static, String> {
        let failed = self.volume.failed();
        Box::pin(async { failed.await.to_string() })
    }
}
