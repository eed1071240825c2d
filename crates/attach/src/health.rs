//! Health: whether the disk behind an attachment can be reached, as `status` shows it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How an attachment is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Health {
    /// Its server answers; a local disk always does.
    Connected,
    /// Its server is gone. Requests wait.
    Reconnecting {
        /// For how long, seconds.
        for_s: u64,
        /// Why.
        why: String,
    },
    /// Requests fail: the last one that changes the disk did, or all do until the disk is attached again.
    Failing {
        /// How.
        why: String,
    },
    /// It answers, and something of it is missing.
    Degraded {
        /// What.
        why: String,
    },
    /// It is not complete yet.
    Starting,
    /// Its process lives and does not answer.
    Unresponsive,
    /// Its process is dead. `detach` cleans up.
    Dead,
}

impl std::fmt::Display for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connected => f.write_str("connected"),
            Self::Reconnecting { for_s, why } => write!(f, "reconnecting for {for_s} s: {why}"),
            Self::Failing { why } => write!(f, "failing: {why}"),
            Self::Degraded { why } => write!(f, "degraded: {why}"),
            Self::Starting => f.write_str("starting"),
            Self::Unresponsive => f.write_str("its process does not answer"),
            Self::Dead => f.write_str("its process is dead: detach it to clean up"),
        }
    }
}

/// Which of the servers of a disk an attachment uses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerUse {
    /// The server that is used, or was last, as a URI.
    pub server: String,
    /// How often another server took the place of the one that was used.
    pub server_changes: u64,
    /// Time without a server since the disk was attached, seconds, an outage that lasts included.
    pub unreachable_s: u64,
}

/// Whether a server is reached, and since when not.
#[derive(Debug, Default)]
pub(crate) struct Reachability(Mutex<ServerHistory>);

/// What is recorded of the servers of an attachment. One lock has all of it: the end of an outage is in no snapshot counted twice, or not
/// at all.
#[derive(Debug, Default)]
struct ServerHistory {
    /// The outage that lasts.
    outage: Option<Outage>,
    /// The server that is used, or was last, as a URI.
    server: Option<String>,
    changes: u64,
    /// The time that the outages took that are over.
    outages_ended: Duration,
}

#[derive(Debug, Clone)]
struct Outage {
    since: Instant,
    why: String,
    /// No attempt to reconnect follows.
    is_final: bool,
}

impl ServerHistory {
    fn use_server(&mut self, server: &str) {
        if self.server.as_deref() != Some(server) {
            self.changes += u64::from(self.server.is_some());
            self.server = Some(server.to_owned());
        }
    }

    fn server_use(&self, now: Instant) -> Option<ServerUse> {
        let outage = self.outage.as_ref();
        let lasts = outage.map(|outage| now.duration_since(outage.since));
        let unreachable = self.outages_ended + lasts.unwrap_or_default();
        Some(ServerUse {
            server: self.server.clone()?,
            server_changes: self.changes,
            unreachable_s: unreachable.as_secs(),
        })
    }

    /// Returns how long the outage took that is over.
    fn connected(&mut self, now: Instant) -> Option<Duration> {
        let gone = now.duration_since(self.outage.take()?.since);
        self.outages_ended += gone;
        Some(gone)
    }

    /// Returns whether an outage begins.
    fn lost(&mut self, why: &str, now: Instant) -> bool {
        let begins = self.outage.is_none();
        let outage = self.outage.get_or_insert_with(|| Outage {
            since: now,
            why: String::new(),
            is_final: false,
        });
        why.clone_into(&mut outage.why);
        begins
    }

    fn fail(&mut self, why: &str, now: Instant) {
        self.lost(why, now);
        if let Some(outage) = &mut self.outage {
            outage.is_final = true;
        }
    }
}

impl Reachability {
    fn history(&self) -> MutexGuard<'_, ServerHistory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This one has the disk.
    pub(crate) fn use_server(&self, server: &str) {
        self.history().use_server(server);
    }

    /// The server that is used, or was last; `None` before the first one.
    pub(crate) fn server_use(&self) -> Option<ServerUse> {
        self.history().server_use(engine::clock::now())
    }

    /// The server answers.
    pub(crate) fn connected(&self) {
        let gone = self.history().connected(engine::clock::now());
        if let Some(gone) = gone {
            tracing::info!("connected again after {} s", gone.as_secs());
        }
    }

    /// The server does not answer.
    pub(crate) fn lost(&self, why: &str) {
        let begins = self.history().lost(why, engine::clock::now());
        if begins {
            tracing::warn!("the server is gone: {why}");
        }
    }

    /// The disk is not used any more.
    pub(crate) fn fail(&self, why: &str) {
        self.history().fail(why, engine::clock::now());
    }

    /// Why the disk is not used any more.
    pub(crate) fn failed(&self) -> Option<String> {
        let outage = self.history().outage.clone()?;
        outage.is_final.then_some(outage.why)
    }

    /// How long the server has been gone, and why.
    pub(crate) fn gone(&self) -> Option<(Duration, String)> {
        let outage = self.history().outage.clone()?;
        Some((
            engine::clock::now().duration_since(outage.since),
            outage.why,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_used_again_is_no_change_and_another_one_is() {
        let reachability = Reachability::default();
        assert_eq!(reachability.server_use(), None);
        let changes = ["a", "a", "b", "b", "a"].map(|server| {
            reachability.use_server(server);
            let used = reachability.server_use().expect("a server");
            assert_eq!(used.server, server);
            used.server_changes
        });
        assert_eq!(changes, [0, 0, 1, 1, 2]);
    }

    #[test]
    fn an_outage_counts_once_while_it_lasts_and_after_its_end() {
        let begin = engine::clock::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut history = ServerHistory::default();
        history.use_server("a");
        let unreachable = |history: &ServerHistory, seconds| {
            history
                .server_use(at(seconds))
                .map(|used| used.unreachable_s)
        };
        assert!(history.lost("refused", at(10)));
        assert!(!history.lost("silent", at(12)));
        assert_eq!(unreachable(&history, 15), Some(5));
        assert_eq!(history.connected(at(17)), Some(Duration::from_secs(7)));
        assert_eq!(history.connected(at(18)), None);
        assert_eq!(unreachable(&history, 30), Some(7));
        history.fail("another disk", at(40));
        assert_eq!(unreachable(&history, 43), Some(10));
        let outage = history.outage.expect("it lasts");
        assert!(outage.is_final);
        assert_eq!(outage.why, "another disk");
    }
}
