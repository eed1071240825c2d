//! Frames of the handshake as bytes: options, replies to them, and the information in `INFO`.

use crate::consts::{
    OPTION_HEADER_LEN, OPTION_MAGIC, OPTION_REPLY_HEADER_LEN, OPTION_REPLY_MAGIC, OptionCode,
    OptionReply,
};
use crate::wire::{Fields, len32};

/// Kinds of information in `INFO` and `GO` (`NBD_INFO_*`).
pub(super) mod info {
    /// Size and flags.
    pub(in crate::handshake) const EXPORT: u16 = 0;
    /// The server's name of the export.
    pub(in crate::handshake) const NAME: u16 = 1;
    /// A text for people.
    pub(in crate::handshake) const DESCRIPTION: u16 = 2;
    /// The three block sizes.
    pub(in crate::handshake) const BLOCK_SIZE: u16 = 3;
}

/// Appends an option of a client.
pub(super) fn push_option(out: &mut Vec<u8>, option: OptionCode, data: &[u8]) {
    out.reserve(OPTION_HEADER_LEN + data.len());
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&u32::from(option).to_be_bytes());
    out.extend_from_slice(&len32(data.len()).to_be_bytes());
    out.extend_from_slice(data);
}

/// Appends a server's reply to an option.
pub(super) fn push_reply(out: &mut Vec<u8>, option: OptionCode, reply: OptionReply, data: &[u8]) {
    out.reserve(OPTION_REPLY_HEADER_LEN + data.len());
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&u32::from(option).to_be_bytes());
    out.extend_from_slice(&u32::from(reply).to_be_bytes());
    out.extend_from_slice(&len32(data.len()).to_be_bytes());
    out.extend_from_slice(data);
}

/// Magic, option and length of a client's option.
pub(super) struct OptionHeader {
    pub(super) magic: u64,
    pub(super) option: OptionCode,
    pub(super) len: u32,
}

impl OptionHeader {
    /// `None` if `bytes` is too short.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(bytes);
        Some(Self {
            magic: fields.u64()?,
            option: OptionCode::from(fields.u32()?),
            len: fields.u32()?,
        })
    }
}

/// Magic, option, type and length of a server's reply.
pub(super) struct ReplyHeader {
    pub(super) magic: u64,
    pub(super) option: OptionCode,
    pub(super) reply: OptionReply,
    pub(super) len: u32,
}

impl ReplyHeader {
    /// `None` if `bytes` is too short.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(bytes);
        Some(Self {
            magic: fields.u64()?,
            option: OptionCode::from(fields.u32()?),
            reply: OptionReply::from(fields.u32()?),
            len: fields.u32()?,
        })
    }
}
