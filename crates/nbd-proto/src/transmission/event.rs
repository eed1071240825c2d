//! What goes into a [`crate::ReplyDecoder`] and what comes out.

use crate::errno::WireError;
use crate::flags::CommandFlags;
use crate::reply::Extent;
use crate::request::Command;

/// The properties of a request against which its replies are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The command.
    pub command: Command,
    /// Its flags.
    pub flags: CommandFlags,
    /// First byte on the export.
    pub offset: u64,
    /// Bytes it concerns. Of a read at most [`crate::limits::PAYLOAD_MAX`]. Of a `BLOCK_STATUS` with
    /// [`crate::StatusFilter`] that one's length.
    pub len: u64,
}

/// No slot is left for another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} requests are in flight already")]
pub struct TooManyInFlight(pub usize);

/// One step of a reply. `T` is what the caller attached to the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyEvent<T> {
    /// The next `len` bytes of the stream are the export's at `offset`. The caller takes them from
    /// the stream and says so with [`crate::ReplyDecoder::payload_taken`].
    Data {
        /// The request's cookie.
        cookie: u64,
        /// Where on the export.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// `len` bytes at `offset` are zero.
    Hole {
        /// The request's cookie.
        cookie: u64,
        /// Where on the export.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// The status of a part of the export, in answer to `BLOCK_STATUS`. Those of one context come one
    /// after the other, from the request's offset on. They may end before its end: ask on from there.
    /// The last may end behind it, perhaps behind the export.
    Extent {
        /// The request's cookie.
        cookie: u64,
        /// Id of the context.
        context: u32,
        /// Where on the export.
        offset: u64,
        /// How long, and what about it.
        extent: Extent,
    },
    /// The request will fail, and this is what the server says about it. May come several times.
    Error {
        /// The request's cookie.
        cookie: u64,
        /// The kind.
        error: WireError,
        /// For people; may be empty.
        text: String,
        /// Where on the export, if the server says.
        offset: Option<u64>,
    },
    /// The request is over; its cookie means nothing any more.
    Done {
        /// The request's cookie.
        cookie: u64,
        /// What the caller attached.
        token: T,
        /// `None`: success. Else the first error.
        error: Option<WireError>,
    },
}

/// What [`crate::ReplyDecoder::decode`] made of the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<T> {
    /// Bytes to drop from the front of the stream.
    pub consumed: usize,
    /// `None`: more bytes are needed.
    pub event: Option<ReplyEvent<T>>,
}
