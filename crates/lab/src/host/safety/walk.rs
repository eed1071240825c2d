//! The walk over devices: what shares bytes with one, by `/sys`.
//!
//! Devices are known by their numbers, so that a link, a second device node or another name of one
//! leads to the same place.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sensors::read::attribute;

/// Major and minor number.
pub(super) type Number = (u32, u32);

/// Devices that one walk meets at most; a machine with more is not understood, and refused.
pub(super) const DEVICES_MAX: usize = 256;

/// Where a system is looked at: `/` but in tests.
#[derive(Debug, Clone)]
pub struct System {
    sys: PathBuf,
    proc: PathBuf,
}

impl System {
    /// This one.
    #[must_use]
    pub fn this() -> Self {
        Self::at(Path::new("/"))
    }

    /// One with `sys` and `proc` below `root`.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self {
            sys: root.join("sys"),
            proc: root.join("proc"),
        }
    }

    /// A file below `/proc`, as far as it can be read.
    pub(super) fn proc(&self, name: &str) -> std::io::Result<String> {
        fs::read_to_string(self.proc.join(name))
    }

    /// The device with this number.
    pub(super) fn device(&self, number: Number) -> Option<Device> {
        let link = self
            .sys
            .join(format!("dev/block/{}:{}", number.0, number.1));
        Device::at(fs::canonicalize(link).ok()?)
    }

    /// Every loop device with a file below it.
    pub(super) fn loops(&self) -> Vec<(Device, PathBuf)> {
        let folder = self.sys.join("block");
        let all = names(&folder).filter_map(|name| {
            let device = Device::at(fs::canonicalize(folder.join(name)).ok()?)?;
            let file = device.backing_file()?;
            Some((device, file))
        });
        all.collect()
    }
}

/// A device as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device {
    folder: PathBuf,
    pub(super) number: Number,
}

impl Device {
    fn at(folder: PathBuf) -> Option<Self> {
        let text = fs::read_to_string(folder.join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self {
            number: (major.parse().ok()?, minor.parse().ok()?),
            folder,
        })
    }

    /// `sda1`.
    pub(super) fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// What a file of the device says.
    pub(super) fn text(&self, file: &str) -> Option<String> {
        attribute(&self.folder.join(file))
    }

    /// Its folder and those it is plugged into, from the inside.
    pub(super) fn way_up(&self) -> impl Iterator<Item = &Path> {
        self.folder.ancestors()
    }

    pub(super) fn is_partition(&self) -> bool {
        self.folder.join("partition").exists()
    }

    /// The disk that it is a partition of, or itself.
    pub(super) fn whole(&self) -> Option<Self> {
        if !self.is_partition() {
            return Some(self.clone());
        }
        Self::at(self.folder.parent()?.to_owned())
    }

    pub(super) fn partitions(&self) -> Vec<Self> {
        names(&self.folder)
            .filter_map(|name| Self::at(self.folder.join(name)))
            .filter(Self::is_partition)
            .collect()
    }

    /// Its holders, by the kernel.
    pub(super) fn holders(&self) -> Vec<Self> {
        self.linked("holders")
    }

    /// Its slaves, by the kernel.
    pub(super) fn slaves(&self) -> Vec<Self> {
        self.linked("slaves")
    }

    fn linked(&self, folder: &str) -> Vec<Self> {
        let folder = self.folder.join(folder);
        names(&folder)
            .filter_map(|name| Self::at(fs::canonicalize(folder.join(name)).ok()?))
            .collect()
    }

    /// The file below a loop device.
    pub(super) fn backing_file(&self) -> Option<PathBuf> {
        Some(PathBuf::from(self.text("loop/backing_file")?))
    }
}

fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// A holder of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeviceHolder {
    pub(super) below: String,
    pub(super) upper: String,
}

/// All that shares bytes with a device.
#[derive(Debug, Clone, Default)]
pub(super) struct Family {
    /// Itself, its partitions, its whole disk, their holders and what is below.
    pub(super) devices: Vec<Device>,
    /// Each device above one of them, but for the path down from where it began.
    pub(super) standing: Vec<DeviceHolder>,
    /// Files below loop devices on the path down.
    pub(super) files: Vec<PathBuf>,
    /// There were more than are looked at.
    pub(super) is_cut: bool,
}

/// Collects a family.
struct Walk<'a> {
    system: &'a System,
    number_of: &'a dyn Fn(&Path) -> Option<Number>,
    loops: Vec<(Device, PathBuf)>,
    seen: BTreeSet<Number>,
    /// From the device downwards: that these stand on what is below them is no reason.
    own: BTreeSet<Number>,
    found: Family,
}

/// Walks from `start`. `number_of` gives the number of the block device at a path.
pub(super) fn family(
    system: &System,
    start: &Device,
    number_of: &dyn Fn(&Path) -> Option<Number>,
) -> Family {
    let mut walk = Walk {
        system,
        number_of,
        loops: system.loops(),
        seen: BTreeSet::new(),
        own: BTreeSet::new(),
        found: Family::default(),
    };
    walk.down(start);
    walk.found
}

impl Walk<'_> {
    /// The device, all its holders, and what is below it.
    fn down(&mut self, device: &Device) {
        if !self.own.insert(device.number) {
            return;
        }
        let mut disk = device.partitions();
        disk.extend(device.whole().filter(|whole| whole != device));
        disk.push(device.clone());
        for one in &disk {
            self.up(one);
        }
        match device.backing_file() {
            Some(file) => {
                match (self.number_of)(&file).and_then(|number| self.system.device(number)) {
                    Some(below) => self.down(&below),
                    None => self.found.files.push(file),
                }
            }
            // Members of one array or volume group may well be in use: only what uses the very
            // device below without a layer between is looked for.
            None => self.found.devices.extend(device.slaves()),
        }
    }

    /// The device and all its holders.
    fn up(&mut self, device: &Device) {
        if !self.seen.insert(device.number) {
            return;
        }
        if self.seen.len() > DEVICES_MAX {
            self.found.is_cut = true;
            return;
        }
        self.found.devices.push(device.clone());
        let over = self
            .loops
            .iter()
            .filter(|(_, file)| (self.number_of)(file) == Some(device.number))
            .map(|(upper, _)| upper.clone());
        let uppers: Vec<Device> = device.holders().into_iter().chain(over).collect();
        for upper in uppers {
            if self.own.contains(&upper.number) {
                continue;
            }
            self.found.standing.push(DeviceHolder {
                below: device.name(),
                upper: upper.name(),
            });
            for part in upper.partitions() {
                self.up(&part);
            }
            self.up(&upper);
        }
    }
}
