//! Data of options: bytes to questions. Pure; the answers are in `answer`.

use crate::consts::{OptionReply, limits};
use crate::handshake::frame::info;
use crate::handshake::server::Why;
use crate::wire::{Fields, index, string};

/// A client's question for an export.
#[derive(Debug)]
pub(super) struct ExportQuestion {
    pub(super) name: String,
    pub(super) why: Why,
    pub(super) wants_name: bool,
    pub(super) wants_description: bool,
    pub(super) wants_block_size: bool,
}

/// The reply to a malformed option.
#[derive(Debug)]
pub(super) struct OptionError {
    pub(super) reply: OptionReply,
    pub(super) text: &'static str,
}

const fn invalid(text: &'static str) -> OptionError {
    OptionError {
        reply: OptionReply::ErrInvalid,
        text,
    }
}

/// `EXPORT_NAME`: the data is the name. `None` if it cannot be one.
pub(super) fn export_name(data: &[u8]) -> Option<ExportQuestion> {
    if data.len() > limits::STRING_MAX {
        return None;
    }
    Some(ExportQuestion {
        name: string(data)?.to_owned(),
        why: Why::ExportName,
        wants_name: false,
        wants_description: false,
        wants_block_size: false,
    })
}

/// `INFO` and `GO`: name and the kinds of information asked for. Kinds we do not know are ignored,
/// as proto.md demands.
pub(super) fn info_request(why: Why, data: &[u8]) -> Result<ExportQuestion, OptionError> {
    const SHORT: OptionError = invalid("the option's data is too short");
    let mut fields = Fields::new(data);
    let name_len = index(fields.u32().ok_or(SHORT)?);
    let name = fields
        .take(name_len)
        .ok_or(invalid("the name is longer than the option"))?;
    if name.len() > limits::STRING_MAX {
        return Err(OptionError {
            reply: OptionReply::ErrTooBig,
            text: "the name is longer than 4096 bytes",
        });
    }
    let name = string(name).ok_or(invalid("the name is no UTF-8 text"))?;
    let count = usize::from(fields.u16().ok_or(SHORT)?);
    let kinds = fields.rest();
    if kinds.len() != count * size_of::<u16>() {
        return Err(invalid(
            "the number of information requests does not match the option's length",
        ));
    }
    let wants = |kind: u16| kinds.chunks_exact(2).any(|two| two == kind.to_be_bytes());
    Ok(ExportQuestion {
        name: name.to_owned(),
        why,
        wants_name: wants(info::NAME),
        wants_description: wants(info::DESCRIPTION),
        wants_block_size: wants(info::BLOCK_SIZE),
    })
}
