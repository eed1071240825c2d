//! What goes into a [`super::ServerHandshake`] besides bytes, and what comes out.

use super::CloseReason;
use crate::consts::limits;
use crate::framing::Framing;
use crate::handshake::Negotiated;
use crate::writers::{DiskIdentity, WriterAccess};

/// What a server offers in a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerHandshakeConfig {
    /// The best framing a client may ask for.
    pub framing: Framing,
    /// Whether there is TLS.
    pub tls: TlsMode,
    /// Options answered before the session is ended.
    pub options_max: u32,
}

impl Default for ServerHandshakeConfig {
    fn default() -> Self {
        Self {
            framing: Framing::Structured,
            tls: TlsMode::Off,
            options_max: limits::OPTIONS_MAX,
        }
    }
}

/// Whether a server has TLS (proto.md, "Server-side requirements").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TlsMode {
    /// It has not (`NOTLS`).
    #[default]
    Off,
    /// A client may use it, and must for the exports that are refused with [`Refusal::TlsRequired`]
    /// (`SELECTIVETLS`).
    Optional,
    /// The server offers nothing without TLS (`FORCEDTLS`).
    Required,
}

/// What the owner of the socket must do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeEvent {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Look for an export and call [`super::ServerHandshake::answer_export`].
    FindExport {
        /// Its name; empty for the default export.
        name: String,
        /// What the client wants with it.
        purpose: ExportPurpose,
        /// The client and its requested access, if it sent them for this export. `None`
        /// for [`ExportPurpose::Info`].
        writer: Option<WriterAccess>,
    },
    /// Call [`super::ServerHandshake::answer_list`]. In the clear, exports that need TLS are left out.
    List,
    /// Look for an export and call [`super::ServerHandshake::answer_contexts`].
    FindContexts {
        /// Its name; empty for the default export.
        name: String,
        /// Whether the client requests [`ContextOffer::disk`].
        identify: bool,
        /// The client and its requested access, if it sent them with this: it is going to use the export.
        writer: Option<WriterAccess>,
    },
    /// What was sent was the last in the clear: begin TLS as its server, then call
    /// [`super::ServerHandshake::tls_started`]. If TLS fails, close the connection.
    StartTls,
    /// The handshake is over; transmission follows.
    Finished(Box<Negotiated>),
    /// Close the connection.
    Close(CloseReason),
}

/// What an export has of metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContextOffer<'a> {
    /// Names of the contexts that `BLOCK_STATUS` can report, such as [`crate::BASE_ALLOCATION`]. Always the
    /// same for an export, as their order gives the ids.
    pub contexts: &'a [&'a str],
    /// The identity of the disk; used only if it was requested.
    pub disk: DiskIdentity,
}

/// Why an export is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExportPurpose {
    /// To be described; the client may go on with another one.
    Info,
    /// To be used.
    Go,
    /// To be used, by a client that cannot receive an error reply.
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
    /// Only under TLS. Where TLS is off or there already, the same as [`Refusal::Unknown`].
    #[error("TLS is required")]
    TlsRequired,
    /// It could not be opened; the text is sent to the client.
    #[error("not available: {0}")]
    Unavailable(String),
    /// The server is going away.
    #[error("the server is shutting down")]
    Shutdown,
}
