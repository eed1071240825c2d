//! Layouts against the table.

use std::collections::BTreeSet;

use super::writer::{layouts, table};
use crate::array::format::Level;
use crate::array::parity::layout::Layout;

fn layout((level, number): (Level, u32), parts: usize) -> Layout {
    Layout::new(level, number, u32::try_from(parts).unwrap(), 512).unwrap()
}

#[test]
fn every_row_is_as_the_table_says() {
    for kind in layouts() {
        for parts in 4..=20 {
            let layout = layout(kind, parts);
            for number in 0..3 * parts {
                let table = table(kind.0, kind.1, parts, number);
                let row = layout.row(number as u64);
                let data: Vec<usize> = (0..layout.data()).map(|index| row.part(index)).collect();
                let what = format!("{kind:?} of {parts}, row {number}");
                assert_eq!(
                    (row.p, row.q, &data),
                    (table.p, table.q, &table.data),
                    "{what}"
                );
                for (part, exponent) in table.exponents {
                    assert_eq!(row.exponent(part), exponent, "{what}, part {part}");
                }
            }
        }
    }
}

#[test]
fn every_part_has_one_chunk_of_a_row_and_an_exponent_of_its_own() {
    for kind in layouts() {
        for parts in [4, 5, 20, 255] {
            let layout = layout(kind, parts);
            for number in 0..=parts as u64 {
                let row = layout.row(number);
                let data: Vec<usize> = (0..layout.data()).map(|index| row.part(index)).collect();
                let parity = [Some(row.p), row.q].into_iter().flatten();
                let all: BTreeSet<usize> = data.iter().copied().chain(parity).collect();
                assert_eq!(all, (0..parts).collect(), "{kind:?}, row {number}");
                if row.q.is_some() {
                    let exponents: BTreeSet<usize> =
                        data.iter().map(|part| row.exponent(*part)).collect();
                    assert_eq!(exponents.len(), data.len(), "{kind:?}, row {number}");
                    assert!(exponents.iter().all(|at| *at < row.exponents()));
                }
            }
        }
    }
}

#[test]
fn rows_are_dealt_out_up_to_the_largest_array() {
    for kind in layouts() {
        let layout = layout(kind, 5);
        for number in [u64::MAX / 512 / 4, u64::MAX / 512 - 1] {
            assert!(layout.row(number).p < 5);
        }
    }
}

#[test]
fn small_arrays_of_raid_4_and_5_are_mirrors() {
    for kind in layouts().into_iter().filter(|kind| kind.0 != Level::Raid6) {
        let layout = layout(kind, 2);
        assert_eq!(layout.row_len(), 512);
        let row = layout.row(1);
        assert_eq!(row.part(0), 1 - row.p);
    }
}

#[test]
fn what_is_no_layout_is_refused_by_name() {
    let refused =
        |level, layout, parts, chunk| Layout::new(level, layout, parts, chunk).unwrap_err();
    for number in (6..=7).chain(11..=15).chain([21, 255, u32::MAX]) {
        let said = refused(Level::Raid6, number, 6, 512);
        assert_eq!(said, format!("layout {number} of raid6 is not known"));
        refused(Level::Raid5, number, 6, 512);
    }
    assert!(refused(Level::Raid5, 8, 6, 512).contains("layout 8"));
    assert!(refused(Level::Raid6, 2, 3, 512).contains("3 parts"));
    assert!(refused(Level::Raid6, 2, 256, 512).contains("256 parts"));
    assert!(refused(Level::Raid5, 2, 1, 512).contains("1 parts"));
    assert!(refused(Level::Raid5, 2, 4, 0).contains("chunk of 0 bytes"));
    assert!(refused(Level::Raid5, 2, 4, 700).contains("chunk of 700 bytes"));
    assert!(refused(Level::Raid1, 0, 4, 512).contains("no parity"));
}
