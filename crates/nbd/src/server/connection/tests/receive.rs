//! Where payload comes to lie in the receive buffer.

use block::Range;
use nbd_proto::{Framing, REQUEST_LEN};
use proptest::prelude::*;

use super::super::inbound::{Inbound, Streaming};
use super::super::receive::{ALIGN, position};
use super::context;

#[test]
fn payload_behind_a_header_is_aligned() {
    for framing in [Framing::Simple, Framing::Structured, Framing::Extended] {
        let header = framing.request_len();
        let at = position(&Inbound::Header, header);
        assert!((at + header).is_multiple_of(ALIGN));
    }
}

proptest! {
    #[test]
    fn the_next_byte_of_a_payload_lies_as_it_does_in_its_page(
        offset in 0u64..1 << 40, len in 1u64..1 << 26, done in 0u64..1 << 26,
    ) {
        let done = done.min(len);
        let range = Range::new(offset, len);
        let at = position(&Inbound::Streaming(Streaming { context: context(), range, done }), REQUEST_LEN);
        prop_assert!(at < ALIGN);
        prop_assert_eq!(at as u64 % 64, (offset + done) % 64);
    }
}
