//! Changes of rows, planned and computed on vectors of bytes, against the array as one vector of bytes.

use block::{IoBufs, Range};
use smallvec::smallvec;
use testkit::pattern;

use super::writer::{TableRow, layouts, table};
use crate::array::format::Level;
use crate::array::parity::layout::Layout;
use crate::array::parity::plan::Bytes;
use crate::array::parity::stripe_compute::{MemberWrite, join_writes, parity_writes};
use crate::array::parity::stripe_plan::{
    Method, ParityTrust, StripeMembers, StripePlan, plan_stripe,
};
use crate::array::parity::unreadable::Lost;

/// Rows of an array.
const ROWS: u64 = 2;
/// Longest write of large chunks, bytes.
const WRITE_MAX: u64 = 48 << 10;
/// Columns that are compared of each row that was written, next to those at its borders.
const SAMPLES: u64 = 24;
const BLOCK: u64 = 512;

/// An array, as its members and as one vector.
struct Model {
    level: Level,
    number: u32,
    layout: Layout,
    members: Vec<Vec<u8>>,
    data: Vec<u8>,
    /// Parts without a holder.
    missing: Vec<usize>,
    /// Parts with a holder that cannot be read so far.
    unread: Vec<usize>,
    trust: ParityTrust,
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

fn twice(byte: u8) -> u8 {
    let doubled = byte << 1;
    if byte & 0x80 == 0 {
        doubled
    } else {
        doubled ^ 0x1d
    }
}

impl Model {
    fn new((level, number): (Level, u32), parts: u32, chunk: u64) -> Self {
        let layout = Layout::new(level, number, parts, chunk).unwrap();
        let len = at(chunk * ROWS);
        Self {
            level,
            number,
            members: vec![vec![0; len]; layout.parts],
            data: vec![0; at(layout.row_len() * ROWS)],
            layout,
            missing: Vec::new(),
            unread: Vec::new(),
            trust: ParityTrust::Fits,
        }
    }

    fn table(&self, row: u64) -> TableRow {
        table(self.level, self.number, self.layout.parts, at(row))
    }

    /// What is to be written to members for `range`, which lies in one row.
    fn data_writes(&self, range: Range, fill: u8) -> Vec<MemberWrite> {
        let bytes = bytes::Bytes::from(pattern(fill, range));
        let mut writes = Vec::new();
        let mut from = range.offset;
        while from < range.end() {
            let chunk = from / self.layout.chunk;
            let end = ((chunk + 1) * self.layout.chunk).min(range.end());
            let data = self.layout.data() as u64;
            let (row, index) = (chunk / data, at(chunk % data));
            let within = row * self.layout.chunk + from % self.layout.chunk;
            let cut = bytes.slice(at(from - range.offset)..at(end - range.offset));
            writes.push(MemberWrite {
                bytes: Bytes {
                    part: self.layout.row(row).part(index),
                    range: Range::new(within, end - from),
                },
                data: smallvec![cut],
            });
            from = end;
        }
        writes
    }

    fn lost(&self) -> Lost {
        let whole = Range::new(0, self.layout.chunk * ROWS);
        let mut lost = Lost::nothing(self.layout.parts, BLOCK);
        for part in self.missing.iter().chain(&self.unread) {
            lost.add(*part, whole);
        }
        if self.trust == ParityTrust::Unsynced {
            lost.add_unsynced(whole);
        }
        lost
    }

    /// Plans a write, and carries it out.
    fn write(&mut self, range: Range, fill: u8) -> Option<StripePlan> {
        let row = range.offset / self.layout.row_len();
        let new = self.data_writes(range, fill);
        let written: Vec<Bytes> = new.iter().map(|write| write.bytes).collect();
        let held: Vec<bool> = (0..self.layout.parts)
            .map(|part| !self.missing.contains(&part))
            .collect();
        let lost = self.lost();
        let members = StripeMembers {
            lost: &lost,
            bad: &Lost::nothing(0, 1),
            held: &held,
            trust: self.trust,
        };
        let plan = plan_stripe(self.layout.row(row), &written, members).ok()?;
        self.assert_fewest(&plan, &lost);
        let answers: Vec<IoBufs> = (plan.reads.iter())
            .map(|read| {
                assert!(!lost.touches(read.part, read.range), "{read:?} is lost");
                let bytes = &self.members[read.part][at(read.range.offset)..at(read.range.end())];
                let slices = bytes.chunks(7 * 1024).map(<[u8]>::to_vec);
                slices.map(bytes::Bytes::from).collect()
            })
            .collect();
        let mut writes = parity_writes(&plan, &answers, &new);
        writes.extend(new);
        for write in join_writes(writes) {
            if !held[write.bytes.part] {
                continue;
            }
            let place = at(write.bytes.range.offset)..at(write.bytes.range.end());
            self.members[write.bytes.part][place].copy_from_slice(&write.data.concat());
        }
        self.data[at(range.offset)..at(range.end())].copy_from_slice(&pattern(fill, range));
        Some(plan)
    }

    /// No other method would have read of fewer parts.
    fn assert_fewest(&self, plan: &StripePlan, lost: &Lost) {
        for segment in &plan.segments {
            let reads = plan.reads.iter();
            let reads = reads
                .filter(|read| read.range.overlaps(&segment.columns))
                .count();
            let row = &plan.row;
            let data = (0..row.parts()).filter(|part| !row.is_parity(*part));
            let stays: Vec<usize> = data
                .filter(|part| !segment.written.contains(part))
                .collect();
            let parities: Vec<usize> = plan.parities().collect();
            let readable = |part: &usize| !lost.touches(*part, segment.columns);
            let modified = segment.written.iter().chain(&parities);
            let may_modify = self.trust == ParityTrust::Fits && modified.clone().all(readable);
            let least = match (parities.is_empty(), stays.iter().all(readable), may_modify) {
                (true, ..) => 0,
                (_, true, true) => stays.len().min(modified.count()),
                (_, true, false) => stays.len(),
                (_, false, true) => modified.count(),
                (_, false, false) => continue,
            };
            // Columns that touch are read together: those of a neighbour may be among them.
            assert!(reads >= least, "{segment:?}");
            if plan.segments.len() == 1 {
                assert_eq!(reads, least, "{segment:?} of {:?}", self.layout);
            }
        }
    }

    /// What part `part` should hold at a column.
    fn ideal(&self, row: &TableRow, number: u64, part: usize, column: u64) -> u8 {
        let byte = |part: usize| {
            let index = row.data.iter().position(|data| *data == part).unwrap() as u64;
            let data = self.layout.data() as u64;
            let chunk = number * data + index;
            self.data[at(chunk * self.layout.chunk + column % self.layout.chunk)]
        };
        if part == row.p {
            return row.data.iter().fold(0, |sum, data| sum ^ byte(*data));
        }
        if Some(part) == row.q {
            let terms = row.exponents.iter();
            return terms.fold(0, |sum, (part, exponent)| {
                sum ^ (0..*exponent).fold(byte(*part), |byte, _| twice(byte))
            });
        }
        byte(part)
    }

    /// What has a holder, and can be read or was written there, is as it should be.
    fn check(&self, plan: &StripePlan, number: u64, rng: &mut fastrand::Rng) {
        let row = self.table(number);
        let mut columns = Vec::new();
        for segment in &plan.segments {
            columns.extend([segment.columns.offset, segment.columns.end() - 1]);
            let inside =
                (0..SAMPLES / 4).map(|_| rng.u64(segment.columns.offset..segment.columns.end()));
            columns.extend(inside);
        }
        let written = columns.len();
        let first = number * self.layout.chunk;
        columns.extend((0..SAMPLES).map(|_| first + rng.u64(0..self.layout.chunk)));
        for (index, column) in columns.into_iter().enumerate() {
            for part in (0..self.layout.parts).filter(|part| !self.missing.contains(part)) {
                let is_parity = part == row.p || Some(part) == row.q;
                let is_unknown = self.trust != ParityTrust::Fits && is_parity;
                let skipped =
                    (self.unread.contains(&part) || is_unknown) && (index >= written || !is_parity);
                if !skipped {
                    let held = self.members[part][at(column)];
                    let ideal = self.ideal(&row, number, part, column);
                    assert_eq!(held, ideal, "part {part}, column {column}: {plan:?}");
                }
            }
        }
    }

    /// Some of a row, or all of it.
    fn range(&self, rng: &mut fastrand::Rng, row: u64) -> Range {
        let len = self.layout.row_len();
        let whole = self.layout.chunk <= 8192 && rng.u8(0..5) == 0;
        if whole || rng.u8(0..40) == 0 {
            return Range::new(row * len, len);
        }
        let most = len.min(if self.layout.chunk <= 8192 {
            len
        } else {
            WRITE_MAX
        });
        let blocks = rng.u64(1..=most / BLOCK);
        let near = rng.u64(0..len / self.layout.chunk) * self.layout.chunk;
        let start = match rng.bool() {
            // Around the end of a chunk.
            true => near.saturating_sub(rng.u64(0..=blocks) * BLOCK),
            false => rng.u64(0..len / BLOCK) * BLOCK,
        };
        let start = start.min(len - blocks * BLOCK);
        Range::new(row * len + start, blocks * BLOCK)
    }
}

/// Writes here and there, and checks after each.
fn play(model: &mut Model, rng: &mut fastrand::Rng, writes: usize) -> Vec<Method> {
    let mut methods = Vec::new();
    for _ in 0..writes {
        let row = rng.u64(0..ROWS);
        let range = model.range(rng, row);
        let plan = model.write(range, rng.u8(..)).expect("enough is there");
        model.check(&plan, row, rng);
        methods.extend(plan.segments.iter().map(|segment| segment.method));
    }
    methods
}

/// All geometries there are, with chunks from 4 KiB to 512 KiB.
fn geometries() -> impl Iterator<Item = ((Level, u32), u32, u64)> {
    layouts().into_iter().flat_map(|kind| {
        let least = if kind.0 == Level::Raid6 { 4 } else { 3 };
        let chunks = (12..=19).map(|shift| 1_u64 << shift);
        chunks.flat_map(move |chunk| (least..=12).map(move |parts| (kind, parts, chunk)))
    })
}

#[test]
fn parity_fits_the_data_after_each_write_of_a_complete_array() {
    let mut rng = fastrand::Rng::with_seed(19);
    let mut methods = Vec::new();
    for (kind, parts, chunk) in geometries() {
        let mut model = Model::new(kind, parts, chunk);
        methods.extend(play(&mut model, &mut rng, 4));
    }
    for method in [
        Method::FullStripe,
        Method::ReadModifyWrite,
        Method::ReconstructWrite,
    ] {
        assert!(methods.contains(&method), "{method:?} was never chosen");
    }
}

#[test]
fn parity_fits_the_data_after_each_write_of_a_degraded_array() {
    let mut rng = fastrand::Rng::with_seed(20);
    let mut methods = Vec::new();
    for (kind, parts, chunk) in geometries() {
        let mut model = Model::new(kind, parts, chunk);
        play(&mut model, &mut rng, 1);
        let mut order: Vec<usize> = (0..model.layout.parts).collect();
        rng.shuffle(&mut order);
        for (count, part) in order.into_iter().take(model.layout.parities()).enumerate() {
            // The last one may be a member that is being rebuilt.
            match count + 1 == model.layout.parities() && rng.bool() {
                true => model.unread.push(part),
                false => model.missing.push(part),
            }
            methods.extend(play(&mut model, &mut rng, 3));
        }
    }
    assert!(methods.contains(&Method::DataAlone));
}

#[test]
fn parity_that_is_not_known_to_fit_is_written_and_never_read() {
    let mut rng = fastrand::Rng::with_seed(21);
    let small = || geometries().filter(|(.., chunk)| *chunk <= 16_384);
    let unsynced = small().map(|geometry| (geometry, ParityTrust::Unsynced));
    let assumed = small().map(|geometry| (geometry, ParityTrust::Assumed));
    for ((kind, parts, chunk), trust) in unsynced.chain(assumed) {
        let mut model = Model::new(kind, parts, chunk);
        for number in 0..ROWS {
            let row = model.layout.row(number);
            for part in (0..model.layout.parts).filter(|part| row.is_parity(*part)) {
                let place = at(number * chunk)..at((number + 1) * chunk);
                model.members[part][place].fill(0xa5);
            }
        }
        model.trust = trust;
        let methods = play(&mut model, &mut rng, 4);
        assert!(!methods.contains(&Method::ReadModifyWrite));
    }
}

#[test]
fn a_write_is_refused_where_what_stays_cannot_be_had() {
    let mut model = Model::new((Level::Raid5, 2), 4, 4096);
    let row = model.layout.row(0);
    model.missing.push(row.part(0));
    let one = Range::new(4096, 512);
    // Next to a missing chunk, parity is modified; where it is not to be trusted that chunk would be lost.
    assert!(model.write(one, 1).is_some());
    model.trust = ParityTrust::Unsynced;
    assert!(model.write(one, 2).is_none());
    // The missing chunk itself needs only the others.
    assert!(model.write(Range::new(0, 512), 3).is_some());
    // Parity has a place that is bad, too: what is written to the missing chunk would be nowhere.
    model.trust = ParityTrust::Fits;
    model.missing.push(row.p);
    assert!(model.write(Range::new(0, 512), 4).is_none());
}
