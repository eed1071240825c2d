//! Which option a client sends after which, and what the replies mean to it.

use super::failure::reason;
use super::replies::checked_size;
use super::{BadReply, ClientEvent, ClientHandshake, ClientState, Goal, HandshakeFailure};
use crate::consts::{OptionCode, OptionReply};
use crate::flags::TransmissionFlags;
use crate::framing::Framing;
use crate::handshake::frame::{info, push_option};
use crate::handshake::{ExportInfo, HandshakeStyle, Negotiated, meaningful};
use crate::wire::{Fields, len32, printable};

/// The options of a client in the order in which it sends those that it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NegotiationStep {
    Tls,
    Extended,
    Structured,
    Identity,
    Contexts,
    Goal,
}

impl ClientHandshake {
    /// Sends the first option from `step` on that is wanted, behind `out`.
    pub(super) fn send_next_option(&mut self, step: NegotiationStep, out: Vec<u8>) {
        if step <= NegotiationStep::Tls && self.config.tls && !self.tls {
            return self.send_option(out, OptionCode::StartTls, &[]);
        }
        let wanted = match self.config.goal {
            Goal::List => Framing::Simple,
            Goal::Go | Goal::Info => self.config.framing,
        };
        if step <= NegotiationStep::Extended && wanted >= Framing::Extended {
            return self.send_option(out, OptionCode::ExtendedHeaders, &[]);
        }
        if step <= NegotiationStep::Structured
            && wanted >= Framing::Structured
            && !self.framing.is_chunked()
        {
            return self.send_option(out, OptionCode::StructuredReply, &[]);
        }
        let disk = self.disk_queries();
        if step <= NegotiationStep::Identity && !disk.is_empty() {
            self.requests_identity = true;
            let data = self.queries(&disk.queries());
            return self.send_option(out, OptionCode::ListMetaContext, &data);
        }
        if step <= NegotiationStep::Contexts && self.framing.is_chunked() {
            match self.config.goal {
                Goal::Go if !self.config.contexts.is_empty() => {
                    let data = self.queries(&self.config.contexts);
                    return self.send_option(out, OptionCode::SetMetaContext, &data);
                }
                Goal::Info => {
                    let data = self.queries(&[]);
                    return self.send_option(out, OptionCode::ListMetaContext, &data);
                }
                Goal::Go | Goal::List => {}
            }
        }
        self.send_goal(out);
    }

    /// Data of an option on metadata contexts.
    fn queries(&self, queries: &[String]) -> Vec<u8> {
        let mut data = self.named();
        data.extend_from_slice(&len32(queries.len()).to_be_bytes());
        for query in queries {
            data.extend_from_slice(&len32(query.len()).to_be_bytes());
            data.extend_from_slice(query.as_bytes());
        }
        data
    }

    /// The export's name behind its length, which is how most options begin.
    fn named(&self) -> Vec<u8> {
        let name = self.config.export.as_bytes();
        let mut data = len32(name.len()).to_be_bytes().to_vec();
        data.extend_from_slice(name);
        data
    }

    fn send_goal(&mut self, out: Vec<u8>) {
        let option = match self.config.goal {
            Goal::Go => OptionCode::Go,
            Goal::Info => OptionCode::Info,
            Goal::List => return self.send_option(out, OptionCode::List, &[]),
        };
        let mut data = self.named();
        for field in [3, info::NAME, info::DESCRIPTION, info::BLOCK_SIZE] {
            data.extend_from_slice(&field.to_be_bytes());
        }
        self.send_option(out, option, &data);
    }

    /// Appends an option to `out`, sends both and waits for its replies.
    fn send_option(&mut self, mut out: Vec<u8>, option: OptionCode, data: &[u8]) {
        push_option(&mut out, option, data);
        self.events.push_back(ClientEvent::Send(out));
        self.state = ClientState::Reply {
            option,
            header: None,
        };
    }

    pub(super) fn send_export_name(&mut self, mut out: Vec<u8>) {
        let name = self.config.export.as_bytes();
        push_option(&mut out, OptionCode::ExportName, name);
        self.events.push_back(ClientEvent::Send(out));
        self.state = ClientState::ExportName;
    }

    pub(super) fn accept_reply(
        &mut self,
        option: OptionCode,
        reply: OptionReply,
        data: &[u8],
    ) -> Result<(), HandshakeFailure> {
        if reply == OptionReply::Ack && !data.is_empty() {
            return Err(BadReply::AckWithData.into());
        }
        if reply.is_error() {
            return self.accept_error(option, reply, data);
        }
        match (option, reply) {
            (OptionCode::StartTls, OptionReply::Ack) => {
                self.state = ClientState::WaitsForTls;
                self.events.push_back(ClientEvent::StartTls);
            }
            (OptionCode::ExtendedHeaders, OptionReply::Ack) => {
                self.framing = Framing::Extended;
                self.send_next_option(NegotiationStep::Identity, Vec::new());
            }
            (OptionCode::StructuredReply, OptionReply::Ack) => {
                self.framing = Framing::Structured;
                self.send_next_option(NegotiationStep::Identity, Vec::new());
            }
            (OptionCode::SetMetaContext, OptionReply::MetaContext) => {
                let asked = &self.config.contexts;
                self.collected.context(data, Some(asked))?;
            }
            (OptionCode::ListMetaContext, OptionReply::MetaContext) if self.requests_identity => {
                self.collected.disk(data)?;
            }
            (OptionCode::ListMetaContext, OptionReply::MetaContext) => {
                self.collected.context(data, None)?;
            }
            (OptionCode::ListMetaContext, OptionReply::Ack) if self.requests_identity => {
                self.identified();
            }
            (OptionCode::SetMetaContext | OptionCode::ListMetaContext, OptionReply::Ack) => {
                self.send_next_option(NegotiationStep::Goal, Vec::new());
            }
            (OptionCode::Go | OptionCode::Info, OptionReply::Info) => self.collected.info(data)?,
            (OptionCode::Go | OptionCode::Info, OptionReply::Ack) => self.described(option)?,
            (OptionCode::List, OptionReply::Server) => self.collected.listed(data)?,
            (OptionCode::List, OptionReply::Ack) => {
                let listed = self.collected.take_list();
                self.leave(ClientEvent::Listed(listed));
            }
            (_, other) => {
                return Err(BadReply::Unexpected {
                    option,
                    reply: other,
                }
                .into());
            }
        }
        Ok(())
    }

    /// An error: continues without the requested feature, if it is optional.
    fn accept_error(
        &mut self,
        option: OptionCode,
        reply: OptionReply,
        data: &[u8],
    ) -> Result<(), HandshakeFailure> {
        if option == OptionCode::ListMetaContext && self.requests_identity {
            // If the error concerns the export, the reply to GO reports it too.
            self.collected.forget_disk();
            self.identified();
            return Ok(());
        }
        let fatal = match reply {
            OptionReply::ErrTlsRequired if self.tls => {
                return Err(BadReply::Unexpected { option, reply }.into());
            }
            OptionReply::ErrTlsRequired | OptionReply::ErrShutdown => true,
            _ => false,
        };
        let unknown = reply == OptionReply::ErrUnknown;
        match option {
            OptionCode::StartTls => {
                let said = printable(data);
                let colon = if said.is_empty() { "" } else { ": " };
                let text = format!("{}{colon}{said}", reason(reply));
                return Err(HandshakeFailure::NoTls { text });
            }
            OptionCode::ExtendedHeaders if !fatal => {
                self.send_next_option(NegotiationStep::Structured, Vec::new())
            }
            OptionCode::StructuredReply if !fatal => {
                self.send_next_option(NegotiationStep::Identity, Vec::new())
            }
            OptionCode::SetMetaContext | OptionCode::ListMetaContext if !fatal && !unknown => {
                self.collected.forget_contexts();
                self.send_next_option(NegotiationStep::Goal, Vec::new());
            }
            OptionCode::Go
                if reply == OptionReply::ErrUnsupported && !self.framing.is_extended() =>
            {
                self.send_export_name(Vec::new());
            }
            _ => return Err(self.refused(option, reply, data)),
        }
        Ok(())
    }

    /// Goes on behind the question for the disk.
    fn identified(&mut self) {
        self.requests_identity = false;
        self.send_next_option(NegotiationStep::Contexts, Vec::new());
    }

    fn described(&mut self, option: OptionCode) -> Result<(), HandshakeFailure> {
        let export = self.collected.take_export(&self.config.export)?;
        let negotiated = self.negotiated(export, true);
        if option == OptionCode::Info {
            self.leave(ClientEvent::Described(negotiated));
        } else {
            self.state = ClientState::Done;
            self.events.push_back(ClientEvent::Finished(negotiated));
        }
        Ok(())
    }

    /// The answer to `EXPORT_NAME`: size, flags, zeroes.
    pub(super) fn accept_export(&mut self, item: &[u8]) -> Result<(), HandshakeFailure> {
        let mut fields = Fields::new(item);
        let size = fields.u64().unwrap_or(0);
        let export = checked_export(&self.config.export, size, fields.u16().unwrap_or(0))?;
        let negotiated = self.negotiated(export, false);
        self.state = ClientState::Done;
        self.events.push_back(ClientEvent::Finished(negotiated));
        Ok(())
    }

    pub(super) fn negotiated(
        &mut self,
        mut export: ExportInfo,
        block_sizes_agreed: bool,
    ) -> Box<Negotiated> {
        export.flags = meaningful(export.flags, self.framing);
        let writer = match self.style {
            HandshakeStyle::FixedNewstyle => self.disk_queries().client,
            HandshakeStyle::Newstyle | HandshakeStyle::Oldstyle => None,
        };
        Box::new(Negotiated {
            export,
            requested_name: self.config.export.clone(),
            style: self.style,
            framing: self.framing,
            contexts: self.collected.take_contexts(),
            tls: self.tls,
            no_zeroes: self.no_zeroes,
            block_sizes_agreed,
            disk: self.collected.take_disk(),
            writer,
        })
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
}

/// The export of a server that says no more than size and flags. Unknown bits are to be ignored by clients.
pub(super) fn checked_export(name: &str, size: u64, flags: u16) -> Result<ExportInfo, BadReply> {
    let flags = TransmissionFlags::from_bits_truncate(flags);
    Ok(ExportInfo::new(name, checked_size(size)?, flags))
}
