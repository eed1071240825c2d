//! The transports of our server, and the arguments of each kind of client for them.

use outboard_tests::handover::{Activated, Inetd};
use outboard_tests::image::Folder;
use outboard_tests::said;
use outboard_tests::server::{By, Server};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Unix,
    Tls,
    Activation,
    Stdin,
}

/// All ways.
pub(crate) const TRANSPORTS: [Transport; 5] = [
    Transport::Tcp,
    Transport::Unix,
    Transport::Tls,
    Transport::Activation,
    Transport::Stdin,
];

impl Transport {
    /// What it is called in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Unix => "Unix socket",
            Self::Tls => "TLS",
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

/// The name that the server's certificate has.
const TLS_HOST: &str = "localhost";

/// What QEMU calls the certificates.
const QEMU_CREDENTIALS: &str = "certificates";

#[derive(Debug)]
enum Running {
    Listening(Server),
    Tls(Server, Folder),
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
            Transport::Tls => {
                let folder = Folder::new();
                let certificates = certificates(&folder);
                said::run(&mut said::outboard(&["tls", "init", &certificates])).ok();
                Running::Tls(Server::start(&["--tls", &certificates, disk]), folder)
            }
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
            Running::Tls(server, folder) => format!(
                "nbds://{TLS_HOST}:{}/?tls-certificates={}",
                server.port(),
                certificates(folder)
            ),
            Running::Activated(server) => unix(server.socket()),
            Running::Inetd(server) => unix(server.socket()),
        }
    }

    /// The export as QEMU names it, its format given so that nothing is guessed.
    pub(crate) fn qemu(&self) -> String {
        let mut file = json!({ "driver": "nbd", "server": self.qemu_server() });
        if self.transport == Transport::Tls {
            file["tls-creds"] = json!(QEMU_CREDENTIALS);
        }
        format!("json:{}", json!({ "driver": "raw", "file": file }))
    }

    /// The options of a QEMU command before it can reach the export.
    pub(crate) fn qemu_options(&self) -> Vec<String> {
        let Running::Tls(_, folder) = &self.running else {
            return Vec::new();
        };
        let object = format!(
            "tls-creds-x509,id={QEMU_CREDENTIALS},endpoint=client,dir={}",
            certificates(folder)
        );
        vec!["--object".to_owned(), object]
    }

    /// The parameters of nbdkit's plugin, which does not take certificates in a URI.
    pub(crate) fn nbdkit(&self) -> Vec<String> {
        let Running::Tls(server, folder) = &self.running else {
            return vec![format!("uri={}", self.uri())];
        };
        vec![
            format!("hostname={TLS_HOST}"),
            format!("port={}", server.port()),
            "tls=require".to_owned(),
            format!("tls-certificates={}", certificates(folder)),
        ]
    }

    fn qemu_server(&self) -> Value {
        let unix = |path: &str| json!({ "type": "unix", "path": path });
        match &self.running {
            Running::Listening(server) if self.transport == Transport::Unix => {
                unix(server.socket())
            }
            Running::Listening(server) | Running::Tls(server, _) => {
                let port = server.port().to_string();
                json!({ "type": "inet", "host": TLS_HOST, "port": port })
            }
            Running::Activated(server) => unix(server.socket()),
            Running::Inetd(server) => unix(server.socket()),
        }
    }

    /// Stops the server, which must end well.
    pub(crate) fn stop(self) {
        match self.running {
            Running::Listening(server) | Running::Tls(server, _) => {
                assert_eq!(server.stop(Signal::TERM), Some(0), "the server's end");
            }
            Running::Activated(server) => assert_eq!(server.stop(), Some(0), "the server's end"),
            Running::Inetd(server) => assert_eq!(server.stop(), [""; 0], "the servers' ends"),
        }
    }
}

fn certificates(folder: &Folder) -> String {
    folder.at("certificates")
}
