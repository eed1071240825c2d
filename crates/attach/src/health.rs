//! Health: whether the disk behind an attachment can be reached, as `status` shows it.

use std::sync::Mutex;
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
pub(crate) struct Reachability {
    outage: Mutex<Option<Outage>>,
    history: Mutex<ServerHistory>,
}

#[derive(Debug, Default)]
struct ServerHistory {
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

impl Reachability {
    /// This one has the disk.
    pub(crate) fn use_server(&self, server: &str) {
        if let Ok(mut history) = self.history.lock()
            && history.server.as_deref() != Some(server)
        {
            history.changes += u64::from(history.server.is_some());
            history.server = Some(server.to_owned());
        }
    }

    /// The server that is used, or was last; `None` before the first one.
    pub(crate) fn server_use(&self) -> Option<ServerUse> {
        let outage = self.gone().map(|(gone, _)| gone);
        let history = self.history.lock().ok()?;
        let unreachable = history.outages_ended + outage.unwrap_or_default();
        Some(ServerUse {
            server: history.server.clone()?,
            server_changes: history.changes,
            unreachable_s: unreachable.as_secs(),
        })
    }

    /// The server answers.
    pub(crate) fn connected(&self) {
        if let Ok(mut lost) = self.outage.lock()
            && let Some(was) = lost.take()
        {
            let gone = engine::clock::now().duration_since(was.since);
            if let Ok(mut history) = self.history.lock() {
                history.outages_ended += gone;
            }
            tracing::info!("connected again after {} s", gone.as_secs());
        }
    }

    /// The server does not answer.
    pub(crate) fn lost(&self, why: &str) {
        let Ok(mut lost) = self.outage.lock() else {
            return;
        };
        match lost.as_mut() {
            Some(lost) => why.clone_into(&mut lost.why),
            None => {
                tracing::warn!("the server is gone: {why}");
                *lost = Some(Outage {
                    since: engine::clock::now(),
                    why: why.to_owned(),
                    is_final: false,
                });
            }
        }
    }

    /// The disk is not used any more.
    pub(crate) fn fail(&self, why: &str) {
        if let Ok(mut lost) = self.outage.lock() {
            let since = lost
                .as_ref()
                .map_or_else(engine::clock::now, |lost| lost.since);
            *lost = Some(Outage {
                since,
                why: why.to_owned(),
                is_final: true,
            });
        }
    }

    /// Why the disk is not used any more.
    pub(crate) fn failed(&self) -> Option<String> {
        let lost = self.outage.lock().ok()?.clone()?;
        lost.is_final.then_some(lost.why)
    }

    /// How long the server has been gone, and why.
    pub(crate) fn gone(&self) -> Option<(Duration, String)> {
        let lost = self.outage.lock().ok()?.clone()?;
        Some((engine::clock::now().duration_since(lost.since), lost.why))
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
}
