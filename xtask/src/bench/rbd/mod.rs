//! The rows of images of Ceph: ours next to QEMU's server of the same image, and next to fio, which opens it without a server. All use
//! librbd, with Ceph's own defaults, on a cluster of one node that the row starts.
//!
//! # Invariants
//!
//! * One client has the image at a time: its lock has one owner. A server is started and ended for each measurement.
//! * A write and a flush come before what is measured, as from each filesystem: until the first flush librbd writes through its cache. QEMU passes
//!   on no flush without a write before it.
//! * All contenders read and write the one image, which was filled before: none has other objects, or another state of the OSD's cache, for long.

// Those of the tests: built in here, since a dependency on their crate would make every command of this one wait for a runtime.
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the tests need more of it, from another crate"
)]
#[path = "../../../../crates/testkit/src/ceph.rs"]
mod ceph;
pub(super) mod guest;
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the tests need more of it, from another crate"
)]
#[path = "../../../../crates/testkit/src/proc.rs"]
mod proc;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use self::ceph::{CephCluster, POOL};
use super::buckets::probe::Probe;
use super::fio::{self, Target, Until};
use super::rows::load;
use super::work::Load;
use super::{Args, Measured, one, rounds};
use crate::servers::{Launcher, Server};

/// The image.
const IMAGE: &str = "bench";
/// Its size, bytes.
const SIZE: u64 = 512 << 20;
/// When a server that ends, which writes out and releases the lock, counts as stuck.
const END_LIMIT: Duration = Duration::from_secs(60);

/// A cluster with the image.
struct Site {
    cluster: CephCluster,
    _folder: tempfile::TempDir,
}

impl Site {
    /// Starts the cluster below the launcher's folder, and writes all of the image.
    fn new(launcher: &Launcher, size: u64) -> Result<Self> {
        let folder = tempfile::tempdir_in(&launcher.folder)?;
        let cluster = CephCluster::start(folder.path());
        cluster.create(IMAGE, size);
        let site = Self {
            cluster,
            _folder: folder,
        };
        let all = Until::Once { size, bytes: size };
        site.without_server(&load("write", 1 << 20, 1, 16), all)?;
        Ok(site)
    }

    fn conf(&self) -> PathBuf {
        self.cluster.conf()
    }

    /// fio alone on the image: the bound of what a server can do.
    fn without_server(&self, load: &Load, until: Until) -> Result<super::Sample> {
        let target = Target::Image {
            conf: &self.conf(),
            pool: POOL,
            image: IMAGE,
        };
        Ok(fio::run(load, target, until)?.sample)
    }
}

/// Measures one row.
pub(super) fn measure(launcher: &Launcher, args: &Args, load: &Load) -> Result<Vec<Measured>> {
    let site = Site::new(launcher, SIZE)?;
    let conf = site.conf();
    let conf = conf.display();
    let ours = format!("rbd({POOL}/{IMAGE},conf={conf})");
    let theirs = format!("rbd:{POOL}/{IMAGE}:conf={conf}");
    let mut servers = vec![(Server::Ours, &ours), (Server::Qemu, &theirs)];
    if launcher.before.is_some() {
        servers.push((Server::Before, &ours));
    }
    let names = servers.iter().map(|(server, _)| server.to_string());
    let names = names.chain(["fio rbd".to_owned()]).collect();
    let until = Until::Seconds(args.seconds);
    rounds(args, names, |which| {
        let Some((server, disk)) = servers.get(which) else {
            return site.without_server(load, until);
        };
        let serving = launcher.start(*server, disk)?;
        let mut probe = Probe::connect(&serving)?;
        probe.write()?;
        probe.flush()?;
        drop(probe);
        let sample = one(&serving, load, until)?;
        serving.stop(END_LIMIT)?;
        Ok(sample)
    })
}
