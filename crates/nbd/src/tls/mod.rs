//! TLS for both sides: certificates ([`ServerTls`], [`ClientTls`]), the handshake as a
//! state machine, and what comes after it over a non-blocking socket (`link.rs`).
//!
//! rustls does the handshake, verifies certificates and derives the keys; records are sealed and
//! opened here with them (docs/adr/0007-tls.md compares this with the alternatives). Only TLS 1.3 is spoken, and 1.2 where that is allowed
//! ([`TlsVersion`]).
//!
//! # Invariants
//!
//! * A side that is configured to use TLS never continues without it.
//! * Key material is held by rustls and by the ciphers made of it, and printed by nothing.
//!
//! # What it does not do
//!
//! No pre-shared keys (rustls has none), no resumption, no TLS of the kernel.

mod certificate_hosts;
mod certificate_name;
mod channel;
mod client;
mod error;
mod files;
mod handshake;
mod link;
mod provider;
mod record;
mod record_format;
mod scratch;
mod server;
#[cfg(test)]
mod tests;

pub use certificate_hosts::certificate_hosts;
pub use client::{ClientTls, VerifyPeer, is_server_name};
pub use error::{TlsError, TlsFailure};
pub(crate) use handshake::{Handshake, HandshakeStep};
pub(crate) use link::{Link, RawSocket};
pub use nbd_proto::TlsVersion;
pub use server::{ClientCertificates, Demand, ServerTls, ServerTlsFiles};
