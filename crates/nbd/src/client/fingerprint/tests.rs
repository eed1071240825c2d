//! What a fingerprint knows a disk by, and that it never takes the disk itself for another one.

use std::process::Command;

use block::{IoBufs, Range};
use bytes::Bytes;
use proptest::prelude::*;
use testkit::requires;

use super::{Change, Comparison, Fingerprint, RegionImage, Scope, regions};

const MIB: u64 = 1 << 20;
const SECTOR: usize = 512;
/// Small, so that much of it is looked at.
const SIZE: usize = 256 << 10;
const SECTORS: usize = SIZE / SECTOR;

/// What is in the regions of a disk with these bytes.
fn image(disk: &[u8], block_size: u32) -> RegionImage {
    let mut image = RegionImage::default();
    for region in regions(disk.len() as u64, block_size) {
        let from = Range::new(0, region.offset).len_usize();
        let bytes = &disk[from..from + region.len_usize()];
        image.push(region.offset, bytes.iter().copied());
    }
    image
}

fn fingerprint(disk: &[u8]) -> Fingerprint {
    Fingerprint::new(disk.len() as u64, 1, image(disk, 1))
}

fn blank() -> Vec<u8> {
    vec![0; SIZE]
}

fn put(disk: &mut [u8], at: usize, bytes: &[u8]) {
    disk[at..at + bytes.len()].copy_from_slice(bytes);
}

fn with_ext(uuid: u8) -> Vec<u8> {
    let mut disk = blank();
    put(&mut disk, 1024 + 56, &[0x53, 0xef]);
    put(&mut disk, 1024 + 104, &[uuid; 16]);
    disk
}

/// With an md superblock 1.2 of an array with `uuid`, after so many events.
fn with_md(uuid: u8, events: u64) -> Vec<u8> {
    let mut disk = blank();
    put(&mut disk, 4096, &0xa92b_4efc_u32.to_le_bytes());
    put(&mut disk, 4100, &1_u32.to_le_bytes());
    put(&mut disk, 4096 + 16, &[uuid; 16]);
    put(&mut disk, 4096 + 200, &events.to_le_bytes());
    disk
}

fn data(bytes: &[u8]) -> IoBufs {
    // In two pieces, one of them odd.
    let (first, second) = bytes.split_at(bytes.len() / 3);
    let pieces = [first, second].map(Bytes::copy_from_slice);
    pieces.into_iter().collect()
}

fn differs(fingerprint: &Fingerprint, disk: &[u8], scope: Scope) -> Option<(String, String)> {
    match fingerprint.compare(&image(disk, 1), scope) {
        Comparison::Different { expected, found } => Some((expected, found)),
        Comparison::Same | Comparison::Blank => None,
    }
}

#[test]
fn regions_are_whole_blocks_apart_from_each_other_on_disks_of_any_size() {
    for block in [1_u32, 512, 4096, 65536] {
        for blocks in [0_u64, 1, 2, 3, 17, 40, 300, 100_000] {
            let size = blocks * u64::from(block);
            let regions = regions(size, block);
            assert!(regions.len() <= 3);
            let bytes: u64 = regions.iter().map(|region| region.len).sum();
            assert!(bytes <= 512 << 10, "{bytes} of {size}");
            for region in &regions {
                assert!(region.end() <= size && !region.is_empty());
                assert_eq!(
                    (
                        region.offset % u64::from(block),
                        region.len % u64::from(block)
                    ),
                    (0, 0)
                );
            }
            assert!(regions.windows(2).all(|two| two[0].end() < two[1].offset));
        }
    }
}

#[test]
fn another_uuid_is_another_disk_and_both_are_named() {
    let (expected, found) = differs(&fingerprint(&with_ext(7)), &with_ext(8), Scope::All).unwrap();
    assert_eq!(
        expected,
        "ext2/3/4 UUID 07070707-0707-0707-0707-070707070707"
    );
    assert_eq!(found, "ext2/3/4 UUID 08080808-0808-0808-0808-080808080808");
    let same = fingerprint(&with_ext(7)).compare(&image(&with_ext(7), 1), Scope::All);
    assert_eq!(same, Comparison::Same);
}

#[test]
fn a_blank_disk_is_another_one_where_something_was_and_known_by_nothing_where_nothing_was() {
    let (_, found) = differs(&fingerprint(&with_ext(7)), &blank(), Scope::All).unwrap();
    assert_eq!(found, "no signature there");
    let (expected, _) = differs(&fingerprint(&blank()), &with_ext(7), Scope::All).unwrap();
    assert_eq!(expected, "no signature there");
    let nothing = fingerprint(&blank());
    assert!(nothing.is_blank() && !fingerprint(&with_ext(7)).is_blank());
    assert_eq!(
        nothing.compare(&image(&blank(), 1), Scope::All),
        Comparison::Blank
    );
}

#[test]
fn an_older_copy_of_a_member_is_another_disk_but_not_for_a_reader() {
    let member = fingerprint(&with_md(1, 9));
    let (expected, found) = differs(&member, &with_md(1, 8), Scope::All).unwrap();
    assert!(expected.contains("with 9 events") && found.contains("with 8 events"));
    assert_eq!(differs(&member, &with_md(1, 8), Scope::Identity), None);
    assert!(differs(&member, &with_md(2, 9), Scope::Identity).is_some());
}

#[test]
fn a_value_is_expected_until_a_flush_that_was_sent_after_its_successor_was_answered() {
    let mut disk = fingerprint(&with_ext(1));
    let sector = |uuid: u8| data(&with_ext(uuid)[1024..1536]);
    let range = Range::new(1024, 512);
    let early = disk.mark();
    disk.sent(range, Change::Write(&sector(2)), false);
    // Its answer is not there yet: both may be there, even after a flush.
    let between = disk.mark();
    disk.flushed(early);
    disk.flushed(between);
    assert_eq!(differs(&disk, &with_ext(1), Scope::All), None);
    assert_eq!(differs(&disk, &with_ext(2), Scope::All), None);
    disk.answered(range, true);
    assert_eq!(differs(&disk, &with_ext(1), Scope::All), None);
    disk.flushed(disk.mark());
    assert!(differs(&disk, &with_ext(1), Scope::All).is_some());
    assert_eq!(differs(&disk, &with_ext(2), Scope::All), None);
    assert!(differs(&disk, &with_ext(3), Scope::All).is_some());
}

#[test]
fn what_failed_or_was_trimmed_may_be_there_until_it_is_overwritten() {
    for is_trim in [false, true] {
        let mut disk = fingerprint(&with_ext(1));
        let range = Range::new(1024, 512);
        let zeroes = if is_trim {
            Change::Trim
        } else {
            Change::Zeroes
        };
        disk.sent(range, zeroes, false);
        disk.answered(range, is_trim);
        disk.flushed(disk.mark());
        assert_eq!(differs(&disk, &with_ext(1), Scope::All), None);
        assert_eq!(differs(&disk, &blank(), Scope::All), None);
        disk.sent(range, Change::Zeroes, false);
        disk.answered(range, true);
        disk.flushed(disk.mark());
        assert!(differs(&disk, &with_ext(1), Scope::All).is_some());
    }
}

#[test]
fn the_signatures_of_the_tools_are_known() {
    let uuid = "0f1e2d3c-4b5a-4988-8776-6554a3b2c1d0";
    let tools: [(&str, &[&str], &str); 6] = [
        ("mkfs.ext4", &["-q", "-U", uuid], "ext2/3/4"),
        (
            "mkfs.xfs",
            &["-q", "-m", "uuid=0f1e2d3c-4b5a-4988-8776-6554a3b2c1d0"],
            "XFS",
        ),
        ("mkfs.btrfs", &["-q", "-U", uuid], "btrfs"),
        ("mkfs.f2fs", &["-q", "-U", uuid], "f2fs"),
        ("mkswap", &["-q", "-U", uuid], "swap UUID"),
        (
            "cryptsetup",
            &[
                "luksFormat",
                "-q",
                "--uuid",
                uuid,
                "--pbkdf",
                "pbkdf2",
                "--pbkdf-force-iterations",
                "1000",
                "--key-file",
                "/dev/zero",
                "--keyfile-size",
                "32",
            ],
            "LUKS",
        ),
    ];
    for (tool, arguments, name) in tools {
        if !requires::all(&[requires::command(tool)]) {
            continue;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(320 * MIB).unwrap();
        let mut command = Command::new(tool);
        let made = command.args(arguments).arg(file.path()).output().unwrap();
        assert!(made.status.success(), "{tool}: {made:?}");
        let disk = std::fs::read(file.path()).unwrap();
        let nothing = vec![0; disk.len()];
        let (expected, _) = differs(&fingerprint(&disk), &nothing, Scope::All).unwrap();
        assert!(
            expected.contains(name) && expected.contains(uuid),
            "{tool}: {expected}"
        );
    }
}

/// Content that a disk may have at a place.
fn sectors() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let places = prop::sample::select(vec![
        0, 1, 2, 7, 8, 9, 15, 127, 128, 384, 385, 496, 497, 504, 511,
    ]);
    let magics: Vec<(usize, &[u8])> = vec![
        (0, b""),
        (510, &[0x55, 0xaa]),
        (0, b"EFI PART"),
        (56, &[0x53, 0xef]),
        (0, &[0x10, 0x20, 0xf5, 0xf2]),
        (0, b"XFSB"),
        (64, b"_BHRfS_M"),
        (0, b"LUKS\xba\xbe"),
        (0, b"LABELONE"),
        (502, b"SWAPSPACE2"),
        (0, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]),
        (0, &[0xa9, 0x2b, 0x4e, 0xfc]),
    ];
    let filler = prop_oneof![Just(0_u8), any::<u8>()];
    (places, prop::sample::select(magics), filler).prop_map(|(place, (at, magic), byte)| {
        let mut sector = vec![byte; SECTOR];
        put(&mut sector, at, magic);
        (place, sector)
    })
}

#[derive(Debug, Clone)]
enum Step {
    /// Content, and whether it is one with a power cut's lost answer, an error, or done.
    Write((usize, Vec<u8>), u8),
    Zeroes(usize, usize),
    Trim(usize, usize),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let span = || (0..SECTORS, 1..200_usize);
    let step = prop_oneof![
        6 => (sectors(), 0..8_u8).prop_map(|(sector, fate)| Step::Write(sector, fate)),
        1 => span().prop_map(|(at, count)| Step::Zeroes(at, count)),
        1 => span().prop_map(|(at, count)| Step::Trim(at, count)),
        2 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..40)
}

/// What each sector may be after a power cut; the last one is there without one.
struct Sectors(Vec<Vec<Vec<u8>>>);

impl Sectors {
    fn add(&mut self, at: usize, content: Vec<u8>) {
        self.0[at].push(content);
    }

    /// A disk, with this way to choose.
    fn choose(&self, mut pick: impl FnMut(usize) -> usize) -> Vec<u8> {
        self.0
            .iter()
            .flat_map(|all| all[pick(all.len())].clone())
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For any content, any writes and any loss.
    #[test]
    fn the_disk_itself_is_never_another_one(
        begin in prop::collection::vec(sectors(), 0..6),
        steps in steps(),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 64),
    ) {
        let mut disk = blank();
        for (place, sector) in begin {
            put(&mut disk, place * SECTOR, &sector);
        }
        let mut known = fingerprint(&disk);
        let contents = disk.chunks(SECTOR).map(|sector| vec![sector.to_vec()]);
        let mut sectors = Sectors(contents.collect());
        // Sectors whose values a flush does not settle.
        let mut loose = vec![false; SECTORS];
        let mut is_lost = false;
        for step in steps {
            match step {
                Step::Write((at, content), fate) => {
                    let range = Range::new((at * SECTOR) as u64, SECTOR as u64);
                    known.sent(range, Change::Write(&data(&content)), false);
                    sectors.add(at, content);
                    loose[at] = fate == 1;
                    match fate {
                        0 => is_lost = true,
                        fate => known.answered(range, fate != 1),
                    }
                }
                Step::Zeroes(at, count) | Step::Trim(at, count) => {
                    let count = count.min(SECTORS - at);
                    let range = Range::new((at * SECTOR) as u64, (count * SECTOR) as u64);
                    let is_trim = matches!(step, Step::Trim(..));
                    let change = if is_trim { Change::Trim } else { Change::Zeroes };
                    known.sent(range, change, false);
                    known.answered(range, true);
                    loose[at..at + count].fill(is_trim);
                    for at in at..at + count {
                        sectors.add(at, vec![0; SECTOR]);
                    }
                }
                // One that is lost is not answered, and covers nothing.
                Step::Flush => {
                    known.flushed(known.mark());
                    let settled = sectors.0.iter_mut().zip(&loose);
                    for (all, _) in settled.filter(|(_, is_loose)| !is_lost && !**is_loose) {
                        all.drain(..all.len() - 1);
                    }
                }
            }
        }
        let mut nth = 0;
        for round in 0..8 {
            let found = sectors.choose(|count| {
                nth += 1;
                if count == 1 { 0 } else { choices[(nth * 7 + round) % 64].index(count) }
            });
            prop_assert_eq!(differs(&known, &found, Scope::All), None);
        }
        let now = sectors.choose(|count| count - 1);
        prop_assert_eq!(differs(&known, &now, Scope::All), None);
    }

    #[test]
    fn no_content_and_no_size_is_too_much(
        size in 0..300_usize,
        parts in prop::collection::vec(sectors(), 0..12),
        rest in any::<u8>(),
    ) {
        let mut disk = vec![rest; size * SECTOR];
        for (place, sector) in parts {
            if let Some(part) = disk.chunks_mut(SECTOR).nth(place) {
                part.copy_from_slice(&sector);
            }
        }
        let mut known = fingerprint(&disk);
        prop_assert_eq!(differs(&known, &disk, Scope::All), None);
        drop(differs(&known, &vec![!rest; disk.len()], Scope::All));
        if size > 0 {
            let whole = Range::new(0, disk.len() as u64);
            known.sent(whole, Change::Write(&data(&disk)), false);
            prop_assert_eq!(differs(&known, &disk, Scope::All), None);
        }
    }
}
