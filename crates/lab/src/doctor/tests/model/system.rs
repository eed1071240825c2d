//! [`System`]: limiters with rates and latencies, and what the drivers would measure of them.
//!
//! # Invariants
//!
//! * The throughput is the least of what the parts in the path carry and of what is in flight over the latency.
//! * Every measurement scatters, by a generator that a seed determines.
//! * Only what [`Access`] permits is measured, in the way that `lab-drivers` measures it.
//!
//! # What it does not do
//!
//! It knows no verdict: what is true of a system is [`System::limiter`].

use super::super::*;
use crate::units::{BitRate, Nanos, round};

/// No limit: what a part carries that costs nothing, MiB/s.
const FREE: f64 = 4000.0;
/// Requests of the model: 16 of 128 KiB at once, as the doctor's default.
const BLOCK: u64 = 128 << 10;
const DEPTH: u32 = 16;
/// Connects that are timed while the target is measured.
const CONNECTS: usize = 20;

/// A limiter that a system is rigged with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limiter {
    /// The client's thread computes.
    Client,
    /// The link, or a hop behind it.
    Wire,
    /// The server's thread computes.
    Server,
    /// The server's thread waits for a core.
    Starved,
    /// A quota of the server's cgroup.
    Quota,
    /// A rate limit of all of the server, or requests one at a time.
    Waits,
    /// A rate limit of this export of the server.
    ExportWaits,
    /// The disk.
    Disk,
    /// The requests in flight over the latency.
    Queue,
}

impl Limiter {
    pub(super) const ALL: [Self; 9] = [
        Self::Client,
        Self::Wire,
        Self::Server,
        Self::Starved,
        Self::Quota,
        Self::Waits,
        Self::ExportWaits,
        Self::Disk,
        Self::Queue,
    ];

    pub(super) const fn stage(self) -> Stage {
        match self {
            Self::Client => Stage::Client,
            Self::Wire => Stage::Wire,
            Self::Server | Self::Starved | Self::Quota | Self::Waits | Self::ExportWaits => {
                Stage::Server
            }
            Self::Disk => Stage::Disk,
            Self::Queue => Stage::Queue,
        }
    }
}

/// What can be seen of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Access {
    /// The server runs on this machine, with a file as its disk.
    pub(super) is_here: bool,
    /// An agent reports the server's processor and disks.
    pub(super) agent: bool,
    /// It may run iperf3.
    pub(super) iperf3: bool,
    /// The server has an export without data.
    pub(super) null_export: bool,
    /// The server answers from its memory what it has there.
    pub(super) caches: bool,
    /// The link reports its speed.
    pub(super) link: bool,
    /// The server is outboard's own.
    pub(super) is_own: bool,
    /// A filesystem on this machine is above the export.
    pub(super) is_mounted: bool,
}

/// A system and what can be seen of it.
#[derive(Debug, Clone)]
pub(super) struct System {
    /// What the limiters carry, MiB/s, each by itself.
    pub(super) rates: Vec<(Limiter, f64)>,
    pub(super) access: Access,
    /// Standard deviation of a measurement, as a part of it.
    pub(super) noise: f64,
}

/// Which parts a measurement leaves out.
#[derive(Debug, Clone, Copy, Default)]
struct Without {
    behind: bool,
    disk: bool,
    export: bool,
    client: bool,
}

impl System {
    /// The limiter that is the least, and what it carries.
    pub(super) fn limiter(&self) -> (Limiter, f64) {
        let least = self.rates.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        *least.expect("a system has a limiter")
    }

    /// The limiter with as many requests at once as are advised for `times` the throughput. Of limits that are within 5 %,
    /// requests are not named.
    pub(super) fn limiter_with(&self, times: f64) -> (Limiter, f64) {
        let depth = f64::from(DEPTH);
        let more = (depth * times).ceil() / depth * 1.05;
        let mut deeper = self.clone();
        for (limiter, rate) in &mut deeper.rates {
            if *limiter == Limiter::Queue {
                *rate *= more;
            }
        }
        deeper.limiter()
    }

    /// The same system without one limiter.
    pub(super) fn without(&self, limiter: Limiter) -> Self {
        let mut other = self.clone();
        other.rates.retain(|(one, _)| *one != limiter);
        other
    }

    fn rate_of(&self, wanted: Limiter) -> f64 {
        let found = self.rates.iter().find(|(one, _)| *one == wanted);
        found.map_or(FREE, |(_, rate)| *rate)
    }

    /// Throughput, MiB/s, with `depth` requests at once.
    pub(super) fn throughput(&self, depth: u32) -> f64 {
        self.throughput_without(depth, Without::default())
    }

    fn throughput_without(&self, depth: u32, out: Without) -> f64 {
        let is_in = |limiter: Limiter| match limiter {
            Limiter::Client => !out.client,
            Limiter::Disk => !out.disk && !out.behind,
            Limiter::ExportWaits => !out.export && !out.behind,
            Limiter::Queue => false,
            _ => !out.behind,
        };
        let rates = self.rates.iter().filter(|(one, _)| is_in(*one));
        let least = rates.map(|(_, rate)| *rate).fold(FREE, f64::min);
        // The latency is in the wire and behind it.
        let waits = match out.behind {
            true => FREE,
            false => self.rate_of(Limiter::Queue) * f64::from(depth) / f64::from(DEPTH),
        };
        least.min(waits)
    }

    /// What the drivers would measure.
    pub(super) fn examine(&self, seed: u64) -> Examination {
        let mut scatter = Scatter::new(seed, self.noise);
        let mut e = way(&self.stages(), 0.0);
        e.job.block_size = Bytes(BLOCK);
        e.job.depth = DEPTH;
        e.is_own_server = self.access.is_own;
        let mut measured: Vec<f64> = (0..3).map(|_| scatter.of(self.throughput(DEPTH))).collect();
        measured.sort_by(f64::total_cmp);
        (e.rate, e.best) = (rate(measured[1]), rate(measured[2]));
        self.queue(&mut e, &mut scatter);
        self.substitutes(&mut e, &mut scatter);
        self.wire(&mut e, &mut scatter);
        self.processors(&mut e, &mut scatter);
        if self.access.is_here {
            let disk = scatter.of(self.rate_of(Limiter::Disk));
            e.bounds.push(alone(Stage::Disk, disk));
        }
        e.bounds.push(alone(Stage::Generator, FREE * 10.0));
        self.greeting(&mut e, &mut scatter);
        e
    }

    fn stages(&self) -> Vec<Stage> {
        vec![
            Stage::Generator,
            Stage::Queue,
            Stage::Client,
            Stage::Protocol,
            Stage::Wire,
            Stage::Server,
            Stage::Disk,
        ]
    }

    fn queue(&self, e: &mut Examination, scatter: &mut Scatter) {
        let one = rate(scatter.of(self.throughput(1)));
        let latency = Nanos::of_transfer(e.job.block_size, one);
        e.bounds
            .extend(Bound::in_flight(e.job.in_flight(), latency));
        if !queue_may_limit(e) {
            return;
        }
        self.substitute(e, scatter, &[Stage::Queue], true, |system| {
            system.throughput(DEPTH * 4)
        });
        if let Some(sub) = e.substitutions.last_mut() {
            sub.depth = Some(DEPTH * 4);
        }
    }

    fn substitutes(&self, e: &mut Examination, scatter: &mut Scatter) {
        let access = self.access;
        let client = match access.is_mounted {
            true => &[Stage::Client][..],
            false => &[],
        };
        let with_client = |parts: &[Stage]| [client, parts].concat();
        let out = Without {
            client: access.is_mounted,
            ..Without::default()
        };
        if access.is_mounted {
            self.substitute(e, scatter, client, true, |system| {
                system.throughput_without(DEPTH, out)
            });
        }
        let ours = Without {
            behind: true,
            ..out
        };
        let behind = with_client(&[Stage::Wire, Stage::Server, Stage::Disk]);
        self.substitute(e, scatter, &behind, true, |system| {
            system.throughput_without(DEPTH, ours)
        });
        let carried = e.substitutions.last().expect("it was added").rate;
        e.bounds
            .push(Bound::at_least(Stage::Protocol, carried, "a null export"));
        if access.is_here {
            e.bounds
                .push(Bound::at_least(Stage::Wire, carried, "a null export"));
        }
        let warm = Without {
            disk: access.caches,
            ..out
        };
        let disk = with_client(&[Stage::Disk]);
        let is_sure = access.is_here && access.caches;
        self.substitute(e, scatter, &disk, is_sure, |system| {
            system.throughput_without(DEPTH, warm)
        });
        if access.null_export {
            let null = Without {
                disk: true,
                export: true,
                ..out
            };
            self.substitute(e, scatter, &disk, true, |system| {
                system.throughput_without(DEPTH, null)
            });
            // A limit of the export is out with it.
            if !access.is_own
                && let Some(sub) = e.substitutions.last_mut()
            {
                sub.perhaps = vec![Stage::Server];
            }
        }
    }

    /// A substitute, and pairs where one measurement does not decide.
    fn substitute(
        &self,
        e: &mut Examination,
        scatter: &mut Scatter,
        parts: &[Stage],
        sure: bool,
        throughput: impl Fn(&Self) -> f64,
    ) {
        let carries = throughput(self);
        let mut sub = Substitution {
            sure,
            ..without(parts, scatter.of(carries))
        };
        if needs_pairs(e, &sub) {
            let target = self.throughput(DEPTH);
            let mut pair = || scatter.of(carries) / scatter.of(target);
            sub.pairs = (0..PAIRS_MIN).map(|_| pair()).collect();
            if needs_more_pairs(&sub) {
                sub.pairs.extend((PAIRS_MIN..PAIRS_MAX).map(|_| pair()));
            }
        }
        e.substitutions.push(sub);
    }

    fn wire(&self, e: &mut Examination, scatter: &mut Scatter) {
        if self.access.is_here {
            return;
        }
        let carries = self.rate_of(Limiter::Wire);
        if self.access.link {
            let bits = BitRate::from_mbit(round(carries * 1.0625 * MIB as f64 * 8.0 / 1e6));
            e.bounds.push(Bound::link("eth0".into(), bits));
        }
        if self.access.iperf3 {
            let wire = BareWire {
                by: "iperf3".into(),
                down: rate(scatter.of(carries)),
                up: rate(scatter.of(carries)),
                is_loopback: false,
                link: None,
            };
            e.bounds.push(wire.bound(e.job.direction));
            e.wire = Some(wire);
        }
        let reply = Nanos::of_transfer(e.job.block_size, rate(carries)).0 as f64;
        let load = self.throughput(DEPTH) / carries;
        let idle = 200_000.0;
        let loaded = (0..CONNECTS).map(|_| {
            let wait = match load > 0.99 {
                true => reply * (1.5 + 3.0 * scatter.uniform()),
                false if scatter.uniform() < load => reply * scatter.uniform(),
                false => 0.0,
            };
            Nanos(round(scatter.of(idle + wait)))
        });
        e.connect = ConnectTimes::new(vec![Nanos(200_000); 5], loaded.collect());
        e.peer = Some(std::net::Ipv4Addr::new(192, 0, 2, 7).into());
    }

    /// A server that gets no processor greets late. One that computes has other threads.
    fn greeting(&self, e: &mut Examination, scatter: &mut Scatter) {
        if self.access.is_here {
            return;
        }
        let target = self.throughput(DEPTH);
        let waiting = [Limiter::Starved, Limiter::Quota];
        let load = waiting.map(|limiter| target / self.rate_of(limiter));
        let load = load.into_iter().fold(0.0, f64::max);
        let wire = self.rate_of(Limiter::Wire);
        let reply = Nanos::of_transfer(e.job.block_size, rate(wire)).0 as f64;
        let idle = 250_000.0;
        let loaded = (0..CONNECTS).map(|_| {
            let wait = match scatter.uniform() {
                _ if target > wire * 0.99 => reply * (1.5 + 3.0 * scatter.uniform()),
                part if part < load.powi(4) => 1e6 + 40e6 * scatter.uniform(),
                part if part < target / wire / 2.0 => reply * scatter.uniform(),
                _ => 0.0,
            };
            Nanos(round(scatter.of(idle + wait)))
        });
        e.greeting = Nanos::middle(loaded.collect());
    }

    fn processors(&self, e: &mut Examination, scatter: &mut Scatter) {
        let target = self.throughput(DEPTH);
        let client = (target / self.rate_of(Limiter::Client)).min(1.0);
        let busy = cpu(client * scatter.of(0.97), 0.0, None);
        e.bounds.extend(Bound::busy(Stage::Client, e.rate, busy));
        let access = self.access;
        if !access.is_here && !access.agent {
            e.note_unmeasured(Stage::Server, "no agent");
            e.note_unmeasured(Stage::Disk, "no agent");
            return;
        }
        let computes = target / self.rate_of(Limiter::Server) * scatter.of(0.97);
        let waits = target / self.rate_of(Limiter::Starved) * scatter.of(0.97);
        let quota = self.rate_of(Limiter::Quota);
        let running = computes.max(waits * 0.3).max(target / quota * 0.2).min(1.0);
        let busy = CpuUse {
            waiting: (waits * 0.7).min(1.0),
            quota: (quota < FREE).then(|| Quota {
                file: "/sys/fs/cgroup/nbd/cpu.max".into(),
                cores: 0.2,
                throttled: if target > quota * 0.99 { 0.98 } else { 0.0 },
            }),
            ..cpu(running, 0.0, None)
        };
        e.bounds.extend(Bound::busy(Stage::Server, e.rate, busy));
        if access.agent {
            let busy = (target / self.rate_of(Limiter::Disk) * scatter.of(0.98)).min(1.0);
            e.bounds
                .push(Bound::device_busy(e.rate, "sda".into(), busy));
        }
    }
}

/// Measurements that scatter. The generator is splitmix64 (Vigna).
#[derive(Debug)]
struct Scatter {
    state: u64,
    noise: f64,
}

impl Scatter {
    fn new(seed: u64, noise: f64) -> Self {
        Self { state: seed, noise }
    }

    /// Between 0 and 1.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A measurement of `value`: the sum of twelve uniform numbers is as good as normal.
    fn of(&mut self, value: f64) -> f64 {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        value * (normal * self.noise).exp()
    }
}
