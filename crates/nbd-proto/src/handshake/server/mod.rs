//! [`ServerHandshake`]: the server's side of option negotiation.
//!
//! Invariants: an answer of error leaves the stream in step; a client's option longer than
//! [`limits::OPTION_MAX`] ends the session before anything is stored; at most
//! [`limits::OPTIONS_MAX`] options are answered; the export is looked for only when the client
//! names one, and nothing behind the final option is consumed.
//!
//! While TLS is required and not there, every option but `STARTTLS` and `ABORT` is refused unread.
//! The machine is here; what each option means is in `option_negotiation`.

mod answer;
mod close;
mod event;
mod option;
mod option_negotiation;

use std::collections::VecDeque;

pub use close::CloseReason;
pub use event::{
    ContextOffer, ExportPurpose, HandshakeEvent, Refusal, ServerHandshakeConfig, TlsMode,
};

use crate::consts::{NBD_MAGIC, OPTION_HEADER_LEN, OPTION_MAGIC, OptionCode, OptionReply, limits};
use crate::context::MetaContext;
use crate::flags::{ClientFlags, HandshakeFlags};
use crate::framing::Framing;
use crate::handshake::frame::{OptionHeader, push_reply};
use crate::handshake::{ExportInfo, gather};
use crate::wire::index;
use crate::writers::WriterAccess;
use option::{ContextQuestion, ExportQuestion};

#[derive(Debug)]
enum ServerState {
    ClientFlags,
    Header,
    Data { option: OptionCode, len: u32 },
    WaitsForExport(ExportQuestion),
    WaitsForContexts(ContextQuestion),
    WaitsForList,
    WaitsForTls,
    Done,
}

/// What was agreed on, and is forgotten when TLS begins.
#[derive(Debug)]
struct AgreedOptions {
    framing: Framing,
    /// The export of the last successful `SET_META_CONTEXT`, by the client's name, and its contexts.
    contexts: Option<(String, Vec<MetaContext>)>,
    /// The export of the last `LIST_META_CONTEXT` that carried the client's identity, and that identity.
    writer: Option<(String, WriterAccess)>,
}

impl AgreedOptions {
    const fn nothing() -> Self {
        Self {
            framing: Framing::Simple,
            contexts: None,
            writer: None,
        }
    }
}

/// The server's side of the handshake. Send [`Self::greeting`] first.
#[derive(Debug)]
pub struct ServerHandshake {
    config: ServerHandshakeConfig,
    state: ServerState,
    /// The item being received: never more than [`limits::OPTION_MAX`].
    buffer: Vec<u8>,
    events: VecDeque<HandshakeEvent>,
    options: u32,
    client: ClientFlags,
    tls: bool,
    agreed: AgreedOptions,
}

impl ServerHandshake {
    /// A handshake that has not begun.
    #[must_use]
    pub fn new(config: ServerHandshakeConfig) -> Self {
        Self {
            config,
            state: ServerState::ClientFlags,
            buffer: Vec::new(),
            events: VecDeque::new(),
            options: 0,
            client: ClientFlags::empty(),
            tls: false,
            agreed: AgreedOptions::nothing(),
        }
    }

    /// The first bytes of the session.
    #[must_use]
    pub fn greeting(&self) -> Vec<u8> {
        let flags = HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES;
        let mut out = NBD_MAGIC.to_be_bytes().to_vec();
        out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        out.extend_from_slice(&flags.bits().to_be_bytes());
        out
    }

    /// Takes what it can of `bytes` and returns how many. It stops where an event waits to be
    /// taken, an answer is due or the handshake is over: what is left belongs to later. Only behind
    /// `STARTTLS` nothing may be left: the session then ends, and no `ACK` is sent.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while self.events.is_empty()
            && let Some(needed) = self.needed()
            && let Some(item) = gather(&mut self.buffer, needed, bytes, &mut taken)
        {
            self.accept(&item);
        }
        if matches!(self.state, ServerState::WaitsForTls) && taken < bytes.len() {
            self.events.clear();
            self.close(CloseReason::PlaintextBehindStartTls);
        }
        taken
    }

    /// What to do next, in order.
    pub fn next_event(&mut self) -> Option<HandshakeEvent> {
        self.events.pop_front()
    }

    /// Answers [`HandshakeEvent::FindExport`].
    ///
    /// # Panics
    /// If no such answer is due.
    pub fn answer_export(&mut self, answer: Result<ExportInfo, Refusal>) {
        let state = std::mem::replace(&mut self.state, ServerState::Header);
        let ServerState::WaitsForExport(question) = state else {
            panic!("answer_export without FindExport");
        };
        match answer {
            Ok(export) => self.describe(question, export),
            Err(refusal) => self.refuse(question, refusal),
        }
    }

    /// Answers [`HandshakeEvent::List`] with names and descriptions. Names beyond
    /// [`limits::STRING_MAX`] do not fit the protocol and are left out.
    ///
    /// # Panics
    /// If no such answer is due.
    pub fn answer_list(&mut self, exports: &[(String, String)]) {
        assert!(
            matches!(self.state, ServerState::WaitsForList),
            "answer_list without List"
        );
        self.state = ServerState::Header;
        self.events
            .push_back(HandshakeEvent::Send(answer::list(exports)));
    }

    /// Answers [`HandshakeEvent::FindContexts`] with what the export has for this client; nothing is an
    /// answer too.
    ///
    /// # Panics
    /// If no such answer is due.
    pub fn answer_contexts(&mut self, answer: Result<ContextOffer<'_>, Refusal>) {
        let state = std::mem::replace(&mut self.state, ServerState::Header);
        let ServerState::WaitsForContexts(question) = state else {
            panic!("answer_contexts without FindContexts");
        };
        match answer {
            Ok(offered) => self.answer_contexts_question(question, &offered),
            Err(refusal) => self.refuse_option(question.option, &question.name, refusal),
        }
    }

    /// Answers [`HandshakeEvent::StartTls`]: from here on bytes come from under TLS and go there.
    /// Everything agreed on before is forgotten.
    ///
    /// # Panics
    /// If no such answer is due.
    pub fn tls_started(&mut self) {
        assert!(
            matches!(self.state, ServerState::WaitsForTls),
            "tls_started without StartTls"
        );
        self.state = ServerState::Header;
        self.tls = true;
        self.agreed = AgreedOptions::nothing();
    }

    /// Whether the session is under TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.tls
    }

    /// Bytes of the next item, or `None` while none may be taken.
    fn needed(&self) -> Option<usize> {
        match self.state {
            ServerState::ClientFlags => Some(size_of::<u32>()),
            ServerState::Header => Some(OPTION_HEADER_LEN),
            ServerState::Data { len, .. } => Some(index(len)),
            ServerState::WaitsForExport(_)
            | ServerState::WaitsForContexts(_)
            | ServerState::WaitsForList
            | ServerState::WaitsForTls
            | ServerState::Done => None,
        }
    }

    fn accept(&mut self, item: &[u8]) {
        match self.state {
            ServerState::ClientFlags => self.accept_flags(item),
            ServerState::Header => self.accept_header(item),
            ServerState::Data { option, .. } => {
                self.state = ServerState::Header;
                self.accept_option(option, item);
            }
            ServerState::WaitsForExport(_)
            | ServerState::WaitsForContexts(_)
            | ServerState::WaitsForList
            | ServerState::WaitsForTls
            | ServerState::Done => {}
        }
    }

    fn accept_flags(&mut self, item: &[u8]) {
        let bits = item
            .iter()
            .fold(0, |bits, byte| (bits << 8) | u32::from(*byte));
        match ClientFlags::from_bits(bits) {
            Some(flags) => {
                self.client = flags;
                self.state = ServerState::Header;
            }
            None => self.close(CloseReason::UnknownClientFlags(bits)),
        }
    }

    fn accept_header(&mut self, item: &[u8]) {
        let Some(header) = OptionHeader::decode(item) else {
            return;
        };
        self.options += 1;
        if header.magic != OPTION_MAGIC {
            self.close(CloseReason::BadMagic(header.magic));
        } else if header.len > limits::OPTION_MAX {
            self.close(CloseReason::OptionTooLong {
                option: header.option,
                len: header.len,
            });
        } else if self.options > self.config.options_max {
            self.close(CloseReason::TooManyOptions(self.config.options_max));
        } else {
            self.state = ServerState::Data {
                option: header.option,
                len: header.len,
            };
        }
    }

    fn reply(&mut self, option: OptionCode, reply: OptionReply, text: &str) {
        let mut out = Vec::new();
        push_reply(&mut out, option, reply, text.as_bytes());
        self.events.push_back(HandshakeEvent::Send(out));
    }

    fn close(&mut self, reason: CloseReason) {
        self.state = ServerState::Done;
        self.events.push_back(HandshakeEvent::Close(reason));
    }
}

const fn option_of(purpose: ExportPurpose) -> OptionCode {
    match purpose {
        ExportPurpose::Info => OptionCode::Info,
        ExportPurpose::Go => OptionCode::Go,
        ExportPurpose::ExportName => OptionCode::ExportName,
    }
}
