//! [`BareWire`]: what the wire carries by itself, both ways, and what of that does not fit the rest. Pure.
//!
//! What goes over a wire can be known four ways: what its link says of itself, what the target reached,
//! whether packets wait in front of it, and what another program gets over it. No two of them are measured
//! both, so where they disagree one of them is wrong, and the report names both.

use serde::{Deserialize, Serialize};

use super::examination::PASSED;
use super::verdict::NEAR;
use super::{Bound, ConnectTimes, Examination, Stage};
use crate::plan::Direction;
use crate::units::{BitRate, Rate};

/// What a program that does nothing else got over the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BareWire {
    /// The program: `iperf3`.
    pub by: String,
    /// From the server to here.
    pub down: Rate,
    /// From here to the server.
    pub up: Rate,
    /// Both ends are this machine, so that its processor is the end and not a wire.
    pub is_loopback: bool,
    /// The interface that leads there and what it says of its speed, if it does.
    pub link: Option<(String, BitRate)>,
}

impl BareWire {
    /// The direction of the job's bytes.
    #[must_use]
    pub const fn rate(&self, direction: Direction) -> Rate {
        match direction {
            Direction::Read => self.down,
            Direction::Write => self.up,
        }
    }

    /// What the wire carries for a job of this direction.
    #[must_use]
    pub fn bound(&self, direction: Direction) -> Bound {
        let (there, back) = match direction {
            Direction::Read => ("from the server to here", self.up),
            Direction::Write => ("to the server", self.down),
        };
        let how = format!("{} {there}; {back} the other way", self.by);
        match self.is_loopback {
            true => Bound::at_least(Stage::Wire, self.rate(direction), how),
            false => Bound::alone(Stage::Wire, self.rate(direction), how),
        }
    }
}

/// What was seen of the wire and does not fit together, one sentence each.
#[must_use]
pub(super) fn contradictions(examination: &Examination) -> Vec<String> {
    let Some(wire) = &examination.wire else {
        return Vec::new();
    };
    if wire.is_loopback {
        return Vec::new();
    }
    let lines = [
        against_target(examination, wire),
        against_queue(examination, wire),
        against_link(wire),
    ];
    lines.into_iter().flatten().collect()
}

/// The target cannot have got more than the wire carries.
fn against_target(examination: &Examination, wire: &BareWire) -> Option<String> {
    let (target, alone) = (examination.rate, wire.rate(examination.job.direction));
    examination.has_passed(alone).then(|| {
        format!(
            "{} got {alone} over the wire, and the target {target}: {} was held by something else than \
             the wire, or the wire is not steady.",
            wire.by, wire.by
        )
    })
}

/// A wire that is full carries what it can.
fn against_queue(examination: &Examination, wire: &BareWire) -> Option<String> {
    let (target, alone) = (examination.rate, wire.rate(examination.job.direction));
    (is_full(examination) && has_room(examination)).then(|| {
        format!(
            "Packets waited in front of the wire while the target got {target}, and {} got {alone} over \
             it a moment later: something else may have used the wire meanwhile, or the way back was full.",
            wire.by
        )
    })
}

/// Whether packets were seen to wait in front of the wire all the time.
pub(super) fn is_full(examination: &Examination) -> bool {
    let signs = &examination.signs;
    let is_seen = signs.iter().any(|sign| sign.part == Stage::Wire);
    let connect = examination.connect.as_ref();
    is_seen || connect.is_some_and(|times| times.is_full(&examination.job, examination.rate))
}

/// Whether the wire by itself carried more than the target.
pub(super) fn has_room(examination: &Examination) -> bool {
    let wire = examination.wire.as_ref();
    wire.is_some_and(|wire| {
        let alone = wire.rate(examination.job.direction);
        !wire.is_loopback && examination.rate.0 < alone.0 * NEAR
    })
}

/// Whether packets were seen to find the wire's queue empty much of the time. The first bytes of a connection go the way of
/// what is read, through the queue that is there after the connect.
pub(super) fn has_empty_queue(examination: &Examination) -> bool {
    let is_read = examination.job.direction == Direction::Read;
    let greeting = examination.greeting.filter(|_| is_read);
    examination.connect.is_some_and(|times| {
        let loaded = greeting.map_or(times.loaded, |greeting| greeting.min(times.loaded));
        let fastest = ConnectTimes { loaded, ..times };
        fastest.is_clear(&examination.job, examination.rate)
    })
}

/// Whether the target is below a part of what the wire carries, and nothing waits in front of it.
pub(super) fn is_clear(examination: &Examination, below: f64) -> bool {
    has_empty_queue(examination)
        && least(examination).is_some_and(|least| examination.rate.0 < least.0 * below)
}

/// The least that is known of what the wire carries.
fn least(examination: &Examination) -> Option<Rate> {
    let bounds = examination.bounds.iter();
    let bounds = bounds.filter(|bound| bound.part == Stage::Wire && bound.is_an_end());
    let rates = bounds.map(|bound| bound.rate);
    rates.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// A link is as fast as it says, unless something on the path is slower.
fn against_link(wire: &BareWire) -> Option<String> {
    let (interface, speed) = wire.link.as_ref()?;
    let goodput = speed.tcp_goodput();
    let best = Rate(wire.down.0.max(wire.up.0));
    if best.0 > goodput.0 * PASSED {
        return Some(format!(
            "{} got {best}, more than the {speed} that {interface} says it is: its word is no bound.",
            wire.by
        ));
    }
    (best.0 < goodput.0 * NEAR).then(|| {
        format!(
            "{interface} says it is a link of {speed}, and {} got {best} over it at most: something on \
             the way is slower, or one of the two machines is.",
            wire.by
        )
    })
}
