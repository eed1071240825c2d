//! [`ReportSpan`]: what a server of ours reports of itself before and after a measurement: by its control socket, where it
//! runs on this machine, and by the agent of its own.

use std::time::Instant;

use engine::clock;
use lab::agent::protocol::Counters;
use lab::doctor::{OwnClients, ServedReading, ServedUse};
use lab::plan::Direction;
use lab::units::Nanos;

use super::session::DoctorSession;

/// A reading before a measurement.
#[derive(Debug)]
pub(super) struct ReportSpan {
    process: Option<u32>,
    begun: Instant,
    before: Option<ServedReading>,
}

impl ReportSpan {
    /// Reads the server with this process on this machine; without one, the agent's counters are all there is.
    pub(super) fn begin(session: &DoctorSession<'_>, process: Option<u32>) -> Self {
        let before = process.and_then(|process| session.args.disks.report(process));
        Self {
            process,
            begun: clock::now(),
            before,
        }
    }

    /// What the server did since, for others than the target's `own` clients.
    pub(super) fn end(
        self,
        session: &DoctorSession<'_>,
        export: &str,
        direction: Direction,
        own: &OwnClients,
    ) -> Option<ServedUse> {
        let before = self.before?;
        let after = session.args.disks.report(self.process?)?;
        let elapsed = clock::now().saturating_duration_since(self.begun);
        let elapsed = Nanos::from_duration(elapsed);
        after.since(&before, export, direction, own, elapsed)
    }
}

/// The same of an agent's counters.
pub(super) fn between(
    before: Option<&Counters>,
    after: Option<&Counters>,
    export: &str,
    direction: Direction,
    own: &OwnClients,
) -> Option<ServedUse> {
    let (before, after) = (before?, after?);
    let elapsed = Nanos(after.at.0.checked_sub(before.at.0)?);
    let (first, last) = (before.served.as_ref()?, after.served.as_ref()?);
    last.since(first, export, direction, own, elapsed)
}
