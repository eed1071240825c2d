//! Whether an export may stand by: [`standby`]. Pure.

use crate::graph::Disk;

/// The other options of that export that matter here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StandbyOptions {
    /// Writes are refused.
    pub(crate) read_only: bool,
    /// Each client writes to a disk of its own.
    pub(crate) has_overlays: bool,
    /// The last writer is recorded on this machine.
    pub(crate) has_record: bool,
}

/// Refuses an export that cannot stand by.
///
/// # Errors
/// Why not.
pub(crate) fn standby(disk: &Disk, options: StandbyOptions) -> Result<(), &'static str> {
    let StandbyOptions {
        read_only,
        has_overlays,
        has_record,
    } = options;
    if read_only {
        return Err("a read-only export does not stand by: any number of servers may read a disk");
    }
    if has_overlays {
        return Err("a disk below overlays does not stand by: it is never written");
    }
    if has_record {
        return Err(
            "standby and a recorded single writer exclude each other: the record is on this machine alone",
        );
    }
    match disk.without_blocks() {
        Disk::Bucket(bucket) if bucket.read_only || bucket.uri.snapshot.is_some() => {
            Err("a disk that is never written does not stand by: any number of servers may read it")
        }
        Disk::Bucket(_) => Ok(()),
        Disk::Cache(_) => Err(
            "a cache does not stand by: it would answer with what was there before another server wrote",
        ),
        _ => Err(
            "only a volume on an object store (s3://…, file:///…) stands by: nothing else fences the server that another one takes over from",
        ),
    }
}
