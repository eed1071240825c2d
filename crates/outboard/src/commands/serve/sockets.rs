//! All sockets of a server, opened together.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use super::places::{ListenPlaces, OpenListeners};
use super::tls::Guard;
use crate::control::place::{self, ControlSocket};
use crate::failure::Failure;
use crate::http_thread::bind;
use crate::live_page::{self, PagePlan};
use crate::metrics;

/// What is to be opened.
#[derive(Debug)]
pub(super) struct SocketOptions {
    /// For clients.
    pub(super) places: ListenPlaces,
    /// Decides whether other machines may reach them.
    pub(super) guard: Guard,
    /// For control; `None`: in the runtime directory.
    pub(super) control: Option<PathBuf>,
    /// For metrics.
    pub(super) metrics: Option<SocketAddr>,
    /// For the live page.
    pub(super) page: Option<PagePlan>,
}

/// What is open.
#[derive(Debug)]
pub(super) struct Sockets {
    /// For clients.
    pub(super) places: OpenListeners,
    /// The control socket; `None` if none was requested and the default one could not be created.
    pub(super) control: Option<ControlSocket>,
    /// For metrics.
    pub(super) metrics: Option<TcpListener>,
    /// For the live page.
    pub(super) page: Option<(TcpListener, PagePlan)>,
}

impl SocketOptions {
    /// Opens them.
    pub(super) fn open(self) -> Result<Sockets, Failure> {
        let control = match &self.control {
            Some(path) => Some(control(path)?),
            None => own_control(),
        };
        let metrics = self.metrics.map(|at| bind(metrics::NAME, at)).transpose()?;
        let page = match self.page {
            Some(plan) => Some((bind(live_page::NAME, plan.address)?, plan)),
            None => None,
        };
        let places = self.places.open(|addresses| self.guard.check(addresses))?;
        Ok(Sockets {
            places,
            control,
            metrics,
            page,
        })
    }
}

fn control(path: &Path) -> Result<ControlSocket, Failure> {
    let what = format!("cannot open the control socket {}", path.display());
    ControlSocket::open(path).map_err(|e| Failure::because(what, &e))
}

/// The default control socket: the server also runs without it.
fn own_control() -> Option<ControlSocket> {
    let path = place::default_path()?;
    match ControlSocket::open(&path) {
        Ok(socket) => Some(socket),
        Err(e) => {
            let path = path.display();
            tracing::warn!(
                "no control socket at {path}: {e}; `outboard status` will not see this server"
            );
            None
        }
    }
}

/// Where metrics are.
pub(super) fn address(listener: &TcpListener) -> Option<String> {
    let address = listener.local_addr().ok()?;
    Some(format!("http://{address}/metrics"))
}
