//! What a server can get wrong when it reports extents.

use block::{BlockDevice, Errno, ExtentKind, Range};
use nbd_proto::{
    BASE_ALLOCATION, ChunkFlags, ChunkKind, Command, Extent, Framing, ReplyTo, Request, WireError,
};

use crate::client::tests::fake::{Act, Fake};
use crate::client::tests::{connect, in_engine, short_limits};
use crate::client::{ClientConfig, limits};

const MIB: u64 = 1 << 20;
const DONE: ChunkFlags = ChunkFlags::DONE;
const MORE: ChunkFlags = ChunkFlags::empty();
/// The id that a server's handshake gives its first context.
const FIRST_ID: u32 = 1;

const fn to(request: &Request) -> ReplyTo {
    ReplyTo {
        cookie: request.cookie,
        offset: request.offset,
    }
}

/// A server that reports one hole at the beginning of its export.
fn fake(framing: Framing) -> Fake {
    let fake = Fake::start(MIB);
    {
        let mut world = fake.world();
        world.framing = framing;
        world.contexts = vec![BASE_ALLOCATION];
        world.extents = vec![extent(65_536, 3)];
    }
    fake
}

const fn extent(len: u64, flags: u64) -> Extent {
    Extent { len, flags }
}

/// The first connection answers with what `reply` makes of the request, later ones are honest: the
/// client leaves the first and says `why`, and comes to the right extents. In both framings.
fn survives(why: &'static str, reply: fn(Framing, ReplyTo) -> Vec<u8>) {
    for framing in [Framing::Structured, Framing::Extended] {
        in_engine(|| async move {
            let fake = fake(framing);
            fake.world().script = Box::new(move |connection, request| match connection {
                1 => Act::Raw(reply(framing, to(request))),
                _ => Act::Serve,
            });
            let client = connect(&fake, short_limits()).await;
            let extents = client.extents(Range::new(0, MIB)).await.unwrap();
            let kinds: Vec<_> = extents.iter().map(|extent| extent.kind).collect();
            assert_eq!(kinds, [ExtentKind::Hole, ExtentKind::Data]);
            assert_eq!(extents[0].range, Range::new(0, 65_536));
            let health = client.health();
            assert_eq!(health.reconnects, 1, "{why}");
            let error = health.last_error.unwrap();
            assert!(error.contains(why), "{error}");
        });
    }
}

/// A chunk of status with `payload` behind it.
fn status(framing: Framing, to: ReplyTo, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap();
    let mut chunk = framing
        .chunk(to, DONE, ChunkKind::BlockStatus, len)
        .to_vec();
    if framing == Framing::Extended {
        chunk = framing
            .chunk(to, DONE, ChunkKind::BlockStatusExt, len)
            .to_vec();
    }
    chunk.extend(payload);
    chunk
}

#[test]
fn a_context_that_was_not_requested() {
    survives("context 77", |framing, to| {
        framing.block_status(to, DONE, 77, &[extent(512, 0)])
    });
}

#[test]
fn the_same_context_twice() {
    survives("comes twice", |framing, to| {
        framing
            .block_status(to, MORE, FIRST_ID, &[extent(512, 0)])
            .repeat(2)
    });
}

#[test]
fn success_without_a_word() {
    survives("succeeded without context", |framing, to| {
        framing.end(to).to_vec()
    });
}

#[test]
fn extents_without_length_and_chunks_of_impossible_length() {
    survives("extent of no bytes", |framing, to| {
        let mut payload = FIRST_ID.to_be_bytes().to_vec();
        if framing == Framing::Extended {
            payload.extend(1_u32.to_be_bytes());
            payload.extend([0; 8]);
        }
        payload.extend([0; 8]);
        status(framing, to, &payload)
    });
    survives("bytes", |framing, to| status(framing, to, &[0; 5]));
    survives("bytes", |framing, to| status(framing, to, &[]));
}

#[test]
fn more_extents_than_a_reply_may_have() {
    survives("1048577 extents in one chunk", |framing, to| {
        let (kind, fixed, each) = match framing {
            Framing::Extended => (ChunkKind::BlockStatusExt, 8, 16),
            _ => (ChunkKind::BlockStatus, 4, 8),
        };
        framing
            .chunk(to, DONE, kind, fixed + each * ((1 << 20) + 1))
            .to_vec()
    });
}

#[test]
fn extents_that_go_on_behind_the_request() {
    survives("extent beyond request", |framing, to| {
        framing.block_status(to, DONE, FIRST_ID, &[extent(MIB, 0), extent(512, 3)])
    });
}

#[test]
fn data_in_answer_to_a_question_for_extents() {
    survives("where none is due", |framing, to| {
        let piece = nbd_proto::ChunkRange {
            offset: 0,
            len: 512,
        };
        framing.read_data(to, DONE, piece).to_vec()
    });
}

#[test]
fn an_extent_that_overflows() {
    in_engine(|| async {
        let fake = fake(Framing::Extended);
        fake.world().script = Box::new(|_, request| {
            // Ends behind the request, which it may, and far behind the export.
            let all = extent(u64::MAX - request.offset, 3);
            Act::Raw(Framing::Extended.block_status(to(request), DONE, FIRST_ID, &[all]))
        });
        let client = connect(&fake, short_limits()).await;
        let range = Range::new(4096, 512 * 1024);
        let extents = client.extents(range).await.unwrap();
        assert_eq!(extents.len(), 1);
        assert_eq!(
            (extents[0].range, extents[0].kind),
            (range, ExtentKind::Hole)
        );
    });
}

#[test]
fn a_server_that_refuses_block_status_has_data_everywhere() {
    for error in [WireError::Invalid, WireError::NotSupported] {
        in_engine(|| async move {
            let fake = fake(Framing::Structured);
            fake.world().script = Box::new(move |_, _| Act::Refuse(error, "not today"));
            let client = connect(&fake, short_limits()).await;
            let range = Range::new(512, 4096);
            let extents = client.extents(range).await.unwrap();
            assert_eq!(extents.len(), 1);
            assert_eq!(
                (extents[0].range, extents[0].kind),
                (range, ExtentKind::Data)
            );
        });
    }
}

#[test]
fn an_error_is_an_error_and_not_a_hole() {
    in_engine(|| async {
        let fake = fake(Framing::Structured);
        fake.world().script = Box::new(|_, _| Act::Refuse(WireError::Io, "bad map"));
        let client = connect(&fake, short_limits()).await;
        let error = client.extents(Range::new(0, MIB)).await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        assert!(error.to_string().contains("extents of"), "{error}");
        assert!(error.to_string().contains("bad map"), "{error}");
        assert_eq!(fake.world().connections, 1);
    });
}

/// One byte at a time, of changing kinds: the answer has an end all the same.
#[test]
fn a_server_that_reports_byte_by_byte_gets_a_bounded_number_of_requests() {
    in_engine(|| async {
        let fake = fake(Framing::Extended);
        fake.world().export.size = 1 << 40;
        fake.world().script = Box::new(|_, request| {
            let many: Vec<Extent> = (0..1 << 17).map(|nth| extent(1, 3 * (nth % 2))).collect();
            Act::Raw(Framing::Extended.block_status(to(request), DONE, FIRST_ID, &many))
        });
        let config = ClientConfig {
            request_timeout: std::time::Duration::from_secs(20),
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        let range = Range::new(0, 1 << 40);
        let extents = client.extents(range).await.unwrap();
        assert!((limits::EXTENTS_MAX..limits::EXTENTS_MAX * 2).contains(&extents.len()));
        let last = extents.last().unwrap();
        assert_eq!((last.range.end(), last.kind), (1 << 40, ExtentKind::Data));
        let asked = fake.world().commands();
        assert!(asked.iter().all(|command| *command == Command::BlockStatus));
        let most = limits::EXTENTS_MAX / limits::EXTENTS_AT_ONCE;
        assert_eq!(asked.len(), most);
    });
}
