//! Tests of what a power cut may leave.

use std::collections::BTreeSet;

use block::{BlockDevice, Range, WriteFlags};
use proptest::prelude::*;

use super::{CrashDisk, Lies, TooManyImages};
use crate::{block_on, pattern, single};

const SIZE: u64 = 4096;

fn write(disk: &CrashDisk, range: Range, fill: u8, flags: WriteFlags) {
    block_on(disk.write(range, single(pattern(fill, range)), flags)).unwrap();
}

fn plain(disk: &CrashDisk, range: Range, fill: u8) {
    write(disk, range, fill, WriteFlags::empty());
}

#[test]
fn without_a_flush_each_of_two_writes_survives_or_not() {
    let disk = CrashDisk::new(SIZE);
    plain(&disk, Range::new(0, 512), 1);
    plain(&disk, Range::new(1024, 512), 2);
    let images = disk.crash_images(4).unwrap();
    assert_eq!(images.len(), 4);
    assert!(images.contains(&disk.live()) && images.contains(&disk.durable()));
    assert_eq!(disk.crash_images(3), Err(TooManyImages { max: 3 }));
}

#[test]
fn a_write_tears_at_sectors_and_nowhere_else() {
    let disk = CrashDisk::new(SIZE);
    let range = Range::new(512, 1536);
    plain(&disk, range, 1);
    let images = disk.crash_images(8).unwrap();
    assert_eq!(images.len(), 8);
    let live = disk.live();
    for image in images {
        for (at, sector) in image.chunks(512).enumerate() {
            assert!(sector == &live[at * 512..][..512] || sector.iter().all(|&b| b == 0));
        }
    }
}

#[test]
fn a_flush_makes_certain_what_resolved_before_it() {
    let disk = CrashDisk::new(SIZE);
    plain(&disk, Range::new(0, SIZE), 1);
    block_on(disk.flush()).unwrap();
    assert_eq!(disk.crash_images(1).unwrap(), [disk.live()]);
}

#[test]
fn a_write_in_flight_when_the_flush_starts_may_be_lost() {
    let range = Range::new(0, 512);
    let lost = |seed| {
        let disk = CrashDisk::new(SIZE).interleaved(seed);
        block_on(async {
            let data = single(pattern(1, range));
            let write = disk.write(range, data, WriteFlags::empty());
            let (written, flushed) = futures_util::future::join(write, disk.flush()).await;
            written.unwrap();
            flushed.unwrap();
        });
        disk.crash_images(2).unwrap().len() == 2
    };
    let outcomes: BTreeSet<bool> = (0..32).map(lost).collect();
    assert!(outcomes.contains(&true));
}

#[test]
fn a_fua_write_is_certain_at_once_and_nothing_older_comes_back() {
    let disk = CrashDisk::new(SIZE);
    let range = Range::new(0, 512);
    plain(&disk, range, 1);
    write(&disk, range, 2, WriteFlags::FUA);
    assert_eq!(disk.crash_images(1).unwrap(), [disk.live()]);
}

#[test]
fn a_fua_write_says_nothing_of_other_sectors() {
    let disk = CrashDisk::new(SIZE);
    plain(&disk, Range::new(1024, 512), 1);
    write(&disk, Range::new(0, 512), 2, WriteFlags::FUA);
    assert_eq!(disk.crash_images(2).unwrap().len(), 2);
}

#[test]
fn of_overwritten_data_every_version_may_be_left() {
    let disk = CrashDisk::new(SIZE);
    let range = Range::new(0, 512);
    for fill in 1..=3 {
        plain(&disk, range, fill);
    }
    assert_eq!(disk.crash_images(9).unwrap().len(), 4);
}

#[test]
fn a_disk_that_lies_about_flushes_loses_flushed_data() {
    let honest = Lies::default();
    let lies = [
        (
            Lies {
                flush: true,
                ..honest
            },
            2,
            1,
        ),
        (
            Lies {
                fua: true,
                ..honest
            },
            1,
            2,
        ),
    ];
    for (lie, after_flush, after_fua) in lies {
        let range = Range::new(0, 512);
        let disk = CrashDisk::new(SIZE).lying(lie);
        plain(&disk, range, 1);
        block_on(disk.flush()).unwrap();
        assert_eq!(disk.crash_images(2).unwrap().len(), after_flush);
        let disk = CrashDisk::new(SIZE).lying(lie);
        write(&disk, range, 1, WriteFlags::FUA);
        assert_eq!(disk.crash_images(2).unwrap().len(), after_fua);
    }
}

#[test]
fn zeroing_is_lost_like_a_write() {
    let disk = CrashDisk::from_bytes(vec![7; 4096]);
    block_on(disk.write_zeroes(Range::new(0, 512), WriteFlags::empty())).unwrap();
    assert_eq!(disk.crash_images(2).unwrap().len(), 2);
}

#[test]
fn a_full_cache_writes_back_its_oldest_data() {
    let disk = CrashDisk::new(SIZE);
    plain(&disk, Range::new(3584, 512), 9);
    for n in 0..4096 {
        plain(&disk, Range::new(0, 512), u8::try_from(n % 256).unwrap());
    }
    assert_eq!(disk.durable()[3584..], disk.live()[3584..]);
}

proptest! {
    /// What the seeds draw is among what may be left, and between them they draw all of it.
    #[test]
    fn seeds_draw_from_all_images(writes in prop::collection::vec((0_u64..4, 1_u64..3, any::<u8>(), 0_u8..8), 1..6)) {
        let disk = CrashDisk::new(SIZE);
        for (sector, sectors, fill, kind) in writes {
            let range = Range::new(sector * 512, sectors * 512);
            match kind {
                0 => block_on(disk.flush()).unwrap(),
                1 => write(&disk, range, fill, WriteFlags::FUA),
                _ => plain(&disk, range, fill),
            }
        }
        let all: BTreeSet<_> = disk.crash_images(100_000).unwrap().into_iter().collect();
        for seed in 0..200 {
            prop_assert!(all.contains(&disk.crash(seed)));
        }
    }
}

#[test]
fn every_image_of_a_small_case_is_drawn_by_some_seed() {
    let disk = CrashDisk::new(SIZE);
    plain(&disk, Range::new(0, 1024), 1);
    plain(&disk, Range::new(512, 512), 2);
    let all: BTreeSet<_> = disk.crash_images(100).unwrap().into_iter().collect();
    let drawn: BTreeSet<_> = (0..2000).map(|seed| disk.crash(seed)).collect();
    assert_eq!(all, drawn);
}
