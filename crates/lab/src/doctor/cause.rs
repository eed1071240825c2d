//! [`Cause`]: why a part is the limit, where that is known. Pure.
//!
//! # Invariants
//!
//! * A cause belongs to the only part that a verdict names.
//! * The cause is found in what was measured; its advice names the file, the program or the option to change.
//!
//! # What it does not do
//!
//! It names no part: see [`super::verdict`].

use serde::{Deserialize, Serialize};

use super::server_report::TOGETHER_MAX;
use super::{ClientUse, CpuUse, Examination, Quota, ServedUse, Stage, StoreUse};
use crate::plan::Direction;
use crate::units::Rate;

use super::verdict::NEAR;

/// Waiting for a core that something else has is reported from here on.
pub(super) const CROWDED: f64 = 0.15;
/// A quota that stopped its processes in this part of its periods is the limit.
pub(super) const THROTTLED: f64 = 0.5;
/// So it is where it stopped them at times, in more than this part of its periods, and one thread has had all that it gives:
/// what else runs on the machine takes processor time from what is under a quota, too.
const THROTTLED_AT_TIMES: f64 = 0.1;
/// This part of a quota is all of it.
const USED_UP: f64 = 0.8;

/// Why a part is the limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// One thread computes all the time.
    Computes,
    /// Other programs, or other threads, have the core.
    Starved,
    /// A quota of its cgroup stops it.
    Quota(Quota),
    /// It neither computes nor waits for its disk: a rate limit of its own, or one request at a time.
    WaitsByItself,
    /// Other clients of the same server take a part of the disk.
    OtherClients {
        /// The busiest ones.
        clients: Vec<ClientUse>,
    },
    /// One member of an array or a stripe is slower than the others.
    SlowMember {
        /// Its name.
        name: String,
        /// Whether it is on another machine.
        is_remote: bool,
        /// What the disk would carry if that member were as fast as the next slowest, where it is known.
        without: Option<Rate>,
    },
    /// Requests wait for an object store.
    Store {
        /// What it did meanwhile.
        store: StoreUse,
        /// Which way the bytes go.
        direction: Direction,
    },
}

/// Whether the bytes of other clients may have come from the server's memory: together they are more than the disk carries.
fn is_from_memory(examination: &Examination, served: &ServedUse) -> bool {
    let disk = examination.bounds.iter();
    let disk = disk.filter(|bound| bound.part == Stage::Disk);
    let most = disk.map(|bound| bound.rate.0).fold(0.0, f64::max);
    let together = examination.rate.0 + served.of_others().0;
    served.has_files && together > most * TOGETHER_MAX
}

/// Whether a quota is why a thread that ran for so much of the time did not run longer.
fn is_limit(quota: &Quota, running: f64) -> bool {
    let is_used_up = running >= quota.cores * USED_UP;
    quota.throttled >= THROTTLED || (is_used_up && quota.throttled >= THROTTLED_AT_TIMES)
}

impl Cause {
    /// Why a processor is the limit.
    pub(super) fn of_processor(cpu: &CpuUse) -> Self {
        let is_crowded = cpu.waiting >= CROWDED && cpu.waiting >= cpu.running / 2.0;
        match (&cpu.quota, cpu.nearest_quota()) {
            (Some(quota), _) if is_limit(quota, cpu.running) => Self::Quota(quota.clone()),
            _ if is_crowded => Self::Starved,
            (_, Some(quota)) => Self::Quota(quota.clone()),
            _ => Self::Computes,
        }
    }

    /// Why a disk is the limit, as its server reports it.
    pub(super) fn of_disk(examination: &Examination) -> Option<Self> {
        let served = examination.served.as_ref()?;
        let clients = served.rivals(examination.rate);
        if !clients.is_empty() && !is_from_memory(examination, served) {
            return Some(Self::OtherClients { clients });
        }
        if let Some(slow) = served.slow_member(examination.job.direction) {
            return Some(Self::SlowMember {
                name: slow.name.clone(),
                is_remote: slow.is_remote,
                without: None,
            });
        }
        if let Some(store) = Self::of_store(examination) {
            return Some(store);
        }
        let is_near = |rate: Rate| examination.rate.0 >= rate.0 * NEAR;
        served.stripe_rate().filter(|rate| is_near(*rate))?;
        let (slow, next) = served.slow_disk()?;
        Some(Self::SlowMember {
            name: slow.name.clone(),
            is_remote: false,
            without: Some(Rate(next.0 * served.stripe.len() as f64)),
        })
    }

    /// The store that requests wait for.
    pub(super) fn of_store(examination: &Examination) -> Option<Self> {
        let direction = examination.job.direction;
        let store = examination.served.as_ref()?.busy_store(direction)?;
        Some(Self::Store {
            store: store.clone(),
            direction,
        })
    }

    /// What is there without the cause, of a target of `rate`.
    pub(super) fn without(&self, rate: Rate) -> Option<Rate> {
        match self {
            Self::OtherClients { clients } => {
                let others: f64 = clients.iter().map(|client| client.rate.0).sum();
                Some(Rate(rate.0 + others))
            }
            Self::SlowMember { without, .. } => *without,
            _ => None,
        }
    }

    /// The limit as the object of a sentence, where that is not the part itself.
    pub(super) fn noun(&self) -> Option<String> {
        match self {
            Self::WaitsByItself => {
                Some("the server, which neither computes nor waits for its disk".to_owned())
            }
            Self::OtherClients { clients } => {
                let each = clients.iter();
                let each = each.map(|client| format!("{} ({})", client.name, client.rate));
                let each: Vec<String> = each.collect();
                let subject = match each.len() {
                    1 => "another client",
                    _ => "other clients",
                };
                Some(format!("{subject} of the same disk: {}", each.join(", ")))
            }
            Self::SlowMember {
                name, is_remote, ..
            } => Some(match is_remote {
                true => format!("the remote member {name}"),
                false => format!("the slow member {name}"),
            }),
            Self::Store { store, direction } => Some(store.noun(*direction)),
            Self::Computes | Self::Starved | Self::Quota(_) => None,
        }
    }

    /// What to do about it, at `who`'s end.
    pub(super) fn advice(&self, who: &str) -> Option<String> {
        match self {
            Self::Computes => None,
            Self::Starved => Some(format!(
                "Move what else runs on the core of {who}, or give it a core of its own."
            )),
            Self::Quota(quota) => Some(format!(
                "Raise the quota in {}: it lets {who} have {:.2} cores, and more of them would be used.",
                quota.file, quota.cores
            )),
            Self::WaitsByItself => Some(
                "Look at the server's own settings: a rate limit (nbdkit's rate or delay filter, a throttle), or requests \
                 that it takes one at a time (threads, connections)."
                    .to_owned(),
            ),
            Self::OtherClients { clients } => {
                let names: Vec<&str> = clients.iter().map(|client| client.name.as_str()).collect();
                Some(format!(
                    "Measure while {} has nothing to do, or give each its own disk.",
                    names.join(" and ")
                ))
            }
            Self::SlowMember {
                name, is_remote, ..
            } => Some(match is_remote {
                true => format!(
                    "Look at {name}: its wire and its machine (`outboard doctor` there). Reads leave it alone with \
                     --write-mostly, and writes wait for it as long as it is a member."
                ),
                false => format!("Replace {name} by a disk that is as fast as the others."),
            }),
            Self::Store { store, direction } => Some(store.advice(*direction)),
        }
    }
}
