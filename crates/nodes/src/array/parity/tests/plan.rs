//! Plans, carried out on vectors of bytes.

use block::{IoBufs, Range};
use proptest::prelude::*;
use testkit::gather;

use super::writer::{Sample, layouts, sample};
use crate::array::parity::layout::Layout;
use crate::array::parity::plan::{Gone, Plan, footprint, plan, single, spans};
use crate::array::parity::rebuild::assemble;
use crate::array::parity::unreadable::Lost;

/// The layout of a sample, with chunks that may be smaller than any that md takes.
fn layout(sample: &Sample) -> Layout {
    let parts = u32::try_from(sample.parts).unwrap();
    let layout = Layout::new(sample.level, sample.layout, parts, 512);
    let mut layout = layout.unwrap();
    layout.chunk = sample.chunk as u64;
    layout
}

/// Answers of members to the reads of a plan, none of which may touch what is lost.
fn answers(members: &[Vec<u8>], lost: &Lost, plan: &Plan, slices: usize) -> Vec<IoBufs> {
    let answer = |read: &super::super::plan::Bytes| {
        assert!(!lost.touches(read.part, read.range), "{read:?} is lost");
        let start = read.range.offset_usize();
        let bytes = &members[read.part][start..start + read.range.len_usize()];
        let slices = bytes.chunks(slices).map(<[u8]>::to_vec);
        slices.map(bytes::Bytes::from).collect()
    };
    plan.reads.iter().map(answer).collect()
}

trait OffsetUsize {
    fn offset_usize(&self) -> usize;
}

impl OffsetUsize for Range {
    fn offset_usize(&self) -> usize {
        usize::try_from(self.offset).unwrap()
    }
}

/// Reads `request` in spans, and checks what is generally true of plans.
fn read(
    sample: &Sample,
    members: &[Vec<u8>],
    lost: &Lost,
    request: Range,
    span_len: u64,
) -> Result<Vec<u8>, Gone> {
    let layout = layout(sample);
    let footprint = footprint(&layout, request);
    let mut found = Vec::new();
    let mut covered = footprint.offset;
    for span in spans(&layout, footprint, span_len) {
        assert_eq!(span.offset, covered);
        covered = span.end();
        let plan = plan(&layout, lost, request, span)?;
        for pair in plan.reads.windows(2) {
            let apart = pair[0].range.end() < pair[1].range.offset;
            assert!(pair[0].part < pair[1].part || apart, "{pair:?}");
        }
        let inside = |read: Range| read.offset >= span.offset && read.end() <= span.end();
        assert!(plan.reads.iter().all(|read| inside(read.range)));
        let answers = answers(members, lost, &plan, 7);
        let mut reckoned = 0;
        found.extend(assemble(&plan, &answers, &mut reckoned));
    }
    assert_eq!(covered, footprint.end());
    found.sort_by_key(|(at, _)| *at);
    let mut data = Vec::new();
    for (at, bufs) in found {
        assert_eq!(
            at,
            request.offset + data.len() as u64,
            "no gap, nothing twice"
        );
        data.extend(gather(&bufs));
    }
    Ok(data)
}

fn at(sample: &Sample, range: Range) -> &[u8] {
    &sample.data[range.offset_usize()..][..range.len_usize()]
}

/// Rows of `parts` parts in which parity lies differently: all of few parts; of many where it begins,
/// goes on, and wraps.
fn significant_rows(parts: usize) -> Vec<usize> {
    if parts <= 7 {
        return (0..parts).collect();
    }
    vec![0, 1, parts - 1]
}

#[test]
fn every_single_part_and_every_pair_of_4_to_20_can_be_lost() {
    for kind in layouts() {
        for parts in 4..=20 {
            let sample = sample(kind, parts, 2, parts);
            let members = sample.members();
            let layout = layout(&sample);
            let all = Range::new(0, sample.member_size());
            let check = |missing: &[usize]| {
                let mut lost = Lost::nothing(parts, 1);
                missing.iter().for_each(|part| lost.add(*part, all));
                let data = missing
                    .iter()
                    .filter(|part| !layout.row(0).is_parity(**part));
                for row in significant_rows(parts) {
                    let request = Range::new(row as u64 * layout.row_len(), layout.row_len());
                    let found = read(&sample, &members, &lost, request, 1 << 20);
                    if missing.len() <= layout.parities() {
                        let what = format!("{kind:?} of {parts} without {missing:?}");
                        assert!(found.unwrap() == at(&sample, request), "{what}");
                    } else if row == 0 && data.clone().count() > 1 {
                        assert_eq!(found.unwrap_err().parts.len(), missing.len());
                    }
                }
            };
            check(&[]);
            for x in 0..parts {
                check(&[x]);
                (x + 1..parts).for_each(|y| check(&[x, y]));
            }
        }
    }
}

#[test]
fn a_request_within_a_chunk_reads_only_its_columns_of_the_others() {
    let sample = sample(layouts()[3], 5, 4096, 5);
    let layout = layout(&sample);
    let request = Range::new(4096 + 512, 1024);
    let bytes = single(&layout, request).unwrap();
    let mut lost = Lost::nothing(5, 512);
    lost.add(bytes.part, Range::new(0, sample.member_size()));
    let plan = plan(&layout, &lost, request, footprint(&layout, request)).unwrap();
    assert_eq!(plan.reads.len(), 4);
    assert!(
        plan.reads
            .iter()
            .all(|read| read.range == Range::new(512, 1024))
    );
}

#[test]
fn bytes_that_are_there_are_not_computed() {
    let sample = sample(layouts()[3], 4, 4096, 8);
    let layout = layout(&sample);
    let mut lost = Lost::nothing(4, 512);
    lost.add(1, Range::new(4096, 512));
    for row in [0, 2, 3] {
        let request = Range::new(row * layout.row_len(), layout.row_len());
        let plan = plan(&layout, &lost, request, footprint(&layout, request)).unwrap();
        assert_eq!(plan.rebuilds, []);
        assert_eq!(plan.reads.len(), 3);
    }
    let request = Range::new(layout.row_len(), layout.row_len());
    let plan = plan(&layout, &lost, request, footprint(&layout, request)).unwrap();
    let [rebuild] = plan.rebuilds.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(rebuild.columns, Range::new(4096, 512));
}

/// What is lost of one part: where it begins, how long.
type Hole = (usize, u64, u64);

fn holes() -> impl Strategy<Value = Vec<Hole>> {
    prop::collection::vec((0..9_usize, 0..400_u64, 0..200_u64), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_plan_gives_the_right_bytes_or_names_what_is_lost(
        which in 0..21_usize, parts in 4..9_usize, chunk in 1..40_usize, rows in 1..12_usize,
        missing in prop::collection::vec(0..9_usize, 0..3), holes in holes(),
        a: u64, b: u64, span_len in 1..300_u64, block in 1..9_u64,
    ) {
        let sample = sample(layouts()[which], parts, chunk * usize::try_from(block).unwrap(), rows);
        let members = sample.members();
        let member_size = sample.member_size();
        let mut lost = Lost::nothing(parts, block);
        for part in missing {
            lost.add(part % parts, Range::new(0, member_size));
        }
        for (part, start, len) in holes {
            let start = start.min(member_size);
            lost.add(part % parts, Range::new(start, len.min(member_size - start)));
        }
        let blocks = sample.data.len() as u64 / block;
        let (a, b) = (a % (blocks + 1), b % (blocks + 1));
        let request = Range::new(a.min(b) * block, a.abs_diff(b) * block);
        let spare = layout(&sample).parities();
        match read(&sample, &members, &lost, request, span_len * block) {
            Ok(data) => prop_assert_eq!(data, at(&sample, request)),
            Err(gone) => {
                prop_assert!(gone.parts.len() > spare);
                prop_assert_eq!(gone.parts, lost.lost(gone.columns));
                prop_assert!(request.overlaps(&gone.range));
            }
        }
    }

    #[test]
    fn nothing_is_computed_from_parity_that_is_not_trusted(
        which in 0..21_usize, part in 0..6_usize, from in 0..9_u64, row in 0..9_u64,
    ) {
        let sample = sample(layouts()[which], 6, 4, 9);
        let members = sample.members();
        let layout = layout(&sample);
        let mut lost = Lost::nothing(6, 1);
        lost.add(part, Range::new(0, sample.member_size()));
        lost.add_unsynced(Range::new(from * 4, sample.member_size() - from * 4));
        let request = Range::new(row * layout.row_len(), layout.row_len());
        let needs_it = !layout.row(row).is_parity(part);
        match read(&sample, &members, &lost, request, 1000) {
            Ok(data) => {
                prop_assert!(row < from || !needs_it);
                prop_assert_eq!(data, at(&sample, request));
            }
            Err(gone) => {
                prop_assert!(gone.unsynced && row >= from && needs_it);
                prop_assert_eq!(gone.parts, [part]);
            }
        }
    }

    #[test]
    fn lost_ranges_are_what_was_added(
        added in prop::collection::vec((0..60_u64, 0..20_u64), 0..12), from in 0..80_u64,
        len in 0..30_u64,
    ) {
        let mut lost = Lost::nothing(1, 1);
        let mut bytes = [false; 120];
        for (start, len) in added {
            lost.add(0, Range::new(start, len));
            let place = usize::try_from(start).unwrap();
            bytes[place..place + usize::try_from(len).unwrap()].fill(true);
        }
        let range = Range::new(from, len);
        let asked = &bytes[range.offset_usize()..range.offset_usize() + range.len_usize()];
        prop_assert_eq!(lost.touches(0, range), asked.contains(&true));
        let cut = lost.cut(range);
        for (at, held) in bytes.iter().enumerate() {
            let byte = Range::new(at as u64, 1);
            let inside = range.overlaps(&byte);
            prop_assert_eq!(cut.touches(0, byte), *held && inside);
        }
        let borders = lost.borders(range);
        prop_assert!(borders.iter().all(|at| (from..=from + len).contains(at)));
        let changes = asked.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let within = borders.iter().filter(|at| **at > from && **at < from + len).count();
        prop_assert_eq!(changes, within);
    }
}
