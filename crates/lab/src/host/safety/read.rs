//! Gathers the facts about a place. Reads only; what it cannot read becomes a reason.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, SeekFrom, major, minor, seek};
use rustix::io::Errno;

use super::decide::{DeviceFacts, DeviceKind, Reason};
use super::walk::{Device, Family, Number, System, family};
use super::{open, signature};
use crate::host::identity;
use crate::host::mounts;

/// Data of a file that is read to see whether it is all zeroes; a file with more holds something.
const ZEROES_MAX: u64 = 256 << 20;
/// Read at once.
const PIECE: usize = 1 << 20;

/// What is known about `path`. A path at which nothing is becomes a reason.
#[must_use]
pub fn facts(system: &System, path: &Path) -> DeviceFacts {
    let mut facts = DeviceFacts {
        path: path.to_owned(),
        real: path.to_owned(),
        kind: DeviceKind::Other,
        against: Vec::new(),
        holds_data: false,
        serial: None,
    };
    let found = fs::canonicalize(path).and_then(|real| Ok((fs::metadata(&real)?, real)));
    let (metadata, real) = match found {
        Ok(found) => found,
        Err(error) => {
            facts.against.push(Reason::Unknown {
                what: format!("it cannot be looked at: {error}"),
            });
            return facts;
        }
    };
    facts.real = real;
    if metadata.file_type().is_block_device() {
        facts.kind = DeviceKind::Block;
        block(system, &mut facts, number(metadata.rdev()));
    } else if metadata.is_file() {
        facts.kind = DeviceKind::File;
        file(system, &mut facts);
    }
    facts
}

fn number(raw: u64) -> Number {
    (major(raw), minor(raw))
}

/// The number of the block device at a path.
fn number_of(path: &Path) -> Option<Number> {
    let metadata = fs::metadata(path).ok()?;
    metadata
        .file_type()
        .is_block_device()
        .then(|| number(metadata.rdev()))
}

fn block(system: &System, facts: &mut DeviceFacts, number: Number) {
    let Some(device) = system.device(number) else {
        facts.against.push(Reason::Unknown {
            what: "the kernel shows nothing of it below /sys".into(),
        });
        return;
    };
    let family = family(system, &device, &number_of);
    let own = facts.real.display().to_string();
    facts.against.extend(used(system, &family));
    facts.against.extend(claimed(&facts.real));
    facts.against.extend(opened(&facts.real, &own));
    facts.against.extend(signed(&facts.real, &own));
    facts.against.extend(signed_whole(&device));
    facts.serial = identity::serial(&device_folder(&device));
}

/// The folder below `/sys` of the disk itself, where a partition's serial is, too.
fn device_folder(device: &Device) -> PathBuf {
    let whole = device.whole();
    let device = whole.as_ref().unwrap_or(device);
    device
        .way_up()
        .next()
        .map(Path::to_owned)
        .unwrap_or_default()
}

/// What the family is used for, by mounts, swaps and its holders.
pub(super) fn used(system: &System, family: &Family) -> Vec<Reason> {
    let name_of = |number: Option<Number>| {
        let device = family
            .devices
            .iter()
            .find(|device| Some(device.number) == number)?;
        Some(device.name())
    };
    let mut reasons = Vec::new();
    match system.proc("self/mountinfo") {
        Ok(text) => {
            for mount in mounts::parse(&text) {
                // A filesystem of several devices has a number of its own; its source names one.
                let source = number_of(Path::new(&mount.source));
                if let Some(device) = name_of(Some(mount.number)).or_else(|| name_of(source)) {
                    let at = mount.point;
                    reasons.push(Reason::Mounted { device, at });
                }
            }
        }
        Err(error) => reasons.push(unread("mounts", &error)),
    }
    match system.proc("swaps") {
        Ok(text) => {
            for path in swaps(&text) {
                let is_file = family.files.iter().any(|file| is_same(file, path));
                let device = name_of(number_of(path))
                    .or_else(|| is_file.then(|| path.display().to_string()));
                reasons.extend(device.map(|device| Reason::Swap { device }));
            }
        }
        Err(error) => reasons.push(unread("swaps", &error)),
    }
    reasons.extend(family.standing.iter().map(|one| Reason::Held {
        device: one.below.clone(),
        by: one.upper.clone(),
    }));
    if family.is_cut {
        reasons.push(Reason::Unknown {
            what: "more stands on it than can be looked at".into(),
        });
    }
    reasons
}

fn unread(what: &str, error: &std::io::Error) -> Reason {
    Reason::Unknown {
        what: format!("the {what} of this machine cannot be read: {error}"),
    }
}

/// `/proc/swaps`: a head line, then a path at the begin of each.
fn swaps(text: &str) -> impl Iterator<Item = &Path> {
    text.lines()
        .skip(1)
        .filter_map(|line| line.split_ascii_whitespace().next())
        .map(Path::new)
}

fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| {
        fs::metadata(path)
            .ok()
            .map(|found| (found.dev(), found.ino()))
    };
    identity(a).is_some() && identity(a) == identity(b)
}

/// Whether the kernel gives it to us alone. It is given back at once.
fn claimed(path: &Path) -> Option<Reason> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(_) => None,
        Err(Errno::BUSY) => Some(Reason::Exclusive {
            device: path.display().to_string(),
        }),
        Err(errno) => Some(Reason::Unknown {
            what: format!("it cannot be opened: {errno}"),
        }),
    }
}

fn opened(path: &Path, device: &str) -> Option<Reason> {
    let by = open::program(path)?;
    Some(Reason::Open {
        device: device.to_owned(),
        by,
    })
}

fn signed(path: &Path, device: &str) -> Option<Reason> {
    match signature::of(path) {
        Ok(None) => None,
        Ok(Some(kind)) => Some(Reason::Signature {
            device: device.to_owned(),
            kind,
        }),
        Err(what) => Some(Reason::Unknown { what }),
    }
}

/// A partition may lie on a disk that is itself a member of something; its table alone is no reason.
fn signed_whole(device: &Device) -> Option<Reason> {
    if !device.is_partition() {
        return None;
    }
    let name = device.whole()?.name();
    let reason = signed(&Path::new("/dev").join(&name), &name)?;
    match &reason {
        Reason::Signature { kind, .. } if signature::is_table(kind) => None,
        _ => Some(reason),
    }
}

fn file(system: &System, facts: &mut DeviceFacts) {
    let own = facts.real.display().to_string();
    for (upper, file) in system.loops() {
        if is_same(&file, &facts.real) {
            facts.against.push(Reason::Held {
                device: own.clone(),
                by: upper.name(),
            });
        }
    }
    let alone = Family {
        files: vec![facts.real.clone()],
        ..Family::default()
    };
    facts.against.extend(used(system, &alone));
    facts.against.extend(opened(&facts.real, &own));
    match holds_data(&facts.real) {
        Ok(holds_data) => facts.holds_data = holds_data,
        Err(errno) => facts.against.push(Reason::Unknown {
            what: format!("it cannot be read: {errno}"),
        }),
    }
    if facts.holds_data {
        facts.against.extend(signed(&facts.real, &own));
    }
}

/// Whether a file has anything but zeroes in it, holes passed over.
fn holds_data(path: &Path) -> Result<bool, Errno> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = vec![0u8; PIECE];
    let (mut offset, mut read) = (0, 0);
    loop {
        match seek(&file, SeekFrom::Data(offset)) {
            Ok(data) => offset = data,
            // Nothing but a hole is left.
            Err(Errno::NXIO) => return Ok(false),
            Err(errno) => return Err(errno),
        }
        let count = rustix::io::pread(&file, &mut buffer[..], offset)?;
        if count == 0 {
            return Ok(false);
        }
        read += count as u64;
        if buffer[..count].iter().any(|byte| *byte != 0) || read > ZEROES_MAX {
            return Ok(true);
        }
        offset += count as u64;
    }
}
