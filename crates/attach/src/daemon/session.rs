//! One attachment, in the process that owns it: brought up, served, taken down.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::Node;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::control::{ControlHandlers, DETACHES_MAX, DetachRequest, listen};
use super::events::{HealthSources, Signals, signals, unreachable, wait_for_device_end};
use super::message::{Attachment, ControlReply, Leftovers};
use super::start::first_record;
use crate::alignment;
use crate::error::AttachError;
use crate::facts;
use crate::faults::Faults;
use crate::growth::SizeReply;
use crate::health::Reachability;
use crate::local::{DiskSupervisor, LocalDisk, LocalDiskError};
use crate::mount::{self, MountError};
use crate::probe;
use crate::remote::Remote;
use crate::report;
use crate::request::{AttachRequest, DETACH_TIMEOUT};
use crate::state::{Folder, Record, StateError};
use crate::sysfs;
use crate::teardown::{DeviceTeardown, TeardownRefusal, take_down};

/// How long a step may take after SIGTERM while the server cannot be reached.
const UNREACHABLE_FOR: Duration = Duration::from_secs(3);
/// How long the disk's partitions are waited for.
const PARTITIONS_FOR: Duration = Duration::from_secs(5);
/// How long writes that were cut off are waited for.
const SETTLE_FOR: Duration = Duration::from_secs(2);

/// An attachment and everything of it that must be taken down.
pub(super) struct Session {
    folder: Folder,
    pub(super) request: AttachRequest,
    pub(super) record: Record,
    pub(super) device_teardown: DeviceTeardown,
    pub(super) disk: Option<Node>,
    /// Supervises a local disk.
    pub(super) supervisor: Option<Arc<dyn DiskSupervisor>>,
    pub(super) remote: Option<Remote>,
    pub(super) faults: Arc<Faults>,
    pub(super) reachability: Arc<Reachability>,
    /// Takes requests to refresh the size; absent for a local disk.
    pub(super) grow: Option<mpsc::Sender<SizeReply>>,
}

impl Session {
    pub(super) fn new(folder: Folder, request: AttachRequest) -> Result<Self, AttachError> {
        let record = first_record(&folder, &request)?;
        folder.write(&record)?;
        Ok(Self {
            folder,
            request,
            record,
            device_teardown: DeviceTeardown::None,
            disk: None,
            supervisor: None,
            remote: None,
            faults: Arc::default(),
            reachability: Arc::default(),
            grow: None,
        })
    }

    /// Attaches, makes a filesystem and mounts, as requested.
    pub(super) async fn bring_up<F, Fut>(
        &mut self,
        open_local: F,
    ) -> Result<Attachment, AttachError>
    where
        F: Fn(String, bool) -> Fut,
        Fut: Future<Output = Result<LocalDisk, LocalDiskError>>,
    {
        let place = self.request.mount.as_deref().map(mount::inspect);
        let place = place.transpose()?;
        let device = self.attach(open_local).await?;
        self.record.device = Some(device.clone());
        self.folder.write(&self.record)?;
        if let Some(name) = self.record.name.as_deref() {
            self.folder.link(name, &device)?;
        }
        // A disk that is to be mounted has no partitions, or an error that names them.
        if self.request.mkfs.is_none() && place.is_none() {
            self.warn_of_alignment(&device).await;
        }
        if let Some(fs) = self.request.mkfs.clone() {
            let device = device.clone();
            engine::blocking(move || probe::mkfs(&device, &fs)).await?;
        }
        if let Some(place) = place {
            self.record.mount = Some(place.clone());
            self.folder.write(&self.record)?;
            mount::create(&place)?;
            let (device, read_only) = (device.clone(), self.record.read_only);
            let mounting = engine::blocking(move || mount::mount(&device, &place.dir, read_only));
            if let Err(e) = mounting.await {
                return Err(self.name_partitions(e).await.into());
            }
        }
        self.record.ready = true;
        self.folder.write(&self.record)?;
        tracing::info!(device = %device.display(), source = %self.record.source, "attached");
        Ok(Attachment {
            id: self.record.id.clone(),
            device: device.clone(),
            link: self
                .record
                .name
                .as_deref()
                .map(|name| self.folder.name_path(name)),
            mount: self.record.mount.clone(),
            size: self.record.size,
            partitions: sysfs::partitions(&device),
            via: self.record.driver,
            read_only: self.record.read_only,
            log: self.folder.log_path(),
            warnings: Vec::new(),
        })
    }

    /// What begins off a block of the disk is slow, and nothing else shows that.
    async fn warn_of_alignment(&self, device: &Path) {
        let geometry = self.disk.as_ref().map(|disk| disk.geometry());
        let preferred = geometry.map_or(0, |geometry| geometry.preferred_block_size);
        let device = device.to_owned();
        let partitions = engine::blocking(move || probe::partitions(&device));
        // A server that does not answer holds nothing up.
        let partitions = engine::clock::timeout(PARTITIONS_FOR, partitions).await;
        let partitions = partitions.unwrap_or_default();
        if let Some(line) = alignment::partition_warning(&partitions, preferred.max(1)) {
            tracing::warn!("{line}");
        }
    }

    /// A disk with partitions has no filesystem of its own: the error names what can be mounted instead.
    async fn name_partitions(&self, error: MountError) -> MountError {
        let Some(device) = self.record.device.clone() else {
            return error;
        };
        let partitions = engine::blocking(move || probe::partitions(&device)).await;
        match partitions.is_empty() {
            true => error,
            false => MountError::Partitioned {
                source_text: self.record.source.clone(),
                partitions,
            },
        }
    }

    /// Why the server cannot be reached just now.
    fn unreachable(&self) -> Option<String> {
        unreachable(self.remote.as_ref(), &self.reachability).map(|(_, why)| why)
    }

    /// Starts to serve control requests; detach requests and signals wait for
    /// [`serve`](Self::serve).
    pub(super) fn answer(&self) -> ControlQueue {
        let (detach_sender, detach_requests) = mpsc::channel(DETACHES_MAX);
        let listener = match self.listen(detach_sender) {
            Ok(listener) => listener,
            Err(e) => {
                tracing::error!("{e}; detach ends this process then");
                engine::spawn(std::future::pending())
            }
        };
        ControlQueue {
            detach_requests,
            listener,
            terminate: signals(),
        }
    }

    /// Serves until it is taken down.
    pub(super) async fn serve(mut self, control: ControlQueue) {
        let ControlQueue {
            mut detach_requests,
            listener,
            mut terminate,
        } = control;
        loop {
            let event = tokio::select! {
                Some(request) = detach_requests.recv() => Event::Detach(request),
                () = terminate.recv() => Event::Terminate,
                () = wait_for_device_end(&mut self.device_teardown) => Event::Ended,
            };
            if self.handle(event).await {
                break;
            }
        }
        // A task still has to send the reply to `detach`.
        engine::clock::sleep(Duration::from_millis(20)).await;
        listener.abort();
    }

    fn listen(
        &self,
        detach_sender: mpsc::Sender<DetachRequest>,
    ) -> Result<JoinHandle<()>, StateError> {
        let path = self.folder.socket_path();
        let listener = UnixListener::bind(&path).map_err(|source| StateError::Io {
            path,
            what: "listen on",
            source,
        })?;
        let sources = Arc::new(HealthSources {
            remote: self.remote.clone(),
            reachability: self.reachability.clone(),
            faults: self.faults.clone(),
            supervisor: self.supervisor.clone(),
        });
        let handlers = ControlHandlers {
            report: Box::new(move || sources.report()),
            detach: detach_sender,
            grow: self.grow.clone(),
        };
        Ok(engine::spawn(listen(listener, Arc::new(handlers))))
    }

    /// Whether the attachment is down.
    async fn handle(&mut self, event: Event) -> bool {
        match event {
            Event::Detach(request) if self.request.for_root && !request.force => {
                let why = "it is kept for the root filesystem; detach it with --force";
                drop(request.reply.send(ControlReply::Refused(why.to_owned())));
                false
            }
            Event::Detach(request) => match self.take_down(request.timeout, request.force).await {
                Ok(leftovers) => {
                    // The client may have disconnected.
                    drop(request.reply.send(ControlReply::Detached(leftovers)));
                    true
                }
                Err(refusal) => {
                    drop(
                        request
                            .reply
                            .send(ControlReply::Refused(refusal.to_string())),
                    );
                    false
                }
            },
            // A shutdown that terminates all processes must not take the root filesystem away.
            Event::Terminate if self.request.for_root => false,
            Event::Terminate => match self.take_down(self.terminate_timeout(), false).await {
                Ok(leftovers) => {
                    report::leftovers(&self.name(), &leftovers);
                    true
                }
                Err(refusal) => {
                    tracing::warn!("SIGTERM is ignored: {refusal}");
                    false
                }
            },
            Event::Ended => {
                tracing::info!("another process has taken the device down");
                self.abandon().await;
                true
            }
        }
    }

    /// Takes down what exists, in use or not.
    pub(super) async fn abandon(&mut self) {
        match self.take_down(DETACH_TIMEOUT, true).await {
            Ok(leftovers) if leftovers.is_clean() => {}
            Ok(leftovers) => {
                tracing::warn!(?leftovers, "not all was taken down");
                report::leftovers(&self.name(), &leftovers);
            }
            Err(refusal) => tracing::warn!("not taken down: {refusal}"),
        }
    }

    /// The timeout of a step after SIGTERM, which is usually followed by SIGKILL.
    fn terminate_timeout(&self) -> Duration {
        match self.unreachable() {
            Some(_) => UNREACHABLE_FOR,
            None => DETACH_TIMEOUT,
        }
    }

    /// The name for messages: the device, or the disk.
    fn name(&self) -> String {
        match &self.record.device {
            Some(device) => device.display().to_string(),
            None => self.record.source.clone(),
        }
    }

    async fn take_down(
        &mut self,
        timeout: Duration,
        force: bool,
    ) -> Result<Leftovers, TeardownRefusal> {
        let unwritten = self.faults.unwritten();
        let device = self.device_teardown.device();
        let gone = self.unreachable();
        let facts = facts::gather(&self.record, device.as_deref(), gone, force).await;
        let report = take_down(facts, &mut self.device_teardown, timeout).await?;
        let mut leftovers = Leftovers {
            lost: report.lost,
            left: report.left,
        };
        let failed = self.faults.unwritten() - unwritten;
        if failed > 0 && leftovers.lost.is_empty() {
            let last = self.faults.last().unwrap_or_default();
            leftovers.lost.push(format!(
                "what was not flushed may be lost: {failed} requests failed, the last: {last}"
            ));
        }
        if !leftovers.left.is_empty() {
            // A program that still has the device open would write on.
            drop(self.device_teardown.cut().await);
        }
        // Open until its supervisor has closed what is below it.
        let disk = self.disk.take();
        if let Some(disk) = &disk
            && engine::clock::timeout(SETTLE_FOR, disk.settle())
                .await
                .is_err()
        {
            tracing::info!("writes that were cut off have not ended yet");
        }
        if let Some(supervisor) = self.supervisor.take() {
            let closed = engine::clock::timeout(timeout, supervisor.close()).await;
            if let Err(why) = closed.unwrap_or_else(|_| Err("it does not end".to_owned())) {
                let source = &self.request.source;
                leftovers
                    .left
                    .push(format!("{source} is not stopped in order: {why}"));
            }
        }
        drop(disk);
        if let Some(remote) = self.remote.take() {
            remote.close().await;
        }
        if let (Some(name), Some(device)) = (&self.record.name, &self.record.device) {
            self.folder.unlink(name, device);
        }
        if let Err(e) = self.folder.remove() {
            leftovers.left.push(e.to_string());
        }
        Ok(leftovers)
    }
}

/// The listener on the control socket, and the requests to end.
pub(super) struct ControlQueue {
    detach_requests: mpsc::Receiver<DetachRequest>,
    listener: JoinHandle<()>,
    terminate: Signals,
}

enum Event {
    Detach(DetachRequest),
    Terminate,
    Ended,
}
