//! Tests of what the rows count and read: requests through the proxy, reports of collections, bytes in folders, messages of 9P.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::boot::{self, TracedRead};
use super::contender::waiting;
use super::ninep;
use super::proxy::{FaultyProxy, RequestCounts, RequestFaults};
use super::store::bytes_below;
use super::uploaded;

#[test]
fn a_trace_is_read_and_a_line_that_is_no_read_is_named() {
    let read = |millis, offset, len| TracedRead {
        at: Duration::from_millis(millis),
        offset,
        len,
    };
    let reads = boot::reads("# a head\n0 1 4\n750 1024 128\n").unwrap();
    // The first one is of parts of two blocks.
    assert_eq!(reads, [read(0, 0, 8 << 10), read(750, 1 << 20, 128 << 10)]);
    let error = boot::reads("0 1\n").unwrap_err();
    assert_eq!(error.to_string(), "\"0 1\" is no read");
}

/// A server that answers each request with three bytes, in one piece or in chunks, and keeps connections; and how many it had.
fn three_bytes(answer: &'static str) -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicU32::new(0));
    let counted = connections.clone();
    let serve = move || {
        for client in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut client = BufReader::new(client.unwrap());
            while read_request(&mut client) {
                client.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        }
    };
    let thread = std::thread::Builder::new();
    drop(thread.spawn(serve).unwrap());
    (port, connections)
}

/// `false`: the connection has ended.
fn read_request(client: &mut BufReader<TcpStream>) -> bool {
    let mut len = 0;
    loop {
        let mut line = String::new();
        if client.read_line(&mut line).unwrap() == 0 {
            return false;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            len = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            let mut body = vec![0; len];
            client.read_exact(&mut body).unwrap();
            return true;
        }
    }
}

const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n";
const LAST: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";

/// What a proxy forwards of a request.
fn answered(stream: &mut TcpStream, request: &str, answer: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut received = vec![0; answer.len()];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(String::from_utf8(received).unwrap(), answer);
}

#[test]
fn the_proxy_counts_requests_by_method_and_the_bytes_of_their_bodies() {
    let (server, connections) = three_bytes(WHOLE);
    let proxy = FaultyProxy::start(server, RequestFaults::default(), 1);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    let mut send = |request| answered(&mut stream, request, WHOLE);
    send("PUT /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello");
    let before = proxy.counts();
    send("GET /a HTTP/1.1\r\n\r\n");
    send("GET /b HTTP/1.1\r\n\r\n");
    send("PUT /b HTTP/1.1\r\nContent-Length: 7\r\n\r\nhello !");
    send("DELETE /b HTTP/1.1\r\n\r\n");
    let counts = proxy.counts().since(&before);
    let expected = RequestCounts {
        get: 2,
        put: 1,
        delete: 1,
        bytes_up: 7,
        bytes_down: 12,
        ..RequestCounts::default()
    };
    assert_eq!(counts, expected);
    assert_eq!(counts.requests(), 4);
    assert_eq!(proxy.counts().bytes_up, 12);
    assert_eq!(connections.load(Ordering::SeqCst), 1, "one for all");
}

#[test]
fn the_proxy_forwards_chunks_and_ends_a_connection_with_its_last_answer() {
    let request = "GET /a HTTP/1.1\r\n\r\n";
    let (server, _) = three_bytes(CHUNKED);
    let proxy = FaultyProxy::start(server, RequestFaults::default(), 1);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    answered(&mut stream, request, CHUNKED);
    answered(&mut stream, request, CHUNKED);

    let (server, _) = three_bytes(LAST);
    let proxy = FaultyProxy::start(server, RequestFaults::default(), 1);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    answered(&mut stream, request, LAST);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn bytes_uploaded_are_held_against_those_of_the_writes() {
    let counts = RequestCounts {
        bytes_up: 12 << 10,
        ..RequestCounts::default()
    };
    assert!((uploaded(&counts, 2.0) - 1.5).abs() < 1e-9);
}

#[test]
fn a_report_of_a_collection_has_what_the_next_one_deletes() {
    let printed = r#"{"deleted_bytes": 5, "waiting_bytes": 8192, "wait_s": 900}"#;
    let expected = (8192, Duration::from_secs(900));
    assert_eq!(waiting(printed).unwrap(), expected);
    let error = waiting(r#"{"wait_s": 900}"#).unwrap_err();
    assert_eq!(error.to_string(), "no waiting_bytes");
}

#[test]
fn bytes_of_folders_in_folders_count() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
    std::fs::write(folder.path().join("a/b/one"), [0; 5]).unwrap();
    std::fs::write(folder.path().join("two"), [0; 7]).unwrap();
    assert_eq!(bytes_below(folder.path()).unwrap(), 12);
}

/// A server whose answers are known before.
struct Script {
    answers: io::Cursor<Vec<u8>>,
    sent: Vec<u8>,
}

impl Script {
    fn of(answers: &[(u8, &[u8])]) -> Self {
        let mut bytes = Vec::new();
        for (kind, body) in answers {
            bytes.extend(u32::try_from(7 + body.len()).unwrap().to_le_bytes());
            bytes.extend([*kind, 0, 0]);
            bytes.extend(*body);
        }
        Self {
            answers: io::Cursor::new(bytes),
            sent: Vec::new(),
        }
    }
}

impl Read for Script {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.answers.read(into)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_is_made_in_five_messages_of_9p() {
    let walked = [&[1, 0][..], &[0; 13]].concat();
    let answers: &[(u8, &[u8])] = &[(101, b""), (105, b""), (111, &walked), (15, b""), (27, b"")];
    let mut script = Script::of(answers);
    ninep::create_file(&mut script, ".nbd", "disk", 1 << 30).unwrap();
    let version = b"\x15\0\0\0\x64\xff\xff\0\x20\0\0\x08\09P2000.L";
    assert_eq!(script.sent[..21], version[..]);
    // Each begins with its length, and its type is behind that.
    let mut kinds = Vec::new();
    let mut rest = &script.sent[..];
    while let [a, b, c, d, kind, ..] = rest {
        kinds.push(*kind);
        rest = &rest[u32::from_le_bytes([*a, *b, *c, *d]) as usize..];
    }
    assert_eq!(kinds, [100, 104, 110, 14, 26]);
    assert!(rest.is_empty());
}

#[test]
fn an_error_of_9p_and_a_folder_that_is_not_there_are_errors() {
    let error = |answers: &[(u8, &[u8])]| {
        let made = ninep::create_file(&mut Script::of(answers), ".nbd", "disk", 1);
        made.unwrap_err().to_string()
    };
    let refused = error(&[(101, b""), (7, &[13, 0, 0, 0])]);
    assert_eq!(refused, "message 104 of 9P was answered with 7, errno 13");
    let missing = error(&[(101, b""), (105, b""), (111, &[0, 0])]);
    assert_eq!(missing, "there is no folder .nbd");
}
