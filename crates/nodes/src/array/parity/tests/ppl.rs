//! Passes, records and strips of partial parity logs, against a row of bytes: what a cut leaves, and what replay makes of it.

use block::{IoBufs, Range};
use proptest::prelude::*;
use testkit::single;

use crate::array::format::ppl::{ENTRIES_MAX, PplEntry, checksum};
use crate::array::format::{Level, SECTOR};
use crate::array::parity::layout::Layout;
use crate::array::parity::plan::Bytes;
use crate::array::parity::ppl_passes::{PplRecord, passes, record};
use crate::array::parity::ppl_strips::{ImpossibleEntry, strips};
use crate::array::parity::stripe_compute::{MemberWrite, join_writes};

/// Members of one row of an array, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Members {
    layout: Layout,
    row: u64,
    parts: Vec<Vec<u8>>,
}

fn small(value: u64) -> usize {
    usize::try_from(value).unwrap()
}

impl Members {
    fn new(layout: Layout, row: u64, rng: &mut fastrand::Rng) -> Self {
        let chunk = small(layout.chunk);
        let mut parts: Vec<Vec<u8>> = (0..layout.parts)
            .map(|_| (0..chunk).map(|_| rng.u8(..)).collect())
            .collect();
        let p = layout.row(row).p;
        parts[p] = vec![0; chunk];
        parts[p] = sum(&parts);
        Self { layout, row, parts }
    }

    fn within(&self, range: Range) -> std::ops::Range<usize> {
        let start = small(range.offset - self.row * self.layout.chunk);
        start..start + range.len_usize()
    }

    fn put(&mut self, write: &MemberWrite) {
        let place = self.within(write.bytes.range);
        self.parts[write.bytes.part][place].copy_from_slice(&write.data.concat());
    }

    /// Some of the sectors of a write land.
    fn tear(&mut self, write: &MemberWrite, rng: &mut fastrand::Rng) {
        let place = self.within(write.bytes.range);
        let data = write.data.concat();
        let held = self.parts[write.bytes.part][place].chunks_mut(512);
        for (held, new) in held.zip(data.chunks(512)) {
            if rng.bool() {
                held.copy_from_slice(new);
            }
        }
    }

    /// Does what a log says, but where `missing` was written.
    fn replay(&mut self, record: &PplRecord, missing: Option<usize>) {
        let parity = record.parity.concat();
        let mut at = 0;
        let size = (self.row + 1) * self.layout.row_len();
        for entry in &record.entries {
            let own = &parity[at..at + small(entry.parity_len.into())];
            at += own.len();
            assert_eq!(checksum([own]), entry.checksum);
            for strip in strips(&self.layout, size, entry).unwrap() {
                if strip.written.iter().any(|part| Some(*part) == missing) {
                    continue;
                }
                let place = self.within(strip.columns);
                let mut sum = match strip.parity_at {
                    Some(at) => own[small(at)..small(at) + place.len()].to_vec(),
                    None => vec![0; place.len()],
                };
                for part in strip.written {
                    let data = self.parts[part][place.clone()].iter();
                    sum.iter_mut()
                        .zip(data)
                        .for_each(|(sum, byte)| *sum ^= byte);
                }
                self.parts[strip.p][place].copy_from_slice(&sum);
            }
        }
        assert_eq!(at, parity.len());
    }
}

fn sum(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut sum = vec![0; parts[0].len()];
    for part in parts {
        sum.iter_mut()
            .zip(part)
            .for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}

/// Writes to parts with data, none over another.
fn writes(layout: &Layout, row: u64, rng: &mut fastrand::Rng) -> Vec<MemberWrite> {
    let of = layout.row(row);
    let sectors = layout.chunk / SECTOR;
    let mut writes = Vec::new();
    for index in 0..layout.data() {
        let mut at = 0;
        let is_whole = rng.u8(0..4) == 0;
        while at < sectors {
            let len = match is_whole {
                true => sectors,
                false => rng.u64(1..=sectors - at),
            };
            if is_whole || rng.bool() {
                let range = Range::new(row * layout.chunk + at * SECTOR, len * SECTOR);
                let part = of.part(index);
                let data: Vec<u8> = (0..range.len).map(|_| rng.u8(..)).collect();
                let bytes = Bytes { part, range };
                writes.push(MemberWrite {
                    bytes,
                    data: single(data),
                });
            }
            at += len;
        }
    }
    join_writes(writes)
}

/// The parity that a pass writes, byte by byte.
fn parity(members: &Members, new: &[MemberWrite], columns: Range) -> MemberWrite {
    let mut after = members.clone();
    new.iter().for_each(|write| after.put(write));
    let p = members.layout.row(members.row).p;
    after.parts[p].fill(0);
    let bytes = Bytes {
        part: p,
        range: columns,
    };
    let data = sum(&after.parts)[members.within(columns)].to_vec();
    MemberWrite {
        bytes,
        data: single(data),
    }
}

fn case(number: u32, parts: u32, chunk: u64, seed: u64, missing: Option<usize>, max: u64) {
    let rng = &mut fastrand::Rng::with_seed(seed);
    let layout = Layout::new(Level::Raid5, number, parts, chunk).unwrap();
    let row = rng.u64(0..8);
    let mut members = Members::new(layout, row, rng);
    let of = layout.row(row);
    let missing = missing.filter(|part| *part < layout.parts && *part != of.p);
    let new = writes(&layout, row, rng);
    let held: Vec<bool> = (0..layout.parts)
        .map(|part| Some(part) != missing)
        .collect();
    let all = passes(&layout, row, &new, (&held, max));
    // Every byte is in one pass.
    let again = join_writes(all.iter().flat_map(|pass| pass.writes.clone()).collect());
    let flat = |writes: &[MemberWrite]| -> Vec<(Bytes, Vec<u8>)> {
        writes
            .iter()
            .map(|write| (write.bytes, write.data.concat()))
            .collect()
    };
    assert_eq!(flat(&again), flat(&new));
    for pass in all {
        assert!(pass.spans.len() <= ENTRIES_MAX);
        let spans = pass.spans.iter().map(|span| span.columns);
        let parities = spans.map(|columns| parity(&members, &pass.writes, columns));
        let parities = join_writes(parities.collect());
        let record = record(&layout, row, &pass.spans, (&parities, &pass.writes));
        let len: usize = record.parity.iter().map(|piece| piece.len()).sum();
        assert!(len as u64 <= max);
        check_cut(&members, &record, &pass.writes, &parities, missing, rng);
        let to = pass.writes.iter().chain(&parities);
        to.for_each(|write| members.put(write));
        // What was logged before may be replayed behind it.
        let done = members.clone();
        members.replay(&record, missing);
        assert_eq!(
            members.parts, done.parts,
            "replay changes nothing that was written"
        );
    }
}

/// A cut while a pass is written: parity is repaired, and what was not written is as it was, whichever member is lost.
fn check_cut(
    members: &Members,
    record: &PplRecord,
    new: &[MemberWrite],
    parities: &[MemberWrite],
    missing: Option<usize>,
    rng: &mut fastrand::Rng,
) {
    let mut cut = members.clone();
    for write in new.iter().chain(parities) {
        if Some(write.bytes.part) != missing {
            cut.tear(write, rng);
        }
    }
    let lost = missing.or_else(|| Some(rng.usize(0..cut.parts.len())).filter(|_| rng.bool()));
    let p = members.layout.row(members.row).p;
    cut.replay(record, lost);
    let Some(lost) = lost.filter(|lost| *lost != p) else {
        if lost.is_none() {
            assert!(sum(&cut.parts).iter().all(|byte| *byte == 0), "parity fits");
        }
        return;
    };
    // What it held is computed.
    cut.parts[lost].fill(0);
    let computed = sum(&cut.parts);
    let written = new.iter().filter(|write| write.bytes.part == lost);
    let mut is_written = vec![false; computed.len()];
    written.for_each(|write| is_written[members.within(write.bytes.range)].fill(true));
    let kept = computed.iter().zip(&members.parts[lost]).zip(&is_written);
    let differs = kept
        .enumerate()
        .position(|(_, ((now, then), is_written))| !is_written && now != then);
    assert_eq!(differs, None, "what was not written on part {lost} is lost");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_cut_of_any_pass_leaves_what_replay_repairs(
        number in 0..=5_u32,
        parts in 2..8_u32,
        sectors in 1..40_u64,
        seed: u64,
        missing in proptest::option::of(0..8_usize),
        max in 1..5_u64,
    ) {
        case(number, parts, sectors * SECTOR, seed, missing, max * 4096);
    }

    #[test]
    fn no_entry_makes_strips_outside_its_row(
        data_sector in 0..64_u64,
        parity_sectors in 0..9_u32,
        data_sectors in 0..40_u32,
        parity_part in 0..5_u32,
    ) {
        let layout = Layout::new(Level::Raid5, 2, 5, 8 * SECTOR).unwrap();
        let size = 2 * layout.row_len();
        let entry = PplEntry {
            data_sector,
            parity_len: parity_sectors * 512,
            data_len: data_sectors * 512,
            parity_part,
            checksum: 0,
        };
        if let Ok(strips) = strips(&layout, size, &entry) {
            let row = data_sector * SECTOR / layout.row_len();
            let of = layout.row(row);
            let chunk = Range::new(row * layout.chunk, layout.chunk);
            let mut bytes = 0;
            for strip in strips {
                prop_assert!(strip.columns.offset >= chunk.offset && strip.columns.end() <= chunk.end());
                prop_assert!(strip.written.iter().all(|part| !of.is_parity(*part)));
                prop_assert_eq!((strip.p, of.p), (small(parity_part.into()), small(parity_part.into())));
                let at = strip.parity_at.unwrap_or(0);
                prop_assert!(parity_sectors == 0 || at + strip.columns.len <= u64::from(entry.parity_len));
                bytes += strip.columns.len * strip.written.len() as u64;
            }
            prop_assert_eq!(bytes, u64::from(entry.data_len));
        }
    }
}

/// The picture of `raid5-ppl.c`: two of three data disks, three pages from the second one on.
#[test]
fn an_entry_that_linux_draws_is_of_the_columns_that_it_draws() {
    let layout = Layout::new(Level::Raid5, 2, 4, 16 << 10).unwrap();
    let entry = PplEntry {
        data_sector: 8,
        parity_len: 3 * 4096,
        data_len: 3 * 2 * 4096,
        parity_part: 3,
        checksum: 0,
    };
    let found = strips(&layout, layout.row_len(), &entry).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].columns, Range::new(4096, 3 * 4096));
    assert_eq!((&found[0].written[..], found[0].p), (&[0, 1][..], 3));
    assert_eq!(found[0].parity_at, Some(0));
    let wrong = PplEntry {
        parity_part: 2,
        ..entry
    };
    assert_eq!(
        strips(&layout, layout.row_len(), &wrong),
        Err(ImpossibleEntry)
    );
}

/// Case 3 of `raid5-ppl.c`, which other implementations write: from within one chunk to within another one.
#[test]
fn an_entry_with_the_partial_parity_of_a_chunk_has_a_strip_for_each_set_of_data() {
    let layout = Layout::new(Level::Raid5, 2, 4, 4 * SECTOR).unwrap();
    let entry = PplEntry {
        data_sector: 2,
        parity_len: 4 * 512,
        data_len: 9 * 512,
        parity_part: 3,
        checksum: 0,
    };
    let found = strips(&layout, layout.row_len(), &entry).unwrap();
    let told: Vec<(u64, u64, Vec<usize>, Option<u64>)> = found
        .into_iter()
        .map(|strip| {
            let columns = strip.columns;
            (
                columns.offset / SECTOR,
                columns.len / SECTOR,
                strip.written,
                strip.parity_at,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (2, 1, vec![0, 1, 2], Some(0)),
            (3, 1, vec![0, 1], Some(512)),
            (0, 2, vec![1, 2], Some(1024)),
        ]
    );
}

#[test]
fn a_full_stripe_is_an_entry_without_partial_parity() {
    let layout = Layout::new(Level::Raid5, 2, 3, 4096).unwrap();
    let of = layout.row(1);
    let range = Range::new(4096, 4096);
    let write = |part| MemberWrite {
        bytes: Bytes { part, range },
        data: single(vec![1; 4096]),
    };
    let mut new = vec![write(of.part(0)), write(of.part(1))];
    new.sort_by_key(|write| write.bytes);
    let all = passes(&layout, 1, &new, (&[true; 3], 4096));
    assert_eq!(all.len(), 1);
    let record = record(&layout, 1, &all[0].spans, (&[], &new));
    assert_eq!(record.parity, IoBufs::new());
    let [entry] = record.entries[..] else {
        panic!("{record:?}");
    };
    assert_eq!(
        (entry.data_sector, entry.parity_len, entry.data_len),
        (16, 0, 8192)
    );
    assert_eq!((small(entry.parity_part.into()), entry.checksum), (of.p, 0));
}
