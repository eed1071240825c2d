//! [`Disk`]: a resolved expression. Plain data: nothing is open.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bucket::VolumeUri;
use engine::rbd::ImageSpec;
use nbd::client::Target;
use nodes::array::Raid0Layout;
use nodes::{DelayTimes, FaultPlan, Rates};

use super::size::ByteSize;
use super::syntax::Span;

/// A disk to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Disk {
    /// A file or a block device.
    File {
        /// Its path.
        path: PathBuf,
        /// Past the page cache.
        direct: bool,
        /// Never written.
        read_only: bool,
        /// Where the path stands in the text.
        span: Span,
    },
    /// RAM, zeroes at first.
    Memory {
        /// Its size.
        size: ByteSize,
        /// Never written.
        read_only: bool,
    },
    /// Discards writes, reads zeroes; so many bytes. For measuring.
    Null(ByteSize),
    /// The same as the kernel's target of this name; so many bytes.
    Zero(ByteSize),
    /// Fails every request; so many bytes.
    Error(ByteSize),
    /// An export of another server.
    Remote {
        /// Which.
        target: Target,
        /// Connections wanted, if not as many as usual.
        connections: Option<usize>,
        /// How long requests wait for a server that is away, if not as long as usual.
        timeout: Option<Duration>,
        /// Bytes read ahead of a sequential reader.
        read_ahead: Option<u64>,
        /// Never written.
        read_only: bool,
        /// Where its URI stands in the text.
        span: Span,
    },
    /// A volume on an object store.
    Bucket(BucketDisk),
    /// An image of Ceph.
    Rbd(RbdDisk),
    /// Another disk, in blocks of another size.
    Blocks {
        /// The other one.
        disk: Box<Self>,
        /// The size, bytes: a power of two.
        size: u32,
    },
    /// A partition of another disk.
    Partition {
        /// The other one.
        disk: Box<Self>,
        /// As its table counts, from 1.
        number: u32,
        /// Where the call stands.
        span: Span,
    },
    /// Disks one behind the other.
    Linear {
        /// In their order.
        disks: Vec<Self>,
        /// Where the call stands.
        span: Span,
    },
    /// Disks in turns.
    Stripe {
        /// In their order.
        disks: Vec<Self>,
        /// Bytes of one turn.
        chunk: u64,
        /// Use of each only what the shortest has.
        trim: bool,
        /// Where the call stands.
        span: Span,
    },
    /// An md array.
    Array(Array),
    /// A logical volume of LVM.
    Volume(Volume),
    /// A disk that is never written, and a file with what differs from it.
    Overlay(Overlay),
    /// Another disk, and a local file that answers what was read of it before.
    Cache(CachedDisk),
    /// Another disk, answering late.
    Delay {
        /// The other one.
        disk: Box<Self>,
        /// How late.
        times: DelayTimes,
    },
    /// Another disk, with bounds on what it carries out.
    Throttle {
        /// The other one.
        disk: Box<Self>,
        /// The bounds.
        rates: Rates,
    },
    /// Another disk, doing wrong.
    Fault {
        /// The other one.
        disk: Box<Self>,
        /// What goes wrong.
        plan: FaultPlan,
    },
    /// What a device-mapper table describes.
    Dm {
        /// Where the table is.
        path: PathBuf,
        /// Where the path stands in the text.
        span: Span,
    },
}

/// A volume on an object store, or a snapshot of it, which is read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketDisk {
    /// Which.
    pub(crate) uri: VolumeUri,
    /// A file of certificates that its store's are signed by.
    pub(crate) ca: Option<PathBuf>,
    /// The file with its key, if it is encrypted.
    pub(crate) key: Option<PathBuf>,
    /// Never written: it is taken from no server.
    pub(crate) read_only: bool,
    /// Its local journal.
    pub(crate) journal: Option<BucketJournal>,
    /// Where its URI stands in the text.
    pub(crate) span: Span,
}

/// The local journal of a volume: a flush returns when it is durable there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketJournal {
    /// The file, or device.
    pub(crate) file: PathBuf,
    /// Bytes of a file that is made.
    pub(crate) size: u64,
}

/// An image of Ceph, or a snapshot of it, which is read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RbdDisk {
    /// Which, and how its cluster is reached.
    pub(crate) spec: ImageSpec,
    /// Where its name stands in the text.
    pub(crate) span: Span,
}

/// A disk that is never written, and a file with what differs from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Overlay {
    /// The disk.
    pub(crate) base: Box<Disk>,
    /// The file.
    pub(crate) top: PathBuf,
    /// Bytes of one exception, for a new file.
    pub(crate) chunk: Option<u32>,
    /// Most bytes that the file takes.
    pub(crate) quota: Option<u64>,
    /// Where the file's path stands in the text.
    pub(crate) span: Span,
}

/// A disk with a cache file in front of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CachedDisk {
    /// The disk.
    pub(crate) disk: Box<Disk>,
    /// The file.
    pub(crate) file: PathBuf,
    /// Most bytes that the file takes.
    pub(crate) size: Option<u64>,
    /// The file with its boot profile, or for a new one.
    pub(crate) profile: Option<PathBuf>,
    /// Where the file's path stands in the text.
    pub(crate) span: Span,
}

/// An md array of the disks that are its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Array {
    /// The disks, in any order: their superblocks hold their slots.
    pub(crate) members: Vec<Disk>,
    /// The name of each, in messages and in commands that name a member.
    pub(crate) names: Vec<String>,
    /// So many members are known to be missing.
    pub(crate) missing: usize,
    /// Start although members are missing that worked when it was used last.
    pub(crate) run: bool,
    /// The member that wins after a split brain.
    pub(crate) prefer: Option<usize>,
    /// The layout of RAID 0 with members of unequal size, if its superblocks do not have it.
    pub(crate) raid0_layout: Option<Raid0Layout>,
    /// Read RAID 4, 5, 6 although it is dirty and degraded.
    pub(crate) force_dirty_degraded: bool,
    /// How long a request to a member may take, if not as long as usual.
    pub(crate) member_timeout: Option<Duration>,
    /// Where the call stands.
    pub(crate) span: Span,
}

/// A logical volume of a group whose physical volumes are on these disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Volume {
    /// The disks, in any order: their labels have their ids.
    pub(crate) disks: Vec<Disk>,
    /// The name of each, in messages.
    pub(crate) names: Vec<String>,
    /// Where each stands.
    pub(crate) spans: Vec<Span>,
    /// Name or id of the group, if it is written.
    pub(crate) group: Option<String>,
    /// Name of the volume.
    pub(crate) name: String,
    /// Where the name stands.
    pub(crate) name_span: Span,
    /// The system id of this host.
    pub(crate) system_id: Option<String>,
    /// Read what may be outdated where nothing newer is there.
    pub(crate) force: bool,
    /// Read the group although another system may be using it.
    pub(crate) ignore_owner: bool,
    /// Where the call stands.
    pub(crate) span: Span,
}

/// `[NAME=]DISK`, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedDisk {
    /// The whole text, for messages.
    pub(crate) text: String,
    /// The name, if given.
    pub(crate) name: Option<String>,
    /// The disk.
    pub(crate) disk: Disk,
}

impl Disk {
    /// The disks that it is made of, in order.
    pub(crate) fn children(&self) -> &[Self] {
        match self {
            Self::Blocks { disk, .. }
            | Self::Partition { disk, .. }
            | Self::Delay { disk, .. }
            | Self::Throttle { disk, .. }
            | Self::Fault { disk, .. } => std::slice::from_ref(disk),
            Self::Overlay(overlay) => std::slice::from_ref(&overlay.base),
            Self::Cache(cached) => std::slice::from_ref(&cached.disk),
            Self::Array(array) => &array.members,
            Self::Volume(volume) => &volume.disks,
            Self::Linear { disks, .. } | Self::Stripe { disks, .. } => disks,
            Self::File { .. }
            | Self::Memory { .. }
            | Self::Null(_)
            | Self::Zero(_)
            | Self::Error(_)
            | Self::Remote { .. }
            | Self::Bucket(_)
            | Self::Rbd(_)
            | Self::Dm { .. } => &[],
        }
    }

    /// The same disks, to be changed.
    pub(crate) fn children_mut(&mut self) -> &mut [Self] {
        match self {
            Self::Blocks { disk, .. }
            | Self::Partition { disk, .. }
            | Self::Delay { disk, .. }
            | Self::Throttle { disk, .. }
            | Self::Fault { disk, .. } => std::slice::from_mut(disk),
            Self::Overlay(overlay) => std::slice::from_mut(&mut overlay.base),
            Self::Cache(cached) => std::slice::from_mut(&mut cached.disk),
            Self::Array(array) => &mut array.members,
            Self::Volume(volume) => &mut volume.disks,
            Self::Linear { disks, .. } | Self::Stripe { disks, .. } => disks,
            Self::File { .. }
            | Self::Memory { .. }
            | Self::Null(_)
            | Self::Zero(_)
            | Self::Error(_)
            | Self::Remote { .. }
            | Self::Bucket(_)
            | Self::Rbd(_)
            | Self::Dm { .. } => &mut [],
        }
    }

    /// The disk below those that give it another block size.
    pub(crate) fn without_blocks(&self) -> &Self {
        let mut disk = self;
        while let Self::Blocks { disk: below, .. } = disk {
            disk = below;
        }
        disk
    }

    /// Whether this disk can be kept from being written.
    pub(crate) fn can_be_read_only(&self) -> bool {
        match self {
            Self::File { .. }
            | Self::Memory { .. }
            | Self::Remote { .. }
            | Self::Bucket(_)
            | Self::Rbd(_)
            | Self::Array(_)
            | Self::Volume(_)
            | Self::Overlay(_)
            | Self::Dm { .. } => true,
            _ => self.children().iter().any(Self::can_be_read_only),
        }
    }

    /// Whether it may hold something when it is opened, as an image that overlays lie over.
    pub(crate) fn is_image(&self) -> bool {
        !matches!(*self.leaves(), [Self::Memory { .. }]) && self.can_be_read_only()
    }

    /// The files that it is kept in, or described by.
    pub(crate) fn files(&self) -> Vec<&Path> {
        match self {
            Self::File { path, .. } | Self::Dm { path, .. } => vec![path],
            Self::Overlay(overlay) => vec![&overlay.top],
            _ => self.children().iter().flat_map(Self::files).collect(),
        }
    }

    /// The cache files of it, as their paths are shown.
    pub(crate) fn cache_files(&self) -> Vec<String> {
        self.cache_files_where(&|_| true)
    }

    /// The cache files above a volume, as their paths are shown.
    pub(crate) fn cache_files_over_volumes(&self) -> Vec<String> {
        self.cache_files_where(&Self::has_volume)
    }

    fn cache_files_where(&self, is_meant: &dyn Fn(&Self) -> bool) -> Vec<String> {
        let own = match self {
            Self::Cache(cached) if is_meant(self) => Some(cached.file.display().to_string()),
            _ => None,
        };
        let below = self.children().iter();
        let below = below.flat_map(|disk| disk.cache_files_where(is_meant));
        own.into_iter().chain(below).collect()
    }

    fn has_volume(&self) -> bool {
        matches!(self, Self::Volume(_)) || self.children().iter().any(Self::has_volume)
    }

    /// The disks at the bottom, which hold the bytes; what a table names is not among them.
    pub(crate) fn leaves(&self) -> Vec<&Self> {
        match self.children() {
            [] => vec![self],
            children => children.iter().flat_map(Self::leaves).collect(),
        }
    }
}
