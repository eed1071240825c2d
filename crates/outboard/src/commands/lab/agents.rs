//! The other machines of a run, as the command line names them: how they are dialled, in the clear or
//! under TLS.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use lab::agent::protocol::PORT;
use lab::agent::{AgentAddress, Dial, Dialled};
use lab::runner::AgentSpec;
use nbd::tls::{ClientTls, VerifyPeer};
use rustls::{ClientConnection, StreamOwned};

use crate::commands::agent::token;
use crate::failure::Failure;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an agent may say nothing. Samples come every second; dropping caches waits for disks, and is
/// given longer by the lab.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What of a command is about agents.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AgentArgs {
    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        help = "Another machine, on which `outboard agent` runs; may be given several times"
    )]
    agent: Vec<Place>,

    /// The file with the agent's token; one for each agent, or one for all
    #[arg(long, value_name = "FILE", requires = "agent")]
    agent_token_file: Vec<PathBuf>,

    /// Speak TLS with agents; DIR holds the ca-cert.pem that vouches for them
    #[arg(long, value_name = "DIR", requires = "agent")]
    agent_tls: Option<PathBuf>,

    /// Show the token to agents of other machines without TLS: it is read by whoever listens on the way
    #[arg(long, requires = "agent")]
    agent_insecure: bool,

    /// The TCP port of the measured server on the agent's machine [default: that of the attachment]
    #[arg(long, value_name = "PORT", requires = "agent")]
    agent_server_port: Option<u16>,
}

/// `HOST[:PORT]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    host: String,
    port: u16,
}

/// Why a text is no place of an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("say HOST, HOST:PORT or [IPV6]:PORT")]
pub(crate) struct PlaceError;

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self {
                host: address.ip().to_string(),
                port: address.port(),
            });
        }
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(ip) = bare.unwrap_or(text).parse::<IpAddr>() {
            return Ok(Self {
                host: ip.to_string(),
                port: PORT,
            });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| PlaceError)?),
            None => (text, PORT),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(PlaceError);
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

impl AgentArgs {
    /// Which of the agents is at `place`.
    pub(crate) fn index_of(&self, place: &Place) -> Result<usize, Failure> {
        let found = self.agent.iter().position(|agent| agent == place);
        found.ok_or_else(|| {
            Failure::usage(format!("{place} is none of the agents"))
                .next(format!("add --agent {place}"))
        })
    }

    /// The agents. `server_port` is the measured server's, as far as it is known.
    pub(crate) fn specs(&self, server_port: Option<u16>) -> Result<Vec<AgentSpec>, Failure> {
        let files = self.agent_token_file.len();
        if files != self.agent.len() && (files != 1 || self.agent.is_empty()) {
            let next = "give --agent-token-file for each --agent, or once for all";
            return match self.agent.is_empty() {
                true => Ok(Vec::new()),
                false => Err(Failure::usage("an agent needs its token").next(next)),
            };
        }
        let specs = self.agent.iter().enumerate().map(|(index, place)| {
            let file = &self.agent_token_file[index.min(files - 1)];
            Ok(AgentSpec {
                address: AgentAddress {
                    dial: Arc::new(self.dialler(place)?),
                    token: token::read(file)?,
                },
                server_port: self.agent_server_port.or(server_port),
            })
        });
        specs.collect()
    }

    fn dialler(&self, place: &Place) -> Result<Dialler, Failure> {
        let tls = self.agent_tls.as_deref();
        let tls = tls
            .map(|folder| ClientTls::load(&place.host, Some(folder), VerifyPeer::Yes))
            .transpose()
            .map_err(|error| Failure::from_error(&error))?;
        Ok(Dialler {
            place: place.clone(),
            tls,
            insecure: self.agent_insecure,
        })
    }
}

/// Makes connections to one agent.
#[derive(Debug)]
struct Dialler {
    place: Place,
    tls: Option<ClientTls>,
    /// Whether the token may be shown in the clear.
    insecure: bool,
}

impl Dial for Dialler {
    fn dial(&self) -> io::Result<Dialled> {
        let socket = connect(&self.place)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        socket.set_write_timeout(Some(SILENCE_MAX))?;
        let stream = socket.try_clone()?;
        let Some(tls) = &self.tls else {
            if !self.insecure && !socket.peer_addr()?.ip().is_loopback() {
                return Err(io::Error::other(
                    "its token would be sent in the clear; add --agent-tls DIR, or say --agent-insecure",
                ));
            }
            return Ok(Dialled {
                stream: Box::new(stream),
                socket,
            });
        };
        let (config, name) = tls.parts();
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Dialled {
            stream: Box::new(StreamOwned::new(connection, stream)),
            socket,
        })
    }

    fn place(&self) -> String {
        self.place.to_string()
    }
}

/// To the first address that answers.
fn connect(place: &Place) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (place.host.as_str(), place.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    //! Tests of how agents are named.

    use super::*;

    #[test]
    fn an_agent_is_a_host_with_or_without_a_port() {
        for (text, host, port) in [
            ("nas.lan", "nas.lan", PORT),
            ("nas:7", "nas", 7),
            ("192.0.2.1", "192.0.2.1", PORT),
            ("192.0.2.1:7", "192.0.2.1", 7),
            ("2001:db8::1", "2001:db8::1", PORT),
            ("[2001:db8::1]", "2001:db8::1", PORT),
            ("[2001:db8::1]:7", "2001:db8::1", 7),
        ] {
            let place: Place = text.parse().expect(text);
            assert_eq!((place.host.as_str(), place.port), (host, port), "{text}");
            assert_eq!(place.to_string().parse(), Ok(place), "{text}");
        }
        for text in ["", ":7", "nas:", "nas:70000", "nas/x", "a b", "http://nas"] {
            assert_eq!(text.parse::<Place>(), Err(PlaceError), "{text}");
        }
    }
}
