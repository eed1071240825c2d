//! Tests of bitmaps: headers, bits against a list of booleans, and what hostile ones may cost.

use block::Range;
use proptest::prelude::*;

use super::{Bitmap, Bits, CHUNKS_MAX, HEADER_LEN_USIZE, PAGE, Problem, Shape, place};
use crate::array::format::tests::{DISK_LEN, VERSIONS, mirror};
use crate::array::format::{Level, Superblock, Version, features};

const NEW: [u8; HEADER_LEN_USIZE] = [0; HEADER_LEN_USIZE];

fn with_bitmap(version: Version) -> (Superblock, u64) {
    let mut of = mirror(version, 0);
    let at = crate::array::format::tests::place(version);
    of.features = features::BITMAP;
    of.data.len = of.data.len.min(at.wrapping_sub(of.data.offset));
    if version == Version::V1_0 {
        of.data.len -= 64 << 10;
    }
    of.bitmap_at = Some(match version {
        Version::V1_0 => at - 8192,
        _ => at + 4096,
    });
    (of, at)
}

fn shape(size: u64, chunk: u32) -> Shape {
    Shape::new(size, chunk).expect("few")
}

#[test]
fn a_new_bitmap_is_read_as_it_was_written() {
    for version in VERSIONS {
        let (of, at) = with_bitmap(version);
        let new = Bitmap::of(&of, 64 << 10).expect("a mirror has one");
        assert_eq!(Bitmap::decode(&new.encode(&NEW)), Ok(new));
        let shape = new.shape(&of).expect("it is this array's");
        assert_eq!(shape.chunks(), 512);
        let place = place(&of, at, &shape, DISK_LEN, 1).expect("there is room");
        assert_eq!(place, Some(Range::new(of.bitmap_at.expect("set"), 512)));
    }
}

#[test]
fn the_bitmap_of_an_old_array_has_the_words_of_its_uuid_as_they_lie_in_memory() {
    let little = mirror(Version::V0_90 { big_endian: false }, 0);
    let new = Bitmap::of(&little, 512).expect("a mirror has one");
    assert_eq!(new.array[..4], [0x22, 0x01, 0xaa, 0x3a]);
    let big = mirror(Version::V0_90 { big_endian: true }, 0);
    let new = Bitmap::of(&big, 512).expect("a mirror has one");
    assert_eq!(new.array, big.array);
}

#[test]
fn a_bitmap_covers_the_array_of_raid_10_and_a_member_else() {
    let mut of = mirror(Version::V1_2, 0);
    let size = |of: &Superblock| Bitmap::of(of, 4096).map(|bitmap| bitmap.size);
    assert_eq!(size(&of), Some(32 << 20));
    (of.level, of.layout, of.chunk, of.members) = (Level::Raid10, 0x102, 512 << 10, 3);
    assert_eq!(size(&of), Some(48 << 20));
    of.level = Level::Raid0;
    assert_eq!(size(&of), None);
}

#[test]
fn unknown_fields_of_a_header_are_kept() {
    let (of, _) = with_bitmap(Version::V1_2);
    let mut before = [0x5a; HEADER_LEN_USIZE];
    before[48..52].copy_from_slice(&[6, 0x80, 0, 0]);
    let new = Bitmap::of(&of, 4096).expect("a mirror has one");
    let after = new.encode(&before);
    assert_eq!(after[48..52], [4, 0x80, 0, 0], "it is no longer stale");
    assert_eq!(after[64..], before[64..]);
}

#[test]
fn bitmaps_of_other_kinds_and_arrays_are_reported() {
    let (of, _) = with_bitmap(Version::V1_2);
    let new = Bitmap::of(&of, 4096).expect("a mirror has one");
    let problem = |bitmap: Bitmap| bitmap.shape(&of).expect_err("it cannot be used");
    assert_eq!(problem(Bitmap { version: 5, ..new }), Problem::Version(5));
    assert_eq!(
        problem(Bitmap { version: 6, ..new }).to_string(),
        "its bitmap is a lockless one (version 6)"
    );
    assert_eq!(
        problem(Bitmap {
            array: [1; 16],
            ..new
        }),
        Problem::Array
    );
    assert!(Bitmap { version: 3, ..new }.shape(&of).is_ok());
    let (big, _) = with_bitmap(Version::V0_90 { big_endian: true });
    let new = Bitmap::of(&big, 4096).expect("a mirror has one");
    assert_eq!(
        Bitmap { version: 3, ..new }.shape(&big),
        Err(Problem::Order)
    );
}

#[test]
fn a_hostile_header_takes_no_memory() {
    let (mut of, _) = with_bitmap(Version::V1_2);
    of.member_size = u64::MAX / 512 * 512;
    let new = Bitmap::of(&of, 512).expect("a mirror has one");
    assert!(matches!(new.shape(&of), Err(Problem::Chunks(_))));
    assert_eq!(
        Shape::new((CHUNKS_MAX + 1) * 512, 512),
        Err(Problem::Chunks(CHUNKS_MAX + 1))
    );
    assert_eq!(shape(CHUNKS_MAX * 512, 512).chunks(), CHUNKS_MAX);
    assert_eq!(Shape::new(512, 0), Err(Problem::Chunk(0)));
    assert_eq!(Shape::new(512, 768), Err(Problem::Chunk(768)));
}

#[test]
fn a_bitmap_on_something_else_is_refused() {
    let (of, at) = with_bitmap(Version::V1_2);
    let shape = shape(of.member_size, 4096);
    let len = 256 + (32 << 20) / 4096 / 8;
    let with = |bitmap_at: u64, bad_blocks: Option<Range>| Superblock {
        bitmap_at: Some(bitmap_at),
        bad_blocks,
        ..of.clone()
    };
    let placed = |of: &Superblock| place(of, at, &shape, DISK_LEN, 512);
    let good = with(at + 512, None);
    assert_eq!(placed(&good), Ok(Some(Range::new(at + 512, 1536))));
    let log = Some(Range::new(at + 1536, 4096));
    for bad in [
        with(at, None),
        with(at - 1024, None),
        with(at + 512, log),
        with(of.data.offset - 512, None),
        with(DISK_LEN - 512, None),
        with(u64::MAX - 511, None),
    ] {
        let told = placed(&bad);
        assert!(matches!(told, Err(Problem::Place { .. })), "{told:?}");
    }
    assert!(len < 1536);
    let none = Superblock {
        bitmap_at: None,
        ..of.clone()
    };
    assert_eq!(placed(&none), Ok(None));
}

#[test]
fn a_bitmap_that_is_older_than_the_superblocks_is_stale() {
    let (of, _) = with_bitmap(Version::V1_2);
    let new = Bitmap::of(&of, 4096).expect("a mirror has one");
    assert!(!new.is_stale(new.events) && !new.is_stale(new.events - 1));
    assert!(new.is_stale(new.events + 1));
    assert!(
        Bitmap { stale: true, ..new }.is_stale(new.events),
        "or if it says so"
    );
}

#[test]
fn set_bits_count_where_the_array_is_dirty_or_members_are_missing() {
    let (of, _) = with_bitmap(Version::V1_2);
    let mut bitmap = Bitmap::of(&of, 4096).expect("a mirror has one");
    let from = |bitmap: &Bitmap, synced_to, degraded| bitmap.counts_from(synced_to, 18, degraded);
    assert_eq!(from(&bitmap, None, false), None);
    assert_eq!(from(&bitmap, Some(0), false), Some(0));
    assert_eq!(from(&bitmap, Some(4096), false), Some(4096));
    // Nothing was written since all was cleared.
    assert_eq!(from(&bitmap, None, true), None);
    bitmap.events_cleared -= 1;
    assert_eq!(from(&bitmap, None, true), Some(0));
    assert_eq!(from(&bitmap, None, false), None);
}

#[test]
fn bits_are_kept_from_where_they_count() {
    let all = || Bits::full(shape(100 * 512, 512));
    let kept = |from| {
        let mut bits = all();
        bits.keep_from(from);
        (bits.next_set(0), bits.count())
    };
    assert_eq!(kept(Some(0)), (Some(0), 100));
    assert_eq!(kept(Some(1)), (Some(0), 100));
    assert_eq!(kept(Some(512)), (Some(0), 100), "it ends where they begin");
    assert_eq!(kept(Some(513)), (Some(1), 99));
    assert_eq!(kept(Some(70 * 512)), (Some(69), 31));
    assert_eq!(kept(Some(u64::MAX)), (None, 0));
    assert_eq!(kept(None), (None, 0));
}

#[test]
fn what_a_bitmap_on_disk_does_not_cover_counts_as_set() {
    let shape = shape(1000 * 512, 512);
    let mut bytes = vec![0; HEADER_LEN_USIZE + 125];
    assert_eq!(Bits::decode(shape, &bytes, 1000 * 512).count(), 0);
    // The array grew and its bitmap did not.
    let grown = Bits::decode(shape, &bytes, 900 * 512 + 5);
    assert_eq!((grown.count(), grown.next_set(0)), (100, Some(900)));
    bytes.truncate(HEADER_LEN_USIZE + 9);
    let short = Bits::decode(shape, &bytes, 1000 * 512);
    assert_eq!((short.count(), short.next_set(0)), (1000 - 72, Some(72)));
    assert_eq!(Bits::decode(shape, &[], 1000 * 512), Bits::full(shape));
}

#[test]
fn bits_behind_the_last_chunk_are_ignored() {
    // As mdadm makes it: all ones to the end of the page.
    let mut bytes = vec![0xff; 4096];
    bytes[HEADER_LEN_USIZE] = 0;
    let bits = Bits::decode(shape(513, 512), &bytes, 513);
    assert_eq!(bits.count(), 0);
    let bits = Bits::decode(shape(9 * 512, 512), &bytes, 9 * 512);
    assert_eq!(bits.ones().collect::<Vec<_>>(), [8]);
}

/// The bytes of header and bits as they would be on a disk, page by page.
fn on_disk(bits: &Bits, header: &[u8; HEADER_LEN_USIZE]) -> Vec<u8> {
    let shape = bits.shape();
    let place = Range::new(8192, shape.len_on_disk().next_multiple_of(512));
    let mut disk = Vec::new();
    for page in 0..shape.pages() {
        let at = shape.page_at(page, place);
        assert_eq!(at.offset, 8192 + disk.len() as u64);
        disk.extend(bits.page(page, header, at.len_usize()));
    }
    assert_eq!(disk.len() as u64, place.len);
    disk
}

proptest! {
    #[test]
    fn bits_are_a_list_of_booleans(
        chunks in 1_u64..70_000,
        last in 0_u64..512,
        steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..200),
    ) {
        let shape = shape(chunks * 512 - last, 512);
        let len = usize::try_from(chunks).expect("few");
        let mut model = vec![false; len];
        let mut bits = Bits::clear(shape);
        for (index, set) in steps {
            let at = index.index(len);
            let changed = if set { bits.set(at as u64) } else { bits.unset(at as u64) };
            prop_assert_eq!(changed, model[at] != set);
            model[at] = set;
        }
        let ones: Vec<u64> = (0..chunks).filter(|bit| model[usize::try_from(*bit).expect("few")]).collect();
        prop_assert_eq!(bits.count(), ones.len() as u64);
        prop_assert!(ones.iter().all(|bit| bits.is_set(*bit)));
        prop_assert_eq!(bits.ones().collect::<Vec<_>>(), ones.clone());
        let header = [7; HEADER_LEN_USIZE];
        let disk = on_disk(&bits, &header);
        prop_assert_eq!(&disk[..HEADER_LEN_USIZE], header.as_slice());
        for bit in &ones {
            let at = HEADER_LEN_USIZE + usize::try_from(bit / 8).expect("few");
            prop_assert!(disk[at] & 1 << (bit % 8) != 0);
            let page = shape.page_of(*bit);
            prop_assert_eq!(page, at as u64 / PAGE);
            prop_assert!(shape.bits_in(page).contains(bit));
        }
        prop_assert_eq!(Bits::decode(shape, &disk, shape.size()), bits.clone());
        let mut both = Bits::clear(shape);
        both.set(0);
        both.unite(&bits);
        prop_assert_eq!(both.count(), bits.count() + u64::from(!bits.is_set(0)));
    }

    #[test]
    fn pages_have_every_bit_once(chunks in 0_u64..200_000) {
        let shape = shape(chunks * 512, 512);
        let mut next = 0;
        for page in 0..shape.pages() {
            let bits = shape.bits_in(page);
            prop_assert_eq!(bits.start, next);
            next = bits.end;
        }
        prop_assert_eq!(next, chunks);
    }

    #[test]
    fn a_range_has_the_bits_that_it_touches(offset in 0_u64..1 << 20, len in 0_u64..1 << 16) {
        let shape = shape(2 << 20, 4096);
        let range = Range::new(offset, len);
        for bit in 0..shape.chunks() {
            let touched = len > 0 && shape.range_of(bit).overlaps(&range);
            prop_assert_eq!(shape.bits_of(range).contains(&bit), touched);
        }
    }

    #[test]
    fn any_bytes_decode_to_as_many_bits_as_there_are(
        bytes in prop::collection::vec(any::<u8>(), 0..1000),
        chunks in 0_u64..9000,
        covers: u64,
    ) {
        let shape = shape(chunks * 512, 512);
        let bits = Bits::decode(shape, &bytes, covers);
        prop_assert!(bits.count() <= chunks);
        prop_assert_eq!(bits.ones().count() as u64, bits.count());
    }
}
