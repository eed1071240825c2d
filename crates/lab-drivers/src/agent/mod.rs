//! Agents: [`AgentServer`] answers the lab on another machine, [`AgentDialer`] connects to it.
//!
//! The protocol is in [`lab::agent`]; here are the sockets, TLS and the token.
//!
//! # Invariants
//!
//! * It only reads, unless it was started with the right to drop caches, to run fio or to run iperf3; what
//!   could not be done is refused at the start.
//! * Every request needs the token. Other machines get in only under TLS, or if that was waived in so
//!   many words; fio, which authenticates no client, only if it was.
//! * Connections, streams, heads, bodies and waiting are bounded ([`limits`]); what was started for a
//!   connection ends with it, and all of it with the process.

mod answer;
mod body;
mod dial;
mod limits;
mod serve;
mod streams;
mod token;

pub use dial::{AgentDialer, AgentHost, AgentHostError};
pub use serve::AgentServer;
pub(crate) use token::random_hex;
pub use token::{ServerToken, random, read};
