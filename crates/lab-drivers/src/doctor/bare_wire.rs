//! The wire by itself, both ways: iperf3 between this machine and the server's. A second opinion: what it
//! gets is compared with what the target reached, what the link says and whether packets waited.
//!
//! On the server's machine an agent starts it, if it may; where the server is this machine, we do.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use engine::clock;
use lab::agent::RemoteIperf3;
use lab::doctor::{BareWire, Examination, Stage};
use lab::host::link;
use lab::tools::iperf3::{Iperf3Options, PROGRAM};
use lab::tools::{self, Installed, Tool, ToolError};
use lab::units::Rate;

use super::session::DoctorSession;
use crate::DriverError;

/// One way; iperf3 counts in whole seconds.
const WAY_MAX: Duration = Duration::from_secs(2);
/// The same where there is little time.
const WAY_MIN: Duration = Duration::from_secs(1);
/// What both directions take beyond that: starting, and exchanging results.
const AROUND: Duration = Duration::from_secs(1);
/// An iperf3 that takes this much longer has no peer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at once at most: enough that none of them is the limit.
const STREAMS_MAX: usize = 8;

/// Measures the wire to the server at `peer`, or says why that cannot be done.
pub(super) fn both_ways(
    session: &DoctorSession<'_>,
    e: &mut Examination,
    peer: IpAddr,
) -> Result<(), DriverError> {
    let way = match session.slice() >= WAY_MAX {
        true => WAY_MAX,
        false => WAY_MIN,
    };
    let what = "by itself, both ways";
    if !session.has_time_of(way * 2 + AROUND, e, Stage::Wire, what)? {
        return Ok(());
    }
    let measured = Iperf3Pair::find(session, peer).and_then(|ends| ends.both_ways(session, way));
    match measured {
        Ok(wire) => {
            e.bounds.push(wire.bound(e.job.direction));
            e.wire = Some(wire);
        }
        Err(why) => {
            session.go_on()?;
            e.note_unmeasured(Stage::Wire, format!("{what}: {why}"));
        }
    }
    Ok(())
}

/// The two programs.
struct Iperf3Pair {
    installed: Installed,
    peer: IpAddr,
    /// On the server's machine; our own on this one.
    far: Option<RemoteIperf3>,
}

impl Iperf3Pair {
    fn find(session: &DoctorSession<'_>, peer: IpAddr) -> Result<Self, String> {
        let installed = tools::find(PROGRAM).map_err(|missing| missing.to_string())?;
        let far = match &session.watcher {
            _ if peer.is_loopback() => None,
            Some(watcher) => Some(watcher.iperf3()?),
            None => {
                let why = "iperf3 measures it, where `outboard agent --allow-iperf3` runs on the server and \
                           --agent names it";
                return Err(why.to_owned());
            }
        };
        Ok(Self {
            installed,
            peer,
            far,
        })
    }

    fn both_ways(&self, session: &DoctorSession<'_>, way: Duration) -> Result<BareWire, String> {
        Ok(BareWire {
            by: PROGRAM.name.to_owned(),
            down: self.one_way(session, way, true)?,
            up: self.one_way(session, way, false)?,
            is_loopback: self.peer.is_loopback(),
            link: link(self.peer),
        })
    }

    fn one_way(
        &self,
        session: &DoctorSession<'_>,
        way: Duration,
        reverse: bool,
    ) -> Result<Rate, String> {
        let streams = session.args.connections.clamp(1, STREAMS_MAX);
        let (host, port) = self.far.as_ref().map(RemoteIperf3::place).unzip();
        let test = Tool::Iperf3(Iperf3Options {
            host: host.map(|host: IpAddr| host.to_string()),
            port,
            streams: u32::try_from(streams).unwrap_or(1),
            reverse,
            runtime_ms: u64::try_from(way.as_millis()).unwrap_or(u64::MAX),
        });
        let place = tools::ToolDirs {
            directory: session.folder(),
            beside: &[],
            work: session.folder(),
            seed: 0,
        };
        let limit = clock::now() + way + PATIENCE;
        let mut tick = |now| now < limit && !session.is_cancelled();
        let ran = tools::run(&test, &self.installed, &place, &mut tick);
        let ran = ran.map_err(|error| match error {
            ToolError::Cancelled => {
                let host = host.unwrap_or(Ipv4Addr::LOCALHOST.into());
                format!("iperf3 did not end in time; a firewall on the way to {host}?")
            }
            other => other.to_string(),
        })?;
        let figure = ran.result.headline();
        figure
            .map(|figure| Rate(figure.value))
            .ok_or_else(|| "iperf3 reported no figure".to_owned())
    }
}
