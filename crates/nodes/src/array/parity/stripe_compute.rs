//! The parity of a row that is changed, from what was read and what is written. Pure.
//!
//! # Invariants
//!
//! * Each byte of parity is written once, where it is handed out from.
//! * Only bytes that the plan reads are used.

use block::{IoBufs, Range};
use engine::Buffer;
use engine::parity::{Kernel, power};
use smallvec::smallvec;

use super::layout::Row;
use super::plan::{Bytes, find_read};
use super::rebuild::{compute, front};
use super::stripe_plan::{Method, Segment, StripePlan};
use crate::blocks::slice;

/// What is to be written to a member.
#[derive(Debug, Clone)]
pub(in crate::array) struct MemberWrite {
    pub(in crate::array) bytes: Bytes,
    pub(in crate::array) data: IoBufs,
}

/// Where bytes of a row come from: the answers to the reads of its plan, and what is written.
struct Source<'a> {
    plan: &'a StripePlan,
    answers: &'a [IoBufs],
    new: &'a [MemberWrite],
}

/// P and Q of a row, where they have a holder.
#[derive(Debug, Default)]
pub(in crate::array) struct Parities {
    pub(in crate::array) p: Option<Buffer>,
    pub(in crate::array) q: Option<Buffer>,
}

/// The parity that a plan writes, segment by segment, those joined that touch. `new`: what is written to parts with data.
pub(in crate::array) fn parity_writes(
    plan: &StripePlan,
    answers: &[IoBufs],
    new: &[MemberWrite],
) -> Vec<MemberWrite> {
    let source = Source { plan, answers, new };
    let mut writes: Vec<MemberWrite> = Vec::new();
    for segment in &plan.segments {
        let parities = source.compute(segment);
        let range = segment.columns;
        let mut push = |part: Option<usize>, parity: Option<Buffer>| {
            let (Some(part), Some(parity)) = (part, parity) else {
                return;
            };
            writes.push(MemberWrite {
                bytes: Bytes { part, range },
                data: smallvec![parity.freeze()],
            });
        };
        push(Some(plan.row.p), parities.p);
        push(plan.row.q, parities.q);
    }
    join_writes(writes)
}

/// Makes one write of those to a member that touch; none overlaps another.
pub(in crate::array) fn join_writes(mut writes: Vec<MemberWrite>) -> Vec<MemberWrite> {
    writes.sort_by_key(|write| write.bytes);
    let mut joined: Vec<MemberWrite> = Vec::with_capacity(writes.len());
    for write in writes {
        match joined.last_mut() {
            Some(last)
                if last.bytes.part == write.bytes.part
                    && last.bytes.range.end() == write.bytes.range.offset =>
            {
                last.bytes.range.len += write.bytes.range.len;
                last.data.extend(write.data);
            }
            _ => joined.push(write),
        }
    }
    joined
}

/// P and Q of all data of a row, which lie at their exponents; as many of them as are wanted.
pub(in crate::array) fn parities_of(
    row: &Row,
    data: &[(usize, IoBufs)],
    len: usize,
    (p, q): (bool, bool),
) -> Parities {
    let q = q && row.q.is_some();
    let mut into_p = (p || q).then(|| Buffer::take(len));
    let mut into_q = q.then(|| Buffer::take(len));
    let mut at = 0;
    while at < len {
        let lens = data.iter().map(|(_, bufs)| front(bufs, at).len());
        let step = lens.min().unwrap_or(0);
        assert!(step > 0, "data of a row are as long as its columns");
        let end = at + step;
        match (&mut into_p, &mut into_q) {
            (Some(p), Some(q)) => {
                let mut terms = vec![None; row.exponents()];
                for (part, bufs) in data {
                    terms[row.exponent(*part)] = Some(&front(bufs, at)[..step]);
                }
                Kernel::best().syndrome(&terms, &mut p[at..end], &mut q[at..end]);
            }
            (Some(p), None) => {
                let terms: Vec<&[u8]> = data
                    .iter()
                    .map(|(_, bufs)| &front(bufs, at)[..step])
                    .collect();
                Kernel::best().xor(&terms, &mut p[at..end]);
            }
            _ => {}
        }
        at = end;
    }
    Parities {
        p: into_p.filter(|_| p),
        q: into_q,
    }
}

impl Source<'_> {
    fn old_bytes(&self, part: usize, range: Range) -> IoBufs {
        let bytes = Bytes { part, range };
        let (index, skip) = find_read(&self.plan.reads, bytes);
        slice(&self.answers[index], skip, range.len_usize())
    }

    fn new_bytes(&self, part: usize, range: Range) -> IoBufs {
        let has = |write: &&MemberWrite| {
            let own = write.bytes;
            own.part == part && own.range.offset <= range.offset && range.end() <= own.range.end()
        };
        let write = self
            .new
            .iter()
            .find(has)
            .expect("what a segment writes is there");
        let skip = Range::new(0, range.offset - write.bytes.range.offset);
        slice(&write.data, skip.len_usize(), range.len_usize())
    }

    fn compute(&self, segment: &Segment) -> Parities {
        match segment.method {
            Method::DataAlone => Parities::default(),
            Method::ReadModifyWrite => self.modify(segment),
            Method::FullStripe | Method::ReconstructWrite => {
                let data = self.all_data(segment);
                let wanted = (self.plan.p, self.plan.q);
                parities_of(&self.plan.row, &data, segment.columns.len_usize(), wanted)
            }
        }
    }

    /// All data of a segment as they are to be.
    fn all_data(&self, segment: &Segment) -> Vec<(usize, IoBufs)> {
        let row = &self.plan.row;
        let columns = segment.columns;
        let given = segment.rebuild.as_ref().map(|rebuild| {
            let computed = compute(rebuild, |bytes| self.old_bytes(bytes.part, bytes.range));
            let computed = computed.into_iter().map(Buffer::freeze);
            rebuild
                .way
                .gives()
                .iter()
                .copied()
                .zip(computed)
                .collect::<Vec<_>>()
        });
        let given = given.unwrap_or_default();
        let data = (0..row.parts()).filter(|part| !row.is_parity(*part));
        let data = data.map(|part| {
            if segment.written.contains(&part) {
                return (part, self.new_bytes(part, columns));
            }
            match given.iter().find(|(lost, _)| *lost == part) {
                Some((_, bytes)) => (part, smallvec![bytes.clone()]),
                None => (part, self.old_bytes(part, columns)),
            }
        });
        data.collect()
    }

    /// Old parity, less the old data, plus the new.
    fn modify(&self, segment: &Segment) -> Parities {
        let (plan, columns) = (self.plan, segment.columns);
        let changes: Vec<(usize, IoBufs)> = (segment.written.iter())
            .flat_map(|&part| {
                [
                    (part, self.old_bytes(part, columns)),
                    (part, self.new_bytes(part, columns)),
                ]
            })
            .collect();
        let changed = |parity: usize, factor: &dyn Fn(usize) -> u8| {
            let mut into = Buffer::take(columns.len_usize());
            copy(&self.old_bytes(parity, columns), &mut into);
            for (part, bufs) in &changes {
                let mut at = 0;
                for piece in bufs {
                    let end = at + piece.len();
                    Kernel::best().multiply_add(factor(*part), piece, &mut into[at..end]);
                    at = end;
                }
            }
            into
        };
        let q = plan.row.q.filter(|_| plan.q);
        Parities {
            p: plan.p.then(|| changed(plan.row.p, &|_| 1)),
            q: q.map(|q| changed(q, &|part| power(plan.row.exponent(part)))),
        }
    }
}

fn copy(bufs: &IoBufs, into: &mut [u8]) {
    let mut at = 0;
    for piece in bufs {
        into[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
}
