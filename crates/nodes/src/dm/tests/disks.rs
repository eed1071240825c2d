//! Tables and their disks as one disk.

use std::sync::Arc;

use block::{BlockDevice, Errno, Geometry, Node, Range, WriteFlags};
use testkit::{MemDisk, block_on, gather, pattern, single};

use super::{FOUR_DRIVES, table};
use crate::Null;
use crate::dm::{Device, DeviceName, TextPosition, assemble};

const SECTOR: u64 = 512;

/// A disk of so many sectors, each filled with a pattern of its own number and `fill`.
fn disk(fill: u8, sectors: u64) -> Node {
    Arc::new(MemDisk::from_bytes(pattern(
        fill,
        Range::new(0, sectors * SECTOR),
    )))
}

fn sectors(disk: &dyn BlockDevice, start: u64, len: u64) -> Vec<u8> {
    let range = Range::new(start * SECTOR, len * SECTOR);
    gather(&block_on(disk.read(range)).unwrap())
}

fn part_of(fill: u8, start: u64, len: u64) -> Vec<u8> {
    pattern(fill, Range::new(start * SECTOR, len * SECTOR))
}

#[test]
fn four_drives_in_a_row_are_one_disk() {
    // As large as the real ones, and of zeroes.
    let sizes = [121_077_760, 121_077_760, 121_077_761, 483_321_640];
    let disks = sizes.map(|sectors| Arc::new(Null::new(sectors * SECTOR)) as Node);
    let table = table(FOUR_DRIVES);
    let omni = assemble(&table, &disks).unwrap();
    assert_eq!(omni.geometry().size, table.size());
    let (below, range) = omni.remap(Range::new(363_233_281 * SECTOR, 4096)).unwrap();
    assert!(crate::parts::is_same(below, &disks[3]));
    assert_eq!(range, Range::new(0, 4096));
    assert!(omni.remap(Range::new(363_233_280 * SECTOR, 4096)).is_none());
}

#[test]
fn every_target_serves_its_sectors() {
    let table = table(
        "0 8 linear a 4\n\
         8 12 striped 3 2 a 0 b 1 c 2\n\
         20 4 zero\n\
         24 4 error\n\
         28 2 linear b 7",
    );
    let disks = [disk(1, 16), disk(2, 16), disk(3, 16)];
    let whole = assemble(&table, &disks).unwrap();
    assert_eq!(whole.geometry().size, 30 * SECTOR);
    assert_eq!(sectors(&*whole, 0, 8), part_of(1, 4, 8));
    let striped = [
        part_of(1, 0, 2),
        part_of(2, 1, 2),
        part_of(3, 2, 2),
        part_of(1, 2, 2),
        part_of(2, 3, 2),
        part_of(3, 4, 2),
    ];
    assert_eq!(sectors(&*whole, 8, 12), striped.concat());
    assert_eq!(sectors(&*whole, 20, 4), vec![0; 2048]);
    let error = block_on(whole.read(Range::new(23 * SECTOR, 2 * SECTOR))).unwrap_err();
    assert_eq!(error.errno, Errno::Io);
    assert_eq!(sectors(&*whole, 28, 2), part_of(2, 7, 2));
}

#[test]
fn what_is_written_lands_where_the_table_says() {
    let (a, b) = (
        Arc::new(MemDisk::new(8 * SECTOR)),
        Arc::new(MemDisk::new(8 * SECTOR)),
    );
    let table = table("0 2 linear a 2\n2 8 striped 2 2 b 0 a 4");
    let whole = assemble(&table, &[a.clone(), b.clone()]).unwrap();
    let range = Range::new(0, 10 * SECTOR);
    let data = pattern(5, range);
    block_on(whole.write(range, single(data.clone()), WriteFlags::FUA)).unwrap();
    let of = |start: usize, len: usize| data[start * 512..][..len * 512].to_vec();
    let zeroes = vec![0; 1024];
    assert_eq!(
        a.snapshot(),
        [zeroes.clone(), of(0, 2), of(4, 2), of(8, 2)].concat()
    );
    assert_eq!(
        b.snapshot(),
        [of(2, 2), of(6, 2), zeroes.clone(), zeroes].concat()
    );
}

#[test]
fn a_device_that_is_too_small_is_named_at_its_place() {
    let text = "0 8 linear /dev/sda 0\n8 16 striped 2 4 /dev/sda 0 /dev/sdb 9";
    let error = assemble(&table(text), &[disk(1, 8), disk(2, 16)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2, column 29: /dev/sdb has 16 sectors, and 17 are needed"
    );
}

#[test]
fn a_line_that_cuts_blocks_of_another_is_named_at_its_place() {
    let large = |change: fn(&mut Geometry)| {
        Arc::new(MemDisk::new(16 * SECTOR).with_geometry(change)) as Node
    };
    let disks = [large(|geometry| geometry.block_size = 4096), disk(2, 16)];
    let error = assemble(&table("0 8 linear a 0\n8 9 linear b 0"), &disks).unwrap_err();
    assert_eq!(error.place, TextPosition { line: 2, column: 1 });
    let error = assemble(
        &table("0 16 striped 2 4 b 0 a 4"),
        &[disk(2, 16), disks[0].clone()],
    );
    assert_eq!(
        error.unwrap_err().place,
        TextPosition {
            line: 1,
            column: 22
        }
    );
}

#[test]
fn a_table_that_is_one_whole_disk_is_that_disk() {
    let only = disk(1, 16);
    let whole = assemble(&table("0 16 linear a 0"), std::slice::from_ref(&only)).unwrap();
    assert!(crate::parts::is_same(&whole, &only));
    let window = assemble(&table("0 15 linear a 1"), &[only]).unwrap();
    assert_eq!(window.geometry().size, 15 * SECTOR);
}

#[test]
fn a_device_by_number_is_found_where_the_kernel_has_it() {
    let place = TextPosition { line: 1, column: 1 };
    let device = |major, minor| Device {
        name: DeviceName::Number { major, minor },
        place,
    };
    assert!(device(0, 4_000_000_000).path().is_err());
    let known = std::fs::read_dir("/sys/dev/block")
        .into_iter()
        .flatten()
        .flatten();
    for entry in known.take(8) {
        let name = entry.file_name().into_string().unwrap();
        let (major, minor) = name.split_once(':').unwrap();
        let path = device(major.parse().unwrap(), minor.parse().unwrap())
            .path()
            .unwrap();
        assert!(path.starts_with("/dev"), "{name} is {}", path.display());
    }
}
