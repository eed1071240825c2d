//! Disks that keep what a cut of the power would leave of all of them, at each write.

use std::sync::{Arc, Mutex};

use block::{BlockDevice, IoBufs, IoFuture, Node, Range, WriteFlags};
use testkit::CrashDisk;

/// Bytes of each disk: superblock and log, and data behind these.
const DISK: u64 = 3 << 20;
/// What lies before this byte is written before or behind data, in steps that each count.
const METADATA_END: u64 = 1 << 20;

/// What disks hold.
pub(super) type DiskImages = Vec<Vec<u8>>;

/// What was kept, and writes of data since the last one of these.
#[derive(Debug, Default)]
struct KeptImages {
    kept: Vec<DiskImages>,
    data_writes: u64,
}

type Images = Arc<Mutex<KeptImages>>;

/// A disk that keeps what a cut at its writes would leave of all of them.
#[derive(Debug)]
struct Watched {
    child: Arc<CrashDisk>,
    all: Vec<Arc<CrashDisk>>,
    images: Images,
    /// Of so many writes of data the last one counts.
    every: u64,
}

impl Watched {
    fn keep_images(&self, range: Range) {
        let mut images = self.images.lock().unwrap();
        if range.offset >= METADATA_END {
            images.data_writes += 1;
            if !images.data_writes.is_multiple_of(self.every) {
                return;
            }
        }
        let seed = images.kept.len() as u64;
        let image = |disk: &Arc<CrashDisk>| disk.crash(seed);
        images.kept.push(self.all.iter().map(image).collect());
    }
}

impl BlockDevice for Watched {
    testkit::forward!(child: geometry, read, flush, write_zeroes, trim, extents, identity, settle);

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.keep_images(range);
            self.child.write(range, data, flags).await
        })
    }
}

/// Three disks that keep what a cut leaves of all of them.
pub(super) struct WatchedDisks {
    pub(super) nodes: [Node; 3],
    all: Vec<Arc<CrashDisk>>,
    images: Images,
}

impl WatchedDisks {
    /// At every write.
    pub(super) fn new() -> Self {
        Self::sampled(1)
    }

    /// At every write of what is not data, and at every `every`th one of data.
    pub(super) fn sampled(every: u64) -> Self {
        let crash = |n| Arc::new(CrashDisk::new(DISK).interleaved(n));
        let all: Vec<Arc<CrashDisk>> = (0..3).map(crash).collect();
        let images = Images::default();
        let nodes = [0, 1, 2].map(|n| {
            Arc::new(Watched {
                child: Arc::clone(&all[n]),
                all: all.clone(),
                images: images.clone(),
                every,
            }) as Node
        });
        Self { nodes, all, images }
    }

    /// Those that hold this.
    pub(super) async fn of(image: &DiskImages) -> Self {
        let watched = Self::new();
        for (disk, bytes) in watched.all.iter().zip(image) {
            let all = Range::new(0, DISK);
            let data = smallvec::smallvec![bytes::Bytes::from(bytes.clone())];
            disk.write(all, data, WriteFlags::empty()).await.unwrap();
            disk.flush().await.unwrap();
        }
        watched
    }

    /// Nothing was written yet.
    pub(super) fn begin(&self) {
        self.images.lock().unwrap().kept.clear();
    }

    /// What cuts would have left since it began, and one now.
    pub(super) fn end(&self) -> Vec<DiskImages> {
        let mut images = std::mem::take(&mut self.images.lock().unwrap().kept);
        images.push(self.all.iter().map(|disk| disk.crash(0)).collect());
        images
    }
}
