//! Tests of TLS: two ends in memory with rustls' own connection as the other opinion, whole
//! sessions on sockets, and the programs of others, which use GnuTLS. Certificates are made for each
//! test.

mod certificate_name;
mod certificates;
mod handshakes;
mod peers;
mod peers_tls12;
mod pipe;
pub(crate) mod pki;
mod sessions;
mod streams;
mod tls12;
