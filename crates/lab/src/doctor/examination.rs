//! [`Examination`]: everything that was measured of one way. Plain data.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{
    BareWire, Bound, CacheUse, ConnectTimes, Evidence, FlushTimes, ReadaheadTrials, ServedUse,
    Stage,
};
use crate::plan::{Direction, Pattern};
use crate::units::{Bytes, Nanos, Rate};

/// A target that exceeds a bound by more than this has refuted it.
pub(super) const PASSED: f64 = 1.03;
/// Less than this in flight is no remark.
const IN_FLIGHT_SMALL: f64 = 0.05;
/// More than this in flight is no excuse.
const IN_FLIGHT_MAX: f64 = 0.3;

/// The requests to the target, and to everything in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorJob {
    /// Which way the bytes go.
    pub direction: Direction,
    /// Where requests go.
    pub pattern: Pattern,
    /// Bytes of one request.
    pub block_size: Bytes,
    /// Requests at once.
    pub depth: u32,
}

impl DoctorJob {
    /// Bytes in flight.
    #[must_use]
    pub fn in_flight(&self) -> Bytes {
        Bytes(self.block_size.0.saturating_mul(u64::from(self.depth)))
    }
}

/// The path with some of its stages replaced by what costs nothing, or next to nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Substitution {
    /// The parts that were taken out.
    pub replaced: Vec<Stage>,
    /// Parts of which something may have been out, too: they are suspects if the result moved, and are not ruled out if it
    /// did not.
    #[serde(default)]
    pub perhaps: Vec<Stage>,
    /// What was measured: `a null export of ours over loopback`.
    pub by: String,
    /// The throughput then.
    pub rate: Rate,
    /// Whether the parts are known to have been out. If not, only a result that moved says something.
    pub sure: bool,
    /// Where it was measured again, each time right after the target: how many times the target's throughput.
    #[serde(default)]
    pub pairs: Vec<f64>,
    /// Where only more requests at once were tried: how many.
    #[serde(default)]
    pub depth: Option<u32>,
}

impl Substitution {
    /// What was measured with `replaced` known to be out.
    #[must_use]
    pub fn new(replaced: Vec<Stage>, by: impl Into<String>, rate: Rate) -> Self {
        Self {
            replaced,
            perhaps: Vec::new(),
            by: by.into(),
            rate,
            sure: true,
            pairs: Vec::new(),
            depth: None,
        }
    }

    /// What was measured with `depth` requests at once.
    #[must_use]
    pub fn deeper(depth: u32, by: impl Into<String>, rate: Rate) -> Self {
        Self {
            depth: Some(depth),
            ..Self::new(vec![Stage::Queue], by, rate)
        }
    }
}

/// Something seen that points at a part by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sign {
    /// The part.
    pub part: Stage,
    /// What was seen, as a sentence.
    pub text: String,
}

/// A part of which nothing is known, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmeasured {
    /// The part.
    pub part: Stage,
    /// Why, and what would help.
    pub why: String,
}

/// What was measured of one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Examination {
    /// The target as the user wrote it.
    pub target: String,
    /// What it was found to be: `ext4 on /dev/loop0, attached from nbd://nas/media`.
    pub about: String,
    /// The parts that this way has, in order.
    pub way: Vec<Stage>,
    /// The requests.
    pub job: DoctorJob,
    /// Whether each write is flushed before the next one.
    #[serde(default)]
    pub is_flushed: bool,
    /// The throughput: the middle of what was measured.
    pub rate: Rate,
    /// The most of what was measured. What is faster by chance is no help.
    pub best: Rate,
    /// What was in flight, as a part of all that was moved: so much of it may have been on its way before counting began.
    #[serde(default)]
    pub in_flight_part: f64,
    /// What parts carry.
    pub bounds: Vec<Bound>,
    /// What came of replacing parts.
    pub substitutions: Vec<Substitution>,
    /// What points at a part by itself.
    pub signs: Vec<Sign>,
    /// The address of the server's machine, where that is not this one.
    #[serde(default)]
    pub peer: Option<IpAddr>,
    /// Of several servers of the disk, the one that was measured, as a URI.
    #[serde(default)]
    pub server: Option<String>,
    /// The cache file between the target and its disk, where reads reached one.
    #[serde(default)]
    pub cache: Option<CacheUse>,
    /// The agent that observes the server's machine, as the user wrote it.
    #[serde(default)]
    pub agent: Option<String>,
    /// Whether the server is outboard's own, which waits for nothing but its disk.
    #[serde(default)]
    pub is_own_server: bool,
    /// How long connecting to the server took, where that leads over a wire.
    #[serde(default)]
    pub connect: Option<ConnectTimes>,
    /// How long the server took to send the first bytes of a connection meanwhile, where that leads over a wire.
    #[serde(default)]
    pub greeting: Option<Nanos>,
    /// The wire by itself, both ways.
    #[serde(default)]
    pub wire: Option<BareWire>,
    /// What one of our own servers did meanwhile, and for which others.
    #[serde(default)]
    pub served: Option<ServedUse>,
    /// What other readaheads bring, of a job through the page cache.
    #[serde(default)]
    pub readahead: Option<ReadaheadTrials>,
    /// What a flush adds to a write, where the target is written.
    #[serde(default)]
    pub flush: Option<FlushTimes>,
    /// What could not be measured.
    pub unmeasured: Vec<Unmeasured>,
    /// What else a reader must know.
    pub remarks: Vec<String>,
}

impl Examination {
    /// Whether the target was faster than `rate` by more than what was in flight explains.
    #[must_use]
    pub(super) fn has_passed(&self, rate: Rate) -> bool {
        self.rate.0 > rate.0 * (PASSED + self.in_flight_part.clamp(0.0, IN_FLIGHT_MAX))
    }

    /// Of a disk that was measured by itself, other clients of its server leave less to the target.
    pub fn share_disk(&mut self) {
        let Some(served) = self.served.as_ref().filter(|served| !served.has_files) else {
            return;
        };
        for bound in self
            .bounds
            .iter_mut()
            .filter(|bound| bound.part == Stage::Disk)
        {
            if let Evidence::Alone { how } = &mut bound.evidence
                && let Some(left) = served.left_by_others(bound.rate, self.rate)
            {
                let others = served.of_others();
                *how = format!("{how}: {}, of which others take {others}", bound.rate);
                bound.rate = left;
            }
        }
    }

    /// Remarks on a rate of only so many bytes, of which what was in flight at both ends of the time is a large part.
    pub fn remark_in_flight(&mut self, moved: Bytes) {
        if self.in_flight_part <= IN_FLIGHT_SMALL {
            return;
        }
        let percent = self.in_flight_part.min(1.0) * 100.0;
        self.remarks.push(format!(
            "{} were in flight of only {moved} that were moved: rates are as uncertain as {percent:.0} %. More --seconds, or \
             fewer and smaller requests, are more precise.",
            self.job.in_flight()
        ));
    }

    /// Notes that nothing is known of `part`, and why.
    pub fn note_unmeasured(&mut self, part: Stage, why: impl Into<String>) {
        let why = why.into();
        self.unmeasured.push(Unmeasured { part, why });
    }
}
