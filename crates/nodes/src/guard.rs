//! What every node asserts and refuses before it does anything.

use block::{Errno, Geometry, IoBufs, IoError, Operation, Range};

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
