//! [`BrokenReply`]: how a server can break the protocol in transmission.

use crate::reply::ChunkKind;

/// The server's stream cannot be trusted any more: close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BrokenReply {
    /// Not a reply.
    #[error("reply with magic {0:#010x}")]
    Magic(u32),
    /// A reply of a framing that was not negotiated.
    #[error("reply of a form that was not negotiated")]
    NotNegotiated,
    /// A simple reply to a read under structured replies.
    #[error("simple reply to a read although structured replies were negotiated")]
    SimpleReadReply,
    /// A reply to nothing.
    #[error("reply to request {0:#x}, which is not in flight")]
    UnknownCookie(u64),
    /// A chunk that does not fit its request.
    #[error("chunk of kind {0:?} where none is due")]
    Kind(ChunkKind),
    /// A chunk of impossible length.
    #[error("chunk of kind {kind:?} with {len} bytes")]
    Length {
        /// The chunk's kind.
        kind: ChunkKind,
        /// The length it announces.
        len: u64,
    },
    /// Extended replies repeat the offset of their request.
    #[error("reply to request {cookie:#x} with another offset")]
    Offset {
        /// The request.
        cookie: u64,
    },
    /// The empty chunk ends its reply, always.
    #[error("empty chunk that does not end its reply")]
    NoneWithoutDone,
    /// An error chunk with error 0.
    #[error("error chunk without an error")]
    ErrorWithoutError,
    /// A piece outside its request.
    #[error("piece outside request {cookie:#x}")]
    Outside {
        /// The request.
        cookie: u64,
    },
    /// Bytes that were sent before.
    #[error("pieces of one read overlap")]
    Overlap,
    /// More pieces than a client keeps track of.
    #[error("a read answered in too many pieces")]
    TooManyPieces,
    /// Several chunks although one was requested.
    #[error("a read answered in several chunks although one was requested")]
    Fragmented,
    /// Success, but not of everything.
    #[error("a read succeeded with {missing} bytes missing")]
    Missing {
        /// How many.
        missing: u64,
    },
    /// Status in a context that was not requested.
    #[error("status of context {0}, which was not requested")]
    UnknownContext(u32),
    /// Status of one request in one context twice, or in one that the request left out.
    #[error("status of context {0} comes twice, or although others were requested")]
    ContextTwice(u32),
    /// Success, but not in every requested context.
    #[error("a status request succeeded without context {0}")]
    ContextMissing(u32),
    /// An extent without length.
    #[error("extent of no bytes")]
    EmptyExtent,
    /// More extents than one chunk may hold, or more than the one that was requested.
    #[error("{0} extents in one chunk")]
    TooManyExtents(u64),
    /// An extent that begins behind the request, or ends behind it where that is not allowed.
    #[error("extent beyond request {cookie:#x}")]
    ExtentBeyond {
        /// The request.
        cookie: u64,
    },
}
