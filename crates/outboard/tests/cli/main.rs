//! Tests of the binary as a user meets it: what it prints, how it exits, what it leaves.

mod agent;
mod arrays;
mod attach;
#[cfg(feature = "bucket")]
mod bucket;
mod config;
mod contents;
mod copy;
mod copy_resume;
mod create;
mod disk;
mod export_changes;
mod graph;
mod help;
mod inspect;
mod lab;
mod lab_bad_input;
mod lab_ceiling;
mod lab_exports;
mod lab_permissions;
mod lab_places;
mod lab_plans;
mod lab_runs;
mod lab_stop;
mod lab_stores;
mod netboot;
mod per_client;
mod qemu_bitmaps;
mod rbd;
mod serve;
mod service_manager;
mod sockets;
mod usage;
mod volumes;
mod writers;

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::proc::Process;

/// The binary, in a folder of its own, without this process's settings.
fn outboard(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboard"));
    command.args(arguments).current_dir(folder);
    command.env("OUTBOARD_RUNTIME_DIR", folder.join("run"));
    command.env("XDG_DATA_HOME", folder.join("data"));
    for setting in [
        "RUST_LOG",
        "LISTEN_FDS",
        "LISTEN_PID",
        "WATCHDOG_USEC",
        "WATCHDOG_PID",
    ] {
        command.env_remove(setting);
    }
    command
}

/// Runs it to its end.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    outboard(folder, arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
}

/// The exit status and the last message of a run that fails, and that it printed no answer.
fn failure(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(folder, arguments);
    let stderr = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{stderr}");
    let from = stderr.find("outboard: ");
    let from = from.unwrap_or_else(|| panic!("no message in {stderr:?}"));
    (output.status.code(), stderr[from..].trim_end().to_owned())
}

/// The answer of a run that succeeds.
fn answer(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).expect("answers are UTF-8")
}

/// When another program counts as stuck.
const LIMIT: Duration = Duration::from_secs(180);

/// Between two looks.
const POLL: Duration = Duration::from_millis(20);

/// Another server, which listens on the socket `s` in the folder.
fn peer(folder: &Path, program: &str, arguments: &[&str]) -> Process {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    let mut process = Process::start(&mut command).expect("it starts");
    let listens = process.wait_for_socket(&folder.join("s"), LIMIT);
    listens.unwrap_or_else(|error| panic!("{error}"));
    process
}

/// Where the metrics of a server are, by its status.
fn metrics_address(server: &serde_json::Value) -> &str {
    let url = server["metrics"].as_str().expect("an address");
    let address = url.strip_prefix("http://");
    let address = address.and_then(|at| at.strip_suffix("/metrics"));
    address.expect("a place")
}

/// The metrics of a server in Prometheus' text format.
fn scrape(address: &str) -> String {
    let mut stream = within_a_minute(|| TcpStream::connect(address).ok());
    let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(request).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

/// A running `outboard serve`, ended with the test.
struct Server {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Server {
    /// Starts it and waits for its first line.
    fn start(mut command: Command) -> (Self, String) {
        let mut server = Self::start_quiet(command.stdin(Stdio::null()));
        let line = server.line();
        (server, line)
    }

    /// The same; what it logs goes to a file.
    fn start_logged(mut command: Command, log: &Path) -> (Self, String) {
        let log = std::fs::File::create(log).expect("a new file");
        let mut server = Self::start_with(command.stdin(Stdio::null()), log.into());
        let line = server.line();
        (server, line)
    }

    /// Starts it.
    fn start_quiet(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::null())
    }

    fn start_with(command: &mut Command, log: Stdio) -> Self {
        let spawned = command.stdout(Stdio::piped()).stderr(log).spawn();
        let mut child = spawned.expect("the binary runs");
        let stdout = child.stdout.take().expect("it is piped");
        let lines = BufReader::new(stdout);
        Self { child, lines }
    }

    /// The next line of its answer; empty at the end.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("answers are UTF-8");
        line.trim_end().to_owned()
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("ids are small");
        let pid = Pid::from_raw(id).expect("no process has the id 0");
        kill_process(pid, signal).expect("it runs");
    }

    /// Its exit status, which must come within a minute.
    fn ended(&mut self) -> ExitStatus {
        within_a_minute(|| self.child.try_wait().expect("it is ours"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended by itself in a test that passes.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Polls until there is an answer. Flushes take long on a busy machine.
fn within_a_minute<T>(ask: impl FnMut() -> Option<T>) -> T {
    within(LIMIT, ask)
}

/// Polls until there is an answer, for `limit` or a little longer.
fn within<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..limit.as_millis() / POLL.as_millis() {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(POLL);
    }
    panic!("nothing within {limit:?}");
}
