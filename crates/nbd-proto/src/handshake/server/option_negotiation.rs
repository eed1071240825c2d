//! What each option of a client means to a server.

use super::option::{self, ContextQuestion, ExportQuestion, OptionError};
use super::{
    AgreedOptions, CloseReason, ContextOffer, ExportPurpose, HandshakeEvent, Refusal,
    ServerHandshake, ServerState, TlsMode, answer, option_of,
};
use crate::consts::{OptionCode, OptionReply, limits};
use crate::context::{MetaContext, matching};
use crate::flags::{ClientFlags, TransmissionFlags};
use crate::framing::Framing;
use crate::handshake::{ExportInfo, HandshakeStyle, Negotiated, meaningful};
use crate::writers::{DiskIdentity, WriterAccess};

impl ServerHandshake {
    pub(super) fn accept_option(&mut self, option: OptionCode, data: &[u8]) {
        let needs_tls = self.config.tls == TlsMode::Required && !self.tls;
        match option {
            OptionCode::Abort => {
                self.reply(option, OptionReply::Ack, "");
                self.close(CloseReason::Aborted);
            }
            OptionCode::StartTls => self.accept_start_tls(data),
            OptionCode::ExportName if needs_tls => self.close(CloseReason::TlsRequired),
            _ if needs_tls => self.reply(option, OptionReply::ErrTlsRequired, "use STARTTLS first"),
            OptionCode::ExportName => self.accept_export_name(data),
            OptionCode::List if data.is_empty() => {
                self.state = ServerState::WaitsForList;
                self.events.push_back(HandshakeEvent::List);
            }
            OptionCode::List => self.invalid(option, "LIST takes no data"),
            OptionCode::Info => self.accept_info(ExportPurpose::Info, data),
            OptionCode::Go => self.accept_info(ExportPurpose::Go, data),
            OptionCode::StructuredReply => self.accept_framing(option, Framing::Structured, data),
            OptionCode::ExtendedHeaders => self.accept_framing(option, Framing::Extended, data),
            OptionCode::ListMetaContext | OptionCode::SetMetaContext => {
                self.accept_contexts(option, data);
            }
            OptionCode::Unknown(_) => self.reply(option, OptionReply::ErrUnsupported, ""),
        }
    }

    fn accept_start_tls(&mut self, data: &[u8]) {
        let option = OptionCode::StartTls;
        if self.config.tls == TlsMode::Off {
            self.reply(option, OptionReply::ErrUnsupported, "");
        } else if self.tls {
            self.invalid(option, "the session is under TLS already");
        } else if !data.is_empty() {
            self.invalid(option, "STARTTLS takes no data");
        } else if !self.client.contains(ClientFlags::FIXED_NEWSTYLE) {
            self.invalid(option, "STARTTLS needs the fixed newstyle handshake");
        } else {
            self.reply(option, OptionReply::Ack, "");
            self.state = ServerState::WaitsForTls;
            self.events.push_back(HandshakeEvent::StartTls);
        }
    }

    fn accept_export_name(&mut self, data: &[u8]) {
        if self.agreed.framing.is_extended() {
            return self.close(CloseReason::ExportNameUnderExtendedHeaders);
        }
        match option::export_name(data) {
            Some(question) => self.ask(question),
            None => self.close(CloseReason::BadExportName),
        }
    }

    fn accept_info(&mut self, purpose: ExportPurpose, data: &[u8]) {
        match option::info_request(purpose, data) {
            Ok(question) => self.ask(question),
            Err(OptionError { reply, text }) => self.reply(option_of(purpose), reply, text),
        }
    }

    fn accept_framing(&mut self, option: OptionCode, wanted: Framing, data: &[u8]) {
        if self.config.framing < wanted {
            self.reply(option, OptionReply::ErrUnsupported, "");
        } else if !data.is_empty() {
            self.invalid(option, "the option takes no data");
        } else if self.agreed.framing == wanted {
            self.invalid(option, "this is already agreed on");
        } else if self.agreed.framing > wanted {
            let text = "extended headers are already agreed on";
            self.reply(option, OptionReply::ErrExtendedHeadersRequired, text);
        } else {
            self.agreed.framing = wanted;
            self.reply(option, OptionReply::Ack, "");
        }
    }

    fn accept_contexts(&mut self, option: OptionCode, data: &[u8]) {
        if option == OptionCode::SetMetaContext {
            // Replaced even if it fails (proto.md, SET_META_CONTEXT).
            self.agreed.contexts = None;
        }
        let question = option::context_request(option, data);
        let is_about_contexts = match &question {
            Ok(question) => question.is_about_contexts(),
            Err(_) => true,
        };
        if is_about_contexts && !self.config.framing.is_chunked() {
            return self.reply(option, OptionReply::ErrUnsupported, "");
        }
        if is_about_contexts && !self.agreed.framing.is_chunked() {
            return self.invalid(option, "structured replies or extended headers come first");
        }
        match question {
            Ok(question) => {
                self.events.push_back(HandshakeEvent::FindContexts {
                    name: question.name.clone(),
                    identify: question.disk.disk,
                    writer: question.disk.client,
                });
                self.state = ServerState::WaitsForContexts(question);
            }
            Err(OptionError { reply, text }) => self.reply(option, reply, text),
        }
    }

    /// Replies with the part of the offer that matches, and stores the selected contexts and the identity
    /// that the client sent.
    pub(super) fn answer_contexts_question(
        &mut self,
        question: ContextQuestion,
        offer: &ContextOffer<'_>,
    ) {
        let offered = &offer.contexts[..offer.contexts.len().min(limits::CONTEXTS_MAX)];
        let option = question.option;
        let bytes = if option == OptionCode::SetMetaContext {
            let chosen: Vec<MetaContext> = matching(offered, &question.queries, false)
                .into_iter()
                .map(|name| MetaContext {
                    id: id_of(offered, name),
                    name: name.to_owned(),
                })
                .collect();
            let pairs = chosen.iter().map(|c| (c.id, c.name.as_str()));
            let bytes = answer::contexts(option, pairs);
            self.agreed.contexts = Some((question.name, chosen));
            bytes
        } else {
            let listed = match question.is_for_all {
                true => offered.to_vec(),
                false => matching(offered, &question.queries, true),
            };
            let disk = match question.disk.disk {
                true => offer.disk.names(),
                false => Vec::new(),
            };
            if let Some(client) = question.disk.client {
                self.agreed.writer = Some((question.name, client));
            }
            let names = listed.into_iter().chain(disk.iter().map(String::as_str));
            answer::contexts(option, names.map(|name| (0, name)))
        };
        self.events.push_back(HandshakeEvent::Send(bytes));
    }

    fn ask(&mut self, question: ExportQuestion) {
        self.events.push_back(HandshakeEvent::FindExport {
            name: question.name.clone(),
            purpose: question.purpose,
            writer: self.writer_of(&question),
        });
        self.state = ServerState::WaitsForExport(question);
    }

    /// The identity that the client sent for this export.
    fn writer_of(&self, question: &ExportQuestion) -> Option<WriterAccess> {
        let named = self.agreed.writer.as_ref();
        let same = named
            .filter(|(name, _)| question.purpose != ExportPurpose::Info && *name == question.name);
        same.map(|(_, access)| *access)
    }

    pub(super) fn describe(&mut self, question: ExportQuestion, mut export: ExportInfo) {
        export.flags |= TransmissionFlags::HAS_FLAGS;
        export.flags = meaningful(export.flags, self.agreed.framing);
        let chosen = self.agreed.contexts.as_ref();
        let contexts = chosen
            .filter(|(name, _)| *name == question.name)
            .map_or_else(Vec::new, |(_, contexts)| contexts.clone());
        // After INFO the client may still select contexts.
        if contexts.is_empty() && question.purpose != ExportPurpose::Info {
            export.flags -= TransmissionFlags::BLOCK_STATUS_PAYLOAD;
        }
        let style = match self.client.contains(ClientFlags::FIXED_NEWSTYLE) {
            true => HandshakeStyle::FixedNewstyle,
            false => HandshakeStyle::Newstyle,
        };
        let no_zeroes = self.client.contains(ClientFlags::NO_ZEROES);
        let bytes = match question.purpose {
            ExportPurpose::ExportName => answer::export_name(&export, no_zeroes),
            ExportPurpose::Info | ExportPurpose::Go => answer::info(&question, &export),
        };
        self.events.push_back(HandshakeEvent::Send(bytes));
        if question.purpose == ExportPurpose::Info {
            return;
        }
        self.state = ServerState::Done;
        let writer = self.writer_of(&question);
        let agreed = std::mem::replace(&mut self.agreed, AgreedOptions::nothing());
        self.events
            .push_back(HandshakeEvent::Finished(Box::new(Negotiated {
                export,
                requested_name: question.name,
                style,
                framing: agreed.framing,
                contexts,
                tls: self.tls,
                no_zeroes,
                block_sizes_agreed: question.wants_block_size,
                disk: DiskIdentity::default(),
                writer,
            })));
    }

    pub(super) fn refuse(&mut self, question: ExportQuestion, refusal: Refusal) {
        if question.purpose == ExportPurpose::ExportName {
            self.close(CloseReason::Refused {
                name: question.name,
                refusal,
            });
            return;
        }
        self.refuse_option(option_of(question.purpose), &question.name, refusal);
    }

    pub(super) fn refuse_option(&mut self, option: OptionCode, name: &str, refusal: Refusal) {
        // TLS_REQD is only for clients that can start TLS (proto.md, "TLS support").
        let can_start_tls = self.config.tls != TlsMode::Off && !self.tls;
        let refusal = match refusal {
            Refusal::TlsRequired if !can_start_tls => Refusal::Unknown,
            other => other,
        };
        let (reply, text) = answer::refusal(name, &refusal);
        self.reply(option, reply, &text);
    }

    fn invalid(&mut self, option: OptionCode, text: &str) {
        self.reply(option, OptionReply::ErrInvalid, text);
    }
}

/// The id of a context: its place among those the export has, from 1.
fn id_of(offered: &[&str], name: &str) -> u32 {
    let at = offered.iter().position(|other| *other == name);
    at.and_then(|at| u32::try_from(at + 1).ok()).unwrap_or(0)
}
