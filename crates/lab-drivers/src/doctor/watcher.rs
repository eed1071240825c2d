//! [`Watcher`]: the agent on the server's machine, which sees what the server's processor does there.

use engine::clock;
use lab::Cancel;
use lab::agent::protocol::Counters;
use lab::agent::{RemoteIperf3, Side};
use lab::doctor::{Bound, CpuUse, cpu};
use lab::plan::Direction;
use lab::runner::AgentSpec;
use lab::units::{Nanos, Rate};

use crate::DriverError;

/// The name of our own server's process.
pub(super) const OWN_PROGRAM: &str = "outboard";

/// An agent that answered.
#[derive(Debug)]
pub(super) struct Watcher {
    spec: AgentSpec,
    /// Whether it may have its machine's page cache dropped.
    drops_caches: bool,
    /// Whether its machine is this one.
    is_here: bool,
}

impl Watcher {
    /// Connects to the agent and reads its rights. No answer is waited for after `cancel`.
    pub(super) fn meet(mut spec: AgentSpec, cancel: &Cancel) -> Result<Self, DriverError> {
        spec.address.cancel = cancel.clone();
        let about = spec.address.about();
        let about = about.map_err(|error| {
            let place = spec.address.dial.place();
            DriverError::because(format!("the agent at {place} does not answer"), error)
        })?;
        Ok(Self {
            spec,
            is_here: about.is_here(),
            drops_caches: about.drops_caches,
        })
    }

    /// Where it is.
    pub(super) fn place(&self) -> String {
        self.spec.address.dial.place()
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
        match self.spec.address.look(self.port(port), side, &now) {
            Ok((_, counters)) => Some(counters),
            Err(error) => {
                tracing::warn!("the agent does not report: {error}");
                None
            }
        }
    }

    /// Has it start an iperf3 to test against; why not, otherwise.
    pub(super) fn iperf3(&self) -> Result<RemoteIperf3, String> {
        self.spec.address.iperf3().map_err(|error| {
            let place = self.spec.address.dial.place();
            format!("the agent at {place} starts no iperf3: {error}")
        })
    }

    /// What the server took between two looks.
    pub(super) fn between(
        &self,
        before: Option<&Counters>,
        after: Option<&Counters>,
    ) -> Option<CpuUse> {
        let who = format!("the server on {}", self.spec.address.dial.place());
        cpu::of_counters(before?, after?, who)
    }
}

/// What an agent reported before and after a measurement.
#[derive(Debug, Clone, Default)]
pub(super) struct WatchedSpan {
    pub(super) before: Option<Counters>,
    pub(super) after: Option<Counters>,
    /// Whether the agent's machine is this one.
    pub(super) is_here: bool,
}

impl WatchedSpan {
    /// What `watcher` reported, if there is one.
    pub(super) fn new(
        watcher: Option<&Watcher>,
        before: Option<Counters>,
        after: Option<Counters>,
    ) -> Self {
        Self {
            before,
            after,
            is_here: watcher.is_some_and(|watcher| watcher.is_here),
        }
    }

    /// The bound of the busiest disk there. `own` is the device of the target on this machine, which an agent on this
    /// machine reports, too; a device of that name on another machine is another one.
    pub(super) fn disk(
        &self,
        rate: Rate,
        direction: Direction,
        own: Option<&str>,
    ) -> Option<Bound> {
        let mut after = self.after.clone()?;
        let own = own.filter(|_| self.is_here);
        after.disks.retain(|disk| Some(disk.name.as_str()) != own);
        Bound::of_disks(self.before.as_ref()?, &after, rate, direction)
    }

    /// Whether the server there is outboard's own.
    pub(super) fn is_own_server(&self) -> bool {
        let processor = self
            .after
            .as_ref()
            .and_then(|after| after.processor.as_ref());
        processor.is_some_and(|processor| processor.program == OWN_PROGRAM)
    }
}
