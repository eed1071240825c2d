//! A client of bytes that has agreed on chunks and on `base:allocation`: [`Chunky`].

use std::net::SocketAddr;

use nbd_proto::{ChunkKind, Framing, Request};

use super::RawClient;

const EXTENDED_HEADERS: u32 = 11;
const STRUCTURED_REPLY: u32 = 8;
const SET_META_CONTEXT: u32 = 10;
const GO: u32 = 7;
const ACK: u32 = 1;
const META_CONTEXT: u32 = 4;

/// Beyond its handshake, under structured replies or extended headers.
pub(super) struct Chunky {
    pub(super) raw: RawClient,
    pub(super) framing: Framing,
    /// What stands for `base:allocation`.
    pub(super) id: u32,
}

/// One chunk of a reply with a valid header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) kind: ChunkKind,
    pub(super) payload: Vec<u8>,
}

/// What an error chunk says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplyChunk {
    pub(super) error: u32,
    pub(super) text: String,
    pub(super) at: Option<u64>,
}

impl Chunk {
    /// The error; nothing else may be in the chunk.
    pub(super) fn error(&self) -> ReplyChunk {
        assert!(self.kind.is_error(), "{self:?}");
        let (head, rest) = self.payload.split_at(6);
        let text_len = usize::from(u16::from_be_bytes([head[4], head[5]]));
        // CVE-2020-10761: a long text overran the reply.
        assert!((1..=4096).contains(&text_len));
        let (text, place) = rest.split_at(text_len);
        let at = match self.kind {
            ChunkKind::ErrorOffset => Some(u64::from_be_bytes(place.try_into().expect("eight"))),
            _ => {
                assert!(place.is_empty());
                None
            }
        };
        ReplyChunk {
            error: u32::from_be_bytes(head[..4].try_into().expect("four")),
            text: String::from_utf8(text.to_vec()).expect("text"),
            at,
        }
    }

    /// Offset and bytes of a chunk of data.
    pub(super) fn data(&self) -> (u64, &[u8]) {
        assert_eq!(self.kind, ChunkKind::OffsetData);
        let (offset, data) = self.payload.split_at(8);
        (u64::from_be_bytes(offset.try_into().expect("eight")), data)
    }
}

impl Chunky {
    /// Through the handshake to `disk`.
    pub(super) async fn connect(address: SocketAddr, extended: bool) -> Self {
        let (framing, option) = if extended {
            (Framing::Extended, EXTENDED_HEADERS)
        } else {
            (Framing::Structured, STRUCTURED_REPLY)
        };
        let mut raw = RawClient::connect(address).await;
        raw.greet().await;
        raw.option(option, b"").await;
        assert_eq!(raw.option_reply().await.0, ACK);
        let query = b"\0\0\0\x04disk\0\0\0\x01\0\0\0\x0fbase:allocation";
        raw.option(SET_META_CONTEXT, query).await;
        let (kind, data) = raw.option_reply().await;
        assert_eq!(kind, META_CONTEXT);
        assert_eq!(&data[4..], b"base:allocation");
        let id = u32::from_be_bytes(data[..4].try_into().expect("four"));
        assert_eq!(raw.option_reply().await.0, ACK);
        raw.option(GO, b"\0\0\0\x04disk\0\0").await;
        while raw.option_reply().await.0 != ACK {}
        Self { raw, framing, id }
    }

    /// Sends a request and takes its reply.
    pub(super) async fn ask(&mut self, request: &Request, payload: &[u8]) -> Vec<Chunk> {
        self.send(request, payload).await;
        self.reply(request).await
    }

    /// Sends a request; under extended headers a write says that it has a payload.
    pub(super) async fn send(&mut self, request: &Request, payload: &[u8]) {
        let mut bytes = Vec::new();
        request.encode_to(self.framing, &mut bytes);
        bytes.extend_from_slice(payload);
        self.raw.say(&bytes).await;
    }

    /// All chunks of the reply, which comes next. A simple reply of success is one of no kind.
    pub(super) async fn reply(&mut self, request: &Request) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        loop {
            let (is_last, chunk) = self.chunk(request).await;
            chunks.push(chunk);
            if is_last {
                return chunks;
            }
        }
    }

    async fn chunk(&mut self, request: &Request) -> (bool, Chunk) {
        let mut head = self.raw.take(16).await;
        if head[..4] == [0x67, 0x44, 0x66, 0x98] {
            assert_eq!(self.framing, Framing::Structured, "no simple replies");
            assert_eq!(head[4..8], [0; 4], "an error has a text");
            assert_eq!(head[8..], request.cookie.to_be_bytes());
            let kind = ChunkKind::None;
            return (
                true,
                Chunk {
                    kind,
                    payload: vec![],
                },
            );
        }
        assert_eq!(head[8..], request.cookie.to_be_bytes());
        let len = if self.framing.is_extended() {
            assert_eq!(head[..4], 0x6e8a_278cu32.to_be_bytes());
            head.extend(self.raw.take(16).await);
            assert_eq!(head[16..24], request.offset.to_be_bytes());
            u64::from_be_bytes(head[24..].try_into().expect("eight"))
        } else {
            assert_eq!(head[..4], 0x668e_33efu32.to_be_bytes());
            head.extend(self.raw.take(4).await);
            u64::from(u32::from_be_bytes(head[16..].try_into().expect("four")))
        };
        assert!(len <= 65 << 20, "a chunk of {len} bytes");
        let kind = ChunkKind::from(u16::from_be_bytes([head[6], head[7]]));
        let payload = self.raw.take(usize::try_from(len).expect("short")).await;
        assert_eq!(head[4], 0);
        (head[5] == 1, Chunk { kind, payload })
    }

    /// The error that is the whole answer.
    pub(super) async fn refused(&mut self, request: &Request, payload: &[u8]) -> ReplyChunk {
        let chunks = self.ask(request, payload).await;
        assert_eq!(chunks.len(), 1, "{request:?} {chunks:?}");
        chunks[0].error()
    }

    /// Asserts that the request succeeds and that there is nothing to say.
    pub(super) async fn done(&mut self, request: &Request, payload: &[u8]) {
        let chunks = self.ask(request, payload).await;
        assert_eq!(chunks.len(), 1, "{chunks:?}");
        assert_eq!(chunks[0].kind, ChunkKind::None, "{chunks:?}");
        assert!(chunks[0].payload.is_empty());
    }

    /// The bytes of a read, however it is cut.
    pub(super) async fn read(&mut self, request: &Request) -> Vec<u8> {
        let mut bytes = vec![0xee; usize::try_from(request.len).expect("short")];
        let mut told = 0;
        for chunk in self.ask(request, &[]).await {
            let (offset, piece) = match chunk.kind {
                ChunkKind::OffsetData => (chunk.data().0, chunk.payload[8..].to_vec()),
                ChunkKind::OffsetHole => {
                    let (offset, len) = chunk.payload.split_at(8);
                    let len = u32::from_be_bytes(len.try_into().expect("four"));
                    let offset = u64::from_be_bytes(offset.try_into().expect("eight"));
                    (offset, vec![0; len as usize])
                }
                _ => panic!("{:?} {}", chunk.kind, chunk.error().text),
            };
            let at = usize::try_from(offset - request.offset).expect("within");
            bytes[at..][..piece.len()].copy_from_slice(&piece);
            told += piece.len();
        }
        assert_eq!(told, bytes.len(), "each byte once");
        bytes
    }

    /// The extents of a status: length and flags.
    pub(super) async fn status(&mut self, request: &Request, payload: &[u8]) -> Vec<(u64, u64)> {
        let chunks = self.ask(request, payload).await;
        assert_eq!(chunks.len(), 1, "{chunks:?}");
        let payload = &chunks[0].payload;
        assert_eq!(payload[..4], self.id.to_be_bytes());
        let word = |bytes: &[u8]| bytes.iter().fold(0, |sum, &b| sum << 8 | u64::from(b));
        let (half, list) = if self.framing.is_extended() {
            assert_eq!(chunks[0].kind, ChunkKind::BlockStatusExt);
            let list = &payload[8..];
            assert_eq!(word(&payload[4..8]) * 16, list.len() as u64);
            (8, list)
        } else {
            assert_eq!(chunks[0].kind, ChunkKind::BlockStatus);
            (4, &payload[4..])
        };
        list.chunks(2 * half)
            .map(|one| (word(&one[..half]), word(&one[half..])))
            .collect()
    }

    pub(super) async fn assert_in_step(&mut self) {
        let read = super::request(nbd_proto::Command::Read, 0, 1);
        assert_eq!(self.read(&read).await.len(), 1);
    }
}

impl RawClient {
    /// Kind and data of the next reply to an option.
    async fn option_reply(&mut self) -> (u32, Vec<u8>) {
        let head = self.take(20).await;
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
        let data = self.take(word(16) as usize).await;
        (word(12), data)
    }
}
