//! Answers of the server as bytes.

use crate::consts::{EXPORT_NAME_ANSWER_LEN, EXPORT_NAME_ZEROES, OptionCode, OptionReply, limits};
use crate::handshake::ExportInfo;
use crate::handshake::frame::{info as kind, push_reply};
use crate::handshake::server::option::ExportQuestion;
use crate::handshake::server::{Refusal, option_of};
use crate::wire::{len32, truncated};

/// Size and flags, without a header: the answer to `EXPORT_NAME`.
pub(super) fn export_name(export: &ExportInfo, no_zeroes: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(EXPORT_NAME_ANSWER_LEN + EXPORT_NAME_ZEROES);
    out.extend_from_slice(&export.size.to_be_bytes());
    out.extend_from_slice(&export.flags.bits().to_be_bytes());
    if !no_zeroes {
        out.resize(EXPORT_NAME_ANSWER_LEN + EXPORT_NAME_ZEROES, 0);
    }
    out
}

/// The requested information and the final `ACK`. Size and flags always come.
pub(super) fn info(question: &ExportQuestion, export: &ExportInfo) -> Vec<u8> {
    let option = option_of(question.purpose);
    let mut out = Vec::new();
    let mut push = |kind: u16, parts: &[&[u8]]| {
        let mut data = kind.to_be_bytes().to_vec();
        parts.iter().for_each(|part| data.extend_from_slice(part));
        push_reply(&mut out, option, OptionReply::Info, &data);
    };
    push(
        kind::EXPORT,
        &[
            &export.size.to_be_bytes(),
            &export.flags.bits().to_be_bytes(),
        ],
    );
    if question.wants_name {
        let name = truncated(&export.name, limits::STRING_MAX);
        push(kind::NAME, &[name.as_bytes()]);
    }
    if question.wants_description && !export.description.is_empty() {
        let description = truncated(&export.description, limits::STRING_MAX);
        push(kind::DESCRIPTION, &[description.as_bytes()]);
    }
    if question.wants_block_size {
        push(
            kind::BLOCK_SIZE,
            &[
                &export.block_size_min.to_be_bytes(),
                &export.block_size_preferred.to_be_bytes(),
                &export.block_size_max.to_be_bytes(),
            ],
        );
    }
    push_reply(&mut out, option, OptionReply::Ack, &[]);
    out
}

/// One reply for each export, and the final `ACK`.
pub(super) fn list(exports: &[(String, String)]) -> Vec<u8> {
    let mut out = Vec::new();
    let sayable = exports
        .iter()
        .filter(|(name, _)| name.len() <= limits::STRING_MAX);
    for (name, description) in sayable {
        let description = truncated(description, limits::STRING_MAX);
        let mut data = len32(name.len()).to_be_bytes().to_vec();
        data.extend_from_slice(name.as_bytes());
        data.extend_from_slice(description.as_bytes());
        push_reply(&mut out, OptionCode::List, OptionReply::Server, &data);
    }
    push_reply(&mut out, OptionCode::List, OptionReply::Ack, &[]);
    out
}

/// One reply for each context, and the final `ACK`.
pub(super) fn contexts<'a>(
    option: OptionCode,
    contexts: impl Iterator<Item = (u32, &'a str)>,
) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, name) in contexts {
        let data = [&id.to_be_bytes()[..], name.as_bytes()].concat();
        push_reply(&mut out, option, OptionReply::MetaContext, &data);
    }
    push_reply(&mut out, option, OptionReply::Ack, &[]);
    out
}

/// Type and text of the reply that says no.
pub(super) fn refusal(name: &str, refusal: &Refusal) -> (OptionReply, String) {
    let reply = match refusal {
        Refusal::Unknown | Refusal::Unavailable(_) => OptionReply::ErrUnknown,
        Refusal::Policy(_) => OptionReply::ErrPolicy,
        Refusal::TlsRequired => OptionReply::ErrTlsRequired,
        Refusal::Shutdown => OptionReply::ErrShutdown,
    };
    let text = match refusal {
        Refusal::Policy(text) | Refusal::Unavailable(text) => text.clone(),
        Refusal::Unknown if name.is_empty() => "there is no default export".to_owned(),
        Refusal::Unknown => format!("export {name:?} is not known here"),
        Refusal::TlsRequired | Refusal::Shutdown => refusal.to_string(),
    };
    (reply, truncated(&text, limits::STRING_MAX).to_owned())
}
