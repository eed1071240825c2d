//! Our server on sockets that it did not open: handed over as systemd does it, or one client as its
//! standard input as inetd does it.
//!
//! Both listen on a Unix socket of this process, so that any client of the field reaches them.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;
use testkit::proc::Process;

use crate::image::Folder;
use crate::said;
use crate::server::LIMIT;

/// Gives the process the number it has as `LISTEN_PID`, and its standard input as descriptor 3.
const HAND_OVER: &str =
    r#"exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$0" "$@""#;

/// Time between two looks for a client.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A listening Unix socket in a folder of its own.
#[derive(Debug)]
struct Place {
    socket: String,
    _folder: Folder,
}

impl Place {
    /// Clients may come at once: they wait in the socket until the server accepts them.
    #[track_caller]
    fn listen() -> (Self, UnixListener) {
        let folder = Folder::new();
        let socket = folder.at("socket");
        let listener = UnixListener::bind(&socket).expect("a free path");
        let place = Self {
            socket,
            _folder: folder,
        };
        (place, listener)
    }
}

/// A server on a listening socket that it was handed.
#[derive(Debug)]
pub struct Activated {
    process: Process,
    place: Place,
}

impl Activated {
    /// Serves `disks` (and the options among them).
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn start(disks: &[&str]) -> Self {
        let (place, listener) = Place::listen();
        let serve = said::outboard(&["serve"]);
        let mut command = Command::new("sh");
        command
            .args(["-c", HAND_OVER])
            .arg(serve.get_program())
            .args(serve.get_args())
            .args(disks)
            .stdin(Stdio::from(OwnedFd::from(listener)));
        let process = Process::start_with(&mut command).expect("a server to start");
        Self { process, place }
    }

    /// The socket's path.
    #[must_use]
    pub fn socket(&self) -> &str {
        &self.place.socket
    }

    /// Stops it; its exit status.
    ///
    /// # Panics
    /// If it does not stop in time.
    #[must_use]
    #[track_caller]
    pub fn stop(mut self) -> Option<i32> {
        self.process
            .signal(Signal::TERM)
            .expect("a process to signal");
        let status = self.process.wait(LIMIT);
        status
            .unwrap_or_else(|e| panic!("the server does not stop: {e}"))
            .code()
    }
}

/// A listening socket that starts a server for each client, one at a time.
#[derive(Debug)]
pub struct Inetd {
    place: Place,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl Inetd {
    /// Will serve `disks` to each client.
    ///
    /// # Panics
    /// If it cannot listen.
    #[must_use]
    #[track_caller]
    pub fn start(disks: &[&str]) -> Self {
        let (place, listener) = Place::listen();
        listener
            .set_nonblocking(true)
            .expect("a listener that does not wait");
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let disks: Vec<String> = disks.iter().map(|disk| (*disk).to_owned()).collect();
        let thread = std::thread::Builder::new()
            .name("inetd".to_owned())
            .spawn(move || accept(&listener, &disks, &until));
        Self {
            place,
            stop,
            thread: thread.expect("a thread"),
        }
    }

    /// The socket's path.
    #[must_use]
    pub fn socket(&self) -> &str {
        &self.place.socket
    }

    /// Takes no more clients and waits for the last one's server; what went wrong in them all.
    ///
    /// # Panics
    /// If the thread did.
    #[must_use]
    pub fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a thread that ends in order")
    }
}

fn accept(listener: &UnixListener, disks: &[String], stop: &AtomicBool) -> Vec<String> {
    let mut wrong = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((client, _)) => wrong.extend(serve(client, disks).err()),
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
    wrong
}

/// One client from its first byte to its last.
fn serve(client: UnixStream, disks: &[String]) -> Result<(), String> {
    client
        .set_nonblocking(false)
        .map_err(|e| format!("a client's socket: {e}"))?;
    let mut command = said::outboard(&["serve", "--stdin"]);
    command
        .args(disks)
        .stdin(Stdio::from(OwnedFd::from(client)));
    let mut server = Process::start_with(&mut command).map_err(|e| e.to_string())?;
    // The command keeps its copy of the socket, and the client would wait for the end of it.
    drop(command);
    let status = server.wait(said::LIMIT).map_err(|e| e.to_string())?;
    if !status.success() {
        return Err(format!("ended with {status}: {}", server.stderr()));
    }
    Ok(())
}
