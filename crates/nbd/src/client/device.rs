//! [`Client`]: a thin front of the session. What it is as a disk is in `disk`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use block::{Errno, Geometry, IoError, Range};
use engine::clock;
use nbd_proto::{DiskIdentity, ExportInfo};
use tokio::sync::{mpsc, oneshot};

use crate::client::dial::Dialed;
use crate::client::disk::geometry;
use crate::client::session::work::{Message, Response, Submission, Work};
use crate::client::session::{Aborted, Inbox, Session, SharedState, connect_all, pause};
use crate::client::{Changed, ClientConfig, ClientError, ClientHealth, Target, describe, limits};

/// A remote export. The requests of any number of callers go over its connections together.
///
/// Dropping the last one closes the connections; [`Client::close`] also waits for it.
#[derive(Debug)]
pub struct Client {
    target: Target,
    export: ExportInfo,
    disk: DiskIdentity,
    request_timeout: Duration,
    /// Size when this handle was made, bytes.
    measured: u64,
    inbox: mpsc::Sender<Message>,
    aborts: mpsc::Sender<Aborted>,
    shared: Arc<SharedState>,
}

/// Ends a client at once, while others hold handles of it. It keeps no connection alive by itself.
#[derive(Debug, Clone)]
pub struct Cutter(mpsc::Sender<Aborted>);

impl Cutter {
    /// Whether the client is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_closed()
    }

    /// As [`Client::abort`]; at once where the client is gone.
    pub async fn cut(&self) {
        let (done, over) = oneshot::channel();
        if self.0.send(done).await.is_ok() {
            // The session drops its end, which is the answer.
            drop(over.await);
        }
    }
}

/// Reads the state of a client, and does not keep it open.
#[derive(Debug, Clone)]
pub struct ClientMonitor {
    target: Target,
    shared: Weak<SharedState>,
}

impl ClientMonitor {
    /// The export, perhaps on several servers.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// As [`Client::health`]; `None` once the client has ended.
    #[must_use]
    pub fn health(&self) -> Option<ClientHealth> {
        Some(self.shared.upgrade()?.health())
    }
}

impl Client {
    /// Connects to `target` and reads what identifies its disk, so that no request is ever sent to another one. Of several servers the
    /// first that answers is used. Only inside [`engine::run`]; the connections live on this core.
    ///
    /// A server that cannot be reached is not waited for. Connections that are lost before the disk is known are made again, as
    /// long as [`ClientConfig::request_timeout`] has not passed since the first attempt began.
    ///
    /// # Errors
    /// [`ClientError`], if the first connection cannot be made, or the last attempt failed.
    pub async fn connect(target: Target, config: ClientConfig) -> Result<Arc<Self>, ClientError> {
        let began = clock::now();
        let writer = config.first_access();
        let mut config = ClientConfig {
            connections: config.connections.clamp(1, limits::CONNECTIONS_MAX),
            in_flight_max: config.in_flight_max.clamp(1, limits::IN_FLIGHT_MAX),
            writer: Some(writer),
            ..config
        };
        let mut attempts = 0;
        loop {
            let error = match connect_all(target.servers(), &config).await {
                Ok(dialed) => {
                    // All further connections are those of a client that was admitted.
                    config.writer = Some(writer.again());
                    match Self::open(target.clone(), config.clone(), dialed).await {
                        Ok(client) => return Ok(Arc::new(client)),
                        Err(error) => error,
                    }
                }
                Err(error) if attempts == 0 => return Err(error),
                Err(error) => error,
            };
            let is_over = clock::now().duration_since(began) >= config.request_timeout;
            if is_over || !error.is_outage() {
                return Err(error);
            }
            attempts += 1;
            tracing::info!("{error}; connecting again");
            clock::sleep(pause(attempts)).await;
        }
    }

    /// A client on connections that were just made, once it is known which disk they have.
    async fn open(
        target: Target,
        config: ClientConfig,
        dialed: Vec<Dialed>,
    ) -> Result<Self, ClientError> {
        let disk = dialed[0].disk().clone();
        let export = dialed[0].export().clone();
        let (sender, inbox) = mpsc::channel(limits::INBOX_MAX);
        let (aborts, aborted) = mpsc::channel(1);
        let geometry = geometry(&export, config.read_only);
        let shared = Arc::new(SharedState::new(geometry));
        let client = Self {
            target: target.clone(),
            request_timeout: config.request_timeout,
            measured: shared.geometry().size,
            export,
            disk,
            inbox: sender,
            aborts,
            shared: Arc::clone(&shared),
        };
        let (opening, opened) = oneshot::channel();
        let inbox = Inbox::new(inbox, aborted);
        let session = Session::new(&target, config, dialed, inbox, (shared, opening));
        drop(engine::spawn(session.run()));
        let shut_down = |_| ClientError::ShutDown {
            target: client.target.clone(),
        };
        opened.await.map_err(shut_down)??;
        Ok(client)
    }

    /// The export as the server described it when it was first reached.
    #[must_use]
    pub fn export(&self) -> &ExportInfo {
        &self.export
    }

    /// The identity that the server reported when it was first reached.
    #[must_use]
    pub fn disk_identity(&self) -> &DiskIdentity {
        &self.disk
    }

    /// Where it is.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// How the connections are.
    #[must_use]
    pub fn health(&self) -> ClientHealth {
        self.shared.health()
    }

    /// Reads how the connections are, for as long as the client is open.
    #[must_use]
    pub fn monitor(&self) -> ClientMonitor {
        ClientMonitor {
            target: self.target.clone(),
            shared: Arc::downgrade(&self.shared),
        }
    }

    /// Finishes what is in flight, says goodbye to the server and ends the connections. Requests
    /// fail from now on. What must be durable is flushed before, by the caller.
    pub async fn close(&self) {
        let (done, over) = oneshot::channel();
        if self.inbox.send(Message::Close(done)).await.is_ok() {
            // The session drops its end, which is the answer.
            drop(over.await);
        }
    }

    /// Ends at once: when this returns, nothing more is sent to the server, neither what is in flight
    /// nor what was acknowledged and not flushed, whenever it comes back. Requests fail from now on.
    /// For a disk that others go on without: what reached it late would be older than what is there.
    pub async fn abort(&self) {
        self.cutter().cut().await;
    }

    /// A handle that can [`abort`](Self::abort) it and does not keep it open.
    #[must_use]
    pub fn cutter(&self) -> Cutter {
        Cutter(self.aborts.clone())
    }

    /// Queries the server for the export's size, and returns it. Where it has grown, the connections
    /// are made again, because a server may hold an old one to the old size, and
    /// [`BlockDevice::geometry`](block::BlockDevice::geometry) grows. Requests go on meanwhile.
    ///
    /// # Errors
    /// [`ClientError::Changed`] if the export has shrunk: nothing changes, what is beyond its end
    /// fails at the server. [`ClientError::NotRenewed`] if requests in flight, or a flush of what was written before, are not answered within
    /// the [request timeout](crate::client::ClientConfig::request_timeout): nothing changes either. Else why the server could not be queried, or not be connected to again.
    pub async fn refresh_size(&self) -> Result<u64, ClientError> {
        let _one_at_a_time = self.shared.refreshing().await;
        let target = self.shared.server();
        let target = target.unwrap_or_else(|| self.target.clone());
        let described = describe(&target, self.request_timeout).await?;
        let was = self.geometry_now().size;
        let is = block::whole_blocks(described.export.size, self.geometry_now().block_size);
        if is < was {
            let changed = Changed::Size { was, is };
            return Err(ClientError::Changed { target, changed });
        }
        if is == was {
            return Ok(was);
        }
        let (renewed, answer) = oneshot::channel();
        // A closed inbox drops the message, and with it the other end of the answer.
        drop(self.inbox.send(Message::Renew(renewed)).await);
        let shut_down = Err(ClientError::ShutDown { target });
        answer.await.unwrap_or(shut_down)
    }

    /// Another handle of the same session, if the export is larger now than when this one was made.
    pub(super) async fn refreshed(&self) -> Result<Option<Self>, ClientError> {
        let size = self.refresh_size().await?;
        let again = || Self {
            target: self.target.clone(),
            export: ExportInfo {
                size,
                ..self.export.clone()
            },
            disk: self.disk.clone(),
            request_timeout: self.request_timeout,
            measured: size,
            inbox: self.inbox.clone(),
            aborts: self.aborts.clone(),
            shared: Arc::clone(&self.shared),
        };
        Ok((size > self.measured).then(again))
    }

    /// Whether the server reports holes and zeroes. Where it does not, all is data.
    #[must_use]
    pub fn knows_extents(&self) -> bool {
        self.shared.reports_extents()
    }

    pub(super) async fn request(&self, work: Work, range: Range) -> Result<Response, IoError> {
        let operation = work.operation();
        let (answer, answered) = oneshot::channel();
        let submission = Submission {
            work,
            range,
            answer,
        };
        let sent = self.inbox.send(Message::Request(submission)).await;
        if sent.is_ok()
            && let Ok(result) = answered.await
        {
            return result;
        }
        let target = self.target.clone();
        let error = IoError::new(Errno::ShuttingDown, operation, Some(range));
        Err(error.because(ClientError::ShutDown { target }))
    }

    /// Waits for every change that was submitted before.
    pub(super) async fn settled(&self) {
        let (done, over) = oneshot::channel();
        if self.inbox.send(Message::Settle(done)).await.is_ok() {
            // The session drops its end, which is the answer.
            drop(over.await);
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.shared.epoch()
    }

    pub(super) fn geometry_now(&self) -> &Geometry {
        self.shared.geometry()
    }
}
