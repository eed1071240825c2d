//! [`FaultyProxy`]: an HTTP proxy before an S3 server that fails, delays and counts requests, by seed.
//!
//! A connection carries one request after another, and ends with a fault, so that a fault is that of one request alone.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
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

    /// Bytes of bodies, in both directions.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes_up + self.bytes_down
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

    fn add(&mut self, request: &Message) {
        match request.method() {
            "get" => self.get += 1,
            "head" => self.head += 1,
            "put" => self.put += 1,
            "delete" => self.delete += 1,
            _ => self.post += 1,
        }
        self.bytes_up += request.body().len() as u64;
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
        spawn(move || drop(serve(client, &shared)));
    }
}

/// Carries out the requests of a connection, until one of them fails or its client ends it.
fn serve(client: TcpStream, shared: &ProxyShared) -> io::Result<()> {
    limit(&client)?;
    let mut client = BufReader::new(client);
    let mut server = Upstream {
        port: shared.server,
        idle: None,
    };
    while let Some(request) = Message::read(&mut client, Framing::Request)? {
        if !carry_out(client.get_mut(), &mut server, &request, shared)? {
            break;
        }
    }
    Ok(())
}

/// Whether the connection carries another request.
fn carry_out(
    client: &mut TcpStream,
    server: &mut Upstream,
    request: &Message,
    shared: &ProxyShared,
) -> io::Result<bool> {
    let mut fate = {
        let mut rng = shared.rng.lock().unwrap_or_else(PoisonError::into_inner);
        RequestFate::of(shared.faults, &mut rng)
    };
    shared.counts().add(request);
    if matches!(fate, RequestFate::Conflict) && !request.is_create() {
        fate = RequestFate::Forwarded;
    }
    std::thread::sleep(match request.method() {
        "get" | "head" => shared.faults.read_delay,
        _ => shared.faults.write_delay,
    });
    if !matches!(fate, RequestFate::Forwarded) {
        shared.fault_count.fetch_add(1, Ordering::SeqCst);
    }
    match fate {
        RequestFate::Reset => return Ok(false),
        RequestFate::Failed(status) => return refuse(client, status, "").map(|()| false),
        RequestFate::Conflict => return refuse(client, "409 Conflict", CONFLICT).map(|()| false),
        _ => {}
    }
    let answer = server.forward(request)?;
    shared.counts().bytes_down += answer.body().len() as u64;
    match fate {
        RequestFate::AnswerLost => Ok(false),
        RequestFate::HalfAnswered => {
            let end = match answer.body().len() {
                0 => answer.head_len / 2,
                len => answer.head_len + len / 2,
            };
            client.write_all(&answer.bytes[..end]).map(|()| false)
        }
        _ => {
            client.write_all(&answer.bytes)?;
            Ok(!answer.is_last)
        }
    }
}

/// Answers in place of the server.
fn refuse(client: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    let len = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())
}

fn limit(stream: &TcpStream) -> io::Result<()> {
    // Messages are sent in pieces, none of which may wait for an acknowledgement of the one before.
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SOCKET_LIMIT))?;
    stream.set_write_timeout(Some(SOCKET_LIMIT))
}

/// The server, for one connection of a client.
#[derive(Debug)]
struct Upstream {
    port: u16,
    /// The connection that the last request was answered on.
    idle: Option<BufReader<TcpStream>>,
}

impl Upstream {
    /// The whole answer to a request.
    fn forward(&mut self, request: &Message) -> io::Result<Message> {
        let mut stream = match self.idle.take().filter(is_open) {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(("127.0.0.1", self.port))?;
                limit(&stream)?;
                BufReader::new(stream)
            }
        };
        stream.get_mut().write_all(&request.bytes)?;
        let framing = match request.method() {
            "head" => Framing::HeadAnswer,
            _ => Framing::Answer,
        };
        let answer = Message::read(&mut stream, framing)?;
        let answer = answer.ok_or(io::ErrorKind::UnexpectedEof)?;
        if !answer.is_last {
            self.idle = Some(stream);
        }
        Ok(answer)
    }
}

/// Whether the server has left a connection open that waits for a request.
fn is_open(stream: &BufReader<TcpStream>) -> bool {
    let stream = stream.get_ref();
    let peeked = stream
        .set_nonblocking(true)
        .and_then(|()| stream.peek(&mut [0]));
    let waits = matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    waits && stream.set_nonblocking(false).is_ok()
}

/// What ends a message that has neither a length nor chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// Its head.
    Request,
    /// Its head, also where it has a length.
    HeadAnswer,
    /// The end of the connection, if its status permits a body.
    Answer,
}

/// A request or an answer (RFC 9112).
#[derive(Debug)]
struct Message {
    bytes: Vec<u8>,
    head_len: usize,
    /// The head, in small letters.
    head: String,
    /// Whether the connection ends behind it.
    is_last: bool,
}

impl Message {
    /// The next message; `None` at the end of the connection.
    fn read(stream: &mut BufReader<TcpStream>, framing: Framing) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            match stream.read_until(b'\n', &mut bytes)? {
                0 if bytes.is_empty() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
        }
        let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let mut message = Self {
            head_len: bytes.len(),
            is_last: field(&head, "connection") == Some("close"),
            head,
            bytes,
        };
        message.read_body(stream, framing)?;
        Ok(Some(message))
    }

    fn read_body(&mut self, stream: &mut BufReader<TcpStream>, framing: Framing) -> io::Result<()> {
        let status = self.head.split(' ').nth(1).unwrap_or_default();
        let has_none = framing == Framing::HeadAnswer
            || (framing == Framing::Answer && matches!(status, "204" | "304"));
        if has_none {
            return Ok(());
        }
        if field(&self.head, "transfer-encoding") == Some("chunked") {
            return read_chunks(stream, &mut self.bytes);
        }
        let len = field(&self.head, "content-length");
        match len.map(str::parse).transpose() {
            Ok(Some(len)) => read_exactly(stream, &mut self.bytes, len),
            Ok(None) if framing == Framing::Request => Ok(()),
            Ok(None) => {
                self.is_last = true;
                stream.read_to_end(&mut self.bytes).map(drop)
            }
            Err(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Of a request, in small letters.
    fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    fn body(&self) -> &[u8] {
        &self.bytes[self.head_len..]
    }

    /// Whether a request creates an object only if there is none. A read may have the same header.
    fn is_create(&self) -> bool {
        self.method() == "put" && field(&self.head, "if-none-match").is_some()
    }
}

/// What a head, in small letters, has of a name.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find_map(|(found, value)| (found == name).then(|| value.trim()))
}

fn read_exactly(stream: &mut BufReader<TcpStream>, into: &mut Vec<u8>, len: u64) -> io::Result<()> {
    into.reserve(usize::try_from(len).unwrap_or_default());
    match stream.take(len).read_to_end(into)? as u64 == len {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Chunks as they are, with their trailer.
fn read_chunks(stream: &mut BufReader<TcpStream>, into: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let begin = into.len();
        stream.read_until(b'\n', into)?;
        let line = String::from_utf8_lossy(&into[begin..]);
        let len = line.split(';').next().unwrap_or_default().trim();
        let len = u64::from_str_radix(len, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        if len == 0 {
            break;
        }
        read_exactly(stream, into, len + 2)?;
    }
    loop {
        let begin = into.len();
        stream.read_until(b'\n', into)?;
        match &into[begin..] {
            b"\r\n" => return Ok(()),
            b"" => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => {}
        }
    }
}
