//! What cannot be is refused by name, and nothing is written.

use std::sync::Arc;

use block::{Node, Range};
use testkit::{MemDisk, block_on};

use super::{MIB, NewMember, disks, made, member, missing, usual};
use crate::array::create::{ConsistencyChoice, CreateOptions};
use crate::array::format::{Level, Version};
use crate::{Linear, Memory, Segment, read_within};

/// The refusal of a spec; nothing was written.
fn refusal(parts: &[NewMember], spares: &[NewMember], options: &CreateOptions) -> String {
    let refused = made(parts, spares, options).expect_err("it cannot be made");
    assert!(refused.next().is_some(), "{refused}: what to do next");
    for member in parts.iter().chain(spares) {
        let Some(disk) = &member.disk else { continue };
        let size = disk.geometry().size;
        let ends = [
            Range::new(0, MIB),
            Range::new(size.saturating_sub(MIB), MIB),
        ];
        for range in ends {
            let bytes = block_on(read_within(disk, range)).expect("it can be read");
            assert!(bytes.iter().all(|byte| *byte == 0), "{refused}");
        }
    }
    refused.to_string()
}

fn two() -> Vec<NewMember> {
    disks(&[64 * MIB, 64 * MIB])
}

fn mirror() -> CreateOptions {
    usual(Level::Raid1, Version::V1_2)
}

const OLD: Version = Version::V0_90 { big_endian: false };

#[test]
fn a_member_that_is_given_twice_is_refused() {
    let one: Node = Arc::new(Memory::new(64 * MIB));
    let twice = [member("a", one.clone()), member("a", one.clone())];
    assert_eq!(refusal(&twice, &[], &mirror()), "a is given twice");
    let spare = [member("./a", one.clone())];
    let mut parts = two();
    parts[1] = member("a", one.clone());
    assert_eq!(
        refusal(&parts, &spare, &mirror()),
        "a and ./a have bytes in common"
    );
    let segment = Segment {
        disk: one.clone(),
        range: Range::new(MIB, 32 * MIB),
    };
    let within: Node = Arc::new(Linear::new(vec![segment]).expect("it lies on its disk"));
    let parts = [member("a", one), member("a2", within)];
    assert_eq!(
        refusal(&parts, &[], &mirror()),
        "a and a2 have bytes in common"
    );
}

#[test]
fn a_member_that_cannot_be_written_is_refused() {
    let disk = MemDisk::new(64 * MIB).with_geometry(|geometry| geometry.read_only = true);
    let mut parts = two();
    parts[1] = member("b", Arc::new(disk));
    assert_eq!(refusal(&parts, &[], &mirror()), "b cannot be written");
}

#[test]
fn a_member_that_is_too_small_is_refused() {
    for (version, size) in [
        (Version::V1_2, MIB),
        (Version::V1_1, 64 << 10),
        (Version::V1_0, 16 << 10),
        (Version::V1_2, 0),
        (OLD, 64 << 10),
        (OLD, 65_535),
    ] {
        let parts = disks(&[64 * MIB, size]);
        let printed = refusal(&parts, &[], &usual(Level::Raid1, version));
        let size = size / 512 * 512;
        assert_eq!(
            printed,
            format!("b with {size} bytes is too small for a member")
        );
    }
    let parts = disks(&[64 * MIB, 32 * MIB]);
    let options = CreateOptions {
        size: Some(40 * MIB),
        ..mirror()
    };
    assert_eq!(
        refusal(&parts, &[], &options),
        "b has room for 32505856 bytes of data, 41943040 are asked for"
    );
}

#[test]
fn wrong_numbers_of_members_are_refused() {
    let parts = disks(&[64 * MIB]);
    assert_eq!(
        refusal(&parts, &[], &mirror()),
        "raid1 needs at least two members, 1 given"
    );
    let many: Vec<NewMember> = (0..28).map(|_| disks(&[MIB]).remove(0)).collect();
    assert_eq!(
        refusal(&many, &[], &usual(Level::Raid1, OLD)),
        "superblocks 0.90 have room for 27 members, 28 given"
    );
    assert_eq!(
        refusal(&[missing(), missing()], &[], &mirror()),
        "too many members are missing: some data would be nowhere"
    );
    let four = disks(&[64 * MIB, 64 * MIB]);
    let halves = [four[0].clone(), four[1].clone(), missing(), missing()];
    assert_eq!(
        refusal(&halves, &[], &usual(Level::Raid10, Version::V1_2)),
        "too many members are missing: some data would be nowhere"
    );
    let options = CreateOptions {
        layout: Some(0x103),
        ..usual(Level::Raid10, Version::V1_2)
    };
    assert_eq!(
        refusal(&two(), &[], &options),
        "3 copies need as many members, 2 given"
    );
}

#[test]
fn levels_without_copies_have_neither_spares_nor_missing_members_nor_a_bitmap() {
    let stripe = usual(Level::Raid0, Version::V1_2);
    let parts = [two().remove(0), missing()];
    assert_eq!(
        refusal(&parts, &[], &stripe),
        "raid0 has no copies: no member can be missing"
    );
    assert_eq!(
        refusal(&two(), &disks(&[64 * MIB]), &stripe),
        "raid0 has no copies: a spare could not help"
    );
    let options = CreateOptions {
        consistency: ConsistencyChoice::Bitmap(Some(MIB)),
        ..stripe.clone()
    };
    assert_eq!(
        refusal(&two(), &[], &options),
        "raid0 has no copies: a bitmap could not help"
    );
    let options = CreateOptions {
        size: Some(MIB),
        ..stripe.clone()
    };
    assert_eq!(
        refusal(&two(), &[], &options),
        "raid0 uses all of each member"
    );
    let mut parts = two();
    parts[0].write_mostly = true;
    assert_eq!(
        refusal(&parts, &[], &stripe),
        "raid0 reads each byte from one place"
    );
    let spare = [missing()];
    assert_eq!(
        refusal(&two(), &spare, &mirror()),
        "missing is a spare and is not there"
    );
}

#[test]
fn levels_chunks_and_layouts_that_are_not_made_are_refused() {
    let printed = |change: &dyn Fn(&mut CreateOptions), level| {
        let mut options = usual(level, Version::V1_2);
        change(&mut options);
        refusal(&two(), &[], &options)
    };
    assert_eq!(
        printed(&|_| {}, Level::Other(7)),
        "arrays of level 7 are not made here"
    );
    assert_eq!(
        printed(&|o| o.chunk = Some(MIB), Level::Raid1),
        "raid1 has no chunks"
    );
    for chunk in [0, 512, 2048, 768 << 10, 2 << 30] {
        assert_eq!(
            printed(&|o| o.chunk = Some(chunk), Level::Raid0),
            format!("a chunk of {chunk} bytes cannot be")
        );
    }
    assert_eq!(
        printed(&|o| o.layout = Some(3), Level::Raid0),
        "raid0 has no layout 3"
    );
    for layout in [0, 0x101, 0x2_0102, 0xffff_0102] {
        assert_eq!(
            printed(&|o| o.layout = Some(layout), Level::Raid10),
            format!("raid10 has no layout {layout:#x}")
        );
    }
    assert_eq!(
        printed(&|o| o.layout = Some(0x102), Level::Raid1),
        "raid1 has no layouts"
    );
    assert_eq!(
        printed(
            &|o| o.consistency = ConsistencyChoice::Bitmap(Some(5000)),
            Level::Raid1
        ),
        "a bitmap with 5000 bytes for each bit cannot be here"
    );
    assert_eq!(
        printed(&|o| o.size = Some(1000), Level::Raid10),
        "the size is less than one chunk"
    );
}

#[test]
fn arrays_with_parity_that_cannot_be_are_refused() {
    let four = || disks(&[64 * MIB; 4]);
    let of = |level| usual(level, Version::V1_2);
    for (level, count, least) in [
        (Level::Raid4, 1, "two"),
        (Level::Raid5, 1, "two"),
        (Level::Raid6, 3, "four"),
    ] {
        let expected = format!("{level} needs at least {least} members, {count} given");
        assert_eq!(refusal(&four()[..count], &[], &of(level)), expected);
    }
    let without = |gone: usize| {
        let mut parts = four();
        parts[..gone].fill(missing());
        parts
    };
    let too_many = "too many members are missing: some data would be nowhere";
    assert_eq!(refusal(&without(2), &[], &of(Level::Raid5)), too_many);
    assert_eq!(refusal(&without(3), &[], &of(Level::Raid6)), too_many);
    for (level, layout) in [(Level::Raid5, 6), (Level::Raid5, 18), (Level::Raid6, 7)] {
        let options = CreateOptions {
            layout: Some(layout),
            ..of(level)
        };
        let expected = format!("layout {layout} of {level} is not known");
        assert_eq!(refusal(&four(), &[], &options), expected);
    }
    let options = CreateOptions {
        layout: Some(2),
        ..of(Level::Raid4)
    };
    assert_eq!(refusal(&four(), &[], &options), "raid4 has no layouts");
    let options = CreateOptions {
        chunk: Some(96 << 10),
        ..of(Level::Raid6)
    };
    assert_eq!(
        refusal(&four(), &[], &options),
        "a chunk of 98304 bytes cannot be"
    );
    let mut parts = four();
    parts[2].write_mostly = true;
    let expected = "raid5 reads each byte from one place";
    assert_eq!(refusal(&parts, &[], &of(Level::Raid5)), expected);
    let many: Vec<NewMember> = (0..256).map(|_| disks(&[4 * MIB]).remove(0)).collect();
    assert_eq!(
        refusal(&many, &[], &of(Level::Raid6)),
        "a raid6 of 256 parts cannot be: it has 4 to 255"
    );
    // One begins as a spare, with a number of its own.
    let mut many: Vec<NewMember> = (0..27).map(|_| disks(&[4 * MIB]).remove(0)).collect();
    many[0] = missing();
    assert_eq!(
        refusal(&many, &[], &usual(Level::Raid6, OLD)),
        "superblocks 0.90 have room for 27 members, 28 given"
    );
}

#[test]
fn disks_with_blocks_larger_than_a_chunk_are_refused() {
    let large: Node =
        Arc::new(MemDisk::new(64 * MIB).with_geometry(|geometry| geometry.block_size = 65_536));
    for level in [Level::Raid0, Level::Raid10, Level::Raid5] {
        let mut parts = two();
        parts[1] = member("b", large.clone());
        let options = CreateOptions {
            chunk: Some(16 << 10),
            ..usual(level, Version::V1_2)
        };
        assert_eq!(
            refusal(&parts, &[], &options),
            "b has blocks of 65536 bytes, larger than chunks of 16384"
        );
    }
}

#[test]
fn names_that_do_not_fit_are_refused() {
    let printed = |name: &str| {
        let mut options = mirror();
        options.name = name.to_owned();
        refusal(&two(), &[], &options)
    };
    assert_eq!(
        printed(&"n".repeat(33)),
        format!("the name {} is longer than 32 bytes", "n".repeat(33))
    );
    assert_eq!(printed(""), "\"\" is no name for an array");
    assert_eq!(printed("a\nb"), "\"a\\nb\" is no name for an array");
    let mut options = mirror();
    options.name = "n".repeat(32);
    assert!(made(&two(), &[], &options).is_ok());
}

#[test]
fn old_superblocks_are_refused_where_they_are_too_small() {
    let large = || disks(&[5 << 40, 5 << 40]);
    assert_eq!(
        refusal(&large(), &[], &usual(Level::Raid1, OLD)),
        "superblocks 0.90 have room for 4 TiB of each member"
    );
    assert!(made(&large(), &[], &mirror()).is_ok());
    assert_eq!(
        refusal(
            &disks(&[64 * MIB, 80 * MIB]),
            &[],
            &usual(Level::Raid0, OLD)
        ),
        "superblocks 0.90 cannot describe raid0 of unequal members"
    );
}
