//! The device of an attachment, brought up one way or the other.

use std::future::Future;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use block::Node;
use engine::loopdev::{LoopDevice, LoopOptions};

use super::session::Session;
use crate::error::AttachError;
use crate::fuse;
use crate::kernel;
use crate::remote::Remote;
use crate::request::{Source, Via};
use crate::state::Way;
use crate::sysfs;
use crate::teardown::{Hands, LoopHands};

impl Session {
    pub(super) async fn choose_way(&self) -> Result<Way, AttachError> {
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

    pub(super) async fn open_disk<F, Fut>(&mut self, open_local: F) -> Result<Node, AttachError>
    where
        F: FnOnce(String, bool) -> Fut,
        Fut: Future<Output = Result<Node, String>>,
    {
        match self.request.source.clone() {
            Source::Local(text) => {
                let opened = open_local(text, !self.request.read_only).await;
                opened.map_err(AttachError::Disk)
            }
            Source::Remote(uri) => {
                let connected = Remote::connect(&uri, &self.request).await;
                let (remote, node) = connected.map_err(AttachError::Disk)?;
                self.remote = Some(remote);
                Ok(node)
            }
        }
    }

    pub(super) async fn attach_fuse(&mut self, disk: Node) -> Result<PathBuf, AttachError> {
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
            disk,
            name: name.clone(),
            faults: self.faults.clone(),
        }));
        let device = match under_loop(mounted, name, block_size, self.record.read_only).await {
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

    pub(super) async fn attach_kernel(&mut self) -> Result<PathBuf, AttachError> {
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
}

/// Opens the file, which the server answers on this core meanwhile, and puts a loop device on it.
async fn under_loop(
    mounted: OwnedFd,
    label: String,
    block_size: u32,
    read_only: bool,
) -> Result<LoopDevice, AttachError> {
    engine::blocking(move || {
        let file = fuse::open_file(&mounted, &label, read_only)?;
        let options = LoopOptions {
            label: &label,
            block_size,
            read_only,
        };
        Ok(LoopDevice::attach(file.as_fd(), &options)?)
    })
    .await
}
