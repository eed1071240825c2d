//! The volumes on object stores that are open in this process: their figures, and their end.
//!
//! # Invariants
//!
//! * They are closed behind arrays and caches, which may be made of them. A volume that is dropped commits by itself, but not before the
//!   process ends.

use std::pin::Pin;

use attach::{CacheCounts, DiskSupervisor};
use bucket::{StoreOperation, VolumeFigures};
use indicatif::{HumanBytes, HumanCount};

/// What they have requested of their stores.
#[cfg(feature = "bucket")]
pub(crate) fn figures() -> Vec<VolumeFigures> {
    bucket::volume_figures()
}

/// There are none.
#[cfg(not(feature = "bucket"))]
pub(crate) const fn figures() -> Vec<VolumeFigures> {
    Vec::new()
}

/// A line for a status.
pub(crate) fn line(volume: &VolumeFigures) -> String {
    if let Some(why) = &volume.failure {
        return format!("volume {}: out of use: {why}", volume.uri);
    }
    let requests = StoreOperation::ALL.map(|operation| {
        let count = volume.requests(operation);
        (count > 0).then(|| format!("{} {}", HumanCount(count), operation.name()))
    });
    let requests: Vec<String> = requests.into_iter().flatten().collect();
    let unwritten = match volume.unwritten {
        0 => String::new(),
        bytes => format!(", {} not there yet", HumanBytes(bytes)),
    };
    format!(
        "volume {}: requests {}; {} from the store, {} to it{unwritten}",
        volume.uri,
        requests.join(", "),
        HumanBytes(volume.received),
        HumanBytes(volume.sent),
    )
}

/// Commits and closes all of them, behind the last request of this process.
#[cfg(feature = "bucket")]
pub(crate) async fn close_all() {
    bucket::close_all().await;
}

/// There are none.
#[cfg(not(feature = "bucket"))]
#[allow(clippy::unused_async, reason = "it waits where the feature is there")]
pub(crate) async fn close_all() {}

/// Closes the volumes of an attached disk when it is detached.
pub(crate) struct AttachedVolumes {
    /// That of what else is below the disk.
    inner: Option<Box<dyn DiskSupervisor>>,
}

impl AttachedVolumes {
    /// The supervisor of a disk with this one, if this program has volumes.
    pub(crate) fn over(inner: Option<Box<dyn DiskSupervisor>>) -> Option<Box<dyn DiskSupervisor>> {
        match cfg!(feature = "bucket") {
            true => Some(Box::new(Self { inner })),
            false => inner,
        }
    }
}

impl DiskSupervisor for AttachedVolumes {
    fn problem(&self) -> Option<String> {
        self.inner.as_ref().and_then(|inner| inner.problem())
    }

    fn caches(&self) -> Vec<CacheCounts> {
        let inner = self.inner.as_ref();
        inner.map_or_else(Vec::new, |inner| inner.caches())
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async {
            let closed = match &self.inner {
                Some(inner) => inner.close().await,
                None => Ok(()),
            };
            close_all().await;
            closed
        })
    }
}

#[cfg(test)]
mod tests {
    use bucket::OperationFigures;

    use super::*;

    #[test]
    fn a_line_has_the_requests_and_why_a_volume_is_out_of_use() {
        let of = |operation, requests| OperationFigures {
            operation,
            requests,
            failures: 0,
            nanos: 0,
        };
        let mut volume = VolumeFigures {
            uri: "s3://disks/lab/root".to_owned(),
            is_writer: true,
            failure: None,
            unwritten: 0,
            received: 3 << 20,
            sent: 4096,
            operations: vec![
                of(StoreOperation::Get, 1200),
                of(StoreOperation::Put, 7),
                of(StoreOperation::List, 0),
            ],
        };
        let expected = "volume s3://disks/lab/root: requests 1,200 get, 7 put; 3.00 MiB from the store, 4.00 KiB to it";
        assert_eq!(line(&volume), expected);
        volume.unwritten = 512 << 10;
        assert_eq!(
            line(&volume),
            format!("{expected}, 512.00 KiB not there yet")
        );
        volume.failure = Some("another server has it".to_owned());
        let expected = "volume s3://disks/lab/root: out of use: another server has it";
        assert_eq!(line(&volume), expected);
    }
}
