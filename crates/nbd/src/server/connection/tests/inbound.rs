//! How payload goes to the page cache while it arrives.

use block::Range;
use proptest::prelude::*;

use super::super::inbound::{GATHERED_MAX, Gathering, Streaming};
use super::context;

proptest! {
    /// However the payload is split: every byte is written once and in order, and every piece is made of
    /// whole blocks and ends where no page is torn.
    #[test]
    fn every_byte_is_written_once_in_whole_pages_and_blocks(
        shift in 0u32..=16, first in 0u64..100, count in 1u64..400,
        arrivals in prop::collection::vec(1usize..70_000, 1..200),
    ) {
        let block = 1 << shift;
        let align = u64::from(block).max(4096);
        let range = Range::new(first * u64::from(block), count * u64::from(block));
        let mut streaming = Streaming { context: context(), range, done: 0 };
        let (mut at, mut received, mut written) = (range.offset, 0, 0);
        let mut arrivals = arrivals.into_iter().cycle();
        while at < range.end() {
            // What arrives behind the payload is there too, and must not be taken.
            received += arrivals.next().expect("a cycle") as u64;
            let available = usize::try_from(received - written).expect("small");
            let Some(piece) = streaming.next_piece(available, block) else {
                prop_assert!((available as u64) < align.min(range.end() - at), "nothing taken");
                continue;
            };
            prop_assert_eq!(piece.offset, at);
            prop_assert!(piece.len > 0 && piece.len <= available as u64);
            prop_assert!(piece.end() <= range.end());
            prop_assert!(piece.end() == range.end() || piece.end() % align == 0);
            prop_assert!(piece.len % u64::from(block) == 0);
            streaming.done += piece.len;
            written += piece.len;
            at = piece.end();
            prop_assert_eq!(streaming.rest(), Range::new(at, range.end() - at));
        }
        prop_assert_eq!(at, range.end());
    }
}

proptest! {
    /// Every byte is handed to the disk once, in no more memory at once than there is for a client
    /// that sends nothing more, and in as many pieces as were counted.
    #[test]
    fn a_gathered_payload_is_cut_into_bounded_pieces(offset in 0u64..1 << 40, len in 1u64..1 << 27) {
        let mut rest = Range::new(offset, len);
        let mut count = 0;
        let expected = Gathering::count(rest);
        while !rest.is_empty() {
            let piece = Gathering::next_piece(rest);
            prop_assert_eq!(piece.offset, rest.offset);
            prop_assert!(piece.len > 0 && piece.len <= GATHERED_MAX && piece.end() <= rest.end());
            prop_assert!(piece.end() == rest.end() || piece.end().is_multiple_of(GATHERED_MAX));
            rest = Range::new(piece.end(), rest.len - piece.len);
            count += 1;
        }
        prop_assert_eq!(count, expected);
        prop_assert!(len > GATHERED_MAX || count == 1, "what fits is not cut");
    }
}

#[test]
fn a_piece_waits_for_a_whole_page_but_not_behind_the_end() {
    let range = Range::new(100, 8000);
    let streaming = |done| Streaming {
        context: context(),
        range,
        done,
    };
    assert_eq!(streaming(0).next_piece(3995, 1), None);
    assert_eq!(
        streaming(0).next_piece(3996, 1),
        Some(Range::new(100, 3996))
    );
    assert_eq!(streaming(3996).next_piece(4003, 1), None);
    assert_eq!(
        streaming(3996).next_piece(4004, 1),
        Some(Range::new(4096, 4004))
    );
    assert_eq!(
        streaming(3996).next_piece(9999, 1),
        Some(Range::new(4096, 4004))
    );
}
