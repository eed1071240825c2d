//! Transmission in chunks, and under extended headers, with clients that lie, cut and overflow.

use std::time::Duration;

use nbd_proto::{Command, CommandFlags, StatusFilter};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::wide::Chunky;
use super::super::{Dice, EINVAL, ENOSPC, RawClient, request};
use super::{CAP, SIZE, surviving};

const EOVERFLOW: u32 = 75;

/// Offsets and lengths of 64 bits at every edge: an error, and the next request is understood.
#[test]
fn no_extended_offset_and_no_length_leads_out_of_the_disk_or_out_of_step() {
    surviving(|address| async move {
        let mut client = Chunky::connect(address, true).await;
        let edges = [1, SIZE, SIZE + 1, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX];
        for command in [0, 4, 5, 6, 7, 8, 99, u16::MAX].map(Command::from) {
            for offset in edges.into_iter().chain([0]) {
                for len in edges {
                    if offset.checked_add(len).is_some_and(|end| end <= SIZE) {
                        continue;
                    }
                    let bad = request(command, offset, len);
                    let said = client.refused(&bad, &[]).await;
                    let expected = match command {
                        Command::WriteZeroes => ENOSPC,
                        _ => EINVAL,
                    };
                    assert_eq!((said.error, said.at), (expected, None), "{bad:?}");
                }
            }
        }
        client.assert_in_step().await;
    });
}

/// Under extended headers any request may say that a payload follows. It is skipped, up to twice the
/// cap, and refused unless the command takes one.
#[test]
fn an_unexpected_payload_is_skipped_and_refused() {
    surviving(|address| async move {
        let mut client = Chunky::connect(address, true).await;
        for command in [0, 2, 3, 4, 5, 6, 8, 99, u16::MAX].map(Command::from) {
            for len in [1, 12, 4096, 2 * CAP] {
                let mut odd = request(command, 0, len.into());
                odd.flags = CommandFlags::PAYLOAD_LEN;
                let said = client.refused(&odd, &vec![0x25; len as usize]).await;
                assert_eq!(said.error, EINVAL, "{odd:?}");
            }
            client.assert_in_step().await;
        }
        for command in [0, 1, 3, 7, 99].map(Command::from) {
            for len in [2 * u64::from(CAP) + 1, 1 << 32, 1 << 63, u64::MAX] {
                let mut client = Chunky::connect(address, true).await;
                let mut odd = request(command, 0, len);
                odd.flags = CommandFlags::PAYLOAD_LEN;
                client.send(&odd, &[]).await;
                assert!(client.raw.is_closed().await, "{odd:?}");
            }
        }
    });
}

#[test]
fn a_write_that_does_not_say_that_it_has_a_payload_has_none() {
    surviving(|address| async move {
        let mut client = Chunky::connect(address, true).await;
        let write = request(Command::Write, 0, 4096);
        client.raw.say(&write.encode_extended()).await;
        let chunks = client.reply(&write).await;
        assert_eq!(chunks[0].error().error, EINVAL);
        client.assert_in_step().await;
    });
}

/// CVE-2025-47711 and its kind: filters of every wrong form, each of them taken whole.
#[test]
fn a_filter_of_any_form_leads_nowhere() {
    surviving(|address| async move {
        let mut client = Chunky::connect(address, true).await;
        let filter = |len: u64, ids: &[u32]| {
            StatusFilter {
                len,
                ids: ids.to_vec(),
            }
            .encode()
        };
        let id = client.id;
        let payloads = [
            vec![0; 1],
            vec![0; 7],
            vec![0; 9],
            vec![0; 11],
            filter(0, &[id]),
            filter(SIZE + 1, &[id]),
            filter(u64::MAX, &[id]),
            filter(SIZE, &[id, id]),
            filter(SIZE, &[id ^ 1]),
            filter(SIZE, &[id ^ 0x8000_0000]),
            filter(SIZE, &[id; 64]),
            filter(SIZE, &[id; 65]),
            filter(SIZE, &vec![id; 60_000]),
        ];
        for payload in &payloads {
            for more in [CommandFlags::empty(), CommandFlags::REQ_ONE] {
                let mut status = request(Command::BlockStatus, 0, payload.len() as u64);
                status.flags = CommandFlags::PAYLOAD_LEN | more;
                let said = client.refused(&status, payload).await;
                assert_eq!(said.error, EINVAL, "{} bytes", payload.len());
            }
            client.assert_in_step().await;
        }
    });
}

#[test]
fn a_status_without_a_context_or_without_bytes_is_invalid() {
    surviving(|address| async move {
        let status = request(Command::BlockStatus, 0, SIZE);
        let mut raw = RawClient::structured(address).await;
        raw.say(&status.encode()).await;
        let head = raw.take(20).await;
        assert_eq!(head[4..8], [0, 1, 0x80, 1]);
        let len = u32::from_be_bytes(head[16..].try_into().expect("four bytes"));
        assert_eq!(raw.take(len as usize).await[..4], EINVAL.to_be_bytes());
        raw.say(&request(Command::Read, 0, 1).encode()).await;
        raw.take(28 + 1).await;
        for extended in [false, true] {
            let mut client = Chunky::connect(address, extended).await;
            let nothing = request(Command::BlockStatus, 0, 0);
            assert_eq!(client.refused(&nothing, &[]).await.error, EINVAL);
            client.assert_in_step().await;
        }
    });
}

/// Headers of the other form: the stream is not what was agreed on.
#[test]
fn a_header_of_the_form_that_was_not_agreed_on_ends_the_connection() {
    surviving(|address| async move {
        let flush = request(Command::Flush, 0, 0);
        let mut client = Chunky::connect(address, true).await;
        client.raw.say(&flush.encode()).await;
        client.raw.say(&flush.encode()).await;
        assert!(client.raw.is_closed().await);
        for extended in [false, true] {
            let mut client = Chunky::connect(address, extended).await;
            let bytes = if extended {
                [0xff; 32]
            } else {
                flush.encode_extended()
            };
            client.raw.say(&bytes).await;
            assert!(client.raw.is_closed().await);
        }
    });
}

#[test]
fn a_read_above_the_cap_overflows_only_where_it_must_not_be_cut() {
    surviving(|address| async move {
        for extended in [false, true] {
            let mut client = Chunky::connect(address, extended).await;
            let mut read = request(Command::Read, 0, u64::from(CAP) + 1);
            assert_eq!(client.refused(&read, &[]).await.error, EINVAL);
            read.flags = CommandFlags::DF;
            assert_eq!(client.refused(&read, &[]).await.error, EOVERFLOW);
            client.assert_in_step().await;
        }
    });
}

/// An answer is some bytes for each extent: thousands of requests with replies that the client does not read.
#[test]
fn statuses_that_are_not_read_are_bounded() {
    surviving(|address| async move {
        let mut idler = Chunky::connect(address, true).await;
        let status = request(Command::BlockStatus, 0, SIZE);
        let bytes = status.encode_extended().repeat(20_000);
        // The server stops to listen before it has heard all of them.
        let said = engine::clock::timeout(
            Duration::from_millis(300),
            idler.raw.stream.write_all(&bytes),
        );
        drop(said.await);
        Chunky::connect(address, true).await.assert_in_step().await;
    });
}

/// Streams of valid extended requests with bytes turned over.
#[test]
fn extended_streams_with_flipped_bytes_harm_no_other_client() {
    surviving(|address| async move {
        for seed in 0..100 {
            let mut rng = Dice(seed);
            let mut client = Chunky::connect(address, true).await;
            let mut bytes = Vec::new();
            for _ in 0..20 {
                let command = Command::from(u16::try_from(rng.below(8)).expect("small"));
                let len = 1 + rng.below(3000);
                let one = request(command, rng.below(SIZE), len);
                one.encode_to(client.framing, &mut bytes);
                if command == Command::Write {
                    bytes.resize(bytes.len() + usize::try_from(len).expect("small"), 0x55);
                }
            }
            for _ in 0..rng.below(6) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).expect("small");
                bytes[at] ^= 1 << rng.below(8);
            }
            drop(client.raw.stream.write_all(&bytes).await);
            drop(client.raw.stream.shutdown().await);
            let mut rest = Vec::new();
            let read = client.raw.stream.read_to_end(&mut rest);
            let ended = engine::clock::timeout(Duration::from_secs(10), read).await;
            assert!(ended.is_ok(), "seed {seed}: the server keeps it open");
        }
    });
}
