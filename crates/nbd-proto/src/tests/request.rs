//! Requests, replies, flags and error numbers as bytes.

use proptest::prelude::*;

use crate::{
    BadMagic, ChunkFlags, ChunkKind, Command, CommandFlags, OptionCode, OptionReply, REQUEST_LEN,
    Request, WireError, chunk_header, error_chunk, offset_data_header, offset_hole_chunk,
    simple_reply,
};

#[test]
fn a_request_is_the_bytes_the_specification_draws() {
    let request = Request {
        cookie: 0x0102_0304_0506_0708,
        command: Command::WriteZeroes,
        flags: CommandFlags::FUA | CommandFlags::FAST_ZERO,
        offset: 0x1122,
        len: 0x3344,
    };
    let bytes = [
        0x25, 0x60, 0x95, 0x13, 0, 0x11, 0, 6, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0x11,
        0x22, 0, 0, 0x33, 0x44,
    ];
    assert_eq!(request.encode(), bytes);
    assert_eq!(Request::decode(&bytes), Ok(request));
}

#[test]
fn a_request_with_another_magic_is_no_request() {
    assert_eq!(
        Request::decode(&[0; REQUEST_LEN]),
        Err(BadMagic {
            magic: 0,
            expected: 0x2560_9513
        })
    );
}

#[test]
fn replies_are_the_bytes_the_specification_draws() {
    assert_eq!(
        simple_reply(7, Some(WireError::NoSpace)),
        [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 7]
    );
    let header = [
        0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 2, 8,
    ];
    assert_eq!(
        chunk_header(7, ChunkFlags::DONE, ChunkKind::OffsetData, 520),
        header
    );
    let data = offset_data_header(7, ChunkFlags::DONE, 0xaa, 512);
    assert_eq!(data[..20], header);
    assert_eq!(data[20..], [0, 0, 0, 0, 0, 0, 0, 0xaa]);
    let hole = offset_hole_chunk(7, ChunkFlags::empty(), 0xaa, 512);
    assert_eq!(hole[4..8], [0, 0, 0, 2]);
    assert_eq!(
        hole[16..],
        [0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0xaa, 0, 0, 2, 0]
    );
}

/// CVE-2020-10761: a text longer than the protocol's strings broke the reader's assertion.
#[test]
fn an_error_text_is_cut_at_a_character_below_4096_bytes() {
    let text = "€".repeat(2000);
    let chunk = error_chunk(7, ChunkFlags::DONE, WireError::Io, &text, Some(9));
    let text_len = usize::from(u16::from_be_bytes([chunk[24], chunk[25]]));
    assert_eq!(text_len, 4095);
    assert_eq!(chunk.len(), 20 + 6 + 4095 + 8);
    assert!(std::str::from_utf8(&chunk[26..26 + text_len]).is_ok());
    assert_eq!(chunk[26 + text_len..], 9u64.to_be_bytes());
}

#[test]
fn unknown_error_numbers_mean_invalid() {
    assert_eq!(WireError::from_number(0), None);
    assert_eq!(WireError::from_number(4711), Some(WireError::Invalid));
    for error in WireError::ALL {
        assert_eq!(WireError::from_number(error.number()), Some(error));
    }
}

proptest! {
    #[test]
    fn requests_survive_the_wire(
        cookie: u64, command: u16, flags: u16, offset: u64, len: u32
    ) {
        let request = Request {
            cookie,
            command: Command::from(command),
            flags: CommandFlags::from_bits_retain(flags),
            offset,
            len: u64::from(len),
        };
        prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        prop_assert_eq!(u16::from(Command::from(command)), command);
    }

    #[test]
    fn numbers_survive_their_names(number: u32, low in 0u32..20, kind: u16) {
        for number in [number, low, low | 1 << 31] {
            prop_assert_eq!(u32::from(OptionCode::from(number)), number);
            prop_assert_eq!(u32::from(OptionReply::from(number)), number);
            prop_assert_eq!(OptionReply::from(number).is_error(), number >> 31 == 1);
        }
        prop_assert_eq!(u16::from(ChunkKind::from(kind)), kind);
    }
}
