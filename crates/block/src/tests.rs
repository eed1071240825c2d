//! Tests of ranges, extents and errors.

use std::io;

use proptest::prelude::*;

use crate::{Errno, Extent, ExtentKind, IoError, Operation, Range, RangeError, merge_extents};

#[test]
fn a_range_that_overflows_is_past_the_end() {
    let range = Range::new(u64::MAX - 1, 4);
    assert_eq!(
        range.check(u64::MAX, 1),
        Err(RangeError::PastEnd {
            range,
            size: u64::MAX
        })
    );
}

#[test]
fn past_the_end_is_reported_before_unaligned() {
    let range = Range::new(1023, 2);
    assert!(matches!(
        range.check(1024, 512),
        Err(RangeError::PastEnd { .. })
    ));
    assert!(matches!(
        Range::new(1, 512).check(1024, 512),
        Err(RangeError::Unaligned { .. })
    ));
}

#[test]
fn a_full_disk_stays_a_full_disk() {
    for raw in [28, 122, 27] {
        let error = IoError::from_os(io::Error::from_raw_os_error(raw), Operation::Write, None);
        assert_eq!(error.errno, Errno::NoSpace);
    }
}

proptest! {
    #[test]
    fn a_checked_range_lies_on_the_disk(offset: u64, len: u64, size: u64, shift in 0u32..17) {
        let range = Range::new(offset, len);
        if let Ok(checked) = range.check(size, 1 << shift) {
            prop_assert!(checked.end() <= size);
            prop_assert_eq!(checked.offset % (1 << shift), 0);
        }
    }

    #[test]
    fn merged_extents_cover_the_same_bytes(lens in prop::collection::vec((0u64..9, 0u8..3), 0..40)) {
        let mut at = 0;
        let extents: Vec<Extent> = lens.iter().map(|&(len, kind)| {
            let range = Range::new(at, len);
            at += len;
            let kind = [ExtentKind::Data, ExtentKind::Hole, ExtentKind::Zero][usize::from(kind)];
            Extent { range, kind }
        }).collect();
        let kind_at = |list: &[Extent], byte: u64| list.iter()
            .find(|e| e.range.offset <= byte && byte < e.range.end()).map(|e| e.kind);
        let merged = merge_extents(extents.clone());
        for byte in 0..at {
            prop_assert_eq!(kind_at(&merged, byte), kind_at(&extents, byte));
        }
        prop_assert!(merged.windows(2).all(|w| w[0].kind != w[1].kind));
    }
}
