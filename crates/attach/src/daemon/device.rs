//! The device of an attachment, brought up one way or the other.

use std::future::Future;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use block::Node;
use engine::loopdev::{LoopDevice, LoopOptions};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::session::Session;
use crate::error::AttachError;
use crate::fuse::{self, Follower};
use crate::growth::ASKED_MAX;
use crate::kernel;
use crate::local::LocalDisk;
use crate::remote::Remote;
use crate::request::{Source, Via};
use crate::state::Way;
use crate::sysfs;
use crate::teardown::{Hands, LoopHands};

/// Pauses between attempts to reach a server at first double from one to the other.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_LAST: Duration = Duration::from_secs(4);

impl Session {
    /// Brings the device up. A server that cannot be reached is tried again for as long as was asked.
    pub(super) async fn attach<F, Fut>(&mut self, open_local: F) -> Result<PathBuf, AttachError>
    where
        F: FnOnce(String, bool) -> Fut,
        Fut: Future<Output = Result<LocalDisk, String>>,
    {
        self.record.way = self.choose_way().await?;
        if let Source::Local(text) = self.request.source.clone() {
            let opened = open_local(text, !self.request.read_only).await;
            let LocalDisk { disk, keeper } = opened.map_err(AttachError::Disk)?;
            self.keeper = keeper.map(Arc::from);
            return self.attach_fuse(disk).await;
        }
        let (started, mut pause) = (engine::clock::now(), PAUSE_FIRST);
        loop {
            let tried = match self.record.way {
                Way::Kernel => self.attach_kernel().await,
                Way::Fuse => match self.open_remote().await {
                    Ok(disk) => return self.attach_fuse(disk).await,
                    Err(e) => Err(e),
                },
            };
            let waited = engine::clock::now().duration_since(started);
            match tried {
                Err(e) if e.is_of_the_server() && waited < self.request.wait => {
                    tracing::info!("{e}; trying again");
                    engine::clock::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_LAST);
                }
                done => return done,
            }
        }
    }

    async fn choose_way(&self) -> Result<Way, AttachError> {
        match (self.request.via, &self.request.source) {
            (Via::Fuse, _) | (Via::Auto, Source::Local(_)) => Ok(Way::Fuse),
            (Via::Auto, source) if source.is_tls() => Ok(Way::Fuse),
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
        self.record.size = geometry.size;
        self.record.read_only |= geometry.read_only;
        let channel = Arc::new(fuse::open_channel()?);
        let mounted = fuse::mount(&channel)?;
        let name = self.record.label();
        let serving = engine::spawn(fuse::serve(fuse::Served {
            channel,
            disk: disk.clone(),
            name: name.clone(),
            faults: self.faults.clone(),
        }));
        let made = under_loop(mounted, name, block_size, self.record.read_only).await;
        let (device, file) = match made {
            Ok(made) => made,
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
        let growing = self.follow(file, disk, path.clone());
        self.hands = Hands::Loop(LoopHands {
            path: path.clone(),
            label: self.record.label(),
            device: Some(device),
            serving: Some(serving),
            growing,
        });
        Ok(path)
    }

    /// A remote disk may grow; a local one keeps the size it was opened with.
    fn follow(&mut self, file: OwnedFd, disk: Node, device: PathBuf) -> Option<JoinHandle<()>> {
        let follower = Follower {
            remote: self.remote.clone()?,
            file: Arc::new(file),
            size: disk.geometry().size,
            disk,
            device,
            label: self.record.label(),
        };
        let (grow, asked) = mpsc::channel(ASKED_MAX);
        self.grow = Some(grow);
        Some(engine::spawn(follower.follow(asked)))
    }

    async fn attach_kernel(&mut self) -> Result<PathBuf, AttachError> {
        let setup = kernel::Setup {
            uri: self.record.source.clone(),
            connections: self.request.connections,
            read_only: self.request.read_only,
            silent_for: self.request.silent_for(),
            timeout: self.request.timeout,
            backend: self.record.label(),
        };
        let attached = kernel::attach(setup).await?;
        let mut hands = attached.hands;
        let path = hands.path();
        let (grow, asked) = mpsc::channel(ASKED_MAX);
        self.grow = Some(grow);
        let watch = kernel::watch(attached.link, self.reach.clone(), asked);
        hands.watching = Some(engine::spawn(watch));
        self.record.size = attached.size;
        self.record.read_only = attached.read_only;
        sysfs::tune(&path, Some(kernel::REQUEST_KIB));
        self.hands = Hands::Nbd(hands);
        Ok(path)
    }
}

/// Opens the file, which the server answers on this core meanwhile, and puts a loop device on it.
async fn under_loop(
    mounted: OwnedFd,
    label: String,
    block_size: u32,
    read_only: bool,
) -> Result<(LoopDevice, OwnedFd), AttachError> {
    engine::blocking(move || {
        let file = fuse::open_file(&mounted, &label, read_only)?;
        let options = LoopOptions {
            label: &label,
            block_size,
            read_only,
        };
        let device = LoopDevice::attach(file.as_fd(), &options)?;
        Ok((device, file))
    })
    .await
}
