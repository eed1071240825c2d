//! [`Table`]: what a table says, with the place of every part of it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::SECTOR;

/// A place in the text of a table; both numbers begin at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Character of the line.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A table: lines that follow each other without a gap, from sector 0 on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub(super) lines: Vec<Line>,
}

/// A run of sectors and what they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it begins in the text.
    pub place: Place,
    /// First sector on the table's disk.
    pub start: u64,
    /// Sectors; at least one.
    pub len: u64,
    /// What they are.
    pub target: Target,
}

/// What a run of sectors is. Offsets and chunks are sectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Sectors of a device.
    Linear {
        /// Which.
        device: Device,
        /// From where on.
        offset: u64,
    },
    /// Sectors dealt out to several devices.
    Striped {
        /// Sectors that are together on one device.
        chunk: u64,
        /// The devices, and from where on.
        stripes: Vec<(Device, u64)>,
    },
    /// Reads as zeroes, discards writes.
    Zero,
    /// Fails.
    Error,
    /// A device seen through a persistent store of what was changed.
    Snapshot {
        /// What was not changed.
        origin: Device,
        /// What was.
        store: Device,
        /// Sectors that are changed together; a power of two.
        chunk: u64,
    },
    /// A device of which there are snapshots.
    SnapshotOrigin {
        /// Which.
        origin: Device,
    },
}

/// A device that a table names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: DeviceName,
    /// Where the table names it.
    pub place: Place,
}

/// How a table names a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeviceName {
    /// By a path, or whatever else the table has there.
    Path(PathBuf),
    /// By its number, as `dmsetup table` prints it.
    Number {
        /// The driver's.
        major: u32,
        /// The device's.
        minor: u32,
    },
}

/// A disk that a table is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need<'a> {
    /// A device.
    Disk {
        /// Which.
        device: &'a Device,
        /// Whether it may not be written through this table.
        read_only: bool,
    },
    /// An overlay, its store in the format of dm-snapshot.
    Overlay {
        /// Its base, which is not written.
        origin: &'a Device,
        /// Its store, which exists.
        store: &'a Device,
        /// Bytes of a chunk; a power of two.
        chunk: u64,
    },
}

impl Table {
    /// The lines, in order.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Size of the table's disk, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.lines.iter().map(|line| line.len * SECTOR).sum()
    }

    /// The disks that the table is made of, each once, in the order in which it names them.
    #[must_use]
    pub fn needs(&self) -> Vec<Need<'_>> {
        let mut needs: Vec<Need<'_>> = Vec::new();
        for need in self.lines.iter().flat_map(Line::needs) {
            if !needs.iter().any(|known| known.is_same(&need)) {
                needs.push(need);
            }
        }
        needs
    }
}

impl Line {
    /// The disks of this line, in order.
    pub(super) fn needs(&self) -> Vec<Need<'_>> {
        match &self.target {
            Target::Zero | Target::Error => Vec::new(),
            Target::Linear { device, .. } => vec![Need::writable(device)],
            Target::Striped { stripes, .. } => {
                let devices = stripes.iter().map(|(device, _)| device);
                devices.map(Need::writable).collect()
            }
            Target::Snapshot {
                origin,
                store,
                chunk,
            } => vec![Need::Overlay {
                origin,
                store,
                chunk: chunk * SECTOR,
            }],
            Target::SnapshotOrigin { origin } => vec![Need::Disk {
                device: origin,
                read_only: true,
            }],
        }
    }
}

impl<'a> Need<'a> {
    const fn writable(device: &'a Device) -> Self {
        Self::Disk {
            device,
            read_only: false,
        }
    }

    /// Whether both are met by one disk.
    pub(super) fn is_same(&self, other: &Need<'_>) -> bool {
        match (self, other) {
            (
                Self::Disk { device, read_only },
                Need::Disk {
                    device: other,
                    read_only: others,
                },
            ) => device.name == other.name && read_only == others,
            (
                Self::Overlay {
                    origin,
                    store,
                    chunk,
                },
                Need::Overlay {
                    origin: other_origin,
                    store: other_store,
                    chunk: other_chunk,
                },
            ) => {
                origin.name == other_origin.name
                    && store.name == other_store.name
                    && chunk == other_chunk
            }
            _ => false,
        }
    }
}

impl Device {
    /// Where the device is. A number is looked up on this machine.
    ///
    /// # Errors
    /// If there is no device of that number.
    pub fn path(&self) -> io::Result<PathBuf> {
        let (major, minor) = match &self.name {
            DeviceName::Path(path) => return Ok(path.clone()),
            DeviceName::Number { major, minor } => (major, minor),
        };
        let link = PathBuf::from(format!("/dev/block/{major}:{minor}"));
        if link.exists() {
            return Ok(link);
        }
        // Without udev there are no such links, but the kernel knows the name.
        let facts = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent"))?;
        let name = facts.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        let name = name.ok_or(io::ErrorKind::NotFound)?;
        Ok(PathBuf::from("/dev").join(name))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            DeviceName::Path(path) => path.display().fmt(f),
            DeviceName::Number { major, minor } => write!(f, "{major}:{minor}"),
        }
    }
}
