//! iperf3: what the bare wire carries, to hold a protocol against.
//!
//! On loopback the server is a process of our own for one test; on another machine it has to be
//! running there. The headline is what the receiver got: what a sender pushed into a queue is no
//! throughput.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::process::Running;
use super::result::{ToolFigure, ToolResult, Unit};
use super::{Installed, Invocation, Program, Ran, Start, Tick, ToolDirs, ToolError};
use crate::host::listeners;
use crate::units::Bytes;

/// What has to be installed.
pub const PROGRAM: Program = Program {
    name: "iperf3",
    package: "iperf3",
    version_args: &["--version"],
};
/// The most streams of one test, which is iperf3's own limit.
pub const STREAMS_MAX: u32 = 128;
/// The default port of a server.
const PORT: u16 = 5201;
/// How long our own server may take to listen.
const START: Duration = Duration::from_secs(5);

/// Its options, as a plan has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Iperf3Options {
    /// Where a server runs; our own on loopback when there is none.
    #[serde(default)]
    pub host: Option<String>,
    /// Where it listens there.
    #[serde(default)]
    pub port: Option<u16>,
    /// TCP connections at once.
    #[serde(default = "one")]
    pub streams: u32,
    /// From the server to here, else the other way.
    #[serde(default)]
    pub reverse: bool,
    /// How long; whole seconds.
    pub runtime_ms: u64,
}

const fn one() -> u32 {
    1
}

impl Iperf3Options {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.streams == 0 || self.streams > STREAMS_MAX {
            return Err(format!(
                "streams is {}, it must be 1 to {STREAMS_MAX}",
                self.streams
            ));
        }
        // A word that begins with a dash would be an option.
        let bad = |host: &str| host.is_empty() || host.starts_with('-') || host.contains(' ');
        if let Some(host) = self.host.as_deref().filter(|host| bad(host)) {
            return Err(format!("{host:?} is no host"));
        }
        if self.port.is_some() && self.host.is_none() {
            return Err("a port is that of a host: give the host too".into());
        }
        PROGRAM.whole_seconds(self.runtime_ms)
    }
}

/// A server of our own; ended when dropped.
#[derive(Debug)]
pub struct Server {
    running: Running,
    port: u16,
    shown: String,
}

/// For how many tests a server is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tests {
    /// It ends behind the first.
    One,
    /// One after the other.
    Any,
}

impl Server {
    /// Starts one at `address`, on a free port, and waits until it listens.
    ///
    /// # Errors
    /// [`ToolError`]; nothing is left running then.
    pub fn start(
        installed: &Installed,
        place: &ToolDirs<'_>,
        address: IpAddr,
        tests: Tests,
        tick: Tick<'_>,
    ) -> Result<Self, ToolError> {
        let port = listeners::free_port(address);
        let port = port.map_err(|error| ToolError::system("find a free port", error))?;
        let command = server(installed, address, port, tests);
        let server = Self {
            running: command.start(place)?,
            port,
            shown: command.shown(),
        };
        server.wait_until_it_listens(tick)?;
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.running.has_ended()
    }

    /// Asking the server itself would be a test.
    fn wait_until_it_listens(&self, tick: Tick<'_>) -> Result<(), ToolError> {
        let listens = || listeners::listens(self.port).then_some(());
        let found = self.running.wait_until(START, tick, listens)?;
        found.ok_or_else(|| {
            let said = self.running.last_line();
            PROGRAM.failed(said.unwrap_or_else(|| "its server does not listen".into()))
        })
    }
}

/// The server's command.
fn server(installed: &Installed, address: IpAddr, port: u16, tests: Tests) -> Invocation {
    let words = [address.to_string(), port.to_string()];
    let mut args = vec!["-s", "-B", &words[0], "-p", &words[1]];
    args.extend((tests == Tests::One).then_some("-1"));
    Invocation::new(&installed.program, args)
}

/// The client's command.
#[must_use]
pub fn client(options: &Iperf3Options, installed: &Installed, host: &str, port: u16) -> Invocation {
    let words = [port.into(), options.streams, seconds(options)].map(|number| number.to_string());
    let [port, streams, seconds] = words.each_ref().map(String::as_str);
    let mut args = vec![
        "-c", host, "-p", port, "-P", streams, "-t", seconds, "--json",
    ];
    if options.reverse {
        args.push("-R");
    }
    Invocation::new(&installed.program, args)
}

fn seconds(options: &Iperf3Options) -> u32 {
    u32::try_from(options.runtime_ms / 1000).unwrap_or(u32::MAX)
}

/// The output of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct Iperf3Output {
    /// The headline is what was received.
    pub figures: Vec<ToolFigure>,
    /// Bytes received.
    pub bytes: Bytes,
}

/// The figures in its JSON.
///
/// # Errors
/// Its own words when the test failed (it ends as if all were well), or that there are none.
pub fn parse(text: &str) -> Result<Iperf3Output, ToolError> {
    let root: Value = serde_json::from_str(text).map_err(|_| PROGRAM.unreadable("JSON"))?;
    if let Some(error) = root["error"].as_str() {
        return Err(PROGRAM.failed(error.chars().take(300).collect::<String>()));
    }
    let end = &root["end"];
    let received = end["sum_received"]["bits_per_second"].as_f64();
    let received = received.filter(|bits| bits.is_finite() && *bits > 0.0);
    let bits = received.ok_or(PROGRAM.unreadable("rate at the receiver"))?;
    let bytes = end["sum_received"]["bytes"].as_u64();
    let mut figures = vec![ToolFigure::higher(
        "received",
        bits / 8.0,
        Unit::BytesPerSecond,
    )];
    figures.extend(
        end["sum_sent"]["retransmits"]
            .as_f64()
            .map(|count| ToolFigure::lower("retransmits", count, Unit::Count)),
    );
    for (name, key) in [("CPU here", "host_total"), ("CPU there", "remote_total")] {
        let percent = end["cpu_utilization_percent"][key].as_f64();
        figures.extend(percent.map(|percent| ToolFigure::lower(name, percent / 100.0, Unit::Part)));
    }
    Ok(Iperf3Output {
        figures,
        bytes: Bytes(bytes.ok_or(PROGRAM.unreadable("bytes at the receiver"))?),
    })
}

/// Both ends, or ours alone where the other one is another machine's. A server of ours gets a port that is
/// free.
pub(super) fn shown(options: &Iperf3Options, installed: &Installed) -> Vec<String> {
    if let Some(host) = &options.host {
        let port = options.port.unwrap_or(PORT);
        return vec![client(options, installed, host, port).shown()];
    }
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    vec![
        server(installed, here, PORT, Tests::One).shown(),
        client(options, installed, &here.to_string(), PORT).shown(),
    ]
}

pub(super) fn run(options: &Iperf3Options, start: Start<'_>) -> Result<Ran, ToolError> {
    // Neither end has anything to do with the target.
    let ends = ["iperf3-server", "iperf3-client"].map(|name| start.place.work.join(name));
    for end in &ends {
        std::fs::create_dir_all(end)
            .map_err(|error| ToolError::system(format!("make {}", end.display()), error))?;
    }
    let [server_place, client_place] = ends.each_ref().map(|end| ToolDirs {
        directory: end,
        work: end,
        ..*start.place
    });
    let mut commands = Vec::new();
    let mut own = None;
    let (host, port) = match &options.host {
        Some(host) => (host.clone(), options.port.unwrap_or(PORT)),
        None => {
            let here = Ipv4Addr::LOCALHOST.into();
            let of = start.installed;
            let server = Server::start(of, &server_place, here, Tests::One, start.tick)?;
            let port = server.port();
            commands.push(server.shown.clone());
            own = Some(server);
            (Ipv4Addr::LOCALHOST.to_string(), port)
        }
    };
    let command = client(options, start.installed, &host, port);
    commands.push(command.shown());
    let ran = command.run(&client_place, start.limit, start.tick);
    drop(own);
    let printed = ran.map_err(|error| own_words(error, &client_place))?;
    let said = parse(&printed.output)?;
    Ok(Ran {
        result: ToolResult {
            bytes: Some(said.bytes),
            ..start.result(PROGRAM.name, said.figures, printed.elapsed)
        },
        output: printed.output,
        commands,
        findings: Vec::new(),
    })
}

/// What it says in its JSON when it fails, which is more than the last line of it.
fn own_words(error: ToolError, place: &ToolDirs<'_>) -> ToolError {
    let ToolError::Failed { .. } = &error else {
        return error;
    };
    let said = std::fs::read_to_string(place.work.join("iperf3.output")).unwrap_or_default();
    match parse(&said) {
        Err(told @ ToolError::Failed { .. }) => told,
        _ => error,
    }
}
