//! [`Watcher`]: the agent on the server's machine, which sees what the server's processor does there.

use engine::clock;
use lab::agent::Side;
use lab::agent::protocol::Counters;
use lab::doctor::{CpuUse, cpu};
use lab::runner::AgentSpec;
use lab::units::Nanos;

use crate::failure::Failure;

/// How often the agent is asked before it counts as silent.
const TRIES: u32 = 4;

/// An agent that answered.
#[derive(Debug)]
pub(super) struct Watcher {
    spec: AgentSpec,
    /// Whether it may have its machine's page cache dropped.
    drops_caches: bool,
}

impl Watcher {
    /// Asks the agent who it is.
    pub(super) fn meet(spec: AgentSpec) -> Result<Self, Failure> {
        let about = spec.address.about();
        let about = about.map_err(|error| {
            let place = spec.address.dial.place();
            Failure::because(format!("the agent at {place} does not answer"), &error)
        })?;
        Ok(Self {
            spec,
            drops_caches: about.drops_caches,
        })
    }

    /// The server's port there.
    fn port(&self, found: Option<u16>) -> Option<u16> {
        self.spec.server_port.or(found)
    }

    /// Has it drop its page cache, if it may.
    pub(super) fn drop_caches(&self, port: Option<u16>) {
        if !self.drops_caches {
            return;
        }
        if let Err(error) = self.spec.address.drop_caches(self.port(port)) {
            tracing::warn!("the agent did not drop its caches: {error}");
        }
    }

    /// Its counters as they are. What cannot be had is left out.
    pub(super) fn look(&self, port: Option<u16>, side: Side) -> Option<Counters> {
        let start = clock::now();
        let now = || Nanos::from_duration(clock::now().saturating_duration_since(start));
        for tried in 1.. {
            match self.spec.address.look(self.port(port), side, &now) {
                Ok((_, counters)) => return Some(counters),
                // A ring that is closed behind a measurement interrupts calls of the thread that had it.
                Err(_) if tried < TRIES => {}
                Err(error) => {
                    tracing::warn!("the agent does not tell: {error}");
                    return None;
                }
            }
        }
        None
    }

    /// What the server took between two looks.
    pub(super) fn between(
        &self,
        before: Option<Counters>,
        after: Option<Counters>,
    ) -> Option<CpuUse> {
        let who = format!("the server on {}", self.spec.address.dial.place());
        cpu::of_counters(&before?, &after?, who)
    }
}
