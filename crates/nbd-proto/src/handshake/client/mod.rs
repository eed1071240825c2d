//! [`ClientHandshake`]: the client's side of option negotiation.
//!
//! Begins TLS if wanted, requests extended headers or else structured replies, the disk's identity,
//! metadata contexts, then one export (`GO`, or `EXPORT_NAME` where the server does not know `GO`), its description
//! (`INFO`) or the list of exports (`LIST`). One option at a time, as proto.md demands. The machine is
//! here; which option follows which is in `option_negotiation`. A server of the oldstyle handshake has no options
//! (`oldstyle`).
//!
//! Invariants: a client that wants TLS says and believes nothing in the clear but `STARTTLS` and what
//! comes before it; nothing the server sends is believed unchecked (sizes, block sizes, lengths, which
//! option a reply belongs to, how many replies come); after a failure the client says `ABORT` where
//! the stream is still in step; bytes behind the last reply are not consumed.

mod failure;
mod oldstyle;
mod option_negotiation;
mod replies;

use std::collections::VecDeque;

pub use failure::{BadReply, HandshakeFailure};

use crate::consts::{
    EXPORT_NAME_ANSWER_LEN, EXPORT_NAME_ZEROES, HANDSHAKE_FLAGS_LEN, MAGICS_LEN, NBD_MAGIC,
    OLDSTYLE_LEN, OLDSTYLE_MAGIC, OPTION_MAGIC, OPTION_REPLY_HEADER_LEN, OptionCode, OptionReply,
    limits,
};
use crate::flags::{ClientFlags, HandshakeFlags};
use crate::framing::Framing;
use crate::handshake::frame::{ReplyHeader, push_option};
use crate::handshake::{HandshakeStyle, Negotiated, gather};
use crate::wire::{Fields, index};
use crate::writers::{DiskQueries, WriterAccess};
use option_negotiation::NegotiationStep;
use replies::CollectedReplies;

/// What a client wants of the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHandshakeConfig {
    /// Name of the export; empty for the default one. At most [`limits::STRING_MAX`] bytes.
    pub export: String,
    /// Whether the session must be under TLS. A server without it is refused.
    pub tls: bool,
    /// The best framing to ask for. A server that has only a lesser one is accepted.
    pub framing: Framing,
    /// Names of metadata contexts to choose for [`Goal::Go`], such as [`crate::BASE_ALLOCATION`], at
    /// most [`limits::CONTEXTS_MAX`]. They need a framing in chunks. A server without them is accepted:
    /// [`Negotiated::contexts`] lists those that it has.
    pub contexts: Vec<String>,
    /// Where it leads.
    pub goal: Goal,
    /// Whether to ask which disk it is: [`Negotiated::disk`] has the answer, if there is one.
    pub identify: bool,
    /// The identity of the client and the access that it requests, for [`Goal::Go`]. A server that does not
    /// support claims is accepted.
    pub writer: Option<WriterAccess>,
}

impl ClientHandshakeConfig {
    /// To transmission with `export`: in the clear, with structured replies, without contexts.
    #[must_use]
    pub fn new(export: impl Into<String>) -> Self {
        Self {
            export: export.into(),
            tls: false,
            framing: Framing::Structured,
            contexts: Vec::new(),
            goal: Goal::Go,
            identify: false,
            writer: None,
        }
    }
}

/// Where a handshake leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Goal {
    /// To transmission.
    Go,
    /// To a description of the export; the session ends. [`Negotiated::contexts`] are then those that it
    /// has, with ids that mean nothing.
    Info,
    /// To the list of exports; the session ends.
    List,
}

/// What the owner of the socket must do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// Send these bytes.
    Send(Vec<u8>),
    /// What was received was the last in the clear: begin TLS as its client, then call
    /// [`ClientHandshake::tls_started`]. If TLS fails, close the connection.
    StartTls,
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
enum ClientState {
    /// Waits for the two magics.
    Magics,
    /// Waits for the flags of a newstyle server.
    Flags,
    /// Waits for all that an oldstyle server sends behind its magics.
    Oldstyle,
    /// Waits for replies to this option; with a header, for its data.
    Reply {
        option: OptionCode,
        header: Option<(OptionReply, u32)>,
    },
    /// Waits for size and flags, the answer to `EXPORT_NAME`.
    ExportName,
    WaitsForTls,
    Done,
}

/// The client's side of the handshake. The server speaks first.
#[derive(Debug)]
pub struct ClientHandshake {
    config: ClientHandshakeConfig,
    state: ClientState,
    buffer: Vec<u8>,
    events: VecDeque<ClientEvent>,
    tls: bool,
    style: HandshakeStyle,
    framing: Framing,
    no_zeroes: bool,
    /// The `LIST_META_CONTEXT` in progress requests the disk's identity, not its contexts.
    requests_identity: bool,
    collected: CollectedReplies,
}

impl ClientHandshake {
    /// A handshake that has not begun.
    ///
    /// # Panics
    /// If the export's or a context's name is longer than [`limits::STRING_MAX`] bytes, or there are
    /// more than [`limits::CONTEXTS_MAX`] contexts.
    #[must_use]
    pub fn new(config: ClientHandshakeConfig) -> Self {
        assert!(
            config.export.len() <= limits::STRING_MAX,
            "export names are checked where they are read"
        );
        let short = |name: &String| name.len() <= limits::STRING_MAX;
        assert!(
            config.contexts.len() <= limits::CONTEXTS_MAX && config.contexts.iter().all(short),
            "contexts are few and known by name"
        );
        Self {
            config,
            state: ClientState::Magics,
            buffer: Vec::new(),
            events: VecDeque::new(),
            tls: false,
            style: HandshakeStyle::FixedNewstyle,
            framing: Framing::Simple,
            no_zeroes: false,
            requests_identity: false,
            collected: CollectedReplies::default(),
        }
    }

    /// The queries in outboard's own namespace.
    fn disk_queries(&self) -> DiskQueries {
        match self.config.goal {
            Goal::List => DiskQueries::default(),
            Goal::Info => DiskQueries {
                disk: self.config.identify,
                client: None,
            },
            Goal::Go => DiskQueries {
                disk: self.config.identify,
                client: self.config.writer,
            },
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
        if matches!(self.state, ClientState::WaitsForTls) && taken < bytes.len() {
            self.events.clear();
            self.fail(HandshakeFailure::PlaintextBehindStartTls);
        }
        taken
    }

    /// What to do next, in order.
    pub fn next_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// Answers [`ClientEvent::StartTls`]: from here on bytes come from under TLS and go there.
    ///
    /// # Panics
    /// If no such answer is due.
    pub fn tls_started(&mut self) {
        assert!(
            matches!(self.state, ClientState::WaitsForTls),
            "tls_started without StartTls"
        );
        self.tls = true;
        self.send_next_option(NegotiationStep::Extended, Vec::new());
    }

    /// What it means that the server closed the connection now.
    #[must_use]
    pub fn end_of_stream(&self) -> HandshakeFailure {
        match self.state {
            ClientState::Magics | ClientState::Flags | ClientState::Oldstyle => {
                HandshakeFailure::ClosedBeforeGreeting
            }
            ClientState::ExportName => {
                HandshakeFailure::ExportNameRefused(self.config.export.clone())
            }
            ClientState::Reply { option, .. } => HandshakeFailure::Closed(option),
            ClientState::WaitsForTls => HandshakeFailure::Closed(OptionCode::StartTls),
            ClientState::Done => HandshakeFailure::Closed(OptionCode::Abort),
        }
    }

    /// Bytes of the next item, or `None` when it is over.
    fn needed(&self) -> Option<usize> {
        match self.state {
            ClientState::Magics => Some(MAGICS_LEN),
            ClientState::Flags => Some(HANDSHAKE_FLAGS_LEN),
            ClientState::Oldstyle => Some(OLDSTYLE_LEN),
            ClientState::Reply { header: None, .. } => Some(OPTION_REPLY_HEADER_LEN),
            ClientState::Reply {
                header: Some((_, len)),
                ..
            } => Some(index(len)),
            ClientState::ExportName if self.no_zeroes => Some(EXPORT_NAME_ANSWER_LEN),
            ClientState::ExportName => Some(EXPORT_NAME_ANSWER_LEN + EXPORT_NAME_ZEROES),
            ClientState::WaitsForTls | ClientState::Done => None,
        }
    }

    fn accept(&mut self, item: &[u8]) -> Result<(), HandshakeFailure> {
        match self.state {
            ClientState::Magics => self.accept_magics(item),
            ClientState::Flags => self.accept_flags(item),
            ClientState::Oldstyle => self.accept_oldstyle(item),
            ClientState::Reply {
                option,
                header: None,
            } => self.accept_header(option, item),
            ClientState::Reply {
                option,
                header: Some((reply, _)),
            } => {
                self.state = ClientState::Reply {
                    option,
                    header: None,
                };
                self.accept_reply(option, reply, item)
            }
            ClientState::ExportName => self.accept_export(item),
            ClientState::WaitsForTls | ClientState::Done => Ok(()),
        }
    }

    fn accept_magics(&mut self, item: &[u8]) -> Result<(), HandshakeFailure> {
        let mut fields = Fields::new(item);
        self.state = match (fields.u64(), fields.u64()) {
            (Some(NBD_MAGIC), Some(OPTION_MAGIC)) => ClientState::Flags,
            (Some(NBD_MAGIC), Some(OLDSTYLE_MAGIC)) => {
                self.check_oldstyle()?;
                ClientState::Oldstyle
            }
            _ => return Err(HandshakeFailure::NotNbd),
        };
        Ok(())
    }

    fn accept_flags(&mut self, item: &[u8]) -> Result<(), HandshakeFailure> {
        let mut fields = Fields::new(item);
        // Unknown bits are to be ignored by clients.
        let server = HandshakeFlags::from_bits_truncate(fields.u16().unwrap_or(0));
        let fixed = server.contains(HandshakeFlags::FIXED_NEWSTYLE);
        if !fixed && self.config.tls {
            let text = "it knows no options".to_owned();
            return Err(HandshakeFailure::NoTls { text });
        }
        if !fixed && self.config.goal != Goal::Go {
            return Err(HandshakeFailure::NotFixedNewstyle);
        }
        self.no_zeroes = server.contains(HandshakeFlags::NO_ZEROES);
        let mut client = ClientFlags::empty();
        client.set(ClientFlags::FIXED_NEWSTYLE, fixed);
        client.set(ClientFlags::NO_ZEROES, self.no_zeroes);
        let out = client.bits().to_be_bytes().to_vec();
        if fixed {
            self.send_next_option(NegotiationStep::Tls, out);
        } else {
            self.style = HandshakeStyle::Newstyle;
            self.send_export_name(out);
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
        self.state = ClientState::Reply {
            option,
            header: Some((header.reply, header.len)),
        };
        Ok(())
    }

    fn fail(&mut self, failure: HandshakeFailure) {
        // Before the greeting is answered, no option may be sent.
        let greeted = !matches!(
            self.state,
            ClientState::Magics | ClientState::Flags | ClientState::Oldstyle
        );
        if greeted && failure.in_step() {
            self.leave(ClientEvent::Failed(failure));
        } else {
            self.state = ClientState::Done;
            self.events.push_back(ClientEvent::Failed(failure));
        }
    }

    /// Sends `ABORT`, by which a client may leave, and queues `event`.
    fn leave(&mut self, event: ClientEvent) {
        let mut out = Vec::new();
        push_option(&mut out, OptionCode::Abort, &[]);
        self.state = ClientState::Done;
        self.events.push_back(ClientEvent::Send(out));
        self.events.push_back(event);
    }
}
