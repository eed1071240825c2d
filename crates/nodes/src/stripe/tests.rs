//! Tests of `stripe`.

use std::pin::pin;
use std::sync::Arc;

use block::{BlockDevice, ExtentKind, Node, Range, TryIo, WriteFlags};
use futures_util::future::poll_immediate;
use proptest::prelude::*;
use testkit::{
    HeldDisk, MemDisk, OpSpace, TrimLeaves, block_on, check_against_model, check_crashes,
    check_dropped_futures, check_in_batches, gather, one_of_each, ops, pattern, single,
};

use super::plan::Deal;
use super::{LeftOut, Stripe, StripeError};
use crate::Null;
use crate::parts::{Layout, PartError, Segment};

const CHUNK: u64 = 2048;
const EACH: u64 = 5 * CHUNK;
const SIZE: u64 = 3 * EACH;
const SIZES: [u64; 3] = [EACH; 3];

fn segments(disks: &[Node]) -> Vec<Segment> {
    disks.iter().cloned().map(Segment::whole).collect()
}

fn stripe(disks: &[Node], chunk: u64) -> Stripe {
    Stripe::new(segments(disks), chunk).unwrap()
}

fn mem_disks(sizes: &[u64]) -> Vec<Node> {
    let disk = |&size: &u64| Arc::new(MemDisk::new(size).trims_leave(TrimLeaves::Garbage)) as Node;
    sizes.iter().map(disk).collect()
}

async fn open(disks: Vec<Node>) -> Result<Node, block::IoError> {
    Ok(Arc::new(stripe(&disks, CHUNK)))
}

fn space(block_size: u32) -> OpSpace {
    OpSpace {
        size: SIZE,
        block_size,
        len_max: SIZE,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn three_members_are_a_disk(ops in ops(space(1), 0..60), width in 1_usize..8) {
        block_on(check_in_batches(&stripe(&mem_disks(&SIZES), CHUNK), &ops, width)).unwrap();
    }

    #[test]
    fn chunks_need_be_no_power_of_two(ops in ops(space(512), 0..40)) {
        block_on(check_against_model(&stripe(&mem_disks(&SIZES), 5 * 512), &ops)).unwrap();
    }

    #[test]
    fn one_member_is_a_disk(ops in ops(space(512), 0..40)) {
        block_on(check_against_model(&stripe(&mem_disks(&[SIZE]), CHUNK), &ops)).unwrap();
    }

    #[test]
    fn what_was_flushed_survives_a_power_cut(ops in ops(space(512), 0..12), seed: u64) {
        block_on(check_crashes(open, &SIZES, &ops, seed)).unwrap();
    }

    #[test]
    fn every_byte_of_a_request_is_on_one_member(
        members in 1..6_u64, chunk in 1..9_u64, a in 0..200_u64, b in 0..200_u64,
    ) {
        let layout = Deal { chunk, members };
        let range = Range::new(a.min(b), a.abs_diff(b));
        let shares = layout.shares(range);
        let mut covered = Vec::new();
        for share in &shares {
            let mut bytes = share.within.offset..share.within.end();
            for at in share.runs().flatten() {
                let byte = bytes.next().expect("runs are as long as the range below");
                // The layout's definition, byte by byte.
                let whole = range.offset + at as u64;
                prop_assert_eq!(share.part as u64, whole / chunk % members);
                prop_assert_eq!(byte, whole / chunk / members * chunk + whole % chunk);
                covered.push(whole);
            }
            prop_assert!(bytes.next().is_none());
        }
        covered.sort_unstable();
        prop_assert_eq!(covered, (range.offset..range.end()).collect::<Vec<_>>());
        let mut parts: Vec<_> = shares.iter().map(|share| share.part).collect();
        parts.sort_unstable();
        parts.dedup();
        prop_assert_eq!(parts.len(), shares.len(), "a member is asked once");
        match layout.single(range) {
            Some((part, within)) if shares.len() == 1 => {
                prop_assert_eq!((part, within), (shares[0].part, shares[0].within));
            }
            Some(_) => prop_assert!(range.is_empty()),
            None => prop_assert!(shares.len() > 1 || range.len > chunk),
        }
    }
}

#[test]
fn a_dropped_future_leaves_nothing_behind_after_settle() {
    let range = Range::new(1500, 15_000);
    let list = one_of_each(range, SIZE);
    block_on(check_dropped_futures(open, &SIZES, &list)).unwrap();
}

#[test]
fn chunks_go_round_the_members() {
    let disks: Vec<_> = SIZES.map(|size| Arc::new(MemDisk::new(size))).into();
    let nodes: Vec<Node> = disks.iter().map(|disk| disk.clone() as Node).collect();
    let whole = Range::new(0, SIZE);
    let data = pattern(9, whole);
    let write = stripe(&nodes, CHUNK);
    block_on(write.write(whole, single(data.clone()), WriteFlags::empty())).unwrap();
    let chunk = usize::try_from(CHUNK).unwrap();
    for (member, disk) in disks.iter().enumerate() {
        let chunks = data.chunks(chunk).skip(member).step_by(3);
        assert_eq!(disk.snapshot(), chunks.collect::<Vec<_>>().concat());
    }
}

#[test]
fn each_member_gets_one_request_however_long_the_request() {
    let held: Vec<_> = mem_disks(&SIZES).into_iter().map(HeldDisk::new).collect();
    let disks: Vec<Node> = held.iter().map(|disk| disk.clone() as Node).collect();
    let stripe = stripe(&disks, CHUNK);
    block_on(async {
        let mut read = pin!(stripe.read(Range::new(1024, SIZE - 2048)));
        assert!(poll_immediate(read.as_mut()).await.is_none());
        let asked =
            |index: usize| -> Vec<_> { held[index].held().iter().map(|held| held.range).collect() };
        assert_eq!(asked(0), [Some(Range::new(1024, EACH - 1024))]);
        assert_eq!(asked(1), [Some(Range::new(0, EACH))]);
        assert_eq!(asked(2), [Some(Range::new(0, EACH - 1024))]);
    });
}

#[test]
fn bytes_across_chunks_are_read_and_written_in_line() {
    let stripe = stripe(&mem_disks(&SIZES), CHUNK);
    let range = Range::new(1000, SIZE - 3000);
    let data = pattern(3, range);
    assert_eq!(stripe.try_write(range, &data), TryIo::Done);
    let mut into = vec![0; range.len_usize()];
    assert_eq!(stripe.try_read(range, &mut into), TryIo::Done);
    assert_eq!(into, data);
    assert_eq!(gather(&block_on(stripe.read(range)).unwrap()), data);
}

#[test]
fn a_range_within_a_chunk_is_the_members() {
    let disks = mem_disks(&SIZES);
    let stripe = stripe(&disks, CHUNK);
    let (disk, range) = stripe.remap(Range::new(4 * CHUNK + 100, 1948)).unwrap();
    assert!(crate::parts::is_same(disk, &disks[1]));
    assert_eq!(range, Range::new(CHUNK + 100, 1948));
    assert!(stripe.remap(Range::new(4 * CHUNK + 100, 1949)).is_none());
}

#[test]
fn extents_are_reported_in_the_order_of_the_chunks() {
    let disks: Vec<Node> = vec![
        Arc::new(MemDisk::from_bytes(vec![1; 4096])),
        Arc::new(Null::new(4096)),
    ];
    let extents = block_on(stripe(&disks, CHUNK).extents(Range::new(0, 8192))).unwrap();
    let (data, hole) = (ExtentKind::Data, ExtentKind::Hole);
    let kinds: Vec<_> = extents.iter().map(|e| (e.range.len, e.kind)).collect();
    let expected = [(CHUNK, data), (CHUNK, hole), (CHUNK, data), (CHUNK, hole)];
    assert_eq!(kinds, expected);
}

#[test]
fn a_huge_hole_is_reported_in_no_time() {
    const EACH: u64 = 1 << 60;
    let disks: Vec<Node> = (0..4).map(|_| Arc::new(Null::new(EACH)) as Node).collect();
    let whole = Range::new(512, 4 * EACH - 1024);
    let extents = block_on(stripe(&disks, 4096).extents(whole)).unwrap();
    assert_eq!(extents.len(), 1);
    assert_eq!(
        (extents[0].range, extents[0].kind),
        (whole, ExtentKind::Hole)
    );
}

#[test]
fn unequal_members_are_refused_or_trimmed() {
    let disks = mem_disks(&[EACH, EACH + 512, EACH + CHUNK]);
    let error = Stripe::new(segments(&disks), CHUNK).unwrap_err();
    let expected = StripeError::Unequal {
        number: 2,
        len: EACH + 512,
        first: EACH,
    };
    assert_eq!(error, expected);
    let (stripe, left_out) = Stripe::trimmed(segments(&disks), CHUNK).unwrap();
    assert_eq!(stripe.geometry().size, SIZE);
    let of = |number, len| LeftOut { number, len };
    assert_eq!(left_out, [of(2, 512), of(3, CHUNK)]);
    assert_eq!(
        left_out[0].to_string(),
        "the last 512 bytes of member 2 are not used"
    );
}

#[test]
fn members_are_trimmed_to_whole_chunks() {
    let disks = mem_disks(&[EACH + 100, EACH + 200]);
    let error = Stripe::new(segments(&disks[..1]), CHUNK).unwrap_err();
    let len = EACH + 100;
    assert_eq!(error, StripeError::PartialChunk { len, chunk: CHUNK });
    let (stripe, left_out) = Stripe::trimmed(segments(&disks), CHUNK).unwrap();
    assert_eq!(stripe.geometry().size, 2 * EACH);
    let lens: Vec<_> = left_out.iter().map(|left| left.len).collect();
    assert_eq!(lens, [100, 200]);
    let nothing = Stripe::trimmed(segments(&mem_disks(&[EACH, CHUNK - 1])), CHUNK);
    assert_eq!(nothing.unwrap_err(), StripeError::Part(PartError::Empty(1)));
}

#[test]
fn chunks_that_cannot_be_are_refused() {
    let disks = mem_disks(&SIZES);
    for chunk in [0, 1, 511, 513] {
        let error = Stripe::new(segments(&disks), chunk).unwrap_err();
        assert_eq!(error, StripeError::Chunk(chunk));
        assert!(Stripe::trimmed(segments(&disks), chunk).is_err());
    }
    let none = Stripe::new(Vec::new(), CHUNK).unwrap_err();
    assert_eq!(none, StripeError::Part(PartError::None));
    let large = MemDisk::new(8192).with_geometry(|geometry| geometry.block_size = 4096);
    let cut = Stripe::new(vec![Segment::whole(Arc::new(large))], CHUNK).unwrap_err();
    let expected = StripeError::ChunkCutsBlock {
        chunk: CHUNK,
        block_size: 4096,
    };
    assert_eq!(cut, expected);
}
