//! [`Pace`]: how long requests of a world's disks are on their way, drawn from its seed.
//!
//! Crash disks answer within a few polls, so that two members are never far apart. Disks of half of all worlds are
//! uneven: now and then a request takes many polls, or a time in which everything else comes to its end.
//!
//! # What it does not do
//!
//! Nothing takes so long that a member counts as silent: wires that hang do.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::clock;
use testkit::moments;

/// Polls of a request that takes many, at most.
const POLLS_MAX: u8 = 60;
/// Milliseconds of one that takes time, at most.
const MILLIS_MAX: u64 = 20;

/// How long requests are on their way.
#[derive(Debug)]
pub(super) struct Pace(Option<Mutex<fastrand::Rng>>);

impl Pace {
    /// That of the disks of a world; even in half of them.
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(!seed);
        Self(rng.bool().then(|| Mutex::new(rng)))
    }

    /// A request is on its way.
    pub(super) async fn wait(&self) {
        let Some(rng) = &self.0 else { return };
        let (kind, polls, millis) = {
            let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
            (rng.u8(0..32), rng.u8(0..POLLS_MAX), rng.u64(0..MILLIS_MAX))
        };
        match kind {
            0..3 => moments(polls).await,
            3 => clock::sleep(Duration::from_millis(millis)).await,
            _ => {}
        }
    }
}
