//! What both sides hand to rustls: ciphers in this machine's order, and the engine's clock.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// ring's cryptography, the cheapest cipher first.
pub(super) fn provider() -> Arc<CryptoProvider> {
    let aes = [
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
    ];
    let chacha = [cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    let cipher_suites = if has_aes() {
        [&aes[..], &chacha].concat()
    } else {
        [&chacha[..], &aes].concat()
    };
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
