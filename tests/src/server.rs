//! Our server as a child process, on a port of its own.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use testkit::proc::Process;

use crate::said;

/// A port of the loopback that is free now.
#[track_caller]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// How long the server may take to listen, and to stop.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A server that listens; killed when dropped.
#[derive(Debug)]
pub struct Server {
    process: Process,
    port: u16,
    socket: String,
    folder: TempDir,
}

/// How to reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// TCP on the loopback.
    Tcp,
    /// A Unix socket.
    Unix,
}

/// Both ways.
pub const WAYS: [By; 2] = [By::Tcp, By::Unix];

impl Server {
    /// Serves `disks` (and the options among them) over TCP and a Unix socket.
    ///
    /// # Panics
    /// If it does not listen in time.
    #[must_use]
    #[track_caller]
    pub fn start(disks: &[&str]) -> Self {
        Self::start_on(0, disks)
    }

    /// The same on a port that was used before.
    ///
    /// # Panics
    /// If it does not listen in time.
    #[must_use]
    #[track_caller]
    pub fn start_on(port: u16, disks: &[&str]) -> Self {
        let folder = TempDir::with_prefix("outboard-server-").expect("a temporary folder");
        let port_file = folder.path().join("port");
        let socket = folder.path().join("socket");
        let socket_text = socket.to_str().expect("a name in UTF-8").to_owned();
        let mut command = said::outboard(&["serve"]);
        command
            .args(disks)
            .arg(format!("--listen=127.0.0.1:{port}"))
            .arg(format!("--listen=unix:{socket_text}"))
            .arg("--port-file")
            .arg(&port_file);
        let mut process = Process::start(&mut command).expect("a server to start");
        let written = process.wait_for_file(&port_file, LIMIT);
        let written = written.unwrap_or_else(|e| panic!("the server does not listen: {e}"));
        let port = written
            .parse()
            .unwrap_or_else(|e| panic!("port {written:?}: {e}"));
        let is_socket = std::fs::metadata(&socket).is_ok_and(|found| found.file_type().is_socket());
        assert!(is_socket, "the port file comes after everything listens");
        Self {
            process,
            port,
            socket: socket_text,
            folder,
        }
    }

    /// The URI of an export over TCP.
    #[must_use]
    pub fn uri(&self, export: &str) -> String {
        self.uri_by(By::Tcp, export)
    }

    /// The URI of an export.
    #[must_use]
    pub fn uri_by(&self, by: By, export: &str) -> String {
        match by {
            By::Tcp => format!("nbd://127.0.0.1:{}/{export}", self.port),
            By::Unix => format!("nbd+unix:///{export}?socket={}", self.socket),
        }
    }

    /// The port on the loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path of the Unix socket.
    #[must_use]
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// The process.
    #[must_use]
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Sends it `signal`; returns its exit status.
    ///
    /// # Panics
    /// If it does not stop in time, or leaves its socket or its port file.
    #[must_use]
    #[track_caller]
    pub fn stop(mut self, signal: Signal) -> Option<i32> {
        self.process.signal(signal).expect("a process to signal");
        let status = self.process.wait(LIMIT);
        let status = status.unwrap_or_else(|e| panic!("the server does not stop: {e}"));
        let left: Vec<_> = std::fs::read_dir(self.folder.path())
            .expect("the server's folder")
            .filter_map(Result::ok)
            .map(|entry| entry.file_name())
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        status.code()
    }

    /// Kills it without a word, as a power cut would. Its port, for the next one.
    ///
    /// # Panics
    /// If it is not there to be killed.
    #[track_caller]
    pub fn kill(mut self) -> u16 {
        kill(&mut self.process);
        self.port
    }
}

/// Kills a process and waits for its end.
///
/// # Panics
/// If it is not there to be killed.
#[track_caller]
pub fn kill(process: &mut Process) {
    process.signal(Signal::KILL).expect("a process to kill");
    process.wait(LIMIT).expect("a killed process to end");
}
