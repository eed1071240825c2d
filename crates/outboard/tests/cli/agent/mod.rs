//! `agent`: its reports, its access rules, what it refuses, how it ends.

mod fio_there;
mod runs;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::requires;

use super::{Server, answer, failure, outboard, within_a_minute};

/// A running agent.
struct Agent {
    server: Server,
    port: u16,
    token: String,
}

impl Agent {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let mut all = vec!["agent", "--listen", "127.0.0.1:0", "--json"];
        all.extend(more);
        let (server, line) = Server::start(outboard(folder, &all));
        let told: Value = serde_json::from_str(&line).expect("JSON");
        let port = told["port"].as_u64().expect("a port");
        Self {
            server,
            port: port.try_into().expect("a port"),
            token: told["token"].as_str().unwrap_or_default().to_owned(),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).expect("a time limit");
        stream
    }

    /// The whole answer to some bytes, until it hangs up.
    fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // It may have heard enough before all of it was sent.
        drop(stream.write_all(bytes));
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all));
        String::from_utf8_lossy(&all).into_owned()
    }

    /// Status and body of a request with the token.
    fn ask(&self, method: &str, path: &str) -> (u16, String) {
        self.ask_with(
            method,
            path,
            &format!("Authorization: Bearer {}\r\n", self.token),
        )
    }

    fn ask_with(&self, method: &str, path: &str, fields: &str) -> (u16, String) {
        let said = self.say(format!("{method} {path} HTTP/1.0\r\n{fields}\r\n").as_bytes());
        let (head, body) = said.split_once("\r\n\r\n").unwrap_or((&said, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        (status.unwrap_or(0), body.to_owned())
    }

    fn json(&self, method: &str, path: &str) -> Value {
        let (status, body) = self.ask(method, path);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The lab's test plan with a test of so many milliseconds.
fn plan(folder: &Path, runtime_ms: u32) {
    let text =
        crate::lab::plan().replace("runtime_ms = 300", &format!("runtime_ms = {runtime_ms}"));
    std::fs::write(folder.join("p.toml"), text).expect("a plan");
}

/// The arguments of a run of that plan on `directory` with the agent at `place`.
fn run_with<'a>(place: &'a str, directory: &'a str) -> Vec<&'a str> {
    let run = ["lab", "run", "p.toml", directory];
    let agent = ["--agent", place, "--agent-token-file", "token"];
    [&run[..], &agent].concat()
}

/// The report on the last run, made with `more` arguments.
fn report(folder: &Path, more: &[&str]) -> String {
    let report = ["lab", "report", "--output", "r.html"];
    answer(folder, &[&report[..], more].concat());
    std::fs::read_to_string(folder.join("r.html")).expect("the report")
}

#[test]
fn only_a_client_with_the_token_gets_data_of_the_machine() {
    let folder = folder();
    let agent = Agent::start(folder.path(), &[]);
    let about = agent.json("GET", "/v1/about");
    assert_eq!(about["protocol"], 1);
    assert_eq!(about["drops_caches"], false);
    assert!(
        about["machine"]["cores"]
            .as_u64()
            .is_some_and(|cores| cores > 0)
    );
    let wrong = "x".repeat(agent.token.len());
    for fields in [
        String::new(),
        format!("Authorization: Bearer {wrong}\r\n"),
        format!("Authorization: {}\r\n", agent.token),
        format!("Authorization: Bearer {}x\r\n", agent.token),
        format!("Authorization: Bearer {}\r\n", &agent.token[1..]),
    ] {
        let (status, body) = agent.ask_with("GET", "/v1/about", &fields);
        assert_eq!(status, 401, "{fields}");
        assert!(!body.contains("machine"), "{body}");
    }
}

#[test]
fn counters_find_the_server_by_its_port() {
    let folder = folder();
    let agent = Agent::start(folder.path(), &[]);
    let counters = agent.json("GET", &format!("/v1/counters?port={}", agent.port));
    assert!(counters["server"]["started"].is_u64(), "{counters}");
    assert!(!counters["cores"].as_array().expect("cores").is_empty());
    assert_eq!(agent.json("GET", "/v1/counters")["server"], Value::Null);
}

#[test]
fn the_clock_goes_forward() {
    let folder = folder();
    let agent = Agent::start(folder.path(), &[]);
    let time = |clock: &Value, what: &str| clock[what].as_u64().expect("nanoseconds");
    let first = agent.json("GET", "/v1/clock");
    let second = agent.json("GET", "/v1/clock");
    assert!(time(&first, "received") <= time(&first, "answered"));
    assert!(time(&first, "answered") < time(&second, "received"));
}

#[test]
fn what_was_not_allowed_is_forbidden() {
    let folder = folder();
    let agent = Agent::start(folder.path(), &[]);
    for path in ["/v1/drop-caches", "/v1/fio", "/v1/iperf3"] {
        let (status, body) = agent.ask("POST", path);
        assert_eq!(status, 403);
        assert!(body.starts_with("--allow-"), "{body}");
    }
}

#[test]
fn caches_are_dropped_where_that_was_allowed() {
    if !requires::all(&[requires::root()]) {
        return;
    }
    let folder = folder();
    let agent = Agent::start(folder.path(), &["--allow-drop-caches"]);
    assert_eq!(
        agent.json("POST", "/v1/drop-caches")["residency"],
        Value::Null
    );
    let (status, _) = agent.ask("GET", "/v1/drop-caches");
    assert_eq!(
        status, 405,
        "nothing is done by a link that a reader follows"
    );
}

/// A byte at a time, for ever, too much, nonsense: each is refused or cut off, and the next client is
/// served.
#[test]
fn hostile_clients_are_cut_off_and_the_next_one_is_served() {
    let folder = folder();
    let agent = Agent::start(folder.path(), &[]);
    let token = format!("Authorization: Bearer {}\r\n", agent.token);
    let many = "X: y\r\n".repeat(1000);
    let long = "x".repeat(100_000);
    let refused = [
        ("GET", "/etc/passwd", token.clone(), 404),
        ("GET", "/v1/about/../../etc", token.clone(), 404),
        ("DELETE", "/v1/about", token.clone(), 405),
        ("GET", "/v1/counters?port=0", token.clone(), 400),
        ("GET", "/v1/counters?port=65536", token.clone(), 400),
        ("GET", "/v1/counters?path=/etc/passwd", token.clone(), 400),
        (
            "GET",
            "/v1/about",
            format!("{token}Content-Length: 99999999999\r\n"),
            413,
        ),
        ("GET", "/v1/about", format!("{token}{many}"), 431),
        ("GET", "/v1/about", format!("X: {long}\r\n{token}"), 431),
    ];
    for (method, path, fields, status) in refused {
        let (found, body) = agent.ask_with(method, path, &fields);
        assert_eq!(found, status, "{method} {path}: {body}");
    }
    for bytes in [
        &b"\x16\x03\x01\x02\x00"[..],
        b"\0\0\0\0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        assert!(!agent.say(bytes).contains("200"), "{bytes:?}");
    }
    assert_eq!(agent.json("GET", "/v1/about")["protocol"], 1);
}

/// More of them than there are places: they are given up after a while, and the next one has its turn.
#[test]
fn clients_that_say_nothing_lose_their_places() {
    let folder = folder();
    let agent = Agent::start(folder.path(), &[]);
    let silent: Vec<TcpStream> = (0..40).map(|_| agent.connect()).collect();
    assert_eq!(agent.json("GET", "/v1/about")["protocol"], 1);
    drop(silent);
}

/// A client beyond the limit of connections waits, and gets the first one that becomes free.
#[test]
fn a_client_beyond_the_last_place_waits_for_one_and_gets_it() {
    /// Connections that an agent has at once.
    const PLACES: usize = 32;
    /// Within this, clients that say nothing keep their places for certain.
    const KEPT: Duration = Duration::from_secs(4);
    let folder = folder();
    let agent = Agent::start(folder.path(), &[]);
    let head = format!(
        "GET /v1/clock HTTP/1.0\r\nAuthorization: Bearer {}\r\n\r\n",
        agent.token
    );
    // A machine that is slow enough lets them go before the question is put: then it is put again.
    within_a_minute(|| {
        let began = engine::clock::now();
        let mut taken: Vec<TcpStream> = (0..PLACES).map(|_| agent.connect()).collect();
        let mut last = agent.connect();
        last.write_all(head.as_bytes()).expect("it is sent");
        let wait = |stream: &TcpStream, limit| {
            let set = stream.set_read_timeout(Some(limit));
            set.expect("a time limit");
        };
        wait(&last, Duration::from_millis(500));
        let early = last.read(&mut [0; 12]);
        if engine::clock::now().duration_since(began) > KEPT {
            return None;
        }
        assert!(early.is_err(), "it was answered before its turn: {early:?}");
        drop(taken.pop());
        wait(&last, Duration::from_secs(20));
        let mut status = [0; 12];
        last.read_exact(&mut status).expect("it has its turn");
        let turn = engine::clock::now().duration_since(began);
        // Not because the others lost theirs.
        (turn < KEPT).then(|| assert_eq!(&status[9..], b"200"))
    });
}

#[test]
fn samples_come_as_lines_and_end_with_the_agent() {
    let folder = folder();
    let mut agent = Agent::start(folder.path(), &[]);
    let mut stream = agent.connect();
    let head = format!(
        "GET /v1/samples?port={} HTTP/1.0\r\nAuthorization: Bearer {}\r\n\r\n",
        agent.port, agent.token
    );
    stream.write_all(head.as_bytes()).expect("it listens");
    let mut all = String::new();
    within_a_minute(|| {
        let mut piece = [0; 65536];
        let len = stream.read(&mut piece).expect("it sends");
        all.push_str(std::str::from_utf8(&piece[..len]).expect("text"));
        (all.matches('\n').count() > 6).then_some(())
    });
    let (_, lines) = all.split_once("\r\n\r\n").expect("a head");
    let line: Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    let samples = line["samples"].as_array().expect("samples");
    let has = |sensor: &str, item: &str| samples.iter().any(|s| s[0] == sensor && s[1] == item);
    assert!(has("cpu", "0/user") && has("process", "server") && has("process", "agent"));
    agent.server.signal(Signal::TERM);
    assert!(agent.server.ended().success());
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("it ended well");
}

#[test]
fn only_so_many_follow_a_machine_at_once() {
    let folder = folder();
    let agent = Agent::start(folder.path(), &[]);
    let request = format!(
        "GET /v1/samples HTTP/1.0\r\nAuthorization: Bearer {}\r\n\r\n",
        agent.token
    );
    let follow = || {
        let mut stream = agent.connect();
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("a status");
        (String::from_utf8_lossy(&status[9..]).into_owned(), stream)
    };
    let mut following: Vec<_> = (0..4).map(|_| follow()).collect();
    assert!(following.iter().all(|(status, _)| status == "200"));
    assert_eq!(follow().0, "503");
    following.pop();
    within_a_minute(|| (follow().0 == "200").then_some(()));
}

/// What an agent starts for a client: one at a time, gone with its connection and with the agent.
fn assert_held(program: &str, right: &str, path: &str) {
    if !requires::all(&[requires::command(program)]) {
        return;
    }
    let folder = folder();
    let mut agent = Agent::start(folder.path(), &[right]);
    let start = || {
        let mut stream = agent.connect();
        let token = &agent.token;
        let head = format!("POST {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("it listens");
        let mut all = String::new();
        while !all.ends_with("}\n") {
            let mut byte = [0];
            if stream.read_exact(&mut byte).is_err() {
                assert!(all.contains(" 409 "), "{all}");
                return None;
            }
            all.push(char::from(byte[0]));
        }
        let (_, line) = all.split_once("\r\n\r\n").expect("a head");
        let told: Value = serde_json::from_str(line).expect("JSON");
        let port = u16::try_from(told["port"].as_u64().expect("a port")).expect("a port");
        Some((stream, port))
    };
    let is_there = |port: u16| lab::host::sockets::listens(port);
    let (stream, port) = start().expect("it is the first one");
    assert!(is_there(port));
    assert!(start().is_none());
    drop(stream);
    let (_stream, next) = start().expect("a client waits for the end of what its predecessor left");
    assert!(!is_there(port) || next == port);
    let port = next;
    agent.server.signal(Signal::INT);
    assert!(agent.server.ended().success());
    assert!(!is_there(port), "what the agent started ended with it");
}

#[test]
fn fio_runs_for_one_at_a_time_and_ends_with_its_connection() {
    assert_held("fio", "--allow-fio", "/v1/fio");
}

#[test]
fn iperf3_runs_for_one_at_a_time_and_ends_with_its_connection() {
    assert_held("iperf3", "--allow-iperf3", "/v1/iperf3");
}

#[test]
fn other_machines_are_not_let_in_unasked() {
    let folder = folder();
    let (status, told) = failure(folder.path(), &["agent", "--listen", "0.0.0.0:0"]);
    assert_eq!(status, Some(1));
    assert!(
        told.contains("--tls DIR") && told.contains("--insecure"),
        "{told}"
    );
    answer(folder.path(), &["tls", "init", "pki"]);
    let with_fio = [
        "agent",
        "--listen",
        "0.0.0.0:0",
        "--tls",
        "pki",
        "--allow-fio",
    ];
    let (_, told) = failure(folder.path(), &with_fio);
    assert!(told.contains("requires no token of them"), "{told}");
    let (status, _) = failure(folder.path(), &["agent", "--listen", "nas.lan"]);
    assert_eq!(status, Some(2));
}

#[test]
fn under_tls_nothing_is_said_in_the_clear() {
    let folder = folder();
    answer(folder.path(), &["tls", "init", "pki"]);
    let agent = Agent::start(folder.path(), &["--tls", "pki"]);
    let (status, body) = agent.ask("GET", "/v1/about");
    assert_eq!((status, body.as_str()), (0, ""));
}

#[test]
fn the_token_of_a_file_stays_the_same() {
    let folder = folder();
    let arguments = ["--token-file", "token", "--port-file", "port"];
    let agent = Agent::start(folder.path(), &arguments);
    assert_eq!(agent.token, "", "it is not printed");
    let token = std::fs::read_to_string(folder.path().join("token")).expect("the file");
    let fields = format!("Authorization: Bearer {}\r\n", token.trim());
    assert_eq!(agent.ask_with("GET", "/v1/about", &fields).0, 200);
    drop(agent);
    let agent = Agent::start(folder.path(), &arguments);
    assert_eq!(agent.ask_with("GET", "/v1/about", &fields).0, 200);
}
