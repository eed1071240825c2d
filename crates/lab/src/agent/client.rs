//! The lab's side of an agent: its machine, its clock, its counters.
//!
//! Each conversation has a connection of its own, so nothing is held open while something is measured
//! but the stream of samples.

use std::fmt;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::http::{AnswerTimeout, Connection, Lines, Stream};
use super::local::DROP_MAX;
use super::protocol::{
    self, ABOUT, About, CLOCK, COUNTERS, Clock, Counters, DROP_CACHES, FioFolder, FioReady, IPERF3,
    Iperf3Ready, SAMPLES, with_port,
};
use super::{AgentError, Offset, RoundTrip, Samples, query};
use crate::Cancel;
use crate::checks::cache::DroppedThere;
use crate::units::Nanos;

/// Round trips of one estimate of the offset.
const TRIPS: usize = 8;
/// The longest silence where the dialled socket has no timeout of its own.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The longest wait of one read, after which a cancelled run is noticed.
const READ_TIMEOUT: Duration = Duration::from_millis(200);

/// Makes connections to one agent. The lab knows no TLS; its caller does.
pub trait Dial: fmt::Debug + Send + Sync {
    /// A new connection. Its reads and writes time out by themselves.
    ///
    /// # Errors
    /// Why there is none.
    fn dial(&self) -> io::Result<Dialled>;

    /// Where the agent is, as the user wrote it: `nas.lan:10811`.
    fn place(&self) -> String;
}

/// A new connection.
pub struct Dialled {
    /// Its bytes.
    pub stream: Box<dyn Stream>,
    /// The socket below, to hang up while another thread reads.
    pub socket: TcpStream,
}

impl fmt::Debug for Dialled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dialled").field(&self.socket).finish()
    }
}

/// How an agent is reached.
#[derive(Debug, Clone)]
pub struct AgentAddress {
    /// Makes connections.
    pub dial: Arc<dyn Dial>,
    /// Shown to the agent in each request.
    pub token: Token,
    /// Ends each wait for an answer.
    pub cancel: Cancel,
}

/// On which side of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It begins behind this.
    Before,
    /// It ended before this.
    After,
}

/// A secret that is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The fewest characters of a token.
    pub const LEN_MIN: usize = 16;
    /// The most characters of a token.
    pub const LEN_MAX: usize = 256;

    /// A token, if it can be one: some letters, digits and `-._~+/=`, as RFC 6750 has it.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        let is_long = (Self::LEN_MIN..=Self::LEN_MAX).contains(&text.len());
        (is_long && text.bytes().all(is_fine)).then(|| Self(text.to_owned()))
    }

    /// The secret itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl AgentAddress {
    fn connect(&self) -> Result<(Connection, TcpStream), AgentError> {
        self.connect_for(None)
    }

    /// Connects; an answer may take `silence_max`, or else what the dialled socket allows.
    fn connect_for(
        &self,
        silence_max: Option<Duration>,
    ) -> Result<(Connection, TcpStream), AgentError> {
        let Dialled { stream, socket } = self.dial.dial()?;
        let token = self.token.reveal().to_owned();
        let allowed = socket.read_timeout()?.unwrap_or(SILENCE_MAX);
        socket.set_read_timeout(Some(READ_TIMEOUT))?;
        let timeout = AnswerTimeout {
            silence_max: silence_max.unwrap_or(allowed),
            cancel: self.cancel.clone(),
        };
        let connection = Connection::new(stream, self.dial.place(), token, timeout);
        Ok((connection, socket))
    }

    /// Requests the agent's machine and rights.
    ///
    /// # Errors
    /// [`AgentError`]; an agent of another version is none.
    pub fn about(&self) -> Result<About, AgentError> {
        let about: About = answer(&mut self.connect()?.0, "GET", ABOUT)?;
        if about.protocol != protocol::VERSION {
            let (theirs, ours) = (about.protocol, protocol::VERSION);
            return Err(AgentError::answer(format!(
                "it speaks version {theirs}, this is {ours}"
            )));
        }
        Ok(about)
    }

    /// The agent's IP address.
    ///
    /// # Errors
    /// [`AgentError::Io`]
    pub fn ip(&self) -> Result<IpAddr, AgentError> {
        Ok(self.dial.dial()?.socket.peer_addr()?.ip())
    }

    /// Compares the clocks and reads the counters. `now` is our clock, `port` the measured server's. Of the
    /// two, the counters are nearer to what is measured.
    ///
    /// # Errors
    /// [`AgentError`]
    pub fn look(
        &self,
        port: Option<u16>,
        side: Side,
        now: &dyn Fn() -> Nanos,
    ) -> Result<(Offset, Counters), AgentError> {
        let (mut connection, _) = self.connect()?;
        let path = with_port(COUNTERS, port);
        if side == Side::Before {
            let offset = offset(&mut connection, now)?;
            return Ok((offset, answer(&mut connection, "GET", &path)?));
        }
        let counters = answer(&mut connection, "GET", &path)?;
        Ok((offset(&mut connection, now)?, counters))
    }

    /// Has its machine write out and drop its page cache.
    ///
    /// # Errors
    /// [`AgentError::Forbidden`] and the like.
    pub fn drop_caches(&self, port: Option<u16>) -> Result<DroppedThere, AgentError> {
        let (mut connection, _) = self.connect_for(Some(DROP_MAX))?;
        answer(&mut connection, "POST", &with_port(DROP_CACHES, port))
    }

    /// Its samples, from now on.
    ///
    /// # Errors
    /// [`AgentError`]
    pub fn samples(&self, port: Option<u16>) -> Result<Samples, AgentError> {
        let first = self.sample_lines(port)?;
        Ok(Samples::start(self.clone(), port, first)?)
    }

    pub(super) fn sample_lines(&self, port: Option<u16>) -> Result<(Lines, TcpStream), AgentError> {
        let (connection, socket) = self.connect()?;
        let lines = connection.lines("GET", &with_port(SAMPLES, port))?;
        Ok((lines, socket))
    }

    /// Has it start fio's server with a folder in each of these directories of its machine; all of it ends
    /// and goes when the [`RemoteFio`] is dropped.
    ///
    /// # Errors
    /// [`AgentError::Forbidden`] and the like.
    pub fn fio(&self, directories: &[&Path]) -> Result<RemoteFio, AgentError> {
        let fio = RemoteFio::start(self.connect()?, &query::fio_in(directories))?;
        match fio.folders().len() == directories.len() {
            true => Ok(fio),
            false => Err(AgentError::answer("folders that were not requested")),
        }
    }

    /// Has it start iperf3's server, which ends when the [`RemoteIperf3`] is dropped.
    ///
    /// # Errors
    /// [`AgentError::Forbidden`] and the like.
    pub fn iperf3(&self) -> Result<RemoteIperf3, AgentError> {
        RemoteServer::start(self.connect()?, IPERF3)
    }
}

/// The offset of the agent's clock.
fn offset(connection: &mut Connection, now: &dyn Fn() -> Nanos) -> Result<Offset, AgentError> {
    let mut trips = Vec::with_capacity(TRIPS);
    for _ in 0..TRIPS {
        let sent = now();
        let body = connection.ask("GET", CLOCK)?;
        let arrived = now();
        let clock: Clock = understood(&body)?;
        trips.push(RoundTrip {
            sent,
            received: clock.received,
            answered: clock.answered,
            arrived,
        });
    }
    Offset::of(&trips).ok_or_else(|| AgentError::answer("times that cannot have been"))
}

fn answer<T: DeserializeOwned>(
    connection: &mut Connection,
    method: &str,
    path: &str,
) -> Result<T, AgentError> {
    understood(&connection.ask(method, path)?)
}

pub(super) fn understood<T: DeserializeOwned>(body: &[u8]) -> Result<T, AgentError> {
    serde_json::from_slice(body).map_err(|error| AgentError::Answer(error.to_string()))
}

/// A server on the agent's machine; it ends when this is dropped.
pub struct RemoteServer<T> {
    ready: T,
    address: IpAddr,
    socket: TcpStream,
    _lines: Lines,
}

/// A fio that takes jobs.
pub type RemoteFio = RemoteServer<FioReady>;

/// An iperf3 that takes tests.
pub type RemoteIperf3 = RemoteServer<Iperf3Ready>;

impl<T: DeserializeOwned> RemoteServer<T> {
    fn start(
        (connection, socket): (Connection, TcpStream),
        path: &str,
    ) -> Result<Self, AgentError> {
        let mut lines = connection.lines("POST", path)?;
        Ok(Self {
            ready: understood(&lines.next_line()?)?,
            address: socket.peer_addr()?.ip(),
            socket,
            _lines: lines,
        })
    }
}

impl RemoteFio {
    /// The argument that has a fio of this machine send its job there.
    #[must_use]
    pub fn argument(&self) -> String {
        let kind = if self.address.is_ipv6() { "ip6" } else { "ip" };
        format!("--client={kind}:{},{}", self.address, self.ready.port)
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.ready.version
    }

    /// Where it works, in the order of the directories that were requested.
    #[must_use]
    pub fn folders(&self) -> &[FioFolder] {
        &self.ready.folders
    }
}

impl RemoteIperf3 {
    /// Where it listens.
    #[must_use]
    pub const fn place(&self) -> (IpAddr, u16) {
        (self.address, self.ready.port)
    }
}

impl<T: fmt::Debug> fmt::Debug for RemoteServer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteServer")
            .field(&self.address)
            .field(&self.ready)
            .finish()
    }
}

impl<T> Drop for RemoteServer<T> {
    fn drop(&mut self) {
        // The agent may be gone already, and its server with it.
        drop(self.socket.shutdown(std::net::Shutdown::Both));
    }
}
