//! [`ClientHandshake`]: the client's side of option haggling.
//!
//! Asks for structured replies if wanted, then for one export (`GO`, or `EXPORT_NAME` where the
//! server does not know `GO`), its description (`INFO`) or the list of exports (`LIST`). One
//! option at a time, as proto.md demands.
//!
//! Invariants: nothing the server sends is believed unchecked (sizes, block sizes, lengths, which
//! option a reply belongs to, how many replies come); after a failure the client says `ABORT` where
//! the stream is still in step; bytes behind the last reply are not consumed.

mod failure;
mod replies;

use std::collections::VecDeque;

pub use failure::{BadReply, HandshakeFailure};

use crate::consts::{
    EXPORT_NAME_ANSWER_LEN, EXPORT_NAME_ZEROES, GREETING_LEN, NBD_MAGIC, OLDSTYLE_MAGIC,
    OPTION_MAGIC, OPTION_REPLY_HEADER_LEN, OptionCode, OptionReply, limits,
};
use crate::flags::{ClientFlags, HandshakeFlags, TransmissionFlags};
use crate::handshake::frame::{ReplyHeader, info, push_option};
use crate::handshake::{ExportInfo, Negotiated, gather};
use crate::wire::{Fields, index, len32, printable};
use replies::Collected;

/// What a client wants of the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHandshakeConfig {
    /// Name of the export; empty for the default one. At most [`limits::STRING_MAX`] bytes.
    pub export: String,
    /// Whether to ask for structured replies. A server without them is accepted.
    pub structured: bool,
    /// Where it leads.
    pub goal: Goal,
}

/// Where a handshake leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Goal {
    /// To transmission.
    Go,
    /// To a description of the export; the session ends.
    Info,
    /// To the list of exports; the session ends.
    List,
}

/// What the owner of the socket must do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Transmission follows ([`Goal::Go`]).
    Finished(Box<Negotiated>),
    /// The description ([`Goal::Info`]); close the connection.
    Described(Box<Negotiated>),
    /// Names and descriptions of the exports ([`Goal::List`]); close the connection.
    Listed(Vec<(String, String)>),
    /// There is no way on; close the connection.
    Failed(HandshakeFailure),
}

#[derive(Debug)]
enum State {
    Greeting,
    /// Waits for replies to this option; with a header, for its data.
    Reply {
        option: OptionCode,
        header: Option<(OptionReply, u32)>,
    },
    /// Waits for size and flags, the answer to `EXPORT_NAME`.
    ExportName,
    Done,
}

/// The client's side of the handshake. The server speaks first.
#[derive(Debug)]
pub struct ClientHandshake {
    config: ClientHandshakeConfig,
    state: State,
    buffer: Vec<u8>,
    events: VecDeque<ClientEvent>,
    structured: bool,
    no_zeroes: bool,
    collected: Collected,
}

impl ClientHandshake {
    /// A handshake that has not begun.
    ///
    /// # Panics
    /// If the export's name is longer than [`limits::STRING_MAX`] bytes.
    #[must_use]
    pub fn new(config: ClientHandshakeConfig) -> Self {
        assert!(
            config.export.len() <= limits::STRING_MAX,
            "export names are checked where they are read"
        );
        Self {
            config,
            state: State::Greeting,
            buffer: Vec::new(),
            events: VecDeque::new(),
            structured: false,
            no_zeroes: false,
            collected: Collected::default(),
        }
    }

    /// Takes what it can of `bytes` and returns how many. It stops where an event waits to be
    /// taken or the handshake is over: what is left belongs to later.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while self.events.is_empty()
            && let Some(needed) = self.needed()
            && let Some(item) = gather(&mut self.buffer, needed, bytes, &mut taken)
        {
            if let Err(failure) = self.accept(&item) {
                self.fail(failure);
            }
        }
        taken
    }

    /// What to do next, in order.
    pub fn next_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// What it means that the server closed the connection now.
    #[must_use]
    pub fn end_of_stream(&self) -> HandshakeFailure {
        match self.state {
            State::Greeting => HandshakeFailure::ClosedBeforeGreeting,
            State::ExportName => HandshakeFailure::ExportNameRefused(self.config.export.clone()),
            State::Reply { option, .. } => HandshakeFailure::Closed(option),
            State::Done => HandshakeFailure::Closed(OptionCode::Abort),
        }
    }

    /// Bytes of the next item, or `None` when it is over.
    fn needed(&self) -> Option<usize> {
        match self.state {
            State::Greeting => Some(GREETING_LEN),
            State::Reply { header: None, .. } => Some(OPTION_REPLY_HEADER_LEN),
            State::Reply {
                header: Some((_, len)),
                ..
            } => Some(index(len)),
            State::ExportName if self.no_zeroes => Some(EXPORT_NAME_ANSWER_LEN),
            State::ExportName => Some(EXPORT_NAME_ANSWER_LEN + EXPORT_NAME_ZEROES),
            State::Done => None,
        }
    }

    fn accept(&mut self, item: &[u8]) -> Result<(), HandshakeFailure> {
        match self.state {
            State::Greeting => self.accept_greeting(item),
            State::Reply {
                option,
                header: None,
            } => self.accept_header(option, item),
            State::Reply {
                option,
                header: Some((reply, _)),
            } => {
                self.state = State::Reply {
                    option,
                    header: None,
                };
                self.accept_reply(option, reply, item)
            }
            State::ExportName => self.accept_export(item),
            State::Done => Ok(()),
        }
    }

    fn accept_greeting(&mut self, item: &[u8]) -> Result<(), HandshakeFailure> {
        let mut fields = Fields::new(item);
        if fields.u64() != Some(NBD_MAGIC) {
            return Err(HandshakeFailure::NotNbd);
        }
        match fields.u64() {
            Some(OPTION_MAGIC) => {}
            Some(OLDSTYLE_MAGIC) => return Err(HandshakeFailure::Oldstyle),
            _ => return Err(HandshakeFailure::NotNbd),
        }
        // Unknown bits are to be ignored by clients.
        let server = HandshakeFlags::from_bits_truncate(fields.u16().unwrap_or(0));
        let fixed = server.contains(HandshakeFlags::FIXED_NEWSTYLE);
        if !fixed && self.config.goal != Goal::Go {
            return Err(HandshakeFailure::NotFixedNewstyle);
        }
        self.no_zeroes = server.contains(HandshakeFlags::NO_ZEROES);
        let mut client = ClientFlags::empty();
        client.set(ClientFlags::FIXED_NEWSTYLE, fixed);
        client.set(ClientFlags::NO_ZEROES, self.no_zeroes);
        let out = client.bits().to_be_bytes().to_vec();
        if !fixed {
            self.send_export_name(out);
        } else if self.config.structured && self.config.goal != Goal::List {
            self.send_option(out, OptionCode::StructuredReply, &[]);
        } else {
            self.send_goal(out);
        }
        Ok(())
    }

    fn accept_header(&mut self, option: OptionCode, item: &[u8]) -> Result<(), HandshakeFailure> {
        let header = ReplyHeader::decode(item).ok_or(BadReply::Magic(0))?;
        if header.magic != crate::consts::OPTION_REPLY_MAGIC {
            return Err(BadReply::Magic(header.magic).into());
        }
        if header.option != option {
            return Err(BadReply::OtherOption {
                sent: option,
                answered: header.option,
            }
            .into());
        }
        if header.len > limits::OPTION_MAX {
            return Err(BadReply::TooLong(header.len).into());
        }
        self.state = State::Reply {
            option,
            header: Some((header.reply, header.len)),
        };
        Ok(())
    }

    fn accept_reply(
        &mut self,
        option: OptionCode,
        reply: OptionReply,
        data: &[u8],
    ) -> Result<(), HandshakeFailure> {
        match (option, reply) {
            (_, OptionReply::Ack) if !data.is_empty() => Err(BadReply::AckWithData.into()),
            (OptionCode::StructuredReply, OptionReply::Ack) => {
                self.structured = true;
                self.send_goal(Vec::new());
                Ok(())
            }
            (OptionCode::StructuredReply, error) if may_go_without(error) => {
                self.send_goal(Vec::new());
                Ok(())
            }
            (OptionCode::Go, OptionReply::ErrUnsupported) => {
                self.send_export_name(Vec::new());
                Ok(())
            }
            (_, error) if error.is_error() => Err(self.refused(option, error, data)),
            (OptionCode::Go | OptionCode::Info, OptionReply::Info) => self.collected.info(data),
            (OptionCode::Go | OptionCode::Info, OptionReply::Ack) => self.described(option),
            (OptionCode::List, OptionReply::Server) => self.collected.listed(data),
            (OptionCode::List, OptionReply::Ack) => {
                let listed = self.collected.take_list();
                self.leave(ClientEvent::Listed(listed));
                Ok(())
            }
            (_, other) => Err(BadReply::Unexpected {
                option,
                reply: other,
            }
            .into()),
        }
    }

    fn described(&mut self, option: OptionCode) -> Result<(), HandshakeFailure> {
        let export = self.collected.take_export(&self.config.export)?;
        let negotiated = self.negotiated(export, true);
        if option == OptionCode::Info {
            self.leave(ClientEvent::Described(negotiated));
        } else {
            self.state = State::Done;
            self.events.push_back(ClientEvent::Finished(negotiated));
        }
        Ok(())
    }

    /// The answer to `EXPORT_NAME`: size, flags, zeroes.
    fn accept_export(&mut self, item: &[u8]) -> Result<(), HandshakeFailure> {
        let mut fields = Fields::new(item);
        let size = replies::checked_size(fields.u64().unwrap_or(0))?;
        let flags = TransmissionFlags::from_bits_truncate(fields.u16().unwrap_or(0));
        let export = ExportInfo::new(self.config.export.clone(), size, flags);
        let negotiated = self.negotiated(export, false);
        self.state = State::Done;
        self.events.push_back(ClientEvent::Finished(negotiated));
        Ok(())
    }

    fn negotiated(&self, export: ExportInfo, block_sizes_agreed: bool) -> Box<Negotiated> {
        Box::new(Negotiated {
            export,
            requested_name: self.config.export.clone(),
            structured: self.structured,
            no_zeroes: self.no_zeroes,
            block_sizes_agreed,
        })
    }

    fn send_goal(&mut self, out: Vec<u8>) {
        let option = match self.config.goal {
            Goal::Go => OptionCode::Go,
            Goal::Info => OptionCode::Info,
            Goal::List => return self.send_option(out, OptionCode::List, &[]),
        };
        let name = self.config.export.as_bytes();
        let mut data = len32(name.len()).to_be_bytes().to_vec();
        data.extend_from_slice(name);
        for field in [3, info::NAME, info::DESCRIPTION, info::BLOCK_SIZE] {
            data.extend_from_slice(&field.to_be_bytes());
        }
        self.send_option(out, option, &data);
    }

    /// Appends an option to `out`, sends both and waits for its replies.
    fn send_option(&mut self, mut out: Vec<u8>, option: OptionCode, data: &[u8]) {
        push_option(&mut out, option, data);
        self.events.push_back(ClientEvent::Send(out));
        self.state = State::Reply {
            option,
            header: None,
        };
    }

    fn send_export_name(&mut self, mut out: Vec<u8>) {
        let name = self.config.export.as_bytes();
        push_option(&mut out, OptionCode::ExportName, name);
        self.events.push_back(ClientEvent::Send(out));
        self.state = State::ExportName;
    }

    fn refused(&self, option: OptionCode, reply: OptionReply, data: &[u8]) -> HandshakeFailure {
        let text = printable(data);
        let name = self.config.export.clone();
        match reply {
            OptionReply::ErrUnknown => HandshakeFailure::UnknownExport { name, text },
            OptionReply::ErrTlsRequired => HandshakeFailure::TlsRequired,
            _ => HandshakeFailure::Refused {
                option,
                reply,
                text,
            },
        }
    }

    fn fail(&mut self, failure: HandshakeFailure) {
        if failure.in_step() {
            self.leave(ClientEvent::Failed(failure));
        } else {
            self.state = State::Done;
            self.events.push_back(ClientEvent::Failed(failure));
        }
    }

    /// Says `ABORT`, which is how a client may leave, and tells `event`.
    fn leave(&mut self, event: ClientEvent) {
        let mut out = Vec::new();
        push_option(&mut out, OptionCode::Abort, &[]);
        self.state = State::Done;
        self.events.push_back(ClientEvent::Send(out));
        self.events.push_back(event);
    }
}

/// Errors of `STRUCTURED_REPLY` after which simple replies do.
fn may_go_without(error: OptionReply) -> bool {
    error.is_error()
        && !matches!(
            error,
            OptionReply::ErrTlsRequired | OptionReply::ErrShutdown
        )
}
