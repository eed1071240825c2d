//! [`FaultyProxy`]: an HTTP proxy before an S3 server that fails, delays and counts requests, by seed.
//!
//! Each connection carries one request, so that a fault is that of one request alone.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;

/// What S3 answers to a create while another request for the name is under way.
const CONFLICT: &str = "<Error><Code>ConditionalRequestConflict</Code><Message>The conditional request cannot succeed due to a conflicting operation against this resource.</Message></Error>";

/// How long a client or the server may take to move a byte: the thread of a connection ends after it.
const SOCKET_LIMIT: Duration = Duration::from_secs(60);

/// How often what happens to a request, in percent, and how late it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestFaults {
    /// It is answered with 500 or 503, or its connection is closed; the server does not get it.
    pub refused: u64,
    /// It is carried out; its answer is lost, or only half of it arrives.
    pub unanswered: u64,
    /// If it creates an object where there is none, it is answered with the 409 of a conflict; the server does not get it.
    pub conflicts: u64,
    /// What each GET and HEAD waits.
    pub read_delay: Duration,
    /// What each other request waits.
    pub write_delay: Duration,
}

impl RequestFaults {
    /// One request in ten fails, and one more in ten of those that create an object where there is none.
    pub const SOME: Self = Self {
        refused: 6,
        unanswered: 4,
        conflicts: 10,
        read_delay: Duration::ZERO,
        write_delay: Duration::ZERO,
    };
    /// No request fails, and each takes as long as to a store on the Internet.
    pub const DELAYS: Self = Self {
        refused: 0,
        unanswered: 0,
        conflicts: 0,
        read_delay: Duration::from_millis(15),
        write_delay: Duration::from_millis(30),
    };
}

/// What happens to a request.
#[derive(Debug, Clone, Copy)]
enum RequestFate {
    Forwarded,
    /// Answered with this status, and not carried out.
    Failed(&'static str),
    /// Answered with 409 if it is such a create.
    Conflict,
    /// Its connection is closed, and it is not carried out.
    Reset,
    /// Carried out; its connection is closed.
    AnswerLost,
    /// Carried out; half of the body of its answer arrives, or of the head where there is no body.
    HalfAnswered,
}

impl RequestFate {
    fn of(faults: RequestFaults, rng: &mut Rng) -> Self {
        let roll = rng.u64(0..100);
        let is_first = rng.bool();
        match roll {
            _ if roll < faults.refused => match rng.u8(0..3) {
                0 => Self::Failed("500 Internal Server Error"),
                1 => Self::Failed("503 Slow Down"),
                _ => Self::Reset,
            },
            _ if roll < faults.refused + faults.unanswered => match is_first {
                true => Self::AnswerLost,
                false => Self::HalfAnswered,
            },
            _ if roll < faults.refused + faults.unanswered + faults.conflicts => Self::Conflict,
            _ => Self::Forwarded,
        }
    }
}

/// Requests by method, and the bytes of their bodies, in both directions. Failed ones count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Objects or lists.
    pub get: u64,
    /// Heads of objects.
    pub head: u64,
    /// Objects that are written.
    pub put: u64,
    /// Writes in parts, deletes of many.
    pub post: u64,
    /// Objects that are deleted.
    pub delete: u64,
    /// Bytes of bodies from clients to the server.
    pub bytes_up: u64,
    /// Bytes of bodies from the server to clients.
    pub bytes_down: u64,
}

impl RequestCounts {
    /// Requests of all methods.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.get + self.head + self.put + self.post + self.delete
    }

    /// What was counted since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            get: self.get - before.get,
            head: self.head - before.head,
            put: self.put - before.put,
            post: self.post - before.post,
            delete: self.delete - before.delete,
            bytes_up: self.bytes_up - before.bytes_up,
            bytes_down: self.bytes_down - before.bytes_down,
        }
    }

    fn add(&mut self, request: &[u8]) {
        let method = request.split(|byte| *byte == b' ').next();
        match method.unwrap_or_default() {
            b"GET" => self.get += 1,
            b"HEAD" => self.head += 1,
            b"PUT" => self.put += 1,
            b"DELETE" => self.delete += 1,
            _ => self.post += 1,
        }
        self.bytes_up += body_len(request);
    }
}

/// What the proxy and its connections share.
#[derive(Debug)]
struct ProxyShared {
    server: u16,
    faults: RequestFaults,
    rng: Mutex<Rng>,
    fault_count: AtomicU64,
    counts: Mutex<RequestCounts>,
    is_over: AtomicBool,
}

/// A running proxy; it accepts nothing once it is dropped.
#[derive(Debug)]
pub struct FaultyProxy {
    port: u16,
    shared: Arc<ProxyShared>,
}

impl FaultyProxy {
    /// Listens before the server on the port `server` of this machine.
    ///
    /// # Panics
    /// If this machine has no port or thread for it.
    #[must_use]
    pub fn start(server: u16, faults: RequestFaults, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(ProxyShared {
            server,
            faults,
            rng: Mutex::new(Rng::with_seed(seed)),
            fault_count: AtomicU64::new(0),
            counts: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        spawn(move || accept(&listener, &accepting));
        Self { port, shared }
    }

    /// Where it answers on this machine.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Requests that failed by it.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.shared.fault_count.load(Ordering::SeqCst)
    }

    /// What it was sent, and sent back, so far.
    #[must_use]
    pub fn counts(&self) -> RequestCounts {
        *self.shared.counts()
    }
}

impl ProxyShared {
    fn counts(&self) -> MutexGuard<'_, RequestCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // The accepting thread polls the flag at the next connection.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

/// Runs concurrently with the test, and ends with it at the latest.
fn spawn(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name("proxy".to_owned());
    drop(thread.spawn(work).expect("a thread"));
}

fn accept(listener: &TcpListener, shared: &Arc<ProxyShared>) {
    for client in listener.incoming() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        let (Ok(client), shared) = (client, shared.clone()) else {
            continue;
        };
        // A client that disconnects ends its request.
        spawn(move || drop(carry_out(client, &shared)));
    }
}

fn carry_out(mut client: TcpStream, shared: &ProxyShared) -> io::Result<()> {
    let mut fate = {
        let mut rng = shared.rng.lock().unwrap_or_else(PoisonError::into_inner);
        RequestFate::of(shared.faults, &mut rng)
    };
    limit(&client)?;
    let request = read_request(&mut client)?;
    shared.counts().add(&request);
    if matches!(fate, RequestFate::Conflict) && !is_create(&request) {
        fate = RequestFate::Forwarded;
    }
    let is_read = request.starts_with(b"GET ") || request.starts_with(b"HEAD ");
    std::thread::sleep(match is_read {
        true => shared.faults.read_delay,
        false => shared.faults.write_delay,
    });
    if !matches!(fate, RequestFate::Forwarded) {
        shared.fault_count.fetch_add(1, Ordering::SeqCst);
    }
    match fate {
        RequestFate::Reset => return Ok(()),
        RequestFate::Failed(status) => return refuse(&mut client, status, ""),
        RequestFate::Conflict => return refuse(&mut client, "409 Conflict", CONFLICT),
        _ => {}
    }
    let answer = forward(&request, shared.server)?;
    shared.counts().bytes_down += body_len(&answer);
    match fate {
        RequestFate::AnswerLost => Ok(()),
        RequestFate::HalfAnswered => {
            let body = head_len(&answer).unwrap_or_default();
            let end = match answer.len() - body {
                0 => body / 2,
                len => body + len / 2,
            };
            client.write_all(&answer[..end])
        }
        _ => client.write_all(&answer),
    }
}

/// Answers in place of the server.
fn refuse(client: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    let len = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())
}

/// The whole answer of the server to a request, which is its connection's only one.
fn forward(request: &[u8], server: u16) -> io::Result<Vec<u8>> {
    let line = request.windows(2).position(|pair| pair == b"\r\n");
    let line = line.ok_or(io::ErrorKind::InvalidData)? + 2;
    let mut stream = TcpStream::connect(("127.0.0.1", server))?;
    limit(&stream)?;
    stream.write_all(&request[..line])?;
    stream.write_all(b"Connection: close\r\n")?;
    stream.write_all(&request[line..])?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn limit(stream: &TcpStream) -> io::Result<()> {
    // Messages are sent in pieces, none of which may wait for an acknowledgement of the one before.
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SOCKET_LIMIT))?;
    stream.set_write_timeout(Some(SOCKET_LIMIT))
}

/// Bytes of the head of a message, once all of it is there.
fn head_len(message: &[u8]) -> Option<usize> {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(end + 4)
}

/// Bytes of a message behind its head.
fn body_len(message: &[u8]) -> u64 {
    (message.len() - head_len(message).unwrap_or(message.len())) as u64
}

/// Whether a request creates an object only if there is none. A read may have the same header.
fn is_create(request: &[u8]) -> bool {
    let head = head_len(request).unwrap_or_default();
    let head = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
    head.starts_with("put ") && head.lines().any(|line| line.starts_with("if-none-match:"))
}

/// A request with its body, whose length is in its head.
fn read_request(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let head = loop {
        if let Some(len) = head_len(&request) {
            break len;
        }
        read_more(client, &mut request)?;
    };
    let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
    let len = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let len: usize = len.map_or(Ok(0), |len| len.trim().parse()).unwrap_or(0);
    while request.len() < head + len {
        read_more(client, &mut request)?;
    }
    Ok(request)
}

fn read_more(client: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    match client.read(&mut piece)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        len => {
            into.extend_from_slice(&piece[..len]);
            Ok(())
        }
    }
}
