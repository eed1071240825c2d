//! How a host has its halves: [`ReopenHalf`], the remote one opened again, and [`LocalHalf`].

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{BlockDevice, Extent, Geometry, Identity, IoBufs, IoFuture, Node, Range, WriteFlags};
use testkit::CrashDisk;

use super::backup::{Pause, RemoteHalf};
use crate::array::{Reopen, ReopenError};

/// How a host opens its client again: by the same token.
#[derive(Debug)]
pub(in crate::array) struct ReopenHalf {
    first: Arc<RemoteHalf>,
    last: Mutex<Arc<RemoteHalf>>,
}

impl ReopenHalf {
    pub(in crate::array) fn of(first: &Arc<RemoteHalf>) -> Arc<Self> {
        Arc::new(Self {
            first: first.clone(),
            last: Mutex::new(first.clone()),
        })
    }

    fn last(&self) -> MutexGuard<'_, Arc<RemoteHalf>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reopen for ReopenHalf {
    fn sever(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.last().sever();
        Box::pin(std::future::ready(()))
    }

    fn reopen(&self) -> Pin<Box<dyn Future<Output = Result<Node, ReopenError>> + Send + '_>> {
        Box::pin(async {
            self.sever().await;
            let half = self.first.again().await.map_err(|fenced| match fenced {
                true => ReopenError::Fenced("fenced: another host".to_owned()),
                false => ReopenError::Unreachable("connection refused".to_owned()),
            })?;
            *self.last() = half.clone();
            Ok(half as Node)
        })
    }
}

/// A local half of a host that can be paused.
#[derive(Debug)]
pub(in crate::array) struct LocalHalf {
    pub(in crate::array) disk: Arc<CrashDisk>,
    pub(in crate::array) pause: Arc<Pause>,
}

impl BlockDevice for LocalHalf {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            self.pause.runs().await;
            self.disk.read(range).await
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.pause.runs().await;
            self.disk.write(range, data, flags).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.pause.runs().await;
            self.disk.flush().await
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.pause.runs().await;
            self.disk.write_zeroes(range, flags).await
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.pause.runs().await;
            self.disk.trim(range).await
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.disk.extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        None
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.disk.settle()
    }
}
