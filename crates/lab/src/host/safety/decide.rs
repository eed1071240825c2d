//! Whether something may be written raw, from facts alone. Pure.

use std::fmt;
use std::path::PathBuf;

/// Reasons that are printed; more are counted.
const SHOWN_MAX: usize = 3;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// A block device.
    Block,
    /// A regular file.
    File,
    /// An export of an NBD server.
    Export,
    /// Neither.
    Other,
}

/// One reason not to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A filesystem on it is in use.
    Mounted {
        /// Which device it is.
        device: String,
        /// Where.
        at: PathBuf,
    },
    /// The kernel swaps to it.
    Swap {
        /// Which device or file it is.
        device: String,
    },
    /// Another device holds it: an array, a volume, a mapping, a loop device.
    Held {
        /// Which device it is.
        device: String,
        /// What stands on it.
        by: String,
    },
    /// Another process has claimed it.
    Exclusive {
        /// Which device it is.
        device: String,
    },
    /// A program has it open.
    Open {
        /// Which device or file it is.
        device: String,
        /// Name and number of the program.
        by: String,
    },
    /// Something is on it.
    Signature {
        /// Which device it is.
        device: String,
        /// What, as blkid names it.
        kind: String,
    },
    /// A file that is not empty.
    HoldsData,
    /// It is neither a block device nor a file.
    Neither,
    /// It gives no serial that could be typed.
    NoSerial,
    /// Its serial was not typed.
    SerialNotTyped {
        /// Its serial.
        serial: String,
    },
    /// Another serial was typed.
    OtherSerial {
        /// What was typed.
        typed: String,
        /// Its serial.
        serial: String,
    },
    /// Something could not be found out.
    Unknown {
        /// What.
        what: String,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { device, at } => {
                write!(f, "{device} is mounted on {}", at.display())
            }
            Self::Swap { device } => write!(f, "{device} is swap"),
            Self::Held { device, by } => write!(f, "{by} stands on {device}"),
            Self::Exclusive { device } => write!(f, "{device} is claimed by another process"),
            Self::Open { device, by } => write!(f, "{device} is open in {by}"),
            Self::Signature { device, kind } if kind.ends_with("_member") => {
                write!(f, "{device} is a member ({kind})")
            }
            Self::Signature { device, kind } => write!(f, "{device} holds {kind}"),
            Self::HoldsData => f.write_str(
                "the file holds data; name one that does not exist yet, or an empty one",
            ),
            Self::Neither => f.write_str("it is neither a block device nor a file"),
            Self::NoSerial => f.write_str("it gives no serial that identifies it"),
            Self::SerialNotTyped { serial } => write!(
                f,
                "all that is on it would be lost; if that is meant, add --write-serial '{serial}'"
            ),
            Self::OtherSerial { typed, serial } => {
                write!(f, "its serial is '{serial}' and '{typed}' was typed")
            }
            Self::Unknown { what } => f.write_str(what),
        }
    }
}

/// What is known about a place that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    /// As given.
    pub path: PathBuf,
    /// Without links.
    pub real: PathBuf,
    /// What it is.
    pub kind: DeviceKind,
    /// What uses it or anything that shares bytes with it, what is on it, and what could not be
    /// found out.
    pub against: Vec<Reason>,
    /// A file with anything but zeroes in it.
    pub holds_data: bool,
    /// The serial of a block device, that of the whole disk for a partition; the URI of an export.
    pub serial: Option<String>,
}

/// A place that is not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// As given.
    pub path: PathBuf,
    /// At least one.
    pub reasons: Vec<Reason>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not written: ", self.path.display())?;
        for (index, reason) in self.reasons.iter().take(SHOWN_MAX).enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            reason.fmt(f)?;
        }
        match self.reasons.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Whether it may be written by a user that typed these serials.
///
/// # Errors
/// [`Refusal`] with every reason there is. The serial is required only when nothing else speaks
/// against it: no user is led to type what does not help.
pub(crate) fn decide(facts: &DeviceFacts, typed: &[String]) -> Result<(), Refusal> {
    let mut reasons = facts.against.clone();
    match facts.kind {
        DeviceKind::Other if reasons.is_empty() => reasons.push(Reason::Neither),
        DeviceKind::File if facts.holds_data => reasons.push(Reason::HoldsData),
        DeviceKind::Block | DeviceKind::Export if reasons.is_empty() => {
            reasons.extend(serial(facts, typed));
        }
        DeviceKind::Other | DeviceKind::File | DeviceKind::Block | DeviceKind::Export => {}
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Refusal {
        path: facts.path.clone(),
        reasons,
    })
}

fn serial(facts: &DeviceFacts, typed: &[String]) -> Option<Reason> {
    let Some(serial) = facts.serial.clone().filter(|serial| !serial.is_empty()) else {
        return Some(Reason::NoSerial);
    };
    if typed.contains(&serial) {
        return None;
    }
    Some(match typed.first() {
        // What was typed may be the serial of a disk of the same run.
        _ if facts.kind == DeviceKind::Export => Reason::SerialNotTyped { serial },
        None => Reason::SerialNotTyped { serial },
        Some(other) => Reason::OtherSerial {
            typed: other.clone(),
            serial,
        },
    })
}
