//! The offset that an error reply carries.

use block::{Errno, IoError, Operation, Range};

use super::super::replies::place_of;

#[test]
fn an_offset_is_reported_where_the_disk_named_a_part_of_the_request() {
    let whole = Range::new(4096, 65_536);
    let place = |range| place_of(&IoError::new(Errno::Io, Operation::Read, range), whole);
    assert_eq!(place(Some(Range::new(8192, 512))), Some(8192));
    assert_eq!(place(Some(Range::new(4096, 512))), Some(4096));
    assert_eq!(place(Some(Range::new(69_120, 512))), Some(69_120));
    // Nothing that the request does not say itself.
    assert_eq!(place(None), None);
    assert_eq!(place(Some(whole)), None);
    assert_eq!(place(Some(Range::new(8192, 0))), None);
    // Places of another disk below, perhaps.
    assert_eq!(place(Some(Range::new(0, 512))), None);
    assert_eq!(place(Some(Range::new(69_120, 513))), None);
    assert_eq!(place(Some(Range::new(u64::MAX, 1))), None);
}
