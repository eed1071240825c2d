//! What members answered, as the bytes that were requested. Pure.
//!
//! # Invariants
//!
//! * What was read is passed on by reference; each byte that is computed is written once, where it
//!   is handed out from.

use block::IoBufs;
use engine::Buffer;
use engine::parity::Kernel;
use smallvec::smallvec;

use super::plan::{Bytes, Plan, Rebuild, Way};
use crate::blocks::slice;

/// Bytes of the array, and where they begin.
pub(in crate::array) type Found = (u64, IoBufs);

/// The pieces of `plan`, from the answers to its reads. `reckoned`: bytes that were computed.
pub(in crate::array) fn assemble(
    plan: &Plan,
    answers: &[IoBufs],
    reckoned: &mut u64,
) -> Vec<Found> {
    let cut = |bytes: Bytes| {
        let (index, skip) = plan.find(bytes);
        slice(&answers[index], skip, bytes.range.len_usize())
    };
    let rebuilt: Vec<Vec<IoBufs>> = plan
        .rebuilds
        .iter()
        .map(|rebuild| {
            let given = compute(rebuild, cut);
            *reckoned += rebuild.columns.len * given.len() as u64;
            let frozen = given.into_iter().map(Buffer::freeze);
            frozen.map(|bytes| smallvec![bytes]).collect()
        })
        .collect();
    let found = plan.pieces.iter().map(|piece| match piece.rebuilt {
        None => (piece.at, cut(piece.bytes)),
        Some((index, which)) => (piece.at, rebuilt[index][which].clone()),
    });
    found.collect()
}

/// What a rebuild is computed from: its data at their exponents (in any order where only P counts), and
/// parity.
struct Terms {
    data: Vec<Option<IoBufs>>,
    p: Option<IoBufs>,
    q: Option<IoBufs>,
}

/// Reads the terms of a rebuild from what was read.
fn terms(rebuild: &Rebuild, cut: impl Fn(Bytes) -> IoBufs) -> Terms {
    let Rebuild { row, columns, way } = rebuild;
    let read = |part: usize| {
        let range = *columns;
        cut(Bytes { part, range })
    };
    let others = || {
        let data = (0..row.parts()).filter(|part| !row.is_parity(*part));
        data.filter(|part| !way.gives().contains(part))
    };
    if let Way::FromP(_) = way {
        return Terms {
            data: others().map(|part| Some(read(part))).collect(),
            p: Some(read(row.p)),
            q: None,
        };
    }
    let mut data = vec![None; row.exponents()];
    for part in others() {
        data[row.exponent(part)] = Some(read(part));
    }
    Terms {
        data,
        p: matches!(way, Way::FromBoth(_)).then(|| read(row.p)),
        q: row.q.map(read),
    }
}

/// Computes what a rebuild gives, part by part.
pub(super) fn compute(rebuild: &Rebuild, cut: impl Fn(Bytes) -> IoBufs) -> Vec<Buffer> {
    let len = rebuild.columns.len_usize();
    let terms = terms(rebuild, cut);
    let gives = rebuild.way.gives().iter();
    let mut into: Vec<Buffer> = gives.map(|_| Buffer::take(len)).collect();
    let mut at = 0;
    // Answers come in slices: as far as all of them go on is computed at once.
    while at < len {
        let rest = |bufs: &IoBufs| front(bufs, at).len();
        let all = terms.data.iter().flatten().chain(&terms.p).chain(&terms.q);
        let step = all.map(rest).min().unwrap_or(0);
        assert!(step > 0, "an answer is as long as what was asked for");
        compute_slices(rebuild, &terms, at..at + step, &mut into);
        at += step;
    }
    into
}

/// The bytes of `bufs` from `at` on that lie together.
pub(super) fn front(bufs: &IoBufs, mut at: usize) -> &[u8] {
    for piece in bufs {
        if at < piece.len() {
            return &piece[at..];
        }
        at -= piece.len();
    }
    &[]
}

fn compute_slices(
    rebuild: &Rebuild,
    terms: &Terms,
    at: std::ops::Range<usize>,
    into: &mut [Buffer],
) {
    let kernel = Kernel::best();
    let cut = |bufs| &front(bufs, at.start)[..at.len()];
    let data: Vec<Option<&[u8]>> = terms
        .data
        .iter()
        .map(|term| term.as_ref().map(cut))
        .collect();
    let p = terms.p.as_ref().map(cut);
    let q = terms.q.as_ref().map(cut);
    match (rebuild.way, p, q, into) {
        (Way::FromP(_), Some(p), _, [into]) => {
            let mut all: Vec<&[u8]> = data.into_iter().flatten().collect();
            all.push(p);
            kernel.xor(&all, &mut into[at]);
        }
        (Way::FromQ(lost), _, Some(q), [into]) => {
            let exponent = rebuild.row.exponent(lost);
            kernel.from_q(&data, q, exponent, &mut into[at]);
        }
        (Way::FromBoth(lost), Some(p), Some(q), [first, second]) => {
            let exponents = lost.map(|part| rebuild.row.exponent(part));
            let into = [&mut first[at.clone()], &mut second[at]];
            kernel.from_both(&data, [p, q], exponents, into);
        }
        _ => unreachable!("the terms of a rebuild are what its way needs"),
    }
}
