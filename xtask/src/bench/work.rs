//! How the rows of the bench are measured, as plain data: what is served, and the load on it.

use std::fmt;

/// The job of fio.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// fio's `rw`.
    pub(crate) pattern: &'static str,
    /// Bytes of each request.
    pub(crate) block_size: u32,
    /// Processes, each with its own connection.
    pub(crate) jobs: u32,
    /// Requests in flight for each job.
    pub(crate) depth: u32,
    /// Requests a second of each job, at most.
    pub(crate) rate: Option<u32>,
    /// A flush follows each write; latency is that of the flush.
    pub(crate) flushes: bool,
}

/// How a row is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// fio's nbd engine against each server, the disk in the page cache.
    Wire(Load),
    /// The same, and ours on a disk that takes no time: what the client that measures can do at most.
    WireAndNull(Load),
    /// Our generator on many connections at once, on the server's memory.
    Busy(Crowd),
    /// Our generator with structured replies against simple ones, both from our server.
    Replies(Crowd),
    /// Reading a whole disk over TLS.
    Tls,
    /// Copying a sparse disk from a file to an export or back.
    Copy(Direction),
    /// Reporting which parts of a disk hold data.
    Map,
    /// One client while others flood the server with queries of the allocation.
    Flood(Probe),
    /// ext4 on an attached disk against ext4 on nbdfuse, both over a loop device.
    Attached(Load),
    /// Memory of the server for each idle connection.
    Idle {
        /// How many connections.
        connections: u32,
    },
    /// Our server without the page cache against fio on the file itself.
    Direct(Load),
    /// Our server on a composed disk against our server on a plain file.
    Composed(Shape, Load),
    /// Writes to an overlay that has none of the data, against nbdkit's filter.
    OverlayFirst(Load),
    /// Opening a large overlay with many changes.
    OverlayOpen,
    /// A remote disk, served again by ours and by others.
    Reserved(Load),
    /// A mirror of two files against a plain file and QEMU's mirror.
    Mirror(Load),
    /// Resync of a mirror, one member on the real disk.
    Resync,
    /// The same with both of them there.
    ResyncOnOneDisk,
    /// Reads of users meanwhile.
    Foreground(Load),
    /// A member that was away while a little was written.
    ReAdd,
    /// Opening an array of many large members.
    ArrayOpen,
    /// An array with parity against what has no redundancy.
    ParityArray(ParityArray, Load),
    /// A RAID 5 against the kernel's md in the guest.
    GuestArray,
    /// Rebuilding a member of an array with parity, all members on the real disk.
    Rebuild,
    /// Reads of users meanwhile.
    RebuildForeground(Load),
    /// Computing two missing members of a RAID 6, without a server.
    Parity,
    /// Computing of parity against copying memory, without a server.
    ParityKernel(&'static str),
    /// A logical volume against a plain file.
    Volume(VolumeKind, Load),
    /// Writes to an origin with a snapshot that has none of the data.
    OriginFirst(Load),
    /// Moving a volume to another disk while users write it.
    VolumeMove(Load),
    /// A thin volume against a plain file.
    ThinRead(Load),
    /// Opening a large thin pool, and reading it.
    ThinOpen(Load),
    /// Changing the metadata of a large group.
    VolumeUpdate,
    /// Reads while the live page is open, against those while it is closed.
    LivePage(Load),
    /// A cache that has all of a remote disk against a plain file.
    CacheWarm(Load),
    /// The first reads of a machine with an empty cache and a boot profile, against none.
    CacheStart(Load),
    /// A volume on an object store against ZeroFS.
    Bucket(BucketWork),
    /// An image of Ceph that ours, QEMU's server and fio without a server open by librbd.
    Rbd(Load),
    /// The same image as a disk of the guest's kernel, attached by ours and by rbd-nbd.
    RbdGuest(Load),
    /// What the lab and an agent take of a processor while something is measured.
    LabCost,
}

/// What is measured of a volume on an object store.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BucketWork {
    /// A load on a disk that was read before.
    Warm(Load),
    /// A load on a disk of which nothing is cached.
    Cold(Load),
    /// Random writes to a full disk.
    Write(Load),
    /// Writes of the whole disk and a flush.
    WriteAll(Load),
    /// Write and flush, one at a time.
    Flush,
    /// The same with a local journal, held against a local file.
    JournalFlush,
    /// Reads of what is cached during a flush, on its connection.
    ReadInFlush,
    /// Bytes in the store after as much was overwritten as there is, and collected.
    Space {
        /// Each block exactly once, and not some of them several times.
        once: bool,
    },
    /// Requests to the store without any of a client.
    Idle,
    /// Machines without a disk that boot, each with an overlay over a snapshot.
    Boot {
        /// How many.
        machines: u32,
        /// They begin within this time, and read at the pace of the trace; all at once, and as fast as they can, without.
        within_seconds: Option<u32>,
        /// What they are.
        client: BootClient,
    },
}

/// The client of machines that boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BootClient {
    /// The bench's own, which is fast enough for any server, and looks at no data.
    Own,
    /// libnbd by its Python binding: all data is compared, and each machine writes.
    Libnbd,
}

/// An array with parity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParityArray {
    /// 5 or 6.
    pub(crate) level: usize,
    /// Members of the complete array.
    pub(crate) members: usize,
    /// The first of them that are not there.
    pub(crate) missing: usize,
    /// `--consistency-policy` of `array create`.
    pub(crate) policy: &'static str,
    /// What it is held against.
    pub(crate) peer: ParityPeer,
    /// The files of both are in memory, where a flush has nothing to write.
    pub(crate) in_memory: bool,
}

/// A disk without redundancy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ParityPeer {
    /// A stripe over as many files as the array has data members.
    Stripe,
    /// One plain file.
    File,
}

impl ParityArray {
    /// Members whose space is data.
    pub(crate) const fn data(self) -> usize {
        self.members - (self.level - 4)
    }
}

impl fmt::Display for ParityArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "outboard raid{}", self.level)
    }
}

impl fmt::Display for ParityPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stripe => "stripe",
            Self::File => "plain file",
        })
    }
}

/// How a disk is composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Four files in a row.
    Linear,
    /// A partition of that.
    Partition,
    /// Eight layers over that.
    Deep,
    /// Four files side by side.
    Stripe,
    /// An overlay that has all the data.
    OverlayTop,
    /// An overlay that has none.
    OverlayBase,
}

/// What a logical volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeKind {
    /// On one disk after the other.
    Linear,
    /// On four disks at once.
    Striped,
    /// With a snapshot that has none of the data.
    OriginRead,
    /// With a snapshot that has all of the data.
    OriginWritten,
}

/// What a client does one at a time while others flood its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Reads of 4 KiB that are not in the page cache.
    Read,
    /// Writes of 4 KiB with FUA.
    Write,
    /// The allocation of 1 MiB.
    Status,
}

/// The load of our own generator: reads at random offsets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    /// Connections at once.
    pub(crate) connections: u32,
    /// Requests in flight on each.
    pub(crate) depth: u32,
    /// Bytes of each request.
    pub(crate) block_size: u32,
}

/// Which way a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From a file to an export.
    Up,
    /// From an export to a file.
    Down,
}
