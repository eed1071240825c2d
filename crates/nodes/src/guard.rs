//! What every node asserts and refuses before it does anything.

use std::future::ready;

use block::{
    Errno, Geometry, IoBufs, IoError, IoFuture, Node, Operation, Range, Support, WriteFlags,
};

/// Asserts that the export checked `range`; refuses changes of a read-only disk.
///
/// # Panics
/// If the range does not lie on the disk in whole blocks.
pub(crate) fn admit(
    geometry: &Geometry,
    operation: Operation,
    range: Range,
) -> Result<(), IoError> {
    assert_checked(geometry, range);
    let changes = match operation {
        Operation::Read | Operation::Extents | Operation::Flush | Operation::Measure => false,
        Operation::Write | Operation::WriteZeroes | Operation::Trim => true,
    };
    if changes && geometry.read_only {
        return Err(IoError::new(Errno::NotPermitted, operation, Some(range))
            .because("the disk is read-only"));
    }
    Ok(())
}

/// The answer of a disk that is only ever read to a change of it.
///
/// # Panics
/// As [`admit`], and if the disk is not read-only.
pub(crate) fn refuse<T>(
    geometry: &Geometry,
    operation: Operation,
    range: Range,
) -> IoFuture<'static, T>
where
    T: Send + 'static,
{
    let error = admit(geometry, operation, range).expect_err("the disk is read-only");
    Box::pin(ready(Err(error)))
}

/// Returns an error with the range of the caller's request, not the one it became.
pub(crate) fn about<T>(
    range: Option<Range>,
    operation: Operation,
    result: Result<T, IoError>,
) -> Result<T, IoError> {
    result.map_err(|error| {
        if (error.operation, error.range) == (operation, range) {
            return error;
        }
        IoError::new(error.errno, operation, range).because(error)
    })
}

/// The same, and refuses what the disk does not do: zeroing that is to be fast must be native.
///
/// # Panics
/// As [`admit`].
pub(crate) fn admit_change(
    geometry: &Geometry,
    operation: Operation,
    range: Range,
    flags: WriteFlags,
) -> Result<(), IoError> {
    admit(geometry, operation, range)?;
    let support = match operation {
        Operation::Trim => geometry.trim,
        Operation::WriteZeroes => geometry.write_zeroes,
        _ => Support::Native,
    };
    let fast = flags.contains(WriteFlags::FAST_ZERO);
    if support.any() && (support == Support::Native || !fast) {
        return Ok(());
    }
    Err(IoError::new(Errno::NotSupported, operation, Some(range)))
}

/// Flushes a disk, if it has anything to flush.
pub(crate) async fn flush(disk: &Node) -> Result<(), IoError> {
    if disk.geometry().flush.any() {
        return disk.flush().await;
    }
    Ok(())
}

/// The node over `child` after `child` was revalidated: the same, made by `over`.
pub(crate) async fn revalidated(
    child: &Node,
    over: impl FnOnce(Node) -> Node,
) -> Result<Option<Node>, IoError> {
    Ok(child.revalidate().await?.map(over))
}

/// Asserts that the export checked `range`.
pub(crate) fn assert_checked(geometry: &Geometry, range: Range) {
    if let Err(e) = range.check(geometry.size, geometry.block_size) {
        panic!("the export lets through a range that it should refuse: {e}");
    }
}

/// Asserts that `len` bytes of data fill `range`.
pub(crate) fn assert_len(range: Range, len: usize) {
    assert_eq!(len as u64, range.len, "data of a write fills its range");
}

/// Length of all of `data`.
pub(crate) fn len_of(data: &IoBufs) -> usize {
    data.iter().map(bytes::Bytes::len).sum()
}
