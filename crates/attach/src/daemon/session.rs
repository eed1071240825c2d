//! One attachment, in the process that owns it: brought up, served, taken down.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use block::{Geometry, Node};
use engine::loopdev::{LoopDevice, LoopOptions};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::control::{DETACHES_MAX, DetachAsked, listen};
use super::message::{Attached, Remains, Reply};
use super::start::first_record;
use crate::error::AttachError;
use crate::facts;
use crate::faults::Faults;
use crate::fuse::{self, FuseError};
use crate::health::{Health, Reach};
use crate::kernel;
use crate::mount;
use crate::probe;
use crate::remote::Remote;
use crate::request::{AttachRequest, DETACH_TIMEOUT, Source, Via};
use crate::state::{Folder, Record, StateError, Way};
use crate::sysfs;
use crate::teardown::{Hands, LoopHands, Refusal, take_down};

/// Largest logical block of a block device here: a page.
const BLOCK_SIZE_MAX: u32 = 4096;
const SECTOR: u64 = 512;
/// How long writes that were cut off are waited for.
const SETTLE_FOR: Duration = Duration::from_secs(2);

pub(super) struct Session {
    folder: Folder,
    request: AttachRequest,
    record: Record,
    hands: Hands,
    disk: Option<Node>,
    remote: Option<Remote>,
    faults: Arc<Faults>,
    reach: Arc<Reach>,
}

impl Session {
    pub(super) fn new(folder: Folder, request: AttachRequest) -> Result<Self, AttachError> {
        let record = first_record(&folder, &request)?;
        folder.write(&record)?;
        Ok(Self {
            folder,
            request,
            record,
            hands: Hands::None,
            disk: None,
            remote: None,
            faults: Arc::default(),
            reach: Arc::default(),
        })
    }

    /// Attaches, makes a filesystem and mounts, as asked.
    pub(super) async fn bring_up<F, Fut>(&mut self, open_local: F) -> Result<Attached, AttachError>
    where
        F: FnOnce(String, bool) -> Fut,
        Fut: Future<Output = Result<Node, String>>,
    {
        let place = self.request.mount.as_deref().map(mount::inspect);
        let place = place.transpose()?;
        self.record.way = self.choose_way().await?;
        let device = match self.record.way {
            Way::Kernel => self.attach_kernel().await?,
            Way::Fuse => {
                let disk = self.open_disk(open_local).await?;
                self.attach_fuse(disk).await?
            }
        };
        self.record.device = Some(device.clone());
        self.folder.write(&self.record)?;
        if let Some(fs) = self.request.mkfs.clone() {
            let device = device.clone();
            engine::blocking(move || probe::mkfs(&device, &fs)).await?;
        }
        if let Some(place) = place {
            self.record.mount = Some(place.clone());
            self.folder.write(&self.record)?;
            mount::create(&place)?;
            let (device, read_only) = (device.clone(), self.record.read_only);
            engine::blocking(move || mount::mount(&device, &place.dir, read_only)).await?;
        }
        self.record.ready = true;
        self.folder.write(&self.record)?;
        tracing::info!(device = %device.display(), source = %self.record.source, "attached");
        Ok(Attached {
            id: self.record.id.clone(),
            device,
            mount: self.record.mount.clone(),
            size: self.record.size,
            via: self.record.way,
            read_only: self.record.read_only,
            log: self.folder.log_path(),
        })
    }

    async fn choose_way(&self) -> Result<Way, AttachError> {
        match (self.request.via, &self.request.source) {
            (Via::Fuse, _) | (Via::Auto, Source::Local(_)) => Ok(Way::Fuse),
            (Via::Kernel, _) => {
                engine::blocking(kernel::load_module).await?;
                Ok(Way::Kernel)
            }
            (Via::Auto, Source::Remote(_)) => match engine::blocking(kernel::load_module).await {
                Ok(()) => Ok(Way::Kernel),
                Err(e) => {
                    tracing::info!("using FUSE and loop: {e}");
                    Ok(Way::Fuse)
                }
            },
        }
    }

    fn disk_failed(&self, why: String) -> AttachError {
        AttachError::Disk {
            source_text: self.record.source.clone(),
            why,
        }
    }

    async fn open_disk<F, Fut>(&mut self, open_local: F) -> Result<Node, AttachError>
    where
        F: FnOnce(String, bool) -> Fut,
        Fut: Future<Output = Result<Node, String>>,
    {
        match self.request.source.clone() {
            Source::Local(text) => {
                let opened = open_local(text, !self.request.read_only).await;
                opened.map_err(|why| self.disk_failed(why))
            }
            Source::Remote(uri) => {
                let connected = Remote::connect(&uri, &self.request).await;
                let (remote, node) = connected.map_err(|why| self.disk_failed(why))?;
                self.remote = Some(remote);
                Ok(node)
            }
        }
    }

    async fn attach_fuse(&mut self, disk: Node) -> Result<PathBuf, AttachError> {
        self.disk = Some(disk.clone());
        let block_size = self.check_shape(disk.geometry())?;
        self.record.size = disk.geometry().size;
        self.record.read_only |= disk.geometry().read_only;
        let channel = Arc::new(fuse::open_channel()?);
        let mounted = fuse::mount(&channel)?;
        let name = self.record.label();
        let serving = engine::spawn(fuse::serve(fuse::Served {
            channel,
            disk,
            name: name.clone(),
            faults: self.faults.clone(),
        }));
        let (label, read_only) = (name, self.record.read_only);
        let device = engine::blocking(move || {
            let file = fuse::open_file(&mounted, &label, read_only)?;
            let options = LoopOptions {
                label: &label,
                block_size,
                read_only,
            };
            Ok::<_, AttachError>(LoopDevice::attach(
                std::os::fd::AsFd::as_fd(&file),
                &options,
            )?)
        })
        .await;
        let device = match device {
            Ok(device) => device,
            Err(e) => {
                serving.abort();
                return Err(e);
            }
        };
        let path = device.path().clone();
        if !matches!(device.status(), Ok(Some(status)) if status.direct_io) {
            tracing::warn!("the loop device does without direct I/O: it will be slow");
        }
        sysfs::tune(&path, None);
        self.hands = Hands::Loop(LoopHands {
            path: path.clone(),
            label: self.record.label(),
            device: Some(device),
            serving: Some(serving),
        });
        Ok(path)
    }

    fn check_shape(&self, geometry: &Geometry) -> Result<u32, AttachError> {
        let refuse = |why: String| {
            Err(AttachError::Shape {
                source_text: self.record.source.clone(),
                why,
            })
        };
        if geometry.size == 0 || !geometry.size.is_multiple_of(SECTOR) {
            return refuse(format!(
                "its size of {} bytes is no multiple of 512; a block device needs one",
                geometry.size
            ));
        }
        if geometry.block_size > BLOCK_SIZE_MAX {
            return refuse(format!(
                "its blocks of {} bytes are larger than a page; no block device can have them",
                geometry.block_size
            ));
        }
        Ok(geometry.block_size.max(512))
    }

    async fn attach_kernel(&mut self) -> Result<PathBuf, AttachError> {
        let setup = kernel::Setup {
            uri: self.record.source.clone(),
            connections: self.request.connections,
            read_only: self.request.read_only,
            request_timeout: self.request.request_timeout,
            reconnect_for: self.request.reconnect_for,
            backend: self.record.label(),
        };
        let attached = kernel::attach(setup).await?;
        let mut hands = attached.hands;
        let path = hands.path();
        hands.watching = Some(engine::spawn(kernel::watch(
            attached.link,
            self.reach.clone(),
        )));
        self.record.size = attached.size;
        self.record.read_only = attached.read_only;
        sysfs::tune(&path, Some(kernel::REQUEST_KIB));
        self.hands = Hands::Nbd(hands);
        Ok(path)
    }

    /// Why the server cannot be reached just now.
    fn unreachable(&self) -> Option<String> {
        unreachable(self.remote.as_ref(), &self.reach).map(|(_, why)| why)
    }

    /// Serves until it is taken down.
    pub(super) async fn serve(mut self) {
        let (asks, mut asked) = mpsc::channel(DETACHES_MAX);
        let listener = match self.listen(asks) {
            Ok(listener) => listener,
            Err(e) => {
                tracing::error!("{e}; detach ends this process then");
                engine::spawn(std::future::pending())
            }
        };
        let mut terminate = signals();
        loop {
            let event = tokio::select! {
                Some(ask) = asked.recv() => Event::Detach(ask),
                () = terminate.recv() => Event::Terminate,
                () = ended(&mut self.hands) => Event::Ended,
            };
            if self.handle(event).await {
                break;
            }
        }
        // The answer to `detach` is on its way in a task; this gives it its turn.
        engine::clock::sleep(Duration::from_millis(20)).await;
        listener.abort();
    }

    fn listen(&self, asks: mpsc::Sender<DetachAsked>) -> Result<JoinHandle<()>, StateError> {
        let path = self.folder.socket_path();
        let listener = UnixListener::bind(&path).map_err(|source| StateError::Io {
            path,
            what: "listen on",
            source,
        })?;
        let (remote, reach, faults) =
            (self.remote.clone(), self.reach.clone(), self.faults.clone());
        let health = move || health(remote.as_ref(), &reach, &faults);
        Ok(engine::spawn(listen(listener, Arc::new(health), asks)))
    }

    /// Whether the attachment is down.
    async fn handle(&mut self, event: Event) -> bool {
        match event {
            Event::Detach(ask) => match self.take_down(ask.timeout, ask.force).await {
                Ok(remains) => {
                    // Who asked may be gone.
                    drop(ask.reply.send(Reply::Detached(remains)));
                    true
                }
                Err(refusal) => {
                    drop(ask.reply.send(Reply::Refused(refusal.to_string())));
                    false
                }
            },
            Event::Terminate => match self.take_down(DETACH_TIMEOUT, false).await {
                Ok(_) => true,
                Err(refusal) => {
                    tracing::warn!("asked to end, but {refusal}");
                    false
                }
            },
            Event::Ended => {
                tracing::info!("the device was taken down by somebody else");
                self.abandon().await;
                true
            }
        }
    }

    /// Takes down whatever is there, without asking.
    pub(super) async fn abandon(&mut self) {
        match self.take_down(DETACH_TIMEOUT, true).await {
            Ok(remains) if remains.is_clean() => {}
            Ok(remains) => tracing::warn!(?remains, "not all was taken down"),
            Err(refusal) => tracing::warn!("not taken down: {refusal}"),
        }
    }

    async fn take_down(&mut self, timeout: Duration, force: bool) -> Result<Remains, Refusal> {
        let unwritten = self.faults.unwritten();
        let device = self.hands.device();
        let facts = facts::gather(&self.record, device.as_deref(), self.unreachable(), force);
        let report = take_down(facts, &mut self.hands, timeout).await?;
        let mut remains = Remains {
            lost: report.lost,
            left: report.left,
        };
        let failed = self.faults.unwritten() - unwritten;
        if failed > 0 && remains.lost.is_empty() {
            let last = self.faults.last().unwrap_or_default();
            remains
                .lost
                .push(format!("{failed} requests failed, the last: {last}"));
        }
        if let Some(disk) = self.disk.take()
            && engine::clock::timeout(SETTLE_FOR, disk.settle())
                .await
                .is_err()
        {
            tracing::info!("writes that were cut off have not ended yet");
        }
        if let Some(remote) = self.remote.take() {
            remote.close().await;
        }
        if let Err(e) = self.folder.remove() {
            remains.left.push(e.to_string());
        }
        Ok(remains)
    }
}

enum Event {
    Detach(DetachAsked),
    Terminate,
    Ended,
}

/// SIGTERM and SIGINT. Where they cannot be caught they end the process as ever.
struct Signals(Vec<tokio::signal::unix::Signal>);

fn signals() -> Signals {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
    Signals(kinds.into_iter().filter_map(|k| signal(k).ok()).collect())
}

impl Signals {
    async fn recv(&mut self) {
        std::future::poll_fn(|context| {
            for signal in &mut self.0 {
                if let std::task::Poll::Ready(Some(())) = signal.poll_recv(context) {
                    return std::task::Poll::Ready(());
                }
            }
            std::task::Poll::Pending
        })
        .await;
    }
}

/// Resolves when the device was taken down by somebody else.
async fn ended(hands: &mut Hands) {
    let result = match hands {
        Hands::Loop(LoopHands {
            serving: Some(serving),
            ..
        }) => match serving.await {
            Ok(result) => result.map_err(|e: FuseError| e.to_string()),
            Err(e) => Err(e.to_string()),
        },
        Hands::Nbd(nbd) if nbd.watching.is_some() => match nbd.watching.as_mut() {
            Some(watching) => watching.await.map_err(|e| e.to_string()),
            None => return std::future::pending().await,
        },
        _ => return std::future::pending().await,
    };
    if let Err(e) = result {
        tracing::error!("{e}");
    }
    match hands {
        Hands::Loop(hands) => hands.serving = None,
        Hands::Nbd(hands) => hands.watching = None,
        Hands::None => {}
    }
}

fn unreachable(remote: Option<&Remote>, reach: &Reach) -> Option<(Duration, String)> {
    remote.and_then(Remote::gone).or_else(|| reach.gone())
}

fn health(remote: Option<&Remote>, reach: &Reach, faults: &Faults) -> Health {
    match (unreachable(remote, reach), faults.failing()) {
        (Some((gone, why)), _) => Health::Reconnecting {
            for_s: gone.as_secs(),
            why,
        },
        (None, Some(why)) => Health::Failing { why },
        (None, None) => Health::Connected,
    }
}
