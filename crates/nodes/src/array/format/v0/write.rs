//! Superblock 0.90 as bytes: whole ones, and changes to those that were read. Pure.
//!
//! A member's number is its part in this format, as long as it is in sync; one that is not comes behind the
//! parts. [`Role`]s may be numbered otherwise (as they were while a spare was being made a member): they are put
//! in order here.

use super::super::{Changes, Form, MAGIC, Reshape, Role, SECTOR, Superblock};
use super::{
    ACTIVE, BITMAP, CHECKSUM_AT, CLEAN, DISK_AT, DISK_LEN, DISKS, FAIL_FAST, FAULTY, REMOVED,
    RESHAPING, SYNC, THIS_AT, WHOLE, WORDS, WRITE_MOSTLY, Words, synced_to,
};

/// Words of the reshape that is going on.
const RESHAPE_AT: usize = 44;
const RESHAPE_END: usize = 50;

/// A whole superblock.
pub(in super::super) fn encode(of: &Superblock, big_endian: bool) -> Vec<u8> {
    let mut words = Words {
        words: vec![0; WORDS],
        big_endian,
    };
    let w = &mut words;
    let minor = if of.reshape.is_some() {
        RESHAPING
    } else {
        WHOLE
    };
    w.words[..3].copy_from_slice(&[MAGIC, 0, minor]);
    for (word, index) in of.array.chunks_exact(4).zip([5, 13, 14, 15]) {
        w.words[index] = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
    }
    w.words[6] = low(of.created);
    w.words[7] = of.level.number().cast_unsigned();
    // 0 for RAID 0 and linear arrays: mdadm refuses members that say different sizes.
    w.words[8] = low(of.member_size / 1024);
    w.words[11] = of.name.parse().unwrap_or(0);
    w.words[64] = of.layout;
    w.words[65] = low(of.chunk);
    if let Some(reshape) = &of.reshape {
        put_reshape(w, reshape);
    }
    apply(w, &Changes::all_of(of));
    words.sealed()
}

pub(in super::super) fn patch(bytes: &[u8], changes: &Changes<'_>) -> Vec<u8> {
    let mut words = Words::of(bytes).expect("a superblock was read before it is changed");
    apply(&mut words, changes);
    let mut patched = words.sealed();
    patched.extend_from_slice(&bytes[patched.len()..]);
    patched
}

/// As much of a number as there is room for.
fn low(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn apply(w: &mut Words, changes: &Changes<'_>) {
    // What it says now belongs to the events that it has now.
    let synced = synced_to(w, w.at(33)).unwrap_or(Some(0));
    if let Some(events) = changes.events {
        w.put_pair(39, events);
    }
    put_synced(w, changes.synced_to.unwrap_or(synced));
    if let Some(updated) = changes.updated {
        w.words[32] = low(updated);
    }
    if let Some(members) = changes.members {
        w.words[10] = members;
    }
    if let Some(form) = &changes.form {
        put_form(w, form);
    }
    if let Some(bitmap) = changes.bitmap_at {
        w.flag(33, BITMAP, bitmap.is_some());
    }
    let own = changes.number.unwrap_or(w.at(THIS_AT));
    if let Some(roles) = changes.roles {
        put_roles(w, roles, own);
    }
    put_flags(w, changes);
}

/// How data and parity lie. Data begin where the disk does: no reshape moves them.
fn put_form(w: &mut Words, form: &Form) {
    w.words[7] = form.level.number().cast_unsigned();
    w.words[8] = low(form.member_size / 1024);
    w.words[64] = form.layout;
    w.words[65] = low(form.chunk);
    w.words[2] = if form.reshape.is_some() {
        RESHAPING
    } else {
        WHOLE
    };
    match &form.reshape {
        Some(reshape) => put_reshape(w, reshape),
        None => w.words[RESHAPE_AT..RESHAPE_END].fill(0),
    }
}

fn put_reshape(w: &mut Words, reshape: &Reshape) {
    w.put_pair(RESHAPE_AT, reshape.position / SECTOR);
    w.words[46] = reshape.level.number().cast_unsigned();
    w.words[47] = reshape.members_added.cast_unsigned();
    w.words[48] = reshape.layout;
    w.words[49] = low(reshape.chunk);
}

/// A checkpoint counts with the events of its time. Places behind what 32 bits can say are recorded too near: more is
/// copied then, not less.
fn put_synced(w: &mut Words, to: Option<u64>) {
    w.flag(33, CLEAN, to.is_none());
    w.words[43] = to.map_or(u32::MAX, |to| low(to / SECTOR));
    let events = w.pair(39);
    w.put_pair(41, events);
}

/// This member's description, in the table and in its own place.
fn put_flags(w: &mut Words, changes: &Changes<'_>) {
    let flags = [
        (WRITE_MOSTLY, changes.write_mostly),
        (FAIL_FAST, changes.fail_fast),
    ];
    let in_table = usize::try_from(w.at(THIS_AT)).ok();
    let in_table = in_table.filter(|number| *number < DISKS);
    for (bit, on) in flags {
        let Some(on) = on else { continue };
        w.flag(THIS_AT + 4, bit, on);
        if let Some(number) = in_table {
            w.flag(DISK_AT + number * DISK_LEN + 4, bit, on);
        }
    }
}

/// The table again: parts first, each at its place; then members without one.
fn put_roles(w: &mut Words, roles: &[Role], own: u32) {
    let before = w.words[DISK_AT..DISK_AT + DISKS * DISK_LEN].to_vec();
    let this = w.words[THIS_AT..THIS_AT + DISK_LEN].to_vec();
    w.words[DISK_AT..DISK_AT + DISKS * DISK_LEN].fill(0);
    let parts = usize::try_from(w.at(10)).unwrap_or(DISKS).min(DISKS);
    let mut table = Table::default();
    let held = roles.iter().filter_map(|role| match role {
        Role::Active(part) => Some(usize::from(*part) + 1),
        _ => None,
    });
    let mut behind = held.max().unwrap_or(0).max(parts);
    for (number, role) in roles.iter().enumerate() {
        let is_own = u32::try_from(number) == Ok(own);
        let old = match is_own {
            true => this.as_slice(),
            false => &before[number * DISK_LEN..(number + 1) * DISK_LEN],
        };
        let (index, state) = match role {
            Role::Active(part) if usize::from(*part) < DISKS => (usize::from(*part), ACTIVE | SYNC),
            Role::Spare => {
                behind += 1;
                (behind - 1, 0)
            }
            _ => continue,
        };
        if index >= DISKS {
            continue;
        }
        table.count(state);
        let at = DISK_AT + index * DISK_LEN;
        w.words[at..at + DISK_LEN].copy_from_slice(old);
        w.describe(at, index, state);
        if is_own {
            w.words.copy_within(at..at + DISK_LEN, THIS_AT);
        }
    }
    for part in 0..parts {
        let at = DISK_AT + part * DISK_LEN;
        if w.at(at + 4) & ACTIVE == 0 {
            w.describe(at, part, FAULTY | REMOVED);
            table.failed += 1;
        }
    }
    let described = table.active + table.spare;
    w.words[9] = described;
    let counts = [table.active, described, table.failed, table.spare];
    w.words[34..38].copy_from_slice(&counts);
}

/// How many there are of each.
#[derive(Debug, Default)]
struct Table {
    active: u32,
    failed: u32,
    spare: u32,
}

impl Table {
    const fn count(&mut self, state: u32) {
        match state & ACTIVE {
            0 => self.spare += 1,
            _ => self.active += 1,
        }
    }
}

impl Words {
    fn put_pair(&mut self, index: usize, value: u64) {
        let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
        let mut pair = [
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, g, h]),
        ];
        if self.big_endian {
            pair.reverse();
        }
        self.words[index..index + 2].copy_from_slice(&pair);
    }

    fn flag(&mut self, index: usize, bit: u32, on: bool) {
        match on {
            true => self.words[index] |= bit,
            false => self.words[index] &= !bit,
        }
    }

    /// The descriptor of a member; the numbers of its device and its own flags stay.
    fn describe(&mut self, at: usize, number: usize, state: u32) {
        let number = u32::try_from(number).expect("few");
        self.words[at] = number;
        self.words[at + 3] = number;
        self.words[at + 4] = self.words[at + 4] & (WRITE_MOSTLY | FAIL_FAST) | state;
    }

    /// Its bytes, with the checksum.
    fn sealed(mut self) -> Vec<u8> {
        self.words[CHECKSUM_AT] = self.checksum();
        let bytes = |word: &u32| match self.big_endian {
            true => word.to_be_bytes(),
            false => word.to_le_bytes(),
        };
        self.words.iter().flat_map(bytes).collect()
    }
}
