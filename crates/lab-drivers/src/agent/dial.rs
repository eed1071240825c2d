//! The other machines of a run, as the command line names them: how they are dialled, in the clear or
//! under TLS.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use lab::agent::protocol::PORT;
use lab::agent::{Dial, Dialled};
use nbd::tls::ClientTls;
use rustls::{ClientConnection, StreamOwned};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an agent may say nothing. Samples come every second; dropping caches waits for disks, and is
/// given longer by the lab.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// `HOST[:PORT]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentHost {
    /// A name or an address.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
}

/// Why a text is no place of an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("say HOST, HOST:PORT or [IPV6]:PORT")]
pub struct AgentHostError;

impl FromStr for AgentHost {
    type Err = AgentHostError;

    fn from_str(text: &str) -> Result<Self, AgentHostError> {
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
            Some((host, port)) => (host, port.parse().map_err(|_| AgentHostError)?),
            None => (text, PORT),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(AgentHostError);
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for AgentHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

/// Makes connections to one agent.
#[derive(Debug)]
pub struct AgentDialer {
    /// Where the agent is.
    pub place: AgentHost,
    /// What vouches for it, under TLS.
    pub tls: Option<ClientTls>,
    /// Whether the token may be shown in the clear.
    pub insecure: bool,
}

impl Dial for AgentDialer {
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
fn connect(place: &AgentHost) -> io::Result<TcpStream> {
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
            let place: AgentHost = text.parse().expect(text);
            assert_eq!((place.host.as_str(), place.port), (host, port), "{text}");
            assert_eq!(place.to_string().parse(), Ok(place), "{text}");
        }
        for text in ["", ":7", "nas:", "nas:70000", "nas/x", "a b", "http://nas"] {
            assert_eq!(text.parse::<AgentHost>(), Err(AgentHostError), "{text}");
        }
    }
}
