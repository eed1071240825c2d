//! The server under soak: where it is, its images, its end.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::watch::Ends;
use crate::clock;
use crate::shell::{self, Running};
use crate::wire::{self, Replies};

/// How long the server may take to begin, to stop, and to answer.
const LIMIT: Duration = Duration::from_secs(60);

/// The export that most clients share, each with a region of its own.
pub(super) const SHARED: &str = "shared";

/// The folder of the certificates, in the soak's.
const CERTIFICATES: &str = "certificates";

/// A server and how to reach it.
#[derive(Debug)]
pub(super) struct Place {
    server: Running,
    binary: PathBuf,
    folder: PathBuf,
    log: PathBuf,
    port: u16,
}

/// A way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Tcp,
    Unix,
}

/// A connection in the transmission phase.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    pub(super) replies: Replies,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Name of the export that one whole-disk client has for itself.
pub(super) fn own_export(slot: usize) -> String {
    format!("own{slot}")
}

/// One image that is served.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) export: String,
    pub(super) size: u64,
}

impl Place {
    /// Makes the images, starts the server on them and waits until it listens.
    pub(super) fn start(binary: &Path, folder: &Path, images: &[Image]) -> Result<Self> {
        let (port_file, log) = (folder.join("port"), folder.join("server.log"));
        for old in [&port_file, &folder.join("socket")] {
            std::fs::remove_file(old).ok();
        }
        let certificates = folder.join(CERTIFICATES);
        if certificates.exists() {
            std::fs::remove_dir_all(&certificates)?;
        }
        let mut init = Command::new(binary);
        shell::output(init.args(["tls", "init"]).arg(&certificates))?;
        let mut words = vec!["serve".to_owned()];
        for image in images {
            let path = folder.join(&image.export);
            let file = std::fs::File::create(&path)
                .with_context(|| format!("cannot make {}", path.display()))?;
            file.set_len(image.size)?;
            words.push(format!("{}={}", image.export, path.display()));
        }
        words.extend([
            "--listen=127.0.0.1:0".to_owned(),
            format!("--listen=unix:{}", folder.join("socket").display()),
            format!("--port-file={}", port_file.display()),
            format!("--tls={}", certificates.display()),
            "--tls-optional".to_owned(),
            // Each client has a region of a shared image for itself.
            "--writers=many".to_owned(),
        ]);
        let mut server = Running::start(binary, words, &log)?;
        let mut ended = None;
        let port = clock::poll(LIMIT, || {
            ended = server.still_runs().err();
            let told = std::fs::read_to_string(&port_file).ok();
            let port = told.and_then(|told| told.trim().parse::<u16>().ok());
            port.map(Some).or(ended.is_some().then_some(None))
        });
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        if let Some(ended) = ended {
            bail!("{ended}: {}", logged().trim());
        }
        let port = port.flatten().context("the server wrote no port file")?;
        Ok(Self {
            server,
            binary: binary.to_path_buf(),
            folder: folder.to_path_buf(),
            log,
            port,
        })
    }

    /// The server's process.
    pub(super) fn server(&self) -> u32 {
        self.server.id()
    }

    /// The server's port.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// A folder for what clients need.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The URI of an export over TCP.
    pub(super) fn uri(&self, export: &str) -> String {
        format!("nbd://127.0.0.1:{}/{export}", self.port)
    }

    /// The URI of an export under TLS.
    pub(super) fn uri_tls(&self, export: &str) -> String {
        let certificates = self.folder.join(CERTIFICATES);
        format!(
            "nbds://127.0.0.1:{}/{export}?tls-certificates={}",
            self.port,
            certificates.display()
        )
    }

    /// Our binary, as a client.
    pub(super) fn binary(&self) -> &Path {
        &self.binary
    }

    /// Connects and negotiates.
    pub(super) fn connect(&self, way: Way, export: &str, replies: Replies) -> Result<Connection> {
        let mut stream = match way {
            Way::Tcp => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_write_timeout(Some(LIMIT))?;
                Stream::Tcp(stream)
            }
            Way::Unix => {
                let stream = UnixStream::connect(self.folder.join("socket"))?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_write_timeout(Some(LIMIT))?;
                Stream::Unix(stream)
            }
        };
        wire::negotiate(&mut stream, export, replies)?;
        Ok(Connection { stream, replies })
    }

    /// The server's end of a connection; none where the kernel does not report it.
    pub(super) fn end_of(&self, connection: &Connection) -> Result<Option<Ends>> {
        match &connection.stream {
            Stream::Unix(_) => Ok(None),
            Stream::Tcp(stream) => {
                let own = BTreeSet::from([stream.local_addr()?.port()]);
                Ends::of_ports(self.port, &own).map(Some)
            }
        }
    }

    /// Stops the server, which must end within `limit`, with success and without a panic in its log.
    pub(super) fn stop(mut self, limit: Duration) -> Result<()> {
        let status = self.server.terminate(limit)?;
        ensure!(status.success(), "the server ended with {status}");
        let logged = std::fs::read_to_string(&self.log)?;
        let panics = logged.lines().find(|line| line.contains("panic"));
        if let Some(panic) = panics {
            bail!("the server logged: {panic}");
        }
        Ok(())
    }
}

impl Connection {
    /// Ends it without a word, with a reset where that is possible and requested.
    pub(super) fn abandon(self, reset: bool) -> Result<()> {
        match self.stream {
            Stream::Tcp(stream) if reset => {
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
            }
            // A client that is gone cannot be notified, so it does not matter whether this works.
            Stream::Tcp(stream) => drop(stream.shutdown(Shutdown::Write)),
            Stream::Unix(stream) => drop(stream.shutdown(Shutdown::Write)),
        }
        Ok(())
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Connection {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buffer),
            Self::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}
