//! Tests of TLS without sockets: certificates made for the test, two ends in memory, and rustls'
//! own connection as the other opinion.

mod certificates;
mod handshakes;
mod names;
mod pipe;
pub(crate) mod pki;
mod streams;
