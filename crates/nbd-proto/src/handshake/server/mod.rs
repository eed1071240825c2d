//! [`ServerHandshake`]: the server's side of option haggling.
//!
//! Invariants: an answer of error leaves the stream in step; a client's option longer than
//! [`limits::OPTION_MAX`] ends the session before anything is stored; at most
//! [`limits::OPTIONS_MAX`] options are answered; the export is looked for only when the client
//! names one, and nothing behind the final option is consumed.
//!
//! `STARTTLS`, metadata contexts and extended headers are answered `UNSUP` here; their places are
//! the match in [`ServerHandshake::accept_option`].

mod answer;
mod close;
mod option;

use std::collections::VecDeque;

pub use close::CloseReason;

use crate::consts::{NBD_MAGIC, OPTION_HEADER_LEN, OPTION_MAGIC, OptionCode, OptionReply, limits};
use crate::flags::{ClientFlags, HandshakeFlags, TransmissionFlags};
use crate::handshake::frame::{OptionHeader, push_reply};
use crate::handshake::{ExportInfo, Negotiated, gather};
use crate::wire::index;
use option::{ExportQuestion, OptionError};

/// What a server offers in every handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerHandshakeConfig {
    /// Structured replies, if the client asks for them.
    pub structured_replies: bool,
    /// Options answered before the session is ended.
    pub options_max: u32,
}

impl Default for ServerHandshakeConfig {
    fn default() -> Self {
        Self {
            structured_replies: true,
            options_max: limits::OPTIONS_MAX,
        }
    }
}

/// What the owner of the socket must do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeEvent {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Look for an export and call [`ServerHandshake::answer_export`].
    FindExport {
        /// Its name; empty for the default export.
        name: String,
        /// What the client wants with it.
        why: Why,
    },
    /// Call [`ServerHandshake::answer_list`].
    List,
    /// The handshake is over; transmission follows.
    Finished(Box<Negotiated>),
    /// Close the connection.
    Close(CloseReason),
}

/// Why an export is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// To be described; the client may go on with another one.
    Info,
    /// To be used.
    Go,
    /// To be used, by a client that cannot be told of an error.
    ExportName,
}

/// Why a client does not get an export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none of that name, or this client must not know of it.
    #[error("no such export")]
    Unknown,
    /// This client may not use it; the text is sent to the client.
    #[error("not allowed: {0}")]
    Policy(String),
    /// Only under TLS.
    #[error("TLS is required")]
    TlsRequired,
    /// It could not be opened; the text is sent to the client.
    #[error("not available: {0}")]
    Unavailable(String),
    /// The server is going away.
    #[error("the server is shutting down")]
    Shutdown,
}

#[derive(Debug)]
enum State {
    ClientFlags,
    Header,
    Data { option: OptionCode, len: u32 },
    WaitsForExport(ExportQuestion),
    WaitsForList,
    Done,
}

/// The server's side of the handshake. Send [`Self::greeting`] first.
#[derive(Debug)]
pub struct ServerHandshake {
    config: ServerHandshakeConfig,
    state: State,
    /// The item being received: never more than [`limits::OPTION_MAX`].
    buffer: Vec<u8>,
    events: VecDeque<HandshakeEvent>,
    options: u32,
    client: ClientFlags,
    structured: bool,
}

impl ServerHandshake {
    /// A handshake that has not begun.
    #[must_use]
    pub fn new(config: ServerHandshakeConfig) -> Self {
        Self {
            config,
            state: State::ClientFlags,
            buffer: Vec::new(),
            events: VecDeque::new(),
            options: 0,
            client: ClientFlags::empty(),
            structured: false,
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
    /// taken, an answer is due or the handshake is over: what is left belongs to later.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while self.events.is_empty()
            && let Some(needed) = self.needed()
            && let Some(item) = gather(&mut self.buffer, needed, bytes, &mut taken)
        {
            self.accept(&item);
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
        let state = std::mem::replace(&mut self.state, State::Header);
        let State::WaitsForExport(question) = state else {
            panic!("answer_export without FindExport");
        };
        match answer {
            Ok(export) => self.describe(question, export),
            Err(refusal) => self.refuse(question, refusal),
        }
    }

    /// Answers [`HandshakeEvent::List`] with names and descriptions. Names beyond
    /// [`limits::STRING_MAX`] cannot be said in the protocol and are left out.
    ///
    /// # Panics
    /// If no such answer is due.
    pub fn answer_list(&mut self, exports: &[(String, String)]) {
        assert!(
            matches!(self.state, State::WaitsForList),
            "answer_list without List"
        );
        self.state = State::Header;
        self.events
            .push_back(HandshakeEvent::Send(answer::list(exports)));
    }

    /// Bytes of the next item, or `None` while none may be taken.
    fn needed(&self) -> Option<usize> {
        match self.state {
            State::ClientFlags => Some(size_of::<u32>()),
            State::Header => Some(OPTION_HEADER_LEN),
            State::Data { len, .. } => Some(index(len)),
            State::WaitsForExport(_) | State::WaitsForList | State::Done => None,
        }
    }

    fn accept(&mut self, item: &[u8]) {
        match self.state {
            State::ClientFlags => self.accept_flags(item),
            State::Header => self.accept_header(item),
            State::Data { option, .. } => {
                self.state = State::Header;
                self.accept_option(option, item);
            }
            State::WaitsForExport(_) | State::WaitsForList | State::Done => {}
        }
    }

    fn accept_flags(&mut self, item: &[u8]) {
        let bits = item
            .iter()
            .fold(0, |bits, byte| (bits << 8) | u32::from(*byte));
        match ClientFlags::from_bits(bits) {
            Some(flags) => {
                self.client = flags;
                self.state = State::Header;
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
            self.state = State::Data {
                option: header.option,
                len: header.len,
            };
        }
    }

    fn accept_option(&mut self, option: OptionCode, data: &[u8]) {
        match option {
            OptionCode::ExportName => match option::export_name(data) {
                Some(question) => self.ask(question),
                None => self.close(CloseReason::BadExportName),
            },
            OptionCode::Abort => {
                self.reply(option, OptionReply::Ack, "");
                self.close(CloseReason::Aborted);
            }
            OptionCode::List if data.is_empty() => {
                self.state = State::WaitsForList;
                self.events.push_back(HandshakeEvent::List);
            }
            OptionCode::List => self.reply(option, OptionReply::ErrInvalid, "LIST takes no data"),
            OptionCode::Info => self.accept_info(Why::Info, data),
            OptionCode::Go => self.accept_info(Why::Go, data),
            OptionCode::StructuredReply => self.accept_structured(data),
            OptionCode::StartTls
            | OptionCode::ListMetaContext
            | OptionCode::SetMetaContext
            | OptionCode::ExtendedHeaders
            | OptionCode::Unknown(_) => {
                self.reply(option, OptionReply::ErrUnsupported, "");
            }
        }
    }

    fn accept_info(&mut self, why: Why, data: &[u8]) {
        match option::info_request(why, data) {
            Ok(question) => self.ask(question),
            Err(OptionError { reply, text }) => self.reply(option_of(why), reply, text),
        }
    }

    fn accept_structured(&mut self, data: &[u8]) {
        let option = OptionCode::StructuredReply;
        if !self.config.structured_replies {
            self.reply(option, OptionReply::ErrUnsupported, "");
        } else if !data.is_empty() {
            self.reply(
                option,
                OptionReply::ErrInvalid,
                "STRUCTURED_REPLY takes no data",
            );
        } else if self.structured {
            self.reply(
                option,
                OptionReply::ErrInvalid,
                "structured replies are already agreed on",
            );
        } else {
            self.structured = true;
            self.reply(option, OptionReply::Ack, "");
        }
    }

    fn ask(&mut self, question: ExportQuestion) {
        self.events.push_back(HandshakeEvent::FindExport {
            name: question.name.clone(),
            why: question.why,
        });
        self.state = State::WaitsForExport(question);
    }

    fn describe(&mut self, question: ExportQuestion, mut export: ExportInfo) {
        export.flags |= TransmissionFlags::HAS_FLAGS;
        if !self.structured {
            export.flags -= TransmissionFlags::SEND_DF;
        }
        if !export.flags.contains(TransmissionFlags::SEND_WRITE_ZEROES) {
            export.flags -= TransmissionFlags::SEND_FAST_ZERO;
        }
        let no_zeroes = self.client.contains(ClientFlags::NO_ZEROES);
        let bytes = match question.why {
            Why::ExportName => answer::export_name(&export, no_zeroes),
            Why::Info | Why::Go => answer::info(&question, &export),
        };
        self.events.push_back(HandshakeEvent::Send(bytes));
        if question.why == Why::Info {
            return;
        }
        self.state = State::Done;
        self.events
            .push_back(HandshakeEvent::Finished(Box::new(Negotiated {
                export,
                requested_name: question.name,
                structured: self.structured,
                no_zeroes,
                block_sizes_agreed: question.wants_block_size,
            })));
    }

    fn refuse(&mut self, question: ExportQuestion, refusal: Refusal) {
        if question.why == Why::ExportName {
            self.close(CloseReason::Refused {
                name: question.name,
                refusal,
            });
            return;
        }
        let (reply, text) = answer::refusal(&question.name, &refusal);
        self.reply(option_of(question.why), reply, &text);
    }

    fn reply(&mut self, option: OptionCode, reply: OptionReply, text: &str) {
        let mut out = Vec::new();
        push_reply(&mut out, option, reply, text.as_bytes());
        self.events.push_back(HandshakeEvent::Send(out));
    }

    fn close(&mut self, reason: CloseReason) {
        self.state = State::Done;
        self.events.push_back(HandshakeEvent::Close(reason));
    }
}

const fn option_of(why: Why) -> OptionCode {
    match why {
        Why::Info => OptionCode::Info,
        Why::Go => OptionCode::Go,
        Why::ExportName => OptionCode::ExportName,
    }
}
