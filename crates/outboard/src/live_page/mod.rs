//! The live page of `serve --http`: exports, clients, arrays, volumes, attachments and events of a running server.
//!
//! ```text
//! engine: Live ── page_input ─► StatusHistory ─► one snapshot a second ─► GET /api/status, /api/events   (feed, status)
//!         Live ◄─ control request ─ PageAction ◄─ POST /api/action, token, origin                         (routes, action)
//! ```
//!
//! # Invariants
//!
//! * It has a thread of its own ([`HttpThread`]) with bounded connections, listeners and pending actions: a page that is
//!   open, slow or many times open costs the clients of exports one snapshot a second at most.
//! * It answers under its own names alone, and changes nothing without `--http-admin`, token and same origin (`access`).
//! * Text of the server is inserted by the scripts as text nodes, never as HTML.
//!
//! # What it does not do
//!
//! No TLS: other machines reach it through a tunnel or a proxy. It keeps no history: that is in the page.

mod access;
mod action;
mod assets;
mod feed;
mod rates;
mod routes;
mod status;
mod surroundings;
#[cfg(test)]
mod tests;
mod verdicts;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use hyper_util::service::TowerToHyperService;
use lab_drivers::agent::ServerToken;
use tokio::sync::{Semaphore, mpsc};

use self::access::PageAccess;
use self::feed::StatusFeed;
use self::routes::{LISTENERS_MAX, Page, RequestedAction};
use crate::control::server::ControlHandler;
use crate::event_log::EventLog;
use crate::failure::Failure;
use crate::http_thread::HttpThread;

pub(crate) use self::status::{GroupLine, PageInput, PoolLine, VolumeLine};

/// What messages call it.
pub(crate) const NAME: &str = "live page";
/// Actions that wait for their turn.
const ACTIONS_MAX: usize = 8;

/// Where and how the page is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PagePlan {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Whether actions are permitted.
    pub(crate) admin: PageAdmin,
    /// More names under which it is reached.
    pub(crate) hosts: Vec<String>,
}

/// Whether the page has actions, and where their token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PageAdmin {
    /// It has none.
    Off,
    /// The token is made at the start and printed once.
    Printed,
    /// The token is in this file.
    File(PathBuf),
}

impl PagePlan {
    /// What can be validated without opening anything.
    ///
    /// # Errors
    /// Other machines would send the token without TLS.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.admin == PageAdmin::Off || self.address.ip().is_loopback() {
            return Ok(());
        }
        let what = format!(
            "cannot permit actions of the live page on {}: other machines would send the token without TLS",
            self.address
        );
        let next =
            "listen on 127.0.0.1, and reach it by `ssh -L` or a proxy with TLS (--http-host)";
        Err(Failure::new(what).next(next))
    }

    /// The token of actions, if there are actions; before disks are opened, since it may be of no use.
    ///
    /// # Errors
    /// Its file cannot be used, or other machines would send it without TLS.
    pub(crate) fn token(&self) -> Result<Option<ServerToken>, Failure> {
        self.check()?;
        let file = match &self.admin {
            PageAdmin::Off => return Ok(None),
            PageAdmin::Printed => None,
            PageAdmin::File(path) => Some(path.as_path()),
        };
        Ok(Some(ServerToken::of(file)?))
    }
}

/// What the page shows, and what carries out its actions.
pub(crate) trait PageSource: ControlHandler {
    /// The state now. Called on the thread of the page.
    fn page_input(&self) -> PageInput;
}

/// Serves the page on `listener`. Call on the engine.
pub(crate) fn start(
    listener: TcpListener,
    plan: &PagePlan,
    token: Option<ServerToken>,
    source: Arc<impl PageSource>,
    events: EventLog,
) -> Result<HttpThread, Failure> {
    let address = listener.local_addr();
    let address = address.map_err(|e| Failure::because("cannot serve the live page", &e))?;
    let (actions, requested) = mpsc::channel(ACTIONS_MAX);
    drop(engine::spawn(carry_out(
        requested,
        source.clone(),
        events.clone(),
    )));
    let page = Page {
        feed: StatusFeed::new(source, events, token.is_some()),
        access: PageAccess {
            address,
            hosts: plan.hosts.clone(),
            token,
        },
        actions,
        listeners: Arc::new(Semaphore::new(LISTENERS_MAX)),
    };
    let service = TowerToHyperService::new(routes::router(Arc::new(page)));
    HttpThread::start(NAME, listener, true, service)
}

/// Carries out actions, one after the other, where disks may be opened.
async fn carry_out(
    mut requested: mpsc::Receiver<RequestedAction>,
    handler: Arc<impl PageSource>,
    events: EventLog,
) {
    while let Some((action, sender)) = requested.recv().await {
        let (name, subject) = action.words();
        let done = handler.clone().handle(action.into_request()).await;
        let done = done.map(|_| ());
        match &done {
            Ok(()) => {
                tracing::info!("live page: {name} {subject}");
                events.append(name, &subject, None, "requested on the live page");
            }
            Err(why) => {
                tracing::warn!("live page: {name} {subject}: {why}");
                events.append(name, &subject, None, &format!("refused: {why}"));
            }
        }
        // The page may be closed by now.
        drop(sender.send(done));
    }
}
