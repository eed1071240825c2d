//! The sockets that `serve` listens on: opened here or handed over, and the files they leave.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use nbd::server::{ListenAddress, Listener};

use super::listen::ListenPlace;
use super::port_file::PortFile;
use crate::failure::Failure;

/// Where to listen, before anything is open.
#[derive(Debug)]
pub(super) struct ListenPlaces {
    handed_over: Vec<OwnedFd>,
    places: Vec<ListenPlace>,
    port_file: Option<PathBuf>,
}

/// Open sockets.
#[derive(Debug)]
pub(super) struct OpenListeners {
    /// The sockets.
    pub(super) listeners: Vec<Listener>,
    /// Some of them were handed over: the program that did it knows the addresses, and may have made standard output a pipe
    /// of data.
    pub(super) is_activated: bool,
    /// What must be removed at the end.
    pub(super) traces: CreatedFiles,
}

/// The files that a server creates. Each is removed by its owner (a listener removes its socket); this list is for an
/// exit that runs no destructors.
#[derive(Debug, Default)]
pub(super) struct CreatedFiles {
    sockets: Vec<PathBuf>,
    port_file: Option<PortFile>,
}

impl ListenPlaces {
    /// The places of `--listen` and the sockets of `LISTEN_FDS`; loopback if there is neither.
    pub(super) fn find(listen: &[ListenPlace], port_file: Option<&Path>) -> Result<Self, Failure> {
        let handed_over = handed_over()?;
        let mut places = listen.to_vec();
        if places.is_empty() && handed_over.is_empty() {
            places.push(ListenPlace::loopback());
        }
        let no_tcp = !places
            .iter()
            .any(|place| matches!(place, ListenPlace::Tcp { .. }));
        if port_file.is_some() && no_tcp && handed_over.is_empty() {
            let failure = Failure::usage("--port-file without a TCP port");
            return Err(failure.next("add --listen 127.0.0.1:0"));
        }
        let port_file = port_file.map(Path::to_owned);
        Ok(Self {
            handed_over,
            places,
            port_file,
        })
    }

    /// Opens them all, if `check` agrees with where they are. What was handed over is not opened again, so that
    /// one configuration does with and without a socket unit.
    pub(super) fn open(
        self,
        check: impl FnOnce(&[ListenAddress]) -> Result<(), Failure>,
    ) -> Result<OpenListeners, Failure> {
        let mut listeners = Vec::new();
        let mut traces = CreatedFiles::default();
        let is_activated = !self.handed_over.is_empty();
        for socket in self.handed_over {
            let listener = Listener::from_fd(socket)
                .map_err(|error| Failure::because("cannot use a socket of LISTEN_FDS", &error))?;
            listeners.push(listener);
        }
        let is_handed_over =
            |place: &ListenPlace| listeners.iter().any(|l| place.is_at(l.address()));
        let (_, places): (Vec<_>, Vec<_>) = self.places.into_iter().partition(is_handed_over);
        for place in places {
            listeners.push(match place {
                ListenPlace::Tcp { host, port } => {
                    Listener::tcp(ListenPlace::address(&host, port)?).map_err(Failure::new)?
                }
                ListenPlace::Vsock(address) => Listener::vsock(address).map_err(Failure::new)?,
                ListenPlace::Unix { path, mode } => {
                    let path = std::path::absolute(&path).map_err(|error| {
                        Failure::because(format!("cannot listen on {}", path.display()), &error)
                    })?;
                    let listener = Listener::unix_with_mode(&path, mode).map_err(Failure::new)?;
                    traces.sockets.push(path);
                    listener
                }
            });
        }
        let addresses: Vec<_> = listeners.iter().map(|l| l.address().clone()).collect();
        check(&addresses)?;
        if let Some(path) = self.port_file {
            let port = listeners
                .iter()
                .find_map(|listener| listener.address().port());
            let port =
                port.ok_or_else(|| Failure::new("--port-file: no TCP socket was handed over"))?;
            traces.port_file = Some(PortFile::write(&path, port)?);
        }
        Ok(OpenListeners {
            listeners,
            is_activated,
            traces,
        })
    }
}

/// The listening sockets that systemd, or another parent with its protocol, handed over.
fn handed_over() -> Result<Vec<OwnedFd>, Failure> {
    let mut found = ListenFd::from_env();
    let mut sockets = Vec::new();
    for index in 0..found.len() {
        let unix = found
            .take_unix_listener(index)
            .map(|socket| socket.map(OwnedFd::from));
        let socket = match unix {
            Ok(socket) => socket,
            Err(_) => found
                .take_tcp_listener(index)
                .map(|socket| socket.map(OwnedFd::from))
                .map_err(|error| Failure::because("cannot use a socket of LISTEN_FDS", &error))?,
        };
        sockets.extend(socket);
    }
    Ok(sockets)
}

impl CreatedFiles {
    /// Removes the files now.
    pub(super) fn remove(&self) {
        for path in &self.sockets {
            // Its listener may have removed it this very moment.
            drop(std::fs::remove_file(path));
        }
        if let Some(port_file) = &self.port_file {
            port_file.remove();
        }
    }
}
