//! Superblock 0.90: 1024 words in the byte order of the machine that made it.

use block::Range;

use super::{
    Level, MAGIC, NUMBERS_MAX_0_90, PLACE_LEN, Problem, Reshape, Role, SECTOR, Superblock, Version,
    bytes_of, fold_sum,
};

mod write;

pub(super) use self::write::{encode, patch};

/// Words of a superblock.
const WORDS: usize = 1024;
/// Bytes of a superblock.
pub(super) const LEN: usize = WORDS * 4;
/// Members that it has a place for.
const DISKS: usize = NUMBERS_MAX_0_90;
/// Word of the first member's description, and words of each.
const DISK_AT: usize = 128;
const DISK_LEN: usize = 32;
/// Word of this member's description.
const THIS_AT: usize = 992;
/// Word of the checksum.
pub(super) const CHECKSUM_AT: usize = 38;
/// Bits of an array's state.
const CLEAN: u32 = 1;
const BITMAP: u32 = 1 << 8;
/// Bits of a member's state.
const FAULTY: u32 = 1;
const ACTIVE: u32 = 1 << 1;
const SYNC: u32 = 1 << 2;
const REMOVED: u32 = 1 << 3;
const WRITE_MOSTLY: u32 = 1 << 9;
const FAIL_FAST: u32 = 1 << 10;
/// Minor version, and that while the array changes its form.
const WHOLE: u32 = 90;
const RESHAPING: u32 = 91;

/// The words, whichever byte comes first.
#[derive(Debug)]
struct Words {
    words: Vec<u32>,
    big_endian: bool,
}

impl Words {
    fn of(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..WORDS * 4)?;
        let first = [bytes[0], bytes[1], bytes[2], bytes[3]];
        let big_endian = u32::from_be_bytes(first) == MAGIC;
        if !big_endian && u32::from_le_bytes(first) != MAGIC {
            return None;
        }
        let words = bytes.chunks_exact(4).map(|word| {
            let word = [word[0], word[1], word[2], word[3]];
            if big_endian {
                u32::from_be_bytes(word)
            } else {
                u32::from_le_bytes(word)
            }
        });
        let words = words.collect();
        Some(Self { words, big_endian })
    }

    fn at(&self, index: usize) -> u32 {
        self.words[index]
    }

    /// Two words of which the one for the low half comes first on little-endian machines.
    fn pair(&self, index: usize) -> u64 {
        let (first, second) = (self.at(index).into(), self.at(index + 1).into());
        let (low, high): (u64, u64) = if self.big_endian {
            (second, first)
        } else {
            (first, second)
        };
        high << 32 | low
    }

    fn checksum(&self) -> u32 {
        let words = self.words.iter().enumerate();
        fold_sum(words.map(|(index, word)| if index == CHECKSUM_AT { 0 } else { *word }))
    }
}

/// The kernel compares so many bits of the sums: machines have added them up differently.
const fn comparable(sum: u32) -> u32 {
    (sum & 0xffff) + (sum >> 16)
}

pub(super) fn decode(at: u64, bytes: &[u8]) -> Result<Option<Superblock>, Problem> {
    let Some(words) = Words::of(bytes) else {
        return Ok(None);
    };
    let (major, minor) = (words.at(1), words.at(2));
    if major != 0 || !(WHOLE..=RESHAPING).contains(&minor) {
        return Ok(None);
    }
    let (stored, computed) = (words.at(CHECKSUM_AT), words.checksum());
    if comparable(stored) != comparable(computed) {
        return Err(Problem::Checksum { stored, computed });
    }
    let members = words.at(10);
    if usize::try_from(members).is_ok_and(|members| members > DISKS) {
        let field = "number of members";
        let value = members.into();
        return Err(Problem::Field { field, value });
    }
    let (level, state) = (Level::of(words.at(7).cast_signed()), words.at(33));
    let size = u64::from(words.at(8)) * 1024;
    let found = Superblock {
        version: Version::V0_90 {
            big_endian: words.big_endian,
        },
        array: uuid(&words),
        name: words.at(11).to_string(),
        created: words.at(6).into(),
        updated: words.at(32).into(),
        level,
        layout: words.at(64),
        chunk: words.at(65).into(),
        members,
        member_size: match level {
            Level::Raid0 | Level::Linear => 0,
            _ => size,
        },
        // Everything before the superblock can hold data.
        data: Range::new(0, at),
        events: words.pair(39),
        synced_to: synced_to(&words, state)?,
        rebuilt_to: None,
        device: None,
        number: words.at(THIS_AT),
        role: role(&words, THIS_AT),
        roles: roles(&words),
        bitmap_at: (state & BITMAP != 0).then(|| at + PLACE_LEN),
        ppl: None,
        bad_blocks: None,
        bad_blocks_shift: 0,
        corrected: 0,
        features: 0,
        write_mostly: words.at(THIS_AT + 4) & WRITE_MOSTLY != 0,
        fail_fast: words.at(THIS_AT + 4) & FAIL_FAST != 0,
        reshape: (minor == RESHAPING).then(|| reshape(&words)),
    };
    Ok(Some(found))
}

fn uuid(words: &Words) -> [u8; 16] {
    let mut uuid = [0; 16];
    for (place, index) in uuid.chunks_exact_mut(4).zip([5, 13, 14, 15]) {
        place.copy_from_slice(&words.at(index).to_be_bytes());
    }
    uuid
}

fn role(words: &Words, at: usize) -> Role {
    let (part, state) = (words.at(at + 3), words.at(at + 4));
    let active = state & (ACTIVE | SYNC) == ACTIVE | SYNC && state & (FAULTY | REMOVED) == 0;
    match u16::try_from(part) {
        Ok(part) if active => Role::Active(part),
        _ if state & (FAULTY | REMOVED) != 0 => Role::Faulty,
        _ => Role::Spare,
    }
}

/// A member that has no descriptor is none.
fn roles(words: &Words) -> Vec<Role> {
    let places = (0..DISKS).map(|index| DISK_AT + index * DISK_LEN);
    let described = |at: &usize| {
        words.words[*at..*at + DISK_LEN]
            .iter()
            .any(|word| *word != 0)
    };
    places
        .map(|at| match described(&at) {
            true => role(words, at),
            false => Role::Faulty,
        })
        .collect()
}

/// The checkpoint counts only if it belongs to this state of the array.
fn synced_to(words: &Words, state: u32) -> Result<Option<u64>, Problem> {
    if state & CLEAN != 0 {
        return Ok(None);
    }
    if words.pair(41) != words.pair(39) {
        return Ok(Some(0));
    }
    bytes_of(words.at(43).into(), "checkpoint").map(Some)
}

fn reshape(words: &Words) -> Reshape {
    let members_added = words.at(47).cast_signed();
    Reshape {
        position: words.pair(44).saturating_mul(SECTOR),
        level: Level::of(words.at(46).cast_signed()),
        members_added,
        layout: words.at(48),
        chunk: words.at(49).into(),
        data_moved: 0,
        backwards: members_added < 0,
    }
}
