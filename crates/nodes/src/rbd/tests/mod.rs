//! Tests of images in a real cluster.

mod disk;
mod losses;

use block::{BlockDevice, IoError, Range, WriteFlags};
use engine::rbd::{ImageSpec, RbdError};
use testkit::ceph::{CephCluster, POOL};
use testkit::{gather, pattern, requires, single};

use crate::Rbd;

const MIB: u64 = 1 << 20;

/// A cluster in a folder of its own; `None`, with a message, where there can be none.
fn cluster() -> Option<(CephCluster, tempfile::TempDir)> {
    if !requires::all(&[requires::ceph()]) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    Some((CephCluster::start(folder.path()), folder))
}

/// `image` of the pool, with `@SNAPSHOT` behind it or without.
fn spec(cluster: &CephCluster, image: &str) -> ImageSpec {
    ImageSpec {
        name: format!("{POOL}/{image}").parse().unwrap(),
        conf: Some(cluster.conf()),
        id: None,
        cluster: None,
        read_only: false,
    }
}

async fn open(cluster: &CephCluster, image: &str) -> Result<Rbd, RbdError> {
    Rbd::open(spec(cluster, image)).await
}

async fn read(disk: &dyn BlockDevice, range: Range) -> Vec<u8> {
    gather(&disk.read(range).await.unwrap())
}

async fn write(disk: &dyn BlockDevice, range: Range, fill: u8) -> Result<(), IoError> {
    let data = single(pattern(fill, range));
    disk.write(range, data, WriteFlags::empty()).await
}
