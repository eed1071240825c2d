//! Superblocks 1.0, 1.1 and 1.2 as bytes: whole ones, and changes to those that were read. Pure.

use super::super::{
    Changes, Form, Level, MAGIC, MEMBERS_MAX, PLACE_LEN, PolicyPlace, Reshape, Role, SECTOR,
    Superblock, features,
};
use super::{
    AWAITS_PPL, CHECKSUM_AT, FAIL_FAST, FIXED_LEN, WRITE_MOSTLY, checksum, field, role, whole,
};
use crate::fields::{Fields, put};

/// Bytes of the name.
const NAME_LEN: usize = 32;

/// A whole superblock at byte `at`; [`PLACE_LEN`] bytes, zeroes behind it.
pub(in super::super) fn encode(of: &Superblock, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(PLACE_LEN).expect("small")];
    let b = bytes.as_mut_slice();
    put(b, 0, MAGIC.to_le_bytes());
    put(b, 4, 1_u32.to_le_bytes());
    put(b, field::FEATURES, of.features.to_le_bytes());
    put(b, field::ARRAY, of.array);
    let name = &of.name.as_bytes()[..of.name.len().min(NAME_LEN)];
    b[field::NAME..field::NAME + name.len()].copy_from_slice(name);
    put(b, field::CREATED, of.created.to_le_bytes());
    put(b, field::LEVEL, of.level.number().to_le_bytes());
    put(b, field::LAYOUT, of.layout.to_le_bytes());
    put(b, field::SIZE, (of.member_size / SECTOR).to_le_bytes());
    put(b, field::CHUNK, words(of.chunk / SECTOR).to_le_bytes());
    put(b, field::DATA_AT, (of.data.offset / SECTOR).to_le_bytes());
    put(b, field::DATA_LEN, (of.data.len / SECTOR).to_le_bytes());
    put(b, field::PLACE, (at / SECTOR).to_le_bytes());
    put(b, field::DEVICE, of.device.unwrap_or_default());
    if let Some(log) = of.bad_blocks {
        let sectors = u16::try_from(log.len / SECTOR).unwrap_or(u16::MAX);
        b[field::BAD_BLOCKS_SHIFT] = of.bad_blocks_shift;
        put(b, field::BAD_BLOCKS_LEN, sectors.to_le_bytes());
        let away = away(at, log.offset);
        put(b, field::BAD_BLOCKS_AT, away.to_le_bytes());
    }
    if let Some(log) = of.ppl {
        let sectors = u16::try_from(log.len / SECTOR).unwrap_or(u16::MAX);
        let away =
            i16::try_from(away(at, log.offset)).expect("what belongs to a superblock is near it");
        put(b, field::PPL_AT, away.to_le_bytes());
        put(b, field::PPL_LEN, sectors.to_le_bytes());
    }
    if let Some(reshape) = &of.reshape {
        put_reshape(b, reshape);
    }
    let count = of.roles.len().min(MEMBERS_MAX as usize);
    put(b, field::ROLES, words(count as u64).to_le_bytes());
    patch(&bytes, &Changes::all_of(of))
}

/// The fields of a reshape; what features say of it is the caller's.
fn put_reshape(b: &mut [u8], reshape: &Reshape) {
    put(
        b,
        field::RESHAPE_LEVEL,
        reshape.level.number().to_le_bytes(),
    );
    put(
        b,
        field::RESHAPE_AT,
        (reshape.position / SECTOR).to_le_bytes(),
    );
    put(b, field::MEMBERS_ADDED, reshape.members_added.to_le_bytes());
    put(b, field::RESHAPE_LAYOUT, reshape.layout.to_le_bytes());
    put(
        b,
        field::RESHAPE_CHUNK,
        words(reshape.chunk / SECTOR).to_le_bytes(),
    );
    let moved = i32::try_from(reshape.data_moved / SECTOR.cast_signed());
    let moved = moved.expect("data are moved by less than a superblock can say");
    put(b, field::DATA_MOVED, moved.to_le_bytes());
}

/// Whether the field that both have is used.
const fn has_bitmap_or_ppl(bits: u32) -> bool {
    bits & (features::BITMAP | features::PPL | features::MULTIPLE_PPLS) != 0
}

/// Features, with what a form says of them.
fn form_features(mut bits: u32, form: &Form) -> u32 {
    if form.drops_ppl {
        bits &= !(features::PPL | features::MULTIPLE_PPLS);
    }
    if form.level != Level::Raid0 {
        // Linux refuses it of others.
        bits &= !features::RAID0_LAYOUT;
    }
    bits &= !(features::RESHAPE | features::NEW_OFFSET | features::RESHAPE_BACKWARDS);
    let Some(reshape) = &form.reshape else {
        return bits;
    };
    let flags = [
        (features::RESHAPE, true),
        (features::NEW_OFFSET, reshape.data_moved != 0),
        // As Linux: a count of members that falls says it, too.
        (
            features::RESHAPE_BACKWARDS,
            reshape.backwards && reshape.members_added == 0,
        ),
    ];
    let set = flags.iter().filter(|(_, on)| *on);
    set.fold(bits, |bits, (bit, _)| bits | bit)
}

/// What a form changes, but for features.
fn put_form(b: &mut [u8], form: &Form) {
    put(b, field::LEVEL, form.level.number().to_le_bytes());
    put(b, field::LAYOUT, form.layout.to_le_bytes());
    put(b, field::CHUNK, words(form.chunk / SECTOR).to_le_bytes());
    put(b, field::SIZE, (form.member_size / SECTOR).to_le_bytes());
    put(b, field::DATA_AT, (form.data.offset / SECTOR).to_le_bytes());
    put(b, field::DATA_LEN, (form.data.len / SECTOR).to_le_bytes());
    match &form.reshape {
        Some(reshape) => put_reshape(b, reshape),
        None => b[field::RESHAPE_LEVEL..field::DATA_AT].fill(0),
    }
}

/// A number that cannot be larger in what was decoded.
fn words(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Sectors from the superblock at byte `at` to byte `to`.
fn away(at: u64, to: u64) -> i32 {
    let sectors = (to / SECTOR).cast_signed() - (at / SECTOR).cast_signed();
    i32::try_from(sectors).expect("what belongs to a superblock is near it")
}

/// Bytes of the superblock that begins `bytes`.
pub(in super::super) fn len(bytes: &[u8]) -> usize {
    let count = Fields::of(bytes).u32(field::ROLES).min(MEMBERS_MAX);
    FIXED_LEN + 2 * count as usize
}

pub(in super::super) fn patch(bytes: &[u8], changes: &Changes<'_>) -> Vec<u8> {
    assert!(
        matches!(whole(bytes), Ok(Some(_))),
        "a superblock was read before it is changed"
    );
    let mut bytes = bytes.to_vec();
    let b = &mut bytes;
    if let Some(roles) = changes.roles {
        put_roles(b, roles);
    }
    put_numbers(b.as_mut_slice(), changes);
    put_states(b.as_mut_slice(), changes);
    let len = len(b);
    let sum = checksum(&b[..len]);
    put(b, CHECKSUM_AT, sum.to_le_bytes());
    bytes
}

fn put_numbers(b: &mut [u8], changes: &Changes<'_>) {
    let long = [
        (field::EVENTS, changes.events),
        (field::UPDATED, changes.updated),
    ];
    for (at, value) in long {
        if let Some(value) = value {
            put(b, at, value.to_le_bytes());
        }
    }
    let short = [
        (field::NUMBER, changes.number),
        (field::MEMBERS, changes.members),
        (field::CORRECTED, changes.corrected),
    ];
    for (at, value) in short {
        if let Some(value) = value {
            put(b, at, value.to_le_bytes());
        }
    }
    if let Some(synced_to) = changes.synced_to {
        let sectors = synced_to.map_or(u64::MAX, |to| to / SECTOR);
        put(b, field::SYNCED_TO, sectors.to_le_bytes());
    }
}

/// What is a feature, or a flag.
fn put_states(b: &mut [u8], changes: &Changes<'_>) {
    let mut bits = Fields::of(b).u32(field::FEATURES);
    let mut flag = |bit: u32, on: bool| match on {
        true => bits |= bit,
        false => bits &= !bit,
    };
    if let Some(to) = changes.rebuilt_to {
        flag(features::RECOVERY_OFFSET, to.is_some());
        if to.is_none() {
            flag(features::RECOVERY_BITMAP, false);
        }
        put(
            b,
            field::REBUILT_TO,
            (to.unwrap_or(0) / SECTOR).to_le_bytes(),
        );
    }
    if let Some(tail) = changes.journal_tail {
        // The member that keeps the journal is never rebuilt: the field is for this then.
        put(b, field::REBUILT_TO, (tail / SECTOR).to_le_bytes());
    }
    if let Some(on) = changes.rebuilt_by_bitmap {
        flag(features::RECOVERY_BITMAP, on);
    }
    if let Some(on) = changes.replacement {
        flag(features::REPLACEMENT, on);
    }
    if let Some(on) = changes.has_bad_blocks {
        flag(features::BAD_BLOCKS, on);
    }
    if let Some(to) = changes.bitmap_at {
        flag(features::BITMAP, to.is_some());
        let at = Fields::of(b).u64(field::PLACE).saturating_mul(SECTOR);
        put(
            b,
            field::BITMAP_AT,
            to.map_or(0, |to| away(at, to)).to_le_bytes(),
        );
    }
    if let Some(form) = &changes.form {
        let before = bits;
        bits = form_features(bits, form);
        // What is not used says that logs are awaited, which level 5 alone has.
        let is_stale = has_bitmap_or_ppl(before) || form.level != Level::Raid5;
        if form.drops_ppl && is_stale && !has_bitmap_or_ppl(bits) {
            put(b, field::BITMAP_AT, [0; 4]);
        }
        put_form(b, form);
    }
    if let Some(policy) = changes.policy {
        bits = put_policy(b, bits, policy);
    }
    put(b, field::FEATURES, bits.to_le_bytes());
    let flags = [
        (WRITE_MOSTLY, changes.write_mostly),
        (FAIL_FAST, changes.fail_fast),
    ];
    for (bit, on) in flags {
        match on {
            Some(true) => b[field::FLAGS] |= bit,
            Some(false) => b[field::FLAGS] &= !bit,
            None => {}
        }
    }
}

/// Where the bitmap or the partial parity log is, one field for both; features with that.
fn put_policy(b: &mut [u8], bits: u32, policy: PolicyPlace) -> u32 {
    let superblock = Fields::of(b).u64(field::PLACE).saturating_mul(SECTOR);
    let bits = bits & !(features::BITMAP | features::PPL | features::MULTIPLE_PPLS);
    put(b, field::BITMAP_AT, [0; 4]);
    match policy {
        PolicyPlace::None => bits,
        PolicyPlace::AwaitsPpl => {
            put(b, field::PPL_AT, AWAITS_PPL);
            bits
        }
        PolicyPlace::Bitmap(at) => {
            put(b, field::BITMAP_AT, away(superblock, at).to_le_bytes());
            bits | features::BITMAP
        }
        PolicyPlace::Ppl(log) => {
            let away = i16::try_from(away(superblock, log.offset));
            let away = away.expect("a partial parity log is near its superblock");
            let sectors = u16::try_from(log.len / SECTOR).unwrap_or(u16::MAX);
            put(b, field::PPL_AT, away.to_le_bytes());
            put(b, field::PPL_LEN, sectors.to_le_bytes());
            bits | features::PPL
        }
    }
}

/// Numbers that stand for the same keep the bytes that they have.
fn put_roles(b: &mut Vec<u8>, roles: &[Role]) {
    let known = Fields::of(b).u32(field::ROLES).min(MEMBERS_MAX) as usize;
    if roles.len() > known {
        put(b, field::ROLES, words(roles.len() as u64).to_le_bytes());
        let len = FIXED_LEN + 2 * roles.len();
        b.resize(b.len().max(len), 0);
    }
    for (index, new) in roles.iter().enumerate() {
        let at = FIXED_LEN + 2 * index;
        if index >= known || role(Fields::of(b).u16(at)) != *new {
            put(b, at, number(*new).to_le_bytes());
        }
    }
}

const fn number(role: Role) -> u16 {
    match role {
        Role::Active(part) => part,
        Role::Spare => 0xffff,
        Role::Faulty => 0xfffe,
        Role::Journal => 0xfffd,
    }
}
