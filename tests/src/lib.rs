//! Tests of the binary against real peers, real files and the guest.
//!
//! This library has what the test files share: running other programs with a deadline ([`said`], [`raw`]), our
//! server as a child ([`server`], [`handover`]), its metrics ([`metrics`]), attachments ([`attachment`]), mirrors under load ([`mirror`]), a network that can be cut ([`proxy`])
//! and images of known content ([`image`]). A helper that cannot do its work panics with what it saw: a test has nothing else to do about it.
//! Every test has its own folder and its own port, so any number of them may run at once.

pub mod attachment;
pub mod handover;
pub mod image;
pub mod metrics;
pub mod mirror;
pub mod proxy;
pub mod raw;
pub mod said;
pub mod server;
pub mod server_fixture;
