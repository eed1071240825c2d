//! [`Framing`]: how requests and replies look in transmission, as the handshake agreed.

/// How requests and replies are framed. Each has all that the ones before it have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Framing {
    /// Compact requests, simple replies: one reply for one request, without a text.
    Simple,
    /// Compact requests, replies in chunks (`STRUCTURED_REPLY`). Simple replies are left for what has no
    /// payload.
    #[default]
    Structured,
    /// Requests and replies with 64-bit lengths (`EXTENDED_HEADERS`); all replies are chunks.
    Extended,
}

impl Framing {
    /// Whether replies come in chunks: structured or extended.
    #[must_use]
    pub const fn is_chunked(self) -> bool {
        matches!(self, Self::Structured | Self::Extended)
    }

    /// Whether headers are extended.
    #[must_use]
    pub const fn is_extended(self) -> bool {
        matches!(self, Self::Extended)
    }
}
