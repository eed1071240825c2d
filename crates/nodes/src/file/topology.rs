//! What sysfs reports of the device under a file.
//!
//! ```text
//! /sys/dev/block/MAJOR:MINOR -> ../../devices/…/sda/sda1      a partition has a file `partition`
//!                                           sda/queue/…       only whole devices have a queue
//! ```

use std::path::{Path, PathBuf};

use rustix::fs::{Dev, major, minor};

/// Where sysfs lists block devices by number.
pub(super) const SYSFS: &str = "/sys/dev/block";

/// A block device's queue in sysfs.
#[derive(Debug)]
pub(super) struct QueueLimits {
    folder: PathBuf,
}

impl QueueLimits {
    /// The queue of device `dev`, or of the device that `dev` is a partition of. `None` for what is
    /// no block device: tmpfs, network filesystems, filesystems over several devices.
    pub(super) fn of(sysfs: &Path, dev: Dev) -> Option<Self> {
        let name = format!("{}:{}", major(dev), minor(dev));
        let device = sysfs.join(name).canonicalize().ok()?;
        let whole = if device.join("partition").exists() {
            device.parent()?.to_owned()
        } else {
            device
        };
        let folder = whole.join("queue");
        folder.is_dir().then_some(Self { folder })
    }

    /// Whether seeks cost time.
    pub(super) fn is_rotational(&self) -> bool {
        self.number("rotational").is_some_and(|value| value != 0)
    }

    /// Whether the device zeroes ranges by itself.
    pub(super) fn has_write_zeroes(&self) -> bool {
        self.number("write_zeroes_max_bytes")
            .is_some_and(|value| value != 0)
    }

    /// Unit of the medium, bytes.
    pub(super) fn physical_block_size(&self) -> Option<u32> {
        self.number("physical_block_size")?.try_into().ok()
    }

    /// Unit of the interface, bytes.
    pub(super) fn logical_block_size(&self) -> Option<u32> {
        self.number("logical_block_size")?.try_into().ok()
    }

    fn number(&self, name: &str) -> Option<u64> {
        let text = std::fs::read_to_string(self.folder.join(name)).ok()?;
        text.trim().parse().ok()
    }
}
