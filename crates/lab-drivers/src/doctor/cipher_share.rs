//! [`Ciphers`]: how much of the processor time of each end encryption takes: a null export of our own under TLS, next to
//! one in the clear.
//!
//! # Invariants
//!
//! * A share is between 0 and 1, and there is none where one of the two processors was not seen.
//!
//! # What it does not do
//!
//! It measures nothing.

use lab::doctor::CpuUse;
use lab::units::Rate;

use super::read_load::ReadResult;

/// How much of the time of each end encryption takes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ciphers {
    pub(super) client: Option<f64>,
    pub(super) server: Option<f64>,
}

impl Ciphers {
    /// What a byte costs more under TLS than in the clear, of what it costs under TLS.
    pub(super) fn between(tls: &ReadResult, clear: &ReadResult) -> Self {
        let share = |tls_cpu: &Option<CpuUse>, clear_cpu: &Option<CpuUse>| {
            let cost = |cpu: &Option<CpuUse>, rate: Rate| Some(cpu.as_ref()?.running / rate.0);
            let (with, without) = (cost(tls_cpu, tls.rate)?, cost(clear_cpu, clear.rate)?);
            (with > 0.0).then(|| (1.0 - without / with).clamp(0.0, 1.0))
        };
        Self {
            client: share(&tls.client, &clear.client),
            server: share(&tls.server, &clear.server),
        }
    }
}
