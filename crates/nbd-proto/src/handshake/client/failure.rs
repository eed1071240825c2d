//! [`HandshakeFailure`]: why a client does not get what it wants. The texts are for users.

use crate::consts::{OptionCode, OptionReply};
use crate::writers::WriterRefusal;

/// Why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeFailure {
    /// The first bytes are not NBD's.
    #[error("the server does not speak NBD")]
    NotNbd,
    /// A server from before named exports.
    #[error(
        "the server speaks the oldstyle NBD handshake, which has one export without a name: use an address without {0:?}"
    )]
    OldstyleExport(String),
    /// The server knows `EXPORT_NAME` only.
    #[error("the server is too old to list or describe exports")]
    NotFixedNewstyle,
    /// No export of that name.
    #[error("the server has no export {name:?}{}", tail(.text))]
    UnknownExport {
        /// The requested name.
        name: String,
        /// What the server says about it; may be empty.
        text: String,
    },
    /// The server has no TLS, and the client does without the server rather than without TLS.
    #[error("the server does not offer TLS, which was requested: {text}")]
    NoTls {
        /// What the server says about it.
        text: String,
    },
    /// Bytes behind the `ACK` of `STARTTLS` that are not under TLS.
    #[error("bytes arrived in the clear between STARTTLS and TLS")]
    PlaintextBehindStartTls,
    /// The server wants TLS for this.
    #[error(
        "the server requires TLS: use an address that begins with nbds, and the certificate it wants"
    )]
    TlsRequired,
    /// The server refused an option.
    #[error("the server refused {option:?}: {}{}", reason(*.reply), tail(.text))]
    Refused {
        /// The option that the client sent.
        option: OptionCode,
        /// The kind of refusal.
        reply: OptionReply,
        /// What the server says about it; may be empty.
        text: String,
    },
    /// The connection ended before the server sent anything.
    #[error("the server closed the connection before its greeting")]
    ClosedBeforeGreeting,
    /// The connection ended while a reply to this option was due.
    #[error("the server closed the connection instead of answering {0:?}")]
    Closed(OptionCode),
    /// An old server closes the connection where it would refuse an export.
    #[error("the server closed the connection; it may have no export {0:?}")]
    ExportNameRefused(String),
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    BrokenReply(#[from] BadReply),
}

impl HandshakeFailure {
    /// Whether, and why, another client's writing is in the way.
    #[must_use]
    pub fn writer_refusal(&self) -> Option<WriterRefusal> {
        match self {
            Self::Refused {
                option: OptionCode::Go,
                reply: OptionReply::ErrPolicy,
                text,
            } => WriterRefusal::of_text(text),
            _ => None,
        }
    }

    /// Whether the next option would still be understood.
    pub(super) fn in_step(&self) -> bool {
        matches!(
            self,
            Self::UnknownExport { .. }
                | Self::TlsRequired
                | Self::NoTls { .. }
                | Self::Refused { .. }
        )
    }
}

/// What was wrong with a server's reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadReply {
    /// Not a reply.
    #[error("option reply with magic {0:#018x}")]
    Magic(u64),
    /// A reply to something else.
    #[error("{answered:?} was answered while {sent:?} was pending")]
    OtherOption {
        /// The option that the client sent.
        sent: OptionCode,
        /// What was answered.
        answered: OptionCode,
    },
    /// Longer than any reply is.
    #[error("option reply of {0} bytes")]
    TooLong(u32),
    /// More replies to one option than any server has.
    #[error("too many replies to one option")]
    TooMany,
    /// `ACK` has no data.
    #[error("ACK with data")]
    AckWithData,
    /// A reply that does not fit its option.
    #[error("{reply:?} in answer to {option:?}")]
    Unexpected {
        /// The option that the client sent.
        option: OptionCode,
        /// What came.
        reply: OptionReply,
    },
    /// Information of the wrong length.
    #[error("information of kind {kind} has {len} bytes")]
    InfoLength {
        /// Its kind.
        kind: u16,
        /// Its length.
        len: usize,
    },
    /// A name or description that is no UTF-8 or longer than 4096 bytes.
    #[error("a name or description is too long or no UTF-8")]
    BadString,
    /// A metadata context that was not requested, or twice, or has no name.
    #[error("metadata context {id} ({name:?}) was not requested, or comes twice")]
    Context {
        /// Its id.
        id: u32,
        /// Its name.
        name: String,
    },
    /// Success without size and flags.
    #[error("GO or INFO succeeded without size and flags")]
    NoExportInfo,
    /// More than a signed 64-bit offset can reach.
    #[error("an export of {0} bytes")]
    Size(u64),
    /// Not a power of two up to 65536.
    #[error("a minimum block size of {0} bytes")]
    BlockSizeMin(u32),
    /// Less than one block.
    #[error("a maximum payload of {max} bytes with blocks of {min}")]
    BlockSizeMax {
        /// The smallest block.
        min: u32,
        /// The largest payload.
        max: u32,
    },
}

fn tail(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}

pub(super) const fn reason(reply: OptionReply) -> &'static str {
    match reply {
        OptionReply::ErrUnsupported => "not supported",
        OptionReply::ErrPolicy => "not allowed",
        OptionReply::ErrInvalid => "invalid",
        OptionReply::ErrPlatform => "not supported on its platform",
        OptionReply::ErrShutdown => "it is shutting down",
        OptionReply::ErrBlockSizeRequired => "it requires the client to request the block size",
        OptionReply::ErrTooBig => "too big",
        OptionReply::ErrExtendedHeadersRequired => "it wants extended headers",
        _ => "an error of unknown kind",
    }
}
