//! Agents: the other machines of a run. One runs `outboard agent`; the lab requests its sensors, its
//! counters and the time, and has it drop caches and run fio and iperf3 where it may.
//!
//! [`protocol`] is the messages, [`AgentAddress`] the lab's side, [`local`] what an agent does on its
//! machine. Listening, tokens and TLS are in `lab-drivers`.
//!
//! Invariants: an agent's times are put on our clock by [`Offset`], whose error has a bound; a lost agent
//! is a remark of the run and never its end; what an agent says is bounded before it is believed.

mod client;
mod error;
mod fio_server;
mod http;
mod iperf3_server;
pub mod local;
mod offset;
pub mod protocol;
pub mod query;
mod samples;
#[cfg(test)]
mod tests;

pub use client::{AgentAddress, Dial, Dialled, RemoteFio, RemoteIperf3, Side, Token};
pub use error::AgentError;
pub use http::Stream;
pub use offset::{Offset, RoundTrip};
pub use protocol::{About, Clock, Counters, FioFolder, SampleLine};
pub use samples::Samples;
