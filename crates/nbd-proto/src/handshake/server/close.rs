//! [`CloseReason`]: why a server ends a session before transmission.

use crate::consts::OptionCode;
use crate::handshake::server::Refusal;

/// Why a session ends in the handshake. The text is for the server's log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The client sent `ABORT` and received its `ACK`.
    #[error("the client ended the handshake")]
    Aborted,
    /// proto.md demands that unknown flags end the connection.
    #[error("client flags {0:#010x} have unknown bits")]
    UnknownClientFlags(u32),
    /// The stream is out of step, or this is no NBD client.
    #[error("option with magic {0:#018x}")]
    BadMagic(u64),
    /// Longer than any option is.
    #[error("option {option:?} announces {len} bytes of data")]
    OptionTooLong {
        /// The option.
        option: OptionCode,
        /// The length it announced.
        len: u32,
    },
    /// The client never comes to the point.
    #[error("more than {0} options in one handshake")]
    TooManyOptions(u32),
    /// Bytes behind `STARTTLS` that are not under TLS: an injection, or a client that is out of step.
    #[error("bytes in the clear behind STARTTLS")]
    PlaintextBehindStartTls,
    /// `EXPORT_NAME` in the clear; the option knows no error reply.
    #[error("EXPORT_NAME without TLS, which is required")]
    TlsRequired,
    /// `EXPORT_NAME` after extended headers were agreed on, which forbids it; the option knows no error
    /// reply.
    #[error("EXPORT_NAME under extended headers")]
    ExportNameUnderExtendedHeaders,
    /// `EXPORT_NAME` with a name that cannot be one; the option knows no error reply.
    #[error("EXPORT_NAME with a name that is too long or no UTF-8")]
    BadExportName,
    /// `EXPORT_NAME` of an export the client does not get; the option knows no error reply.
    #[error("export {name:?} refused: {refusal}")]
    Refused {
        /// The name.
        name: String,
        /// Why.
        refusal: Refusal,
    },
}
