//! iperf3: what the bare wire carries, to hold a protocol against.
//!
//! On loopback the server is a process of our own for one test; on another machine it has to be
//! running there. The headline is what the receiver got: what a sender pushed into a queue is no
//! throughput.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::files::make_folder;
use super::process::{Printed, Running};
use super::result::{ToolFigure, ToolResult, Unit};
use super::{
    Installed, Invocation, Program, Ran, Start, Tick, ToolDirs, ToolError, ToolKind, Writes,
};
use crate::host::sockets;
use crate::plan::bounds;
use crate::units::{Bytes, Nanos};

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
/// How long a server of another machine may take to listen again after the test before.
const BETWEEN_TESTS: Duration = Duration::from_secs(2);
/// Between two tries of a server that does not listen.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// What a client reports of a server that is between two tests: it closes its listening socket with each test and opens
/// another one, and refuses a second client while the first one's end is on its way.
const NOT_YET: [&str; 2] = ["Connection refused", "busy running a test"];

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

/// A server of our own; ended when dropped.
#[derive(Debug)]
pub struct Iperf3Process {
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

impl Iperf3Process {
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
        let port = sockets::free_port(address);
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
        let listens = || sockets::listens(self.port).then_some(());
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
    let root: Value =
        serde_json::from_slice(text.as_bytes()).map_err(|_| PROGRAM.unreadable("JSON"))?;
    if let Some(error) = root["error"].as_str() {
        return Err(PROGRAM.failed(error.chars().take(300).collect::<String>()));
    }
    let end = &root["end"];
    let received = end["sum_received"]["bits_per_second"].as_f64();
    let received = received.filter(|bits| bits.is_finite() && *bits > 0.0);
    let bits = received.ok_or(PROGRAM.unreadable("rate at the receiver"))?;
    let bytes = end["sum_received"]["bytes"].as_u64();
    let mut figures = vec![ToolFigure::rate("received", bits / 8.0)];
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

/// Runs the client, and again while the server is between two tests, for `retry_for`.
fn run_client(
    command: &Invocation,
    place: &ToolDirs<'_>,
    limit: Duration,
    retry_for: Duration,
    tick: Tick<'_>,
) -> Result<(Printed, Iperf3Output), ToolError> {
    let deadline = engine::clock::now() + retry_for;
    loop {
        let printed = command.run(place, limit, tick);
        let parsed = match printed {
            Ok(printed) => parse(&printed.output).map(|said| (printed, said)),
            Err(error) => Err(own_words(error, place)),
        };
        let is_over = engine::clock::now() >= deadline;
        match parsed {
            Err(error) if is_between_tests(&error) && !is_over => {
                if !tick(engine::clock::now()) {
                    return Err(ToolError::Cancelled);
                }
                std::thread::sleep(RETRY_INTERVAL);
            }
            parsed => return parsed,
        }
    }
}

/// Whether a server that answered so may take the next test in a moment.
fn is_between_tests(error: &ToolError) -> bool {
    match error {
        ToolError::Failed { reason, .. } => NOT_YET.iter().any(|words| reason.contains(words)),
        _ => false,
    }
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

impl ToolKind for Iperf3Options {
    fn program(&self) -> Program {
        PROGRAM
    }

    fn check(&self) -> Result<(), String> {
        bounds::within("streams", self.streams, 1..=STREAMS_MAX)?;
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

    fn usual(&self) -> Nanos {
        Nanos::from_ms(self.runtime_ms)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    /// Both ends, or ours alone where the other one is another machine's. A server of ours gets a port that is
    /// free.
    fn shown(&self, installed: &Installed, _: &ToolDirs<'_>) -> Vec<String> {
        if let Some(host) = &self.host {
            let port = self.port.unwrap_or(PORT);
            return vec![client(self, installed, host, port).shown()];
        }
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        vec![
            server(installed, here, PORT, Tests::One).shown(),
            client(self, installed, &here.to_string(), PORT).shown(),
        ]
    }

    fn run(&self, start: Start<'_>) -> Result<Ran, ToolError> {
        // Neither end has anything to do with the target.
        let ends = ["iperf3-server", "iperf3-client"].map(|name| start.place.work.join(name));
        for end in &ends {
            make_folder(end)?;
        }
        let [server_place, client_place] = ends.each_ref().map(|end| ToolDirs {
            directory: end,
            work: end,
            ..*start.place
        });
        let mut commands = Vec::new();
        let mut own = None;
        let (host, port) = match &self.host {
            Some(host) => (host.clone(), self.port.unwrap_or(PORT)),
            None => {
                let here = Ipv4Addr::LOCALHOST.into();
                let of = start.installed;
                let server = Iperf3Process::start(of, &server_place, here, Tests::One, start.tick)?;
                let port = server.port();
                commands.push(server.shown.clone());
                own = Some(server);
                (Ipv4Addr::LOCALHOST.to_string(), port)
            }
        };
        let command = client(self, start.installed, &host, port);
        commands.push(command.shown());
        let retry_for = match own {
            Some(_) => Duration::ZERO,
            None => BETWEEN_TESTS,
        };
        let ran = run_client(&command, &client_place, start.limit, retry_for, start.tick);
        drop(own);
        let (printed, said) = ran?;
        Ok(Ran {
            result: ToolResult {
                bytes: Some(said.bytes),
                ..start.result(said.figures, printed.elapsed)
            },
            output: printed.output,
            commands,
            findings: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test right after another one failed on a busy machine: the server had closed its listening socket.
    #[test]
    fn a_server_that_does_not_listen_yet_gets_the_test_when_it_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = ToolDirs {
            directory: folder.path(),
            beside: &[],
            work: folder.path(),
            seed: 0,
        };
        // What it prints goes to a file of its name.
        let program = folder.path().join(PROGRAM.name);
        std::os::unix::fs::symlink("/bin/sh", &program).expect("a new name");
        let answer = |count: u32| {
            let script = format!(
                "echo x >> tries; if [ $(wc -l < tries) -lt {count} ]; then \
                 echo '{{\"error\": \"unable to connect to server: Connection refused\"}}'; exit 1; fi; \
                 echo '{{\"end\": {{\"sum_received\": {{\"bytes\": 9, \"bits_per_second\": 8}}}}}}'"
            );
            Invocation::new(&program, ["-c", &script])
        };
        let limit = Duration::from_secs(60);
        let ran = run_client(&answer(3), &place, limit, limit, &mut |_| true);
        assert_eq!(ran.expect("the third try").1.bytes, Bytes(9));
        let tries = std::fs::read_to_string(folder.path().join("tries")).expect("tries");
        assert_eq!(tries.lines().count(), 3);
        // One of our own listens before it is used: it gets one try.
        std::fs::remove_file(folder.path().join("tries")).expect("tries");
        let refused = run_client(&answer(2), &place, limit, Duration::ZERO, &mut |_| true);
        let error = refused.expect_err("one try").to_string();
        assert!(error.contains("refused"), "{error}");
        assert!(!is_between_tests(&PROGRAM.failed("no route to host")));
    }
}
