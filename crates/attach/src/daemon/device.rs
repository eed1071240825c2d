//! The device of an attachment, brought up one way or the other.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::Node;
use nbd::client::{AccessMode, WriterAccess, random_token};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::events::ParentWatch;
use super::session::Session;
use crate::error::AttachError;
use crate::fuse::{self, SizeFollower};
use crate::growth::SIZE_REQUESTS_MAX;
use crate::kernel;
use crate::local::{LocalDisk, LocalDiskError};
use crate::remote::Remote;
use crate::request::{Source, Via};
use crate::state::DeviceDriver;
use crate::sysfs;
use crate::teardown::{DeviceTeardown, LoopTeardown, TeardownOutcome};
use crate::worker::{DeviceTask, DeviceWorker, WorkerCall};

/// Pauses between attempts to reach a server at first double from one to the other.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_LAST: Duration = Duration::from_secs(4);
/// How long the first look at a device of the kernel's nbd may take.
const PREPARE_FOR: Duration = Duration::from_secs(20);

/// Attempts to reach a server at first.
struct Attempts {
    started: Instant,
    wait: Duration,
    pause: Duration,
}

impl Attempts {
    fn within(wait: Duration) -> Self {
        Self {
            started: engine::clock::now(),
            wait,
            pause: PAUSE_FIRST,
        }
    }

    /// Whether another one is made.
    fn may_continue(&self) -> bool {
        engine::clock::now().duration_since(self.started) < self.wait
    }

    /// The pause before it.
    async fn pause(&mut self) {
        engine::clock::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_LAST);
    }
}

impl Session {
    /// Brings the device up. An unreachable server is retried for the requested time, and as long as the parent
    /// process waits.
    pub(super) async fn attach<F, Fut>(&mut self, open_local: F) -> Result<PathBuf, AttachError>
    where
        F: Fn(String, bool) -> Fut,
        Fut: Future<Output = Result<LocalDisk, LocalDiskError>>,
    {
        let parent = ParentWatch::watch();
        self.record.driver = self.choose_driver().await?;
        if let Source::Local(text) = self.request.source.clone() {
            let opened = tokio::select! {
                opened = self.open_local(&text, open_local) => opened,
                () = parent.gone() => return Err(AttachError::Abandoned),
            };
            let LocalDisk { disk, supervisor } = opened?;
            self.supervisor = supervisor.map(Arc::from);
            return self.attach_fuse(disk).await;
        }
        let mut attempts = Attempts::within(self.request.wait);
        loop {
            let tried = match self.record.driver {
                DeviceDriver::Kernel => self.attach_kernel().await,
                DeviceDriver::Fuse => {
                    let opened = tokio::select! {
                        opened = self.open_remote() => opened,
                        () = parent.gone() => return Err(AttachError::Abandoned),
                    };
                    match opened {
                        Ok(disk) => return self.attach_fuse(disk).await,
                        Err(e) => Err(e),
                    }
                }
            };
            match tried {
                Err(e) if e.is_of_the_server() && attempts.may_continue() => {
                    tracing::info!("{e}; trying again");
                    tokio::select! {
                        () = attempts.pause() => {}
                        () = parent.gone() => return Err(AttachError::Abandoned),
                    }
                }
                done => return done,
            }
        }
    }

    /// Opens a disk of this machine. An unreachable server below it is retried for the requested time.
    async fn open_local<F, Fut>(&self, text: &str, open: F) -> Result<LocalDisk, AttachError>
    where
        F: Fn(String, bool) -> Fut,
        Fut: Future<Output = Result<LocalDisk, LocalDiskError>>,
    {
        let mut attempts = Attempts::within(self.request.wait);
        loop {
            let error = match open(text.to_owned(), !self.request.read_only).await {
                Ok(disk) => return Ok(disk),
                Err(error) => error,
            };
            if !error.is_of_the_server || !attempts.may_continue() {
                return Err(AttachError::Disk(error.why));
            }
            tracing::info!("{}; trying again", error.why);
            attempts.pause().await;
        }
    }

    async fn choose_driver(&self) -> Result<DeviceDriver, AttachError> {
        match (self.request.via, &self.request.source) {
            (Via::Fuse, _) | (Via::Auto, Source::Local(_)) => Ok(DeviceDriver::Fuse),
            (Via::Auto, source) if source.is_tls() => Ok(DeviceDriver::Fuse),
            // What the kernel wrote it does not write again to another server.
            (Via::Auto, source) if source.has_several_servers() && !self.request.read_only => {
                Ok(DeviceDriver::Fuse)
            }
            (Via::Kernel, _) => {
                engine::blocking(kernel::load_module).await?;
                Ok(DeviceDriver::Kernel)
            }
            (Via::Auto, Source::Remote(_)) => match engine::blocking(kernel::load_module).await {
                Ok(()) => Ok(DeviceDriver::Kernel),
                Err(e) => {
                    tracing::info!("using FUSE and loop: {e}");
                    Ok(DeviceDriver::Fuse)
                }
            },
        }
    }

    async fn open_remote(&mut self) -> Result<Node, AttachError> {
        let uri = self.request.source.to_string();
        let connected = Remote::connect(&uri, &self.request).await;
        let (remote, node) = connected.map_err(AttachError::Server)?;
        self.remote = Some(remote);
        Ok(node)
    }

    async fn attach_fuse(&mut self, disk: Node) -> Result<PathBuf, AttachError> {
        self.disk = Some(disk.clone());
        let geometry = disk.geometry();
        let shape = sysfs::check_shape(geometry.size, geometry.block_size);
        let block_size = shape.map_err(|why| AttachError::Shape {
            source_text: self.record.source.clone(),
            why,
        })?;
        self.record.size = sysfs::device_size(geometry.size);
        sysfs::warn_of_rest(geometry.size);
        self.record.read_only |= geometry.read_only;
        if let Err(e) = fuse::pin_mount_namespace() {
            tracing::warn!(
                "/proc/self/ns/mnt: {e}; `sync` may hang after this container is killed"
            );
        }
        let channel = Arc::new(fuse::open_channel()?);
        let mounted = fuse::mount(&channel)?;
        self.record.fuse_connection = fuse::connection_of(&mounted);
        let name = self.record.label();
        let serving = engine::spawn(fuse::serve(fuse::FuseService {
            channel,
            disk: disk.clone(),
            name: name.clone(),
            faults: self.faults.clone(),
        }));
        let task = DeviceTask {
            label: name,
            block_size,
            read_only: self.record.read_only,
            for_root: self.request.for_root,
        };
        // The file is served on this core meanwhile.
        let made = engine::blocking(move || DeviceWorker::start(mounted, task)).await;
        let worker = match made {
            Ok(worker) => worker,
            Err(e) => {
                serving.abort();
                return Err(e);
            }
        };
        let path = worker.path().clone();
        let growing = self.follow(worker.clone(), disk);
        self.device_teardown = DeviceTeardown::Loop(LoopTeardown {
            path: path.clone(),
            label: self.record.label(),
            worker: Some(worker),
            serving: Some(serving),
            growing,
        });
        Ok(path)
    }

    /// A remote disk may grow; a local one keeps the size it was opened with.
    fn follow(&mut self, device: DeviceWorker, disk: Node) -> Option<JoinHandle<()>> {
        let follower = SizeFollower {
            remote: self.remote.clone()?,
            size: sysfs::device_size(disk.geometry().size),
            disk,
            device,
        };
        let (grow, size_requests) = mpsc::channel(SIZE_REQUESTS_MAX);
        self.grow = Some(grow);
        Some(engine::spawn(follower.follow(size_requests)))
    }

    async fn attach_kernel(&mut self) -> Result<PathBuf, AttachError> {
        let mode = match self.request.read_only {
            true => AccessMode::Read,
            false => AccessMode::Write,
        };
        let setup = kernel::NbdSetup {
            uri: self.record.source.clone(),
            server: self.record.source.clone(),
            connections: self.request.connections,
            read_only: self.request.read_only,
            silent_for: self.request.silent_for(),
            timeout: self.request.timeout,
            backend: self.record.label(),
            writer: WriterAccess {
                token: random_token(),
                mode,
            },
        };
        let attached = kernel::attach(setup).await?;
        let mut device_teardown = attached.device_teardown;
        let path = device_teardown.path();
        let (grow, size_requests) = mpsc::channel(SIZE_REQUESTS_MAX);
        self.grow = Some(grow);
        let watch = kernel::watch(attached.link, self.reachability.clone(), size_requests);
        device_teardown.watching = Some(engine::spawn(watch));
        self.record.size = attached.size;
        self.record.read_only = attached.read_only;
        let prepare = WorkerCall::Prepare {
            device: path.clone(),
            request_kib: Some(kernel::REQUEST_KIB),
        };
        let prepared = prepare.execute(PREPARE_FOR).await;
        if prepared != TeardownOutcome::Done {
            tracing::warn!(?prepared, "the device is not opened");
        }
        self.device_teardown = DeviceTeardown::Nbd(device_teardown);
        Ok(path)
    }
}
