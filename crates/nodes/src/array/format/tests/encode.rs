//! Superblocks written from the tables of their format, for tests only.

use crate::array::format::{Level, Role, Superblock, Version};

fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&field);
}

const fn level(level: Level) -> i32 {
    match level {
        Level::Linear => -1,
        Level::Raid0 => 0,
        Level::Raid1 => 1,
        Level::Raid4 => 4,
        Level::Raid5 => 5,
        Level::Raid6 => 6,
        Level::Raid10 => 10,
        Level::Other(number) => number,
    }
}

/// The sum of little-endian words, by the text of the format and not by the decoder's code.
fn sum(words: impl Iterator<Item = u32>) -> u32 {
    let mut sum: u64 = 0;
    for word in words {
        sum += u64::from(word);
    }
    u32::try_from(((sum & 0xffff_ffff) + (sum >> 32)) & 0xffff_ffff).expect("32 bits are left")
}

/// The bytes of a superblock that belongs at byte `at`.
pub(crate) fn superblock(of: &Superblock, at: u64) -> Vec<u8> {
    match of.version {
        Version::V0_90 { big_endian } => old(of, big_endian),
        _ => new(of, at),
    }
}

fn new(of: &Superblock, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; 256 + 2 * of.roles.len()];
    let b = &mut bytes;
    put(b, 0, 0xa92b_4efc_u32.to_le_bytes());
    put(b, 4, 1_u32.to_le_bytes());
    put(b, 8, of.features.to_le_bytes());
    put(b, 16, of.array);
    b[32..32 + of.name.len()].copy_from_slice(of.name.as_bytes());
    // Microseconds stand above the seconds.
    put(b, 64, (of.created | 77 << 40).to_le_bytes());
    put(b, 72, level(of.level).to_le_bytes());
    put(b, 76, of.layout.to_le_bytes());
    put(b, 80, (of.member_size / 512).to_le_bytes());
    put(
        b,
        88,
        u32::try_from(of.chunk / 512).expect("small").to_le_bytes(),
    );
    put(b, 92, of.members.to_le_bytes());
    if let Some(place) = of.bitmap_at {
        let sectors = (place.cast_signed() - at.cast_signed()) / 512;
        put(b, 96, i32::try_from(sectors).expect("near").to_le_bytes());
    }
    put(b, 128, (of.data.offset / 512).to_le_bytes());
    put(b, 136, (of.data.len / 512).to_le_bytes());
    put(b, 144, (at / 512).to_le_bytes());
    put(b, 152, (of.rebuilt_to.unwrap_or(0) / 512).to_le_bytes());
    put(b, 160, of.number.to_le_bytes());
    put(b, 168, of.device.expect("these have one"));
    b[184] = u8::from(of.write_mostly) | u8::from(of.fail_fast) << 1;
    if let Some(log) = of.bad_blocks {
        let sectors = (log.offset.cast_signed() - at.cast_signed()) / 512;
        put(
            b,
            186,
            u16::try_from(log.len / 512).expect("small").to_le_bytes(),
        );
        put(b, 188, i32::try_from(sectors).expect("near").to_le_bytes());
    }
    put(b, 192, of.updated.to_le_bytes());
    put(b, 200, of.events.to_le_bytes());
    let synced = of.synced_to.map_or(u64::MAX, |bytes| bytes / 512);
    put(b, 208, synced.to_le_bytes());
    put(
        b,
        220,
        u32::try_from(of.roles.len()).expect("few").to_le_bytes(),
    );
    for (index, role) in of.roles.iter().enumerate() {
        let number = match role {
            Role::Active(part) => *part,
            Role::Spare => 0xffff,
            Role::Faulty => 0xfffe,
            Role::Journal => 0xfffd,
        };
        put(b, 256 + 2 * index, number.to_le_bytes());
    }
    seal(&mut bytes);
    bytes
}

/// Writes the right checksum into a superblock of version 1.
pub(crate) fn seal(bytes: &mut [u8]) {
    put(bytes, 216, [0; 4]);
    let mut words: Vec<u32> = bytes
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    if let [low, high] = bytes.chunks_exact(4).remainder() {
        words.push(u16::from_le_bytes([*low, *high]).into());
    }
    put(bytes, 216, sum(words.into_iter()).to_le_bytes());
}

fn old(of: &Superblock, big_endian: bool) -> Vec<u8> {
    let mut words = vec![0_u32; 1024];
    let w = &mut words;
    let low = |value: u64| u32::try_from(value & 0xffff_ffff).expect("32 bits");
    let high = |value: u64| u32::try_from(value >> 32).expect("32 bits");
    let pair = |w: &mut Vec<u32>, at: usize, value: u64| {
        let swapped = usize::from(big_endian);
        w[at + swapped] = low(value);
        w[at + 1 - swapped] = high(value);
    };
    (w[0], w[2]) = (0xa92b_4efc, 90);
    let uuid: Vec<u32> = of
        .array
        .chunks_exact(4)
        .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    (w[5], w[13], w[14], w[15]) = (uuid[0], uuid[1], uuid[2], uuid[3]);
    w[6] = low(of.created);
    w[7] = level(of.level).cast_unsigned();
    w[8] = low(of.member_size / 1024);
    let active = |role: &&Role| matches!(role, Role::Active(_));
    let count = u32::try_from(of.roles.iter().filter(active).count()).expect("few");
    (w[9], w[10]) = (count, of.members);
    w[11] = of.name.parse().expect("a number");
    w[32] = low(of.updated);
    w[33] = u32::from(of.synced_to.is_none()) | u32::from(of.bitmap_at.is_some()) << 8;
    (w[34], w[35]) = (count, count);
    pair(w, 39, of.events);
    pair(w, 41, of.events);
    w[43] = low(of.synced_to.unwrap_or(0) / 512);
    w[64] = of.layout;
    w[65] = low(of.chunk);
    for (index, role) in of.roles.iter().enumerate() {
        let index = u32::try_from(index).expect("few");
        if let Role::Active(part) = role {
            let described = [index, 8, 16 * index, u32::from(*part), 6];
            let at = 128 + 32 * index as usize;
            w[at..at + 5].copy_from_slice(&described);
            if index == of.number {
                w[992..997].copy_from_slice(&described);
            }
        }
    }
    w[38] = sum(w.iter().copied());
    let bytes = |word: &u32| match big_endian {
        true => word.to_be_bytes(),
        false => word.to_le_bytes(),
    };
    words.iter().flat_map(bytes).collect()
}
