//! A server with a few exports, to which tests say what clients say.

use super::{disk, option, replies};
use crate::{
    BASE_ALLOCATION, CloseReason, ContextOffer, DiskIdentity, ExportInfo, ExportPurpose,
    HandshakeEvent, Negotiated, OptionCode, OptionReply, Refusal, ServerHandshake,
    ServerHandshakeConfig, TransmissionFlags, WriterAccess, WriterPolicy,
};

/// What a session came to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ServerOutcome {
    pub(crate) sent: Vec<u8>,
    pub(crate) asked: Vec<(String, ExportPurpose)>,
    /// The client identity of each request for an export.
    pub(crate) writers: Vec<Option<WriterAccess>>,
    pub(crate) lists: usize,
    pub(crate) tls: usize,
    pub(crate) finished: Option<Negotiated>,
    pub(crate) closed: Option<CloseReason>,
    pub(crate) unused: Vec<u8>,
}

/// Metadata contexts of the export `disk`.
pub(crate) const OFFERED: [&str; 3] = [BASE_ALLOCATION, "x-box:layer", "x-box:member:0"];

/// Which disk the export `disk` is.
pub(crate) fn identity() -> DiskIdentity {
    DiskIdentity {
        identity: Some("file:1:2:3".parse().unwrap()),
        incarnation: Some(0xabc),
        writers: Some(WriterPolicy::One),
        is_fenced: false,
    }
}

/// A server that has the export `disk`, and what it did.
pub(crate) struct ServerHarness {
    server: ServerHandshake,
    waiting: Vec<u8>,
    pub(crate) outcome: ServerOutcome,
}

impl ServerHarness {
    pub(crate) fn new(config: &ServerHandshakeConfig) -> Self {
        Self {
            server: ServerHandshake::new(config.clone()),
            waiting: Vec::new(),
            outcome: ServerOutcome::default(),
        }
    }

    /// Feeds `input` in pieces of `piece` bytes. Where TLS begins, later bytes are under it.
    pub(crate) fn feed(&mut self, input: &[u8], piece: usize) {
        for part in input.chunks(piece.max(1)) {
            self.waiting.extend_from_slice(part);
            loop {
                let taken = self.server.receive(&self.waiting);
                self.waiting.drain(..taken);
                let mut idle = taken == 0;
                while let Some(event) = self.server.next_event() {
                    idle = false;
                    self.apply(event);
                }
                if idle {
                    break;
                }
            }
        }
        self.outcome.unused.clone_from(&self.waiting);
    }

    fn apply(&mut self, event: HandshakeEvent) {
        let (server, outcome) = (&mut self.server, &mut self.outcome);
        match event {
            HandshakeEvent::Send(bytes) => outcome.sent.extend(bytes),
            HandshakeEvent::FindExport {
                name,
                purpose,
                writer,
            } => {
                let tls = server.is_tls();
                server.answer_export(find(&name, tls).map(|()| filtering(disk())));
                outcome.asked.push((name, purpose));
                outcome.writers.push(writer);
            }
            HandshakeEvent::FindContexts { name, identify, .. } => {
                let tls = server.is_tls();
                let offer = ContextOffer {
                    contexts: &OFFERED,
                    disk: if identify {
                        identity()
                    } else {
                        DiskIdentity::default()
                    },
                };
                server.answer_contexts(find(&name, tls).map(|()| offer));
            }
            HandshakeEvent::StartTls => {
                assert!(
                    self.waiting.is_empty(),
                    "bytes in the clear behind STARTTLS"
                );
                server.tls_started();
                outcome.tls += 1;
            }
            HandshakeEvent::List => {
                server.answer_list(&[("disk".to_owned(), String::new())]);
                outcome.lists += 1;
            }
            HandshakeEvent::Finished(negotiated) => outcome.finished = Some(*negotiated),
            HandshakeEvent::Close(reason) => outcome.closed = Some(reason),
        }
    }
}

/// What can filter contexts, too.
fn filtering(mut export: ExportInfo) -> ExportInfo {
    export.flags |= TransmissionFlags::BLOCK_STATUS_PAYLOAD;
    export
}

fn find(name: &str, tls: bool) -> Result<(), Refusal> {
    match name {
        "" | "disk" => Ok(()),
        "private" => Err(Refusal::Policy("not from there".to_owned())),
        "locked" if tls => Ok(()),
        "locked" => Err(Refusal::TlsRequired),
        "always locked" => Err(Refusal::TlsRequired),
        _ => Err(Refusal::Unknown),
    }
}

/// Says `input` in pieces of `piece` bytes to a server of the usual kind.
pub(crate) fn serve(input: &[u8], piece: usize) -> ServerOutcome {
    serve_as(&ServerHandshakeConfig::default(), input, piece)
}

/// The same to a server of such a kind.
pub(crate) fn serve_as(
    config: &ServerHandshakeConfig,
    input: &[u8],
    piece: usize,
) -> ServerOutcome {
    let mut harness = ServerHarness::new(config);
    harness.feed(input, piece);
    harness.outcome
}

pub(crate) const FIXED: [u8; 4] = [0, 0, 0, 3];

/// A session that begins well and sends `parts`.
pub(crate) fn session(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut input = FIXED.to_vec();
    parts.iter().for_each(|part| input.extend(part));
    input
}

pub(crate) fn go(name: &[u8], claimed_len: u32, requests: &[u16]) -> Vec<u8> {
    let mut data = claimed_len.to_be_bytes().to_vec();
    data.extend_from_slice(name);
    data.extend_from_slice(&u16::try_from(requests.len()).unwrap().to_be_bytes());
    requests.iter().for_each(|r| data.extend(r.to_be_bytes()));
    data
}

pub(crate) fn good_go(name: &str) -> Vec<u8> {
    let len = u32::try_from(name.len()).unwrap();
    option(OptionCode::Go, &go(name.as_bytes(), len, &[3]))
}

/// Data of an option on metadata contexts.
pub(crate) fn queries(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut push = |text: &str| {
        data.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
        data.extend(text.as_bytes());
    };
    push(name);
    let count = u32::try_from(queries.len()).unwrap();
    let mut list = Vec::new();
    for query in queries {
        list.extend(u32::try_from(query.len()).unwrap().to_be_bytes());
        list.extend(query.as_bytes());
    }
    data.extend(count.to_be_bytes());
    data.extend(list);
    data
}

/// Types of the replies in `sent`.
pub(crate) fn kinds(sent: &[u8]) -> Vec<(OptionCode, OptionReply)> {
    let replies = replies(sent);
    replies.into_iter().map(|(o, r, _)| (o, r)).collect()
}
