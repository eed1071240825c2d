//! The NBD protocol as bytes and events.
//!
//! What goes over the wire between an NBD client and an NBD server, for both sides: the handshake
//! as two state machines ([`ServerHandshake`], [`ClientHandshake`]), requests and replies of the
//! transmission phase as encoders and decoders ([`Request`], the methods of [`Framing`],
//! [`ReplyDecoder`]), and the address of an export ([`NbdUri`]). The source is `doc/proto.md` and `doc/uri.md` of
//! NetworkBlockDevice/nbd.
//!
//! # Invariants
//!
//! * **Nothing here waits, reads a clock or touches a socket.** Bytes go in, events come out; any
//!   cutting of the same bytes gives the same events.
//! * **No input panics.** Everything the other side says is checked before it is believed, and
//!   every buffer that grows with input has a named maximum (see [`limits`]).
//! * **In step or closed**: an option or reply answered with an error consumes exactly its own
//!   bytes; where that cannot be known, the connection ends.
//! * Bytes behind the end of the handshake belong to transmission and are never consumed by it.
//! * **TLS is a step of the handshake**, not a layer over it: `StartTls` is an event, the owner of the stream
//!   switches it, what was negotiated before is discarded, and bytes in between end the session.
//! * The identity of an export and of a client is in a metadata namespace of our own (`writers/`), by an
//!   option that every server may refuse: a peer that does not know it is used without.
//!
//! # What this crate does not do
//!
//! It does not know of disks (the `nbd` crate maps errors and geometry), and it has no timeouts:
//! the owner of the socket sets those.

mod consts;
mod context;
mod errno;
mod flags;
mod framing;
mod handshake;
mod reply;
mod request;
mod transmission;
mod uri;
mod wire;
mod writers;

pub use consts::{DEFAULT_PORT, OptionCode, OptionReply, limits};
pub use context::{
    BASE_ALLOCATION, MetaContext, QEMU_ALLOCATION_DEPTH, QEMU_DIRTY, QEMU_DIRTY_BITMAP,
};
pub use errno::WireError;
pub use flags::{
    AllocationFlags, ChunkFlags, ClientFlags, CommandFlags, HandshakeFlags, TransmissionFlags,
};
pub use framing::Framing;
pub use handshake::client::{
    BadReply, ClientEvent, ClientHandshake, ClientHandshakeConfig, Goal, HandshakeFailure,
};
pub use handshake::server::{
    CloseReason, ContextOffer, ExportPurpose, HandshakeEvent, Refusal, ServerHandshake,
    ServerHandshakeConfig, TlsMode,
};
pub use handshake::{ExportInfo, HandshakeStyle, Negotiated};
pub use reply::{
    BadFilter, CHUNK_LEN, ChunkKind, ChunkRange, Extent, OFFSET_DATA_LEN, OFFSET_HOLE_LEN,
    ReplyHead, ReplyTo, SIMPLE_REPLY_LEN, StatusFilter, chunk_header, error_chunk,
    offset_data_header, offset_hole_chunk, simple_reply,
};
pub use request::{BadMagic, Command, EXTENDED_REQUEST_LEN, REQUEST_LEN, Request};
pub use transmission::{BrokenReply, Decoded, Expected, ReplyDecoder, ReplyEvent, TooManyInFlight};
pub use uri::{NbdUri, SERVERS_MAX, TlsVersion, Transport, UriError, UriTls};
pub use writers::{
    AccessMode, BUSY, ClientToken, DiskId, DiskIdentity, FENCED, WriterAccess, WriterPolicy,
    WriterRefusal,
};

#[cfg(test)]
mod tests;
