//! What kind of array a world has, and its disks when it begins.

use block::Range;

use crate::array::format::bitmap::{Bitmap, HEADER_LEN_USIZE};
use crate::array::format::ppl::{self, PplHeader, PplProblem};
use crate::array::format::r5l::{JournalKey, MetaBlock};
use crate::array::format::tests::encode;
use crate::array::format::{self, Level, Role, Superblock, Version, features};
use crate::array::parity_writer as writer;

/// Bytes of data of each member.
pub(super) const DATA: u64 = 64 << 10;
/// Chunk of levels that have one.
pub(super) const CHUNK: u64 = 4096;
/// Superblocks 0.90: in the last 64 KiB that are whole, of a disk of as many more as its data.
const OLD: Version = Version::V0_90 { big_endian: false };
/// Members that superblocks have room for.
const OLD_ROLES: u16 = 27;
const ROLES: u16 = 128;
/// The array's UUID.
const UUID: [u8; 16] = *b"\x3a\xaa\x01\x22\x29\x82\x7c\xfa\x53\x31\xad\x66\xca\x76\x73\x71";

/// What kind of array a world has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) level: Level,
    pub(super) layout: u32,
    pub(super) parts: u16,
    pub(super) spares: u16,
    pub(super) version: Version,
    /// Bytes for each bit, if it has a bitmap.
    pub(super) bitmap: Option<u32>,
    /// Bytes of the partial parity log of each member, which lies behind its data.
    pub(super) ppl: Option<u64>,
    /// Bytes of the journal, on the disk behind members and spares, more than members have of data.
    pub(super) journal: Option<u64>,
    /// It begins dirty, as one that was just made.
    pub(super) dirty: bool,
}

/// Where things are on a disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) superblock: u64,
    pub(super) bitmap: u64,
    pub(super) bad_blocks: u64,
    pub(super) data: u64,
    pub(super) size: u64,
}

impl Shape {
    /// One of the kinds with parity.
    pub(super) fn with_parity(rng: &mut fastrand::Rng) -> Self {
        let version = [OLD, Version::V1_0, Version::V1_1, Version::V1_2][rng.usize(0..4)];
        let kinds = writer::layouts();
        let (level, layout) = match rng.u8(0..4) {
            0 => (Level::Raid5, 2),
            1 => (Level::Raid6, 2),
            _ => kinds[rng.usize(0..kinds.len())],
        };
        let least = if level == Level::Raid6 { 4 } else { 3 };
        Self {
            level,
            layout,
            parts: rng.u16(least..7),
            spares: rng.u16(0..2),
            version,
            bitmap: (rng.u8(0..4) > 0).then(|| 512 << rng.u8(0..6)),
            ppl: None,
            journal: None,
            dirty: rng.u8(0..4) == 0,
        }
    }

    /// One of the kinds with partial parity logs.
    pub(super) fn with_ppl(rng: &mut fastrand::Rng) -> Self {
        let len = match rng.u8(0..4) {
            0 => 264 << 10,
            _ => 4096 * rng.u64(2..6),
        };
        Self {
            level: Level::Raid5,
            layout: rng.u32(0..6),
            parts: rng.u16(3..6),
            spares: rng.u16(0..2),
            version: [Version::V1_1, Version::V1_2][rng.usize(0..2)],
            bitmap: None,
            ppl: Some(len),
            journal: None,
            dirty: rng.u8(0..8) == 0,
        }
    }

    /// One of the kinds with a journal.
    pub(super) fn with_journal(rng: &mut fastrand::Rng) -> Self {
        let kind = Self::with_parity(rng);
        Self {
            parts: kind.parts.min(5),
            version: [Version::V1_1, Version::V1_2][rng.usize(0..2)],
            bitmap: None,
            // The smallest one has room for four columns of pages of all members.
            journal: Some(CHUNK * rng.u64(8..40)),
            dirty: rng.u8(0..8) == 0,
            ..kind
        }
    }

    /// The number of the disk with the journal.
    pub(super) fn journal_number(&self) -> Option<u16> {
        self.journal.map(|_| self.parts + self.spares)
    }

    /// The part with byte `at` of an array with parity, by the tables of layouts.
    pub(super) fn part_of(&self, at: u64) -> usize {
        let small = |value: u64| usize::try_from(value).expect("small");
        let data = u64::from(self.parts - self.parities());
        let (row, index) = (at / CHUNK / data, at / CHUNK % data);
        let row = writer::table(self.level, self.layout, self.parts.into(), small(row));
        row.data[small(index)]
    }

    /// Parities of a row; 0 where copies are kept.
    pub(super) const fn parities(&self) -> u16 {
        match self.level {
            Level::Raid4 | Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => 0,
        }
    }

    /// One of the kinds there are; of the `old` ones.
    pub(super) fn of(rng: &mut fastrand::Rng, old: bool) -> Self {
        let version = [OLD, Version::V1_0, Version::V1_1, Version::V1_2][rng.usize(0..4)];
        let version = if old { OLD } else { version };
        let (level, layout, parts) = match rng.u8(0..8) {
            0..4 => (Level::Raid1, 0, 2),
            4 => (Level::Raid1, 0, 3),
            5 => (Level::Raid10, 0x102, rng.u16(2..5)),
            6 => (Level::Raid10, 0x201, rng.u16(2..4)),
            _ => (Level::Raid10, 0x1_0201, rng.u16(2..4)),
        };
        let bitmap = (rng.u8(0..4) > 0).then(|| 512 << rng.u8(0..6));
        Self {
            level,
            layout,
            parts,
            spares: rng.u16(0..2),
            version,
            bitmap,
            ppl: None,
            journal: None,
            dirty: rng.u8(0..4) == 0,
        }
    }

    pub(super) const fn places(&self) -> Places {
        match self.version {
            Version::V0_90 { .. } => Places {
                superblock: DATA,
                bitmap: DATA + 4096,
                // It has none: nothing is there.
                bad_blocks: DATA + 8192,
                data: 0,
                size: DATA + (64 << 10),
            },
            Version::V1_2 => Places {
                superblock: 4096,
                bitmap: 8192,
                bad_blocks: 12_288,
                data: 16_384,
                size: 16_384 + DATA,
            },
            Version::V1_1 => Places {
                superblock: 0,
                bitmap: 4096,
                bad_blocks: 8192,
                data: 16_384,
                size: 16_384 + DATA,
            },
            _ => Places {
                superblock: DATA + 16_384,
                bitmap: DATA,
                bad_blocks: DATA + 8192,
                data: 0,
                size: DATA + 24_576,
            },
        }
    }

    /// Whether its superblocks are of the old kind, which know of no bad blocks and no half-made members.
    pub(super) const fn is_old(&self) -> bool {
        matches!(self.version, Version::V0_90 { .. })
    }

    /// A disk that holds nothing.
    pub(super) fn blank(&self, fill: u8) -> Vec<u8> {
        let size = self.places().size + self.ppl.or(self.journal).unwrap_or(0);
        vec![fill; usize::try_from(size).expect("small")]
    }

    /// The disks of a new array: its parts, then its spares, then that of the journal. Members hold the same zeroes.
    pub(super) fn disks(&self) -> Vec<Vec<u8>> {
        let journal = u16::from(self.journal.is_some());
        (0..self.parts + self.spares + journal)
            .map(|number| self.disk(number))
            .collect()
    }

    fn disk(&self, number: u16) -> Vec<u8> {
        let places = self.places();
        // Copies of an array that was just made need not be identical.
        let fill = if self.dirty {
            u8::try_from(number).expect("few")
        } else {
            0
        };
        let mut disk = self.blank(fill);
        let mut put = |at: u64, bytes: &[u8]| {
            let at = usize::try_from(at).expect("small");
            disk[at..at + bytes.len()].copy_from_slice(bytes);
        };
        let of = self.superblock(number);
        // The other encoder knows no spares of the old kind.
        let superblock = match self.is_old() {
            true => format::encode(&of, places.superblock),
            // Nor does it know logs of partial parity, and journals.
            false if of.ppl.is_some() || self.journal.is_some() => {
                format::encode(&of, places.superblock)
            }
            false => encode::superblock(&of, places.superblock),
        };
        put(places.superblock, &[0; 4096]);
        put(places.superblock, &superblock);
        if !self.is_old() {
            put(places.bad_blocks, &[0xff; 4096]);
        }
        if of.role == Role::Journal {
            let first = MetaBlock::empty(number.into(), 0);
            put(of.data.offset, &first.encode(JournalKey::of(UUID)));
        }
        if let Some(log) = of.ppl {
            let header = PplHeader::empty(ppl::signature(&UUID));
            put(log.offset, &header.encode());
        }
        if let Some(chunk) = self.bitmap {
            let mut bitmap = self.bitmap_header(chunk);
            if self.is_old() {
                let header = Bitmap::of(&of, chunk).expect("it fits");
                let header = header.encode(&[0; HEADER_LEN_USIZE]);
                bitmap[..header.len()].copy_from_slice(&header);
            }
            put(places.bitmap, &bitmap);
        }
        disk
    }

    fn superblock(&self, number: u16) -> Superblock {
        let places = self.places();
        let journal = self.journal_number();
        let role = |number: u16| match number {
            number if Some(number) == journal => Role::Journal,
            held if held < self.parts => Role::Active(held),
            spare if self.is_old() && spare >= self.parts + self.spares => Role::Faulty,
            _ => Role::Spare,
        };
        let old = self.is_old();
        let chunk = match self.level {
            Level::Raid1 => 0,
            _ => CHUNK,
        };
        Superblock {
            version: self.version,
            array: UUID,
            name: if old { "127" } else { "world:0" }.to_owned(),
            created: 1_795_288_091,
            updated: 1_795_288_091,
            level: self.level,
            layout: self.layout,
            chunk,
            members: self.parts.into(),
            member_size: DATA,
            data: match role(number) {
                Role::Journal => Range::new(places.data, DATA + self.journal.unwrap_or(0)),
                _ => Range::new(places.data, DATA),
            },
            events: 1,
            synced_to: self.dirty.then_some(0),
            rebuilt_to: None,
            device: (!old).then(|| [u8::try_from(number + 1).expect("few"); 16]),
            number: number.into(),
            role: role(number),
            roles: (0..if old { OLD_ROLES } else { ROLES }).map(role).collect(),
            bitmap_at: self.bitmap.map(|_| places.bitmap),
            ppl: self.ppl.map(|len| Range::new(places.size, len)),
            bad_blocks: (!old).then(|| Range::new(places.bad_blocks, 4096)),
            features: match (self.bitmap.is_some() && !old, self.ppl) {
                (true, _) => features::BITMAP,
                (false, Some(_)) => features::MULTIPLE_PPLS,
                (false, None) if self.journal.is_some() => features::JOURNAL,
                (false, None) => 0,
            },
            write_mostly: false,
            fail_fast: false,
            corrected: 0,
            bad_blocks_shift: 0,
            reshape: None,
        }
    }

    /// Whether a cut left the first header of a disk's partial parity log in part.
    pub(super) fn has_torn_header(&self, image: &[u8]) -> bool {
        let Some(log) = self.superblock(0).ppl else {
            return false;
        };
        let start = usize::try_from(log.offset).expect("small");
        let header = &image[start..start + ppl::HEADER_LEN_USIZE];
        let found = PplHeader::decode(header, ppl::signature(&UUID));
        // One that was made invalid is all ones.
        matches!(found, Err(PplProblem::Checksum { .. })) && header.iter().any(|byte| *byte != 0xff)
    }

    /// Size of the array.
    pub(super) fn array_size(&self) -> u64 {
        if self.parities() > 0 {
            return DATA * u64::from(self.parts - self.parities());
        }
        if self.level != Level::Raid10 {
            return DATA;
        }
        let far = u64::from(self.layout >> 8 & 0xff);
        let near = u64::from(self.layout & 0xff);
        DATA / CHUNK / far * u64::from(self.parts) / near * CHUNK
    }

    /// All bits are set where it begins dirty, as mdadm has it.
    fn bitmap_header(&self, chunk: u32) -> Vec<u8> {
        let fill = if self.dirty { 0xff } else { 0 };
        let mut bytes = vec![fill; 4096];
        bytes[..256].fill(0);
        bytes[..4].copy_from_slice(b"bitm");
        bytes[4] = 4;
        bytes[8..24].copy_from_slice(&UUID);
        bytes[24] = 1;
        let covered = match self.parities() {
            0 => self.array_size(),
            _ => DATA,
        };
        bytes[40..48].copy_from_slice(&(covered / 512).to_le_bytes());
        bytes[52..56].copy_from_slice(&chunk.to_le_bytes());
        bytes[56] = 5;
        bytes
    }
}
