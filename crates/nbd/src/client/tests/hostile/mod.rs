//! Servers that break the protocol: the connection is given up, and the request is answered by the
//! next one as if nothing had happened.

mod extended;
mod status;

use block::{BlockDevice, Range, WriteFlags};
use nbd_proto::{
    ChunkFlags, ChunkKind, Command, Framing, Request, WireError, chunk_header, error_chunk,
    offset_data_header, offset_hole_chunk, simple_reply,
};
use testkit::{gather, pattern, single};

use super::fake::{Act, Fake};
use super::{connect, in_engine, poll_once, short_limits};

const LEN: u32 = 4096;

/// The first connection answers the first read with `reply`; later ones are honest. The client
/// must come to the right bytes on the second connection, and say `why` it left the first.
fn survives(why: &'static str, reply: fn(&Request) -> Act) {
    survives_in(Framing::Structured, why, reply);
}

/// The same in another framing.
fn survives_in(framing: Framing, why: &'static str, reply: fn(&Request) -> Act) {
    in_engine(|| async move {
        let fake = Fake::scripted(1 << 20, move |connection, request| match connection {
            1 => reply(request),
            _ => Act::Serve,
        });
        fake.world().framing = framing;
        let range = Range::new(8192, u64::from(LEN));
        let data = pattern(5, range);
        fake.world().live[8192..8192 + 4096].copy_from_slice(&data);
        let client = connect(&fake, short_limits()).await;
        assert_eq!(gather(&client.read(range).await.unwrap()), data);
        let health = client.health();
        assert_eq!(health.reconnects, 1, "{why}");
        let error = health.last_error.unwrap();
        assert!(error.contains(why), "{error}");
    });
}

const DONE: ChunkFlags = ChunkFlags::DONE;

fn data(cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut chunk = offset_data_header(cookie, ChunkFlags::empty(), offset, len).to_vec();
    chunk.resize(chunk.len() + usize::try_from(len).unwrap(), 0xee);
    chunk
}

#[test]
fn bytes_that_are_no_reply() {
    survives("reply with magic", |_| Act::Raw(vec![0x55; 64]));
}

#[test]
fn a_reply_to_nothing() {
    survives("not in flight", |request| {
        Act::Raw(simple_reply(request.cookie + 1, None).to_vec())
    });
}

#[test]
fn data_outside_the_request() {
    survives("outside request", |request| {
        Act::Raw(data(request.cookie, request.offset - 1, LEN))
    });
    survives("outside request", |request| {
        Act::Raw(data(request.cookie, request.offset, LEN + 1))
    });
    survives("outside request", |request| {
        Act::Raw(offset_hole_chunk(request.cookie, DONE, 0, u32::MAX).to_vec())
    });
}

#[test]
fn the_same_data_twice() {
    survives("overlap", |request| {
        Act::Raw(data(request.cookie, request.offset, LEN).repeat(2))
    });
}

#[test]
fn success_with_bytes_missing() {
    survives("4095 bytes missing", |request| {
        let mut reply = data(request.cookie, request.offset, 1);
        reply.extend(chunk_header(request.cookie, DONE, ChunkKind::None, 0));
        Act::Raw(reply)
    });
}

#[test]
fn a_simple_reply_to_a_read_under_structured_replies() {
    survives("simple reply to a read", |request| {
        Act::Raw(simple_reply(request.cookie, None).to_vec())
    });
}

#[test]
fn a_chunk_of_absurd_length() {
    survives("4294967295 bytes", |request| {
        Act::Raw(chunk_header(request.cookie, DONE, ChunkKind::Error, u32::MAX).to_vec())
    });
}

#[test]
fn a_hangup_before_the_reply() {
    survives("closed the connection", |_| Act::Hangup);
}

/// The server stops in the middle of something, and never goes on.
#[test]
fn silence_within_a_reply() {
    // "no byte moved for 1 s", or "no answer within 1 s": what has moved since the request was sent decides, and on a
    // busy machine that is the request itself or the begin of its reply.
    survives(" 1 s", |_| Act::Silence);
    survives(" 1 s", |request| {
        Act::Raw(data(request.cookie, request.offset, LEN)[..10].to_vec())
    });
    survives(" 1 s", |request| {
        Act::Raw(data(request.cookie, request.offset, LEN)[..2000].to_vec())
    });
}

#[test]
fn requests_refused_by_a_server_that_shuts_down_are_sent_again() {
    survives("shutting down", |request| {
        Act::Raw(error_chunk(
            request.cookie,
            DONE,
            WireError::Shutdown,
            "",
            None,
        ))
    });
}

#[test]
fn a_structured_reply_that_was_not_negotiated() {
    in_engine(|| async {
        let fake = Fake::scripted(1 << 20, |connection, request| match connection {
            1 => Act::Raw(chunk_header(request.cookie, DONE, ChunkKind::None, 0).to_vec()),
            _ => Act::Serve,
        });
        fake.world().framing = Framing::Simple;
        let client = connect(&fake, short_limits()).await;
        let range = Range::new(0, 512);
        let write = client.write(range, single(vec![1; 512]), WriteFlags::empty());
        write.await.unwrap();
        assert_eq!(fake.world().live[0], 1);
        assert_eq!(client.health().reconnects, 1);
    });
}

/// A server that answers everything with rubbish is given up in the end.
#[test]
fn a_server_that_is_always_wrong_fails_requests_in_time() {
    in_engine(|| async {
        let fake = Fake::scripted(1 << 20, |_, _| Act::Raw(vec![0x55; 64]));
        let config = crate::client::ClientConfig {
            reconnect_for: std::time::Duration::from_millis(400),
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        let error = client.read(Range::new(0, 512)).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("the server has been gone for"), "{error}");
        assert!(error.contains("broke the protocol"), "{error}");
        let reads = fake.world().commands();
        assert!(reads.iter().all(|command| *command == Command::Read));
        assert!(reads.len() < 20, "pauses grow: {} reads", reads.len());
    });
}

/// Nor is one that always says that it goes away, and never does; others are served meanwhile.
#[test]
fn a_server_that_is_always_about_to_go_fails_requests_in_time() {
    in_engine(|| async {
        let fake = Fake::scripted(1 << 20, |_, request| match request.offset {
            0 => Act::Refuse(WireError::Shutdown, "soon"),
            _ => Act::Serve,
        });
        let config = crate::client::ClientConfig {
            reconnect_for: std::time::Duration::from_millis(400),
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        let mut refused = client.read(Range::new(0, 512));
        let error = loop {
            if let std::task::Poll::Ready(result) = poll_once(&mut refused).await {
                break result.unwrap_err().to_string();
            }
            client.read(Range::new(4096, 512)).await.unwrap();
        };
        assert!(error.contains("sent again and again"), "{error}");
        assert!(error.contains("the server is shutting down"), "{error}");
        let connections = fake.world().connections;
        assert!(
            connections < 40,
            "there are pauses: {connections} connections"
        );
    });
}
