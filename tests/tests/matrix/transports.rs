//! The ways to our server, and how each kind of client is told of them.

use outboard_tests::handover::{Activated, Inetd};
use outboard_tests::server::{By, Server};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Unix,
    Activation,
    Stdin,
}

/// All ways.
pub(crate) const TRANSPORTS: [Transport; 4] = [
    Transport::Tcp,
    Transport::Unix,
    Transport::Activation,
    Transport::Stdin,
];

impl Transport {
    /// What it is called in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Unix => "Unix socket",
            Self::Activation => "socket activation",
            Self::Stdin => "stdin",
        }
    }

    /// How many connections a client may have at once: a server on its standard input has one.
    pub(crate) fn connections(self) -> u32 {
        match self {
            Self::Stdin => 1,
            _ => 4,
        }
    }
}

#[derive(Debug)]
enum Running {
    Listening(Server),
    Activated(Activated),
    Inetd(Inetd),
}

/// A server that is reached one way.
#[derive(Debug)]
pub(crate) struct Place {
    running: Running,
    transport: Transport,
}

impl Place {
    /// Serves `disk`.
    pub(crate) fn start(transport: Transport, disk: &str) -> Self {
        let running = match transport {
            Transport::Tcp | Transport::Unix => Running::Listening(Server::start(&[disk])),
            Transport::Activation => Running::Activated(Activated::start(&[disk])),
            Transport::Stdin => Running::Inetd(Inetd::start(&[disk])),
        };
        Self { running, transport }
    }

    /// Which way it is.
    pub(crate) fn transport(&self) -> Transport {
        self.transport
    }

    /// The export's URI.
    pub(crate) fn uri(&self) -> String {
        let unix = |socket: &str| format!("nbd+unix:///?socket={socket}");
        match &self.running {
            Running::Listening(server) if self.transport == Transport::Unix => {
                server.uri_by(By::Unix, "")
            }
            Running::Listening(server) => server.uri(""),
            Running::Activated(server) => unix(server.socket()),
            Running::Inetd(server) => unix(server.socket()),
        }
    }

    /// The export as QEMU names it, its format given so that nothing is guessed.
    pub(crate) fn qemu(&self) -> String {
        let file = json!({ "driver": "nbd", "server": self.qemu_server() });
        format!("json:{}", json!({ "driver": "raw", "file": file }))
    }

    fn qemu_server(&self) -> Value {
        let unix = |path: &str| json!({ "type": "unix", "path": path });
        match &self.running {
            Running::Listening(server) if self.transport == Transport::Unix => {
                unix(server.socket())
            }
            Running::Listening(server) => {
                let port = server.port().to_string();
                json!({ "type": "inet", "host": "127.0.0.1", "port": port })
            }
            Running::Activated(server) => unix(server.socket()),
            Running::Inetd(server) => unix(server.socket()),
        }
    }

    /// Stops the server, which must end well.
    pub(crate) fn stop(self) {
        match self.running {
            Running::Listening(server) => {
                assert_eq!(server.stop(Signal::TERM), Some(0), "the server's end");
            }
            Running::Activated(server) => assert_eq!(server.stop(), Some(0), "the server's end"),
            Running::Inetd(server) => assert_eq!(server.stop(), [""; 0], "the servers' ends"),
        }
    }
}
