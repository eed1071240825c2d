//! The grammar, its errors with their places, and remarks.

use std::path::PathBuf;

use proptest::prelude::*;

use super::{FOUR_DRIVES, table};
use crate::dm::{DeviceName, DeviceUse, DmProblem, Need, TextPosition, parse, remarks, target};

/// The error of a table, as a user reads it.
fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

fn path(name: &str) -> DeviceName {
    DeviceName::Path(PathBuf::from(name))
}

#[test]
fn four_drives_in_a_row_are_read_as_printed() {
    let table = table(FOUR_DRIVES);
    let lines: Vec<_> = table.lines().iter().map(|l| (l.start, l.len)).collect();
    let expected = [
        (0, 121_077_760),
        (121_077_760, 121_077_760),
        (242_155_520, 121_077_761),
        (363_233_281, 483_321_640),
    ];
    assert_eq!(lines, expected);
    let devices: Vec<_> = table.needs().iter().map(name_of).collect();
    assert_eq!(
        devices,
        ["/dev/sda", "/dev/sdb", "/dev/sdc", "/dev/sdd"].map(path)
    );
    assert_eq!(table.size(), 846_554_921 * 512);
}

fn name_of(need: &Need<'_>) -> DeviceName {
    match need {
        Need::Disk { device, .. } => device.name.clone(),
        Need::Overlay { store, .. } => store.name.clone(),
    }
}

#[test]
fn the_drive_with_a_sector_more_shifts_the_next_one() {
    let remarks: Vec<_> = remarks(&table(FOUR_DRIVES))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        remarks,
        [
            "line 4: blocks of 4096 bytes lie 1 sector off those of the device: the segment begins at \
          sector 363233281, which is no multiple of 8; writes of a block change two, which is slow \
          (while the disk is still empty, make line 3 shorter by 1)"
        ]
    );
}

#[test]
fn blocks_may_lie_off_in_other_ways() {
    let text = "\
0 12 linear a 8
12 20 linear b 4
32 8 linear c 3
40 48 striped 2 12 d 0 e 8
88 8 snapshot-origin f
96 1 zero
97 7 error
";
    let remarks: Vec<_> = remarks(&table(text))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        remarks,
        [
            "line 2: the segment begins at sector 12, which is no multiple of 8: a block of 4096 \
             bytes lies on both sides of it (while the disk is still empty, make line 1 shorter by 4)",
            "line 3: blocks of 4096 bytes lie 5 sectors off those of the device: its first sector \
             there is no multiple of 8; writes of a block change two, which is slow",
            "line 4: a chunk of 12 sectors is no multiple of 8: blocks of 4096 bytes lie on two \
             devices",
            "line 5: the origin is read-only here, and the whole table with it: a write would change \
             its snapshots; to write to the device itself, name it as linear",
            "line 7: the segment begins at sector 97, which is no multiple of 8: a block of 4096 \
             bytes lies on both sides of it (while the disk is still empty, make line 6 shorter by 1)",
        ]
    );
}

#[test]
fn a_place_that_is_there_twice_is_remarked_on() {
    let text = "0 16 linear a 0\n16 8 linear b 0\n24 16 striped 2 8 a 8 b 8\n40 8 linear a 0";
    let remarks: Vec<_> = remarks(&table(text))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        remarks,
        [
            "line 4: a is used by line 1 too, from its sector 0 on: what is written to one changes \
             the other",
            "line 3: a is used by line 1 too, from its sector 8 on: what is written to one changes \
             the other",
        ]
    );
}

#[test]
fn every_target_is_understood() {
    let text = "\
  # a table with everything
0 8 linear /dev/sda 16   # behind a target, a comment

8\t16 striped 2 4 8:16 0 253:0 7
24 8 zero
32 8 error
40 8 snapshot /dev/a /dev/b P 16
48 8 snapshot /dev/a /dev/b PO 8 0
56 8 snapshot-origin /dev/a
";
    let table = table(text);
    let used = |line: usize| table.lines()[line].uses();
    let of = |name: DeviceName, uses: &DeviceUse<'_>| {
        assert_eq!(name_of(&uses.need), name);
        (uses.offset, uses.len, uses.is_in_order)
    };
    assert_eq!(of(path("/dev/sda"), &used(0)[0]), (16, 8, true));
    let number = |major, minor| DeviceName::Number { major, minor };
    assert_eq!(of(number(8, 16), &used(1)[0]), (0, 8, false));
    assert_eq!(of(number(253, 0), &used(1)[1]), (7, 8, false));
    let counts: Vec<usize> = (0..7).map(|line| used(line).len()).collect();
    assert_eq!(counts, [1, 2, 0, 0, 1, 1, 1]);
    let chunk = 16 * 512;
    assert!(matches!(used(4)[0].need, Need::Overlay { chunk: found, .. } if found == chunk));
    assert!(matches!(
        used(6)[0].need,
        Need::Disk {
            read_only: true,
            ..
        }
    ));
    assert_eq!(table.lines()[1].place, TextPosition { line: 4, column: 1 });
}

#[test]
fn a_backslash_takes_the_next_character_as_it_is() {
    let table = table("0 8 linear /mnt/My\\ Disk\\\\1 0");
    assert_eq!(
        table.needs().iter().map(name_of).collect::<Vec<_>>(),
        [path("/mnt/My Disk\\1")]
    );
}

#[test]
fn a_device_is_needed_once_for_each_way_of_its_use() {
    let text = "\
0 8 linear a 0
8 16 striped 2 8 b 0 a 8
24 8 snapshot-origin a
32 8 snapshot a s P 8
40 8 snapshot a s P 8
";
    let table = table(text);
    let needs: Vec<_> = table
        .needs()
        .iter()
        .map(|need| match need {
            Need::Disk { device, read_only } => format!("{device} {read_only}"),
            Need::Overlay {
                origin,
                store,
                chunk,
            } => format!("{origin} {store} {chunk}"),
        })
        .collect();
    assert_eq!(needs, ["a false", "b false", "a true", "a s 4096"]);
}

#[test]
fn lines_follow_each_other_from_sector_0_on() {
    assert_eq!(
        error("8 8 zero"),
        "line 1, column 1: the line begins at sector 8, and should at sector 0: a table begins at \
         sector 0"
    );
    assert_eq!(
        error("0 8 zero\n  9 8 zero"),
        "line 2, column 3: the line begins at sector 9, and should at sector 8: lines follow each \
         other without a gap; `zero` or `error` can fill it"
    );
    assert_eq!(
        error("0 8 zero\n7 8 zero"),
        "line 2, column 1: the line begins at sector 7, and should at sector 8: lines do not overlap"
    );
    assert_eq!(
        error("0 0 zero"),
        "line 1, column 3: a line has at least one sector"
    );
    assert_eq!(
        error("0 18446744073709551615 zero"),
        "line 1, column 3: a disk cannot be that large"
    );
}

#[test]
fn what_is_missing_or_too_much_is_named_at_its_place() {
    assert_eq!(
        error(" # nothing\n\n"),
        "line 1, column 1: the table has no line: a line is START LENGTH TARGET ARGUMENTS, in sectors \
         of 512 bytes"
    );
    assert_eq!(
        error("0 8"),
        "line 1, column 4: the target is missing behind the line's beginning"
    );
    assert_eq!(
        error("0 8 linear /dev/sda"),
        "line 1, column 20: the device's first sector is missing behind linear"
    );
    assert_eq!(
        error("0 8 zero\n8 8 linear /dev/sda  x1"),
        "line 2, column 22: the device's first sector is a decimal number, \"x1\" is none"
    );
    assert_eq!(
        error("0 8 zero please"),
        "line 1, column 10: zero takes no more arguments, and here is \"please\""
    );
    assert_eq!(
        error("0 -8 zero"),
        "line 1, column 3: the length in sectors is a decimal number, \"-8\" is none"
    );
    assert_eq!(
        error("0 8 linear /dev/süd 0 0"),
        "line 1, column 23: linear takes no more arguments, and here is \"0\""
    );
    assert_eq!(
        error("omni: 0 8 zero"),
        "line 1, column 1: omni: is the name of a device: leave it out, as `dmsetup table NAME` \
         prints the table"
    );
}

#[test]
fn targets_that_are_not_served_are_refused_by_name() {
    assert_eq!(
        error("0 8 liner /dev/sda 0"),
        "line 1, column 5: there is no target \"liner\": outboard knows linear, striped, zero, error, \
         snapshot and snapshot-origin"
    );
    assert_eq!(
        error("0 8 crypt aes-xts-plain64 0 0 /dev/sda 0"),
        "line 1, column 5: the target crypt is not served: open it with cryptsetup, and take the \
         device that makes"
    );
    for name in [
        "cache",
        "thin",
        "thin-pool",
        "verity",
        "integrity",
        "writecache",
        "era",
        "multipath",
    ] {
        let refused = parse(&format!("0 8 {name} 1 2 3")).unwrap_err();
        assert!(
            matches!(refused.problem, DmProblem::Refused { .. }),
            "{refused}"
        );
    }
}

#[test]
fn stripes_keep_to_the_rules_of_the_kernel() {
    // A chunk that is no power of two is the kernel's too.
    table("0 24 striped 2 3 a 0 b 0");
    assert_eq!(
        error("0 24 striped 0 8"),
        "line 1, column 14: a striped line has at least one stripe and at most 4096"
    );
    assert_eq!(
        error("0 24 striped 2 0"),
        "line 1, column 16: a chunk has at least one sector"
    );
    assert_eq!(
        error("0 25 striped 2 8 a 0 b 0"),
        "line 1, column 3: 25 sectors cannot be dealt out to 2 stripes in chunks of 8 sectors"
    );
    assert_eq!(
        error("0 24 striped 2 8 a 0 b 0"),
        "line 1, column 3: 24 sectors cannot be dealt out to 2 stripes in chunks of 8 sectors"
    );
    assert_eq!(
        error("0 32 striped 2 8 a 0"),
        "line 1, column 21: a stripe's device is missing behind striped"
    );
}

#[test]
fn snapshots_are_those_that_are_kept() {
    assert_eq!(
        error("0 8 snapshot a b N 8"),
        "line 1, column 18: N is a snapshot whose changes are lost at the end, written over what b \
         holds: write P for one that is kept, or use overlay(BASE, TOP) with a new TOP"
    );
    assert_eq!(
        error("0 8 snapshot a b Q 8"),
        "line 1, column 18: a snapshot is P, PO (both kept) or N, not \"Q\""
    );
    assert_eq!(
        error("0 8 snapshot a b P 12"),
        "line 1, column 20: a snapshot's chunk is a power of two of sectors, at most 262144, 12 is none"
    );
    assert_eq!(
        error("0 8 snapshot a b P 8 1 discard_zeroes_cow"),
        "line 1, column 24: features of snapshots (discard_zeroes_cow) are not served: leave them out"
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in "[ 0-9a-z#\\\\:\n\t-]{0,80}") {
        drop(parse(&text).map(|table| remarks(&table)));
    }

    #[test]
    fn no_arguments_panic(
        target in prop::sample::select(target::names().collect::<Vec<_>>()),
        len: u64, arguments in prop::collection::vec("[0-9]{1,21}|[a-z:#]{1,3}", 0..8),
    ) {
        let text = format!("0 {len} {target} {}", arguments.join(" "));
        drop(parse(&text).map(|table| remarks(&table)));
    }

    #[test]
    fn a_table_that_is_read_covers_its_disk_once(lens in prop::collection::vec(1..1000_u64, 1..20)) {
        let mut at = 0;
        let line = |len: u64| {
            let text = format!("{at} {len} linear /dev/sda {at}\n");
            at += len;
            text
        };
        let text: String = lens.iter().copied().map(line).collect();
        let table = table(&text);
        prop_assert_eq!(table.size(), at * 512);
        prop_assert_eq!(table.lines().len(), lens.len());
        prop_assert_eq!(table.needs().len(), 1);
        let cut: String = text.lines().skip(1).collect::<Vec<_>>().join("\n");
        prop_assert!(parse(&cut).is_err());
    }
}
