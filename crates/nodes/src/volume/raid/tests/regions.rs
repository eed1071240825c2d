//! The log of old mirrors as bytes and regions.

use block::Range;
use proptest::prelude::*;

use crate::volume::raid::log::{BITS_AT, LogProblem, REGIONS_MAX, Regions, decode};

#[test]
fn a_header_as_linux_writes_it_is_read() {
    let mut header = b"rRiM\x02\0\0\0\x0a\0\0\0\0\0\0\0".to_vec();
    assert_eq!(decode(&header), Ok(10));
    header[4] = 1;
    assert_eq!(decode(&header), Ok(10));
    header[4] = 3;
    assert_eq!(decode(&header), Err(LogProblem::Version(3)));
    header[0] = b'x';
    assert_eq!(decode(&header), Ok(0));
    assert_eq!(decode(b"rRiM"), Ok(0));
    assert_eq!(BITS_AT, 1024);
}

#[test]
fn regions_that_cannot_be_are_refused() {
    assert_eq!(Regions::new(4096, 0, false), Err(LogProblem::RegionSize(0)));
    assert_eq!(
        Regions::new(4096, 100, false),
        Err(LogProblem::RegionSize(100))
    );
    let many = Regions::new(u64::MAX, 512, false);
    assert!(matches!(many, Err(LogProblem::Regions(count)) if count > REGIONS_MAX));
}

proptest! {
    #[test]
    fn runs_cover_a_range_once_and_have_one_answer_each(
        bits in prop::collection::vec(any::<u8>(), 0..9),
        known in 0..80_u64,
        rest: bool,
        size in 1..64_u64,
        from in 0..64_u64,
        len in 1..64_u64,
        len_max in 1..40_000_u64,
    ) {
        let (region, size) = (1024, size * 512);
        let regions = Regions::new(size, region, rest).unwrap().with_log(known, &bits);
        let is_in_sync = |at: u64| {
            let index = at / region;
            let of_log = index < known.min(bits.len() as u64 * 8);
            if of_log {
                let byte = bits[usize::try_from(index / 8).unwrap()];
                byte & (1 << (index % 8)) != 0
            } else {
                rest
            }
        };
        let count = (0..size.div_ceil(region)).filter(|index| is_in_sync(index * region)).count();
        prop_assert_eq!(regions.in_sync(), count as u64);
        let start = (from * 512).min(size - 1);
        let end = (start + len * 512).min(size);
        let mut at = start;
        while at < end {
            let (run, in_sync) = regions.run(Range::new(at, end - at), len_max);
            prop_assert_eq!(run.offset, at);
            prop_assert!(!run.is_empty() && run.end() <= end);
            prop_assert!(run.len < len_max + region);
            for byte in (run.offset..run.end()).step_by(256) {
                prop_assert_eq!(is_in_sync(byte), in_sync);
            }
            at = run.end();
        }
    }

    #[test]
    fn no_log_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), size in any::<u64>()) {
        if let Ok(known) = decode(&bytes)
            && let Ok(regions) = Regions::new(size, 1 << 40, false)
        {
            let regions = regions.with_log(known, &bytes);
            prop_assert!(regions.in_sync() <= regions.count());
        }
    }
}
