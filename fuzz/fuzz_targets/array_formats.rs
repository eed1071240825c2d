//! Any bytes as what members of arrays keep next to their data: superblocks that are changed and written again,
//! bitmaps, journals, logs of bad blocks and of partial parity. Nothing panics nor takes memory beyond its bounds, what is not named stays, and
//! what was written is read again.
#![no_main]

use block::Range;
use libfuzzer_sys::fuzz_target;
use nodes::array::format::bad_blocks::{BadBlocks, RUNS_MAX};
use nodes::array::format::bitmap::{self, Bitmap, Bits, CHUNKS_MAX, HEADER_LEN_USIZE, Shape};
use nodes::array::format::ppl::{self, PplHeader, PplSpace};
use nodes::array::format::r5l::{JournalKey, MetaBlock, PAGE, PAGE_USIZE};
use nodes::array::format::{
    Changes, Role, Superblock, Version, decode, encode, numbers_max, patch, written,
};
use outboard_fuzz::decode_mended;

/// Bits that are made; more only take their time.
const BITS_MAX: u64 = 1 << 18;

fuzz_target!(|input: (u8, u64, u64, &[u8])| {
    let (choice, at, number, bytes) = input;
    match choice % 6 {
        0 | 1 => superblock(at % (1 << 50), number, bytes),
        2 => bits(at, number, bytes),
        3 => log(number, bytes),
        4 => journal(at, bytes),
        _ => partial_parity(at, bytes),
    }
});

fn superblock(at: u64, number: u64, bytes: &[u8]) {
    let mut place = bytes.to_vec();
    place.resize(4096, 0);
    let asked = u64::from_le_bytes(place[144..152].try_into().expect("eight bytes"));
    // No disk has a superblock behind this.
    let asked = asked.wrapping_mul(512) & i64::MAX.cast_unsigned();
    let old = Version::V0_90 { big_endian: false };
    for version in [old, Version::V1_0, Version::V1_2] {
        for at in [at, asked] {
            let Ok(Some((found, mended))) = decode_mended(version, at, &place) else {
                continue;
            };
            changed(&found, at, number, &mended);
            let again = encode(&found, at);
            assert!(matches!(
                decode(found.version, at, &again),
                Ok(Some(_)) | Err(_)
            ));
            header(&found, at, bytes);
        }
    }
}

/// Changes a superblock, as a running array does.
fn changed(found: &Superblock, at: u64, number: u64, bytes: &[u8]) {
    let mut roles = found.roles.clone();
    roles.truncate(numbers_max(found.version));
    if let Some(role) = roles.first_mut() {
        *role = Role::Faulty;
    }
    let old = matches!(found.version, Version::V0_90 { .. });
    let changes = Changes {
        events: Some(number),
        synced_to: Some((number % 3 != 0).then_some(number % (1 << 40) / 512 * 512)),
        roles: Some(&roles),
        rebuilt_to: Some((number % 2 == 0).then_some(4096)),
        has_bad_blocks: Some(number % 5 == 0),
        ..Changes::default()
    };
    let patched = patch(bytes, found.version, &changes);
    assert_eq!(patched.len(), bytes.len());
    assert!(written(&patched, found.version, 512).len() <= patched.len());
    let again = decode(found.version, at, &patched);
    let again = again
        .expect("what was changed is right")
        .expect("it is there");
    assert_eq!((again.events, again.array), (number, found.array));
    assert_eq!((again.level, again.data), (found.level, found.data));
    if !old {
        assert_eq!(again.synced_to, changes.synced_to.expect("it changes"));
        // What the newest kernels keep there.
        assert_eq!(patched[224..256], bytes[224..256]);
    }
    assert_eq!(patch(&patched, found.version, &Changes::default()), patched);
}

/// The same bytes as the header of its bitmap.
fn header(found: &Superblock, at: u64, bytes: &[u8]) {
    let Ok(told) = Bitmap::decode(bytes) else {
        return;
    };
    let own = Bitmap {
        array: bitmap::array_in(found),
        version: 4,
        ..told
    };
    let Ok(shape) = own.shape(found) else { return };
    assert!(shape.chunks() <= CHUNKS_MAX);
    if let Ok(Some(place)) = bitmap::place(found, at, &shape, 1 << 50, 512) {
        assert!(place.len >= shape.len_on_disk() && place.end() <= 1 << 50);
    }
    let _told = own.counts_from(found.synced_to, found.events, true);
}

fn bits(size: u64, number: u64, bytes: &[u8]) {
    if let Ok(told) = Bitmap::decode(bytes) {
        let mut before = [0; HEADER_LEN_USIZE];
        let len = bytes.len().min(HEADER_LEN_USIZE);
        before[..len].copy_from_slice(&bytes[..len]);
        let again = Bitmap::decode(&told.encode(&before)).expect("it was one");
        let size = told.size / 512 * 512;
        assert_eq!(again, Bitmap { size, ..told });
    }
    let chunk = 512_u32 << (number % 20);
    let size = size % (u64::from(chunk) * BITS_MAX);
    let shape = Shape::new(size, chunk).expect("few");
    let mut bits = Bits::decode(shape, bytes, number);
    assert_eq!(bits.ones().count() as u64, bits.count());
    let mut disk = Vec::new();
    let place = Range::new(0, shape.len_on_disk().next_multiple_of(512));
    for page in 0..shape.pages() {
        let len = shape.page_at(page, place).len_usize();
        disk.extend(bits.page(page, &[0; HEADER_LEN_USIZE], len));
    }
    assert_eq!(Bits::decode(shape, &disk, size), bits);
    bits.keep_from(Some(number));
    assert!(
        bits.ones()
            .all(|bit| shape.range_of(bit).end() >= number.min(size))
    );
}

fn partial_parity(at: u64, bytes: &[u8]) {
    let mut place = bytes.to_vec();
    place.resize(ppl::HEADER_LEN_USIZE, 0);
    // With the checksum and the signature that it should have.
    let array = [7; 16];
    place[512..516].copy_from_slice(&ppl::signature(&array).to_le_bytes());
    place[532..536].fill(0);
    let sum = ppl::checksum([&place[..]]);
    place[532..536].copy_from_slice(&sum.to_le_bytes());
    let Ok(header) = PplHeader::decode(&place, ppl::signature(&array)) else {
        return;
    };
    assert!(header.entries.len() <= ppl::ENTRIES_MAX);
    let again = PplHeader::decode(&header.encode(), ppl::signature(&array));
    assert_eq!(again.as_ref(), Ok(&header));
    let len = at % (32 << 20) + ppl::HEADER_LEN + 4096;
    let space = PplSpace {
        place: Range::new(at % (1 << 50), len),
        is_ring: at % 2 == 0,
    };
    if let Some(next) = space.next(at % len, &header) {
        assert!(next > at % len && next + ppl::HEADER_LEN < len);
    }
    assert!(space.place_for(at, header.footprint()) <= len);
}

fn journal(at: u64, bytes: &[u8]) {
    let mut place = bytes.to_vec();
    place.resize(PAGE_USIZE, 0);
    // With the magic number, the version, the place and the checksum that it should have.
    let (key, at) = (JournalKey::of([7; 16]), at % (1 << 50) * PAGE);
    place[..4].copy_from_slice(&0x6433_c509_u32.to_le_bytes());
    place[4..8].fill(0);
    place[8] = 1;
    place[24..32].copy_from_slice(&(at / 512).to_le_bytes());
    let sum = key.checksum([&place[..]]);
    place[4..8].copy_from_slice(&sum.to_le_bytes());
    let Ok(block) = MetaBlock::decode(&place, key, at) else {
        return;
    };
    assert!(block.footprint() <= PAGE * 512);
    assert_eq!(MetaBlock::decode(&block.encode(key), key, at), Ok(block));
}

fn log(number: u64, bytes: &[u8]) {
    let shift = u8::try_from(number % 24).expect("small");
    let Ok(mut bad) = BadBlocks::decode(bytes, shift) else {
        return;
    };
    assert!(bad.runs().len() <= RUNS_MAX);
    let apart = |two: &[Range]| two[0].end() < two[1].offset;
    assert!(bad.runs().windows(2).all(apart));
    if let Some(log) = bad.encode() {
        assert_eq!(BadBlocks::decode(&log, shift).as_ref(), Ok(&bad));
    }
    let range = Range::new(number % (1 << 50), number % (1 << 20));
    bad.add(range);
    bad.remove(range);
    let unit = 512_u64 << shift;
    if let Some(left) = bad.first_in(range) {
        assert!(left.len < 2 * unit);
    }
}
