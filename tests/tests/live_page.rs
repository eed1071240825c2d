//! The live page of a server over real sockets: its JSON and its events while clients read and write, which requests it
//! refuses, its limits, and its end. What a browser makes of it is in `tests/browser/live.js`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB};
use outboard_tests::metrics;
use outboard_tests::raw::{self, Request, WRITE};
use outboard_tests::said;
use outboard_tests::server::{LIMIT, Server, free_port};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::proc::Process;

/// Streams of events at once (`LISTENERS_MAX`), and connections.
const LISTENERS_MAX: usize = 32;
const CONNECTIONS_MAX: usize = 64;

/// The page of a server, at `127.0.0.1:PORT`.
struct Page {
    host: String,
}

/// A server with its page.
struct PageServer {
    server: Server,
    page: Page,
    token: Option<String>,
}

impl std::ops::Deref for PageServer {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

/// What stands behind the colon of a line that a server printed.
fn printed(process: &mut Process, before: &str) -> String {
    let line = process.wait_for_line(before, LIMIT).expect("it is printed");
    line.rsplit_once(": ").expect("a colon").1.to_owned()
}

impl Page {
    /// The page that a server announces.
    fn announced(process: &mut Process) -> Self {
        let url = printed(process, "live page: ");
        let host = url.trim_start_matches("http://").trim_end_matches('/');
        Self {
            host: host.to_owned(),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).expect("the page listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream
    }

    /// Sends a request with these headers; returns status, head and body.
    fn request(&self, line: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
        let mut stream = self.connect();
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        stream.write_all(text.as_bytes()).expect("it is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status");
        let status = status.parse().expect("a number");
        (status, head.to_ascii_lowercase(), body.to_owned())
    }

    fn get(&self, path: &str) -> (u16, String, String) {
        self.request(&format!("GET {path}"), &[("Host", &self.host)], "")
    }

    fn status(&self) -> Value {
        let (status, _, body) = self.get("/api/status");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    fn act(&self, action: &Value, token: &str) -> (u16, Value) {
        let origin = format!("http://{}", self.host);
        let headers = [
            ("Host", self.host.as_str()),
            ("Origin", &origin),
            ("X-Outboard-Token", token),
        ];
        let (status, _, body) = self.request("POST /api/action", &headers, &action.to_string());
        (status, serde_json::from_str(&body).expect("JSON"))
    }

    fn events(&self) -> Events {
        let mut stream = self.connect();
        let request = format!("GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        stream.write_all(request.as_bytes()).expect("it is taken");
        Events(BufReader::new(stream))
    }
}

impl PageServer {
    fn start(arguments: &[&str]) -> Self {
        let mut server = Server::start(&[arguments, &["--http=127.0.0.1:0"]].concat());
        let process = server.process();
        let page = Page::announced(process);
        let is_admin = arguments.contains(&"--http-admin");
        let token = is_admin.then(|| printed(process, "token for its actions: "));
        Self {
            server,
            page,
            token,
        }
    }
}

/// A stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    /// The first line of the answer.
    fn head(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line
    }

    /// The next snapshot; `None` at the end.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(json) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(json).expect("JSON"));
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "servers run in real time")]
fn now() -> Instant {
    Instant::now()
}

fn read(client: &mut TcpStream, cookie: u64) {
    raw::read(client, cookie, 0, 4096).expect("a reply");
}

#[test]
fn without_the_option_there_is_no_page() {
    let mut server = Server::start(&["memory(1M)"]);
    let printed = server.process().stdout();
    assert!(!printed.contains("live page"), "{printed}");
    assert_eq!(server.stop(Signal::TERM), Some(0));
}

#[test]
fn events_follow_the_reads_and_writes_of_a_client() {
    let page = PageServer::start(&["media=delay(memory(8M), read=1ms)"]);
    let first = page.status();
    assert_eq!(first["exports"][0]["name"], "media");
    assert_eq!(first["exports"][0]["outline"]["kind"], "delay");
    assert_eq!(first["exports"][0]["outline"]["children"][0]["text"], "8M");
    assert_eq!(first["clients_count"], 0);
    let mut events = page.events();
    let mut before = events.next().expect("a snapshot");
    let mut client = raw::connected(page.server.port());
    let write = Request {
        command: WRITE,
        len: 512,
        ..Request::default()
    };
    raw::write(&mut client, write, &[7; 512]).expect("a reply");
    let end = now() + LIMIT;
    loop {
        for cookie in 0..200 {
            read(&mut client, cookie);
        }
        let snapshot = events.next().expect("a snapshot");
        assert!(snapshot["number"].as_u64() > before["number"].as_u64());
        let rates = &snapshot["exports"][0]["rates"];
        let is_seen = rates["reads"].as_u64() > Some(50) && rates["p99_us"].as_u64() > Some(1000);
        if is_seen && snapshot["clients"][0]["rates"]["read_bytes"].as_u64() > Some(0) {
            assert_eq!(snapshot["clients_count"], 1);
            assert!(snapshot["exports"][0]["writer"].is_string(), "{snapshot}");
            break;
        }
        assert!(now() < end, "no reads are seen: {snapshot}");
        before = snapshot;
    }
    assert_eq!(page.server.stop(Signal::TERM), Some(0));
}

/// The exports on the page once there are so many: it is updated every second.
fn exports_once(page: &PageServer, count: usize) -> Value {
    let end = now() + LIMIT;
    loop {
        let exports = page.status()["exports"].take();
        if exports.as_array().map(Vec::len) == Some(count) {
            return exports;
        }
        assert!(now() < end, "not {count} exports: {exports}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_export_that_a_command_adds_is_on_the_page_and_in_the_metrics() {
    let port = free_port();
    let option = format!("--metrics=127.0.0.1:{port}");
    let mut page = PageServer::start(&["a=memory(1M)", &option]);
    let server = page.server.process().id().to_string();
    let change = |words: &[&str]| {
        let words = [&["export"], words, &["--server", &server]].concat();
        said::run(&mut said::outboard(&words)).ok();
    };
    let size = || metrics::value::<u64>(port, "outboard_export_size_bytes{export=\"b\"}");
    change(&["add", "b=delay(memory(2M), read=1ms)"]);
    let shown = exports_once(&page, 2);
    assert_eq!(shown[1]["name"], "b", "{shown}");
    assert_eq!(shown[1]["outline"]["kind"], "delay", "{shown}");
    assert_eq!(size(), Some(2 << 20));
    change(&["remove", "b"]);
    exports_once(&page, 1);
    assert_eq!(size(), None);
}

/// Attachments of the user that the server runs as.
#[test]
fn what_is_attached_on_the_machine_is_on_the_page() {
    let Some(world) = World::new() else {
        return;
    };
    let image = world.at("media.img");
    said::run(&mut world.outboard(&["disk", "create", &image, "16M"])).ok();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = world.outboard(&["serve", "--http=127.0.0.1:0", "--listen", &listen]);
    command.arg(format!("media={image}"));
    let mut server = Process::start(&mut command).expect("it starts");
    let page = Page::announced(&mut server);
    let device = world.attach(&format!("nbd://{listen}/media"));
    let attached = loop {
        let attachments = page.status()["attachments"].take();
        if let Some(one) = attachments.as_array().and_then(|all| all.first()) {
            break one.clone();
        }
        assert!(server.wait(Duration::ZERO).is_err(), "the server has ended");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(attached["device"], device.as_str(), "{attached}");
    assert_eq!(attached["state"], "connected", "{attached}");
    assert_eq!(attached["size"], 16 * MIB, "{attached}");
    world.run(&["detach", &device]).ok();
}

#[test]
fn the_page_has_its_headers_and_its_files_and_nothing_else() {
    let page = PageServer::start(&["memory(1M)"]);
    for path in ["/", "/live.js", "/look.css", "/uPlot.js", "/api/status"] {
        let (status, head, body) = page.get(path);
        assert_eq!(status, 200, "{path}");
        assert!(!body.is_empty(), "{path}");
        let policy = "content-security-policy: default-src 'none'; script-src 'self'";
        assert!(head.contains(policy) && !head.contains("unsafe"), "{head}");
        for header in [
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
        ] {
            assert!(head.contains(header), "{path}: {head}");
        }
        assert!(!head.contains("access-control"), "{path}: {head}");
    }
    for path in ["/metrics", "/../etc/passwd", "/live.js/"] {
        let (status, head, _) = page.get(path);
        assert_eq!(status, 404, "{path}");
        assert!(head.contains("content-security-policy"), "{head}");
    }
}

#[test]
fn other_hosts_and_other_origins_are_refused() {
    let page = PageServer::start(&["memory(1M)", "--http-admin", "--http-host=nas.lan"]);
    for host in ["evil.example", "localhost.evil.example", "192.0.2.1", ""] {
        let (status, _, body) = page.request("GET /api/status", &[("Host", host)], "");
        assert_eq!(status, 421, "{host}");
        assert!(!body.contains("exports"), "{body}");
    }
    let (status, ..) = page.request("GET /api/status", &[("Host", "NAS.lan:80")], "");
    assert_eq!(status, 200);
    let (status, ..) = page.request("GET /api/status", &[], "");
    assert_eq!(status, 421);
    let token = page.token.as_deref().expect("a token");
    let action = json!({ "disconnect": { "client": 1 } }).to_string();
    for origin in [None, Some("http://evil.example"), Some("null")] {
        let mut headers = vec![("Host", page.host.as_str()), ("X-Outboard-Token", token)];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        let (status, _, body) = page.request("POST /api/action", &headers, &action);
        assert_eq!(status, 403, "{origin:?}: {body}");
    }
}

#[test]
fn actions_need_the_option_and_the_token() {
    let disconnect = json!({ "disconnect": { "client": 1 } });
    let without = PageServer::start(&["memory(1M)"]);
    assert_eq!(without.status()["has_actions"], false);
    let (status, body) = without.act(&disconnect, "any");
    assert_eq!(status, 403, "{body}");
    let page = PageServer::start(&["memory(1M)", "--http-admin"]);
    let token = page.token.clone().expect("a token");
    let mut client = raw::connected(page.server.port());
    read(&mut client, 1);
    let (status, body) = page.act(&disconnect, "0123456789abcdef0123456789abcdef");
    assert_eq!(status, 401, "{body}");
    read(&mut client, 2);
    let (status, body) = page.act(&json!({ "reload": {} }), &token);
    assert_eq!(status, 400, "{body}");
    let (status, body) = page.act(&json!({ "disconnect": { "client": 99 } }), &token);
    assert_eq!(
        (status, &body["error"]),
        (409, &json!("there is no client 99"))
    );
    let id = page.status()["clients"][0]["id"].clone();
    let (status, body) = page.act(&json!({ "disconnect": { "client": id } }), &token);
    assert_eq!((status, &body), (200, &json!({ "done": true })));
    raw::assert_closed(client);
    let too_long = json!({ "disconnect": { "client": "x".repeat(20 << 10) } });
    let (status, body) = page.act(&too_long, &token);
    assert_eq!(status, 413, "{body}");
}

#[test]
fn members_fail_are_added_and_scrubbed_and_the_events_say_so() {
    let folder = Folder::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| folder.empty(name, 48 * MIB));
    let create = ["array", "create", &a, &b, "--level=1", "--assume-clean"];
    said::outboard(&create).output().expect("an array");
    let page = PageServer::start(&[&format!("photos=array({a}, {b})"), "--http-admin"]);
    let token = page.token.clone().expect("a token");
    let array = page.status()["arrays"][0].clone();
    let (uuid, member) = (&array["uuid"], &array["members"][1]["name"]);
    let act = |action: Value| {
        let (status, body) = page.act(&action, &token);
        assert_eq!(status, 200, "{body}");
    };
    let end = now() + LIMIT;
    let wait = |what: &str, is_there: &dyn Fn(&Value) -> bool| loop {
        let status = page.status();
        if is_there(&status) {
            return;
        }
        assert!(now() < end, "{what}: {status}");
        std::thread::sleep(Duration::from_millis(200));
    };
    let has_event = |status: &Value, event: &str| {
        let events = status["events"].as_array().expect("events");
        events.iter().any(|one| one["event"] == event)
    };
    act(json!({ "fail": { "export": "photos", "uuid": uuid, "member": member } }));
    wait("it fails", &|status| {
        status["arrays"][0]["working"] == 1 && has_event(status, "Fail")
    });
    act(json!({ "add": { "export": "photos", "uuid": uuid, "disk": c } }));
    wait("it is rebuilt", &|status| {
        status["arrays"][0]["working"] == 2 && has_event(status, "SpareActive")
    });
    act(json!({ "scrub": { "export": "photos", "uuid": uuid, "repair": false } }));
    wait("it is scrubbed", &|status| {
        status["arrays"][0]["scrubbed"]["finished"] == true && has_event(status, "Scrub")
    });
    assert_eq!(page.server.stop(Signal::TERM), Some(0));
}

#[test]
fn pages_and_connections_are_bounded_and_a_stop_waits_for_none() {
    let page = PageServer::start(&["memory(1M)"]);
    let mut listeners: Vec<Events> = (0..LISTENERS_MAX).map(|_| page.events()).collect();
    for listener in &mut listeners {
        assert!(listener.head().contains(" 200 "));
        assert!(listener.next().is_some());
    }
    assert!(page.events().head().contains(" 503 "), "one more");
    // Connections that send nothing end the oldest ones, and keep no other out.
    let silent: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| page.connect()).collect();
    let start = now();
    assert_eq!(page.status()["clients_count"], 0);
    assert!(start.elapsed() < Duration::from_secs(5), "{start:?}");
    drop(silent);
    let end = now() + LIMIT;
    let mut listener = loop {
        let mut listener = page.events();
        if listener.head().contains(" 200 ") {
            break listener;
        }
        assert!(now() < end, "places are free again");
    };
    assert!(listener.next().is_some());
    let start = now();
    assert_eq!(page.server.stop(Signal::TERM), Some(0));
    assert!(start.elapsed() < Duration::from_secs(10), "{start:?}");
    while listener.next().is_some() {}
}

#[test]
fn snapshots_are_shared_and_at_most_one_a_second_is_made() {
    let page = PageServer::start(&["memory(1M)"]);
    let mut listeners: Vec<Events> = (0..8).map(|_| page.events()).collect();
    let start = now();
    let mut last = 0;
    for _ in 0..3 {
        for listener in &mut listeners {
            let snapshot = listener.next().expect("a snapshot");
            last = snapshot["number"].as_u64().expect("a number").max(last);
        }
    }
    let took = start.elapsed();
    let most = u128::from(last) <= took.as_millis() / 900 + 2;
    assert!(most, "{last} snapshots in {took:?}");
}
