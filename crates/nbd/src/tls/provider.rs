//! What both sides hand to rustls: versions, ciphers in this machine's order, and the engine's clock.
//!
//! Under TLS 1.2 the extended master secret is used where the peer has it, and not required: what it prevents takes
//! resumption or renegotiation, and there is neither.

use std::sync::Arc;

use nbd_proto::TlsVersion;
use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};

/// The versions that `provider` has ciphers for, and no others: rustls would speak all that it knows.
pub(super) fn versions(provider: &CryptoProvider) -> Vec<&'static SupportedProtocolVersion> {
    let has = |version: &SupportedProtocolVersion| {
        let mut suites = provider.cipher_suites.iter();
        suites.any(|suite| suite.version() == version)
    };
    let mut versions = vec![&TLS13, &TLS12];
    versions.retain(|version| has(version));
    versions
}

/// ring's cryptography with the ciphers of these versions, the cheapest first. Those of TLS 1.2 have keys of their own for each
/// connection (ECDHE) and authenticate (AEAD); it has others, which do not.
pub(super) fn provider(minimum: TlsVersion) -> Arc<CryptoProvider> {
    let aes = [
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ];
    let chacha = [
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ];
    let mut cipher_suites = if has_aes() {
        [&aes[..], &chacha].concat()
    } else {
        [&chacha[..], &aes].concat()
    };
    cipher_suites.retain(|suite| minimum == TlsVersion::Tls12 || suite.tls13().is_some());
    Arc::new(CryptoProvider {
        cipher_suites,
        ..default_provider()
    })
}

/// Whether the processor has instructions for AES; without, ChaCha20 is several times faster.
/// Raspberry Pis before the fifth have none.
pub(super) fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// The engine's clock, for the dates in certificates.
#[derive(Debug)]
pub(super) struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let since = engine::clock::wall().duration_since(std::time::UNIX_EPOCH);
        since.ok().map(UnixTime::since_unix_epoch)
    }
}
