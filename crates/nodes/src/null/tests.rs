//! Tests of `null`.

use block::{BlockDevice, ExtentKind, Range, TryIo, WriteFlags};
use testkit::{block_on, gather, single};

use super::Null;

/// As large as a disk can be.
const SIZE: u64 = 1 << 63;

#[test]
fn what_is_written_is_gone() {
    let disk = Null::new(SIZE);
    let range = Range::new(SIZE - 8192, 4096);
    block_on(disk.write(range, single(vec![1; 4096]), WriteFlags::FUA)).unwrap();
    assert_eq!(disk.try_write(range, &[1; 4096]), TryIo::Done);
    assert_eq!(gather(&block_on(disk.read(range)).unwrap()), vec![0; 4096]);
    let mut into = [1; 4096];
    assert_eq!(disk.try_read(range, &mut into), TryIo::Done);
    assert_eq!(into, [0; 4096]);
}

#[test]
fn a_large_read_is_as_long_as_requested() {
    let disk = Null::new(SIZE);
    for len in [0, 1, 262_144, 262_145, 5_000_000] {
        let data = gather(&block_on(disk.read(Range::new(7, len))).unwrap());
        assert_eq!(data.len() as u64, len);
        assert!(data.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn the_whole_disk_is_one_hole_that_can_be_trimmed_and_zeroed() {
    let disk = Null::new(SIZE);
    let whole = Range::new(0, SIZE);
    block_on(disk.trim(whole)).unwrap();
    block_on(disk.write_zeroes(whole, WriteFlags::FAST_ZERO)).unwrap();
    block_on(disk.flush()).unwrap();
    block_on(disk.settle()).unwrap();
    let extents = block_on(disk.extents(whole)).unwrap();
    assert_eq!(extents.len(), 1);
    assert_eq!(
        (extents[0].range, extents[0].kind),
        (whole, ExtentKind::Hole)
    );
}

#[test]
#[should_panic(expected = "a range that it should refuse")]
fn a_range_past_the_end_was_the_exports_to_refuse() {
    drop(block_on(Null::new(4096).trim(Range::new(4096, 1))));
}
