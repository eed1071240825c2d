//! [`DmTable`]: what a table says, with the place of every part of it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::SECTOR;
use super::target::DmTarget;

/// A place in the text of a table; both numbers begin at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// Line.
    pub line: usize,
    /// Character of the line.
    pub column: usize,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A table: lines that follow each other without a gap, from sector 0 on.
#[derive(Debug)]
pub struct DmTable {
    pub(super) lines: Vec<TableLine>,
}

/// A run of sectors and what they are.
#[derive(Debug)]
pub struct TableLine {
    /// Where it begins in the text.
    pub place: TextPosition,
    /// First sector on the table's disk.
    pub start: u64,
    /// Sectors; at least one.
    pub len: u64,
    /// What they are.
    pub(super) target: Box<dyn DmTarget>,
}

/// A device that a table names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: DeviceName,
    /// Where the table names it.
    pub place: TextPosition,
}

/// How a table names a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DeviceName {
    /// By a path, or anything else that the table has there.
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

/// Sectors of a disk that a line maps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceUse<'a> {
    /// The disk.
    pub need: Need<'a>,
    /// First sector there.
    pub offset: u64,
    /// How many.
    pub len: u64,
    /// Whether the line has them in the same order, without others between them.
    pub is_in_order: bool,
}

impl DmTable {
    /// The lines, in order.
    #[must_use]
    pub fn lines(&self) -> &[TableLine] {
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
        for DeviceUse { need, .. } in self.lines.iter().flat_map(TableLine::uses) {
            if !needs.iter().any(|known| known.is_same(&need)) {
                needs.push(need);
            }
        }
        needs
    }
}

impl TableLine {
    /// The sectors of devices that the line maps to, in order.
    #[must_use]
    pub fn uses(&self) -> Vec<DeviceUse<'_>> {
        self.target.uses(self.len)
    }
}

impl<'a> DeviceUse<'a> {
    /// `len` sectors from `offset` on, in their order.
    pub(super) const fn in_order(need: Need<'a>, offset: u64, len: u64) -> Self {
        Self {
            need,
            offset,
            len,
            is_in_order: true,
        }
    }
}

impl<'a> Need<'a> {
    /// A device that may be written.
    pub(super) const fn writable(device: &'a Device) -> Self {
        Self::Disk {
            device,
            read_only: false,
        }
    }

    /// The device that has the line's sectors: for an overlay, its origin.
    pub(super) const fn device(&self) -> &'a Device {
        match self {
            Self::Disk { device, .. } => device,
            Self::Overlay { origin, .. } => origin,
        }
    }

    /// Whether both are met by one disk.
    #[must_use]
    pub fn is_same(&self, other: &Need<'_>) -> bool {
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
