//! *identity*: a disk is identified by its serial and its slot, never by `sdX`.
//!
//! Caught in: study D, where `/dev/sda` was a drive of 64 GB in one table and of 254 GB in the next.

use serde::{Deserialize, Serialize};

use super::phase::TargetCheck;
use super::{Check, Finding};

/// The identity of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Identity {
    /// What the kernel calls it at the moment.
    pub name: String,
    /// The serial number that it gives.
    pub serial: Option<String>,
    /// Its world-wide name.
    pub world_wide_name: Option<String>,
    /// Where it is plugged in, as its path in the device tree: `pci-0000:01:00.0-usb-0:1.3:1.0`.
    pub place: Option<String>,
}

impl Identity {
    /// What stays when letters move: the serial, else the world-wide name, else the place.
    #[must_use]
    pub fn lasting(&self) -> Option<&str> {
        self.serial
            .as_deref()
            .or(self.world_wide_name.as_deref())
            .or(self.place.as_deref())
    }
}

pub(super) fn of_target(target: &TargetCheck<'_>) -> Vec<Finding> {
    let disk = target.facts.identity.as_ref();
    disk.and_then(check).into_iter().collect()
}

/// Whether a disk can be identified at all.
fn check(disk: &Identity) -> Option<Finding> {
    disk.lasting().is_none().then(|| {
        Finding::remark(
            Check::Identity,
            format!(
                "{} gives no serial and no place: a later run cannot verify that it is the same disk",
                disk.name
            ),
        )
    })
}

/// Holds the disks of two results against each other that would be compared.
pub(super) fn compare(before: &Identity, now: &Identity) -> Option<Finding> {
    let (old, new) = (before.lasting()?, now.lasting()?);
    let text = if old == new {
        elsewhere(old, before, now)?
    } else if before.name == now.name {
        format!(
            "{} was the disk {old} and is now {new}: letters moved",
            now.name
        )
    } else {
        format!("the disk was {old} and is now {new}")
    };
    Some(Finding::remark(Check::Identity, text))
}

/// The same disk under another letter, or in another slot.
fn elsewhere(disk: &str, before: &Identity, now: &Identity) -> Option<String> {
    let slots = before.place.as_ref().zip(now.place.as_ref());
    if let Some((was, is)) = slots.filter(|(was, is)| was != is) {
        return Some(format!(
            "the disk {disk} was plugged in at {was} and is at {is} now"
        ));
    }
    (before.name != now.name).then(|| {
        format!(
            "the disk {disk} was {} and is {} now: the letter moved, it is the same one",
            before.name, now.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(name: &str, serial: &str) -> Identity {
        Identity {
            name: name.into(),
            serial: Some(serial.into()),
            ..Identity::default()
        }
    }

    #[test]
    fn study_d_had_another_drive_under_the_same_letter() {
        let finding = compare(&drive("sda", "A64"), &drive("sda", "D254")).unwrap();
        assert_eq!(
            finding.text,
            "sda was the disk A64 and is now D254: letters moved"
        );
    }

    #[test]
    fn the_same_drive_under_another_letter_or_in_another_slot_is_said_to_be_the_same() {
        assert_eq!(compare(&drive("sda", "D254"), &drive("sda", "D254")), None);
        let said = |before: &Identity, now: &Identity| compare(before, now).unwrap().text;
        assert_eq!(
            said(&drive("sda", "D254"), &drive("sdd", "D254")),
            "the disk D254 was sda and is sdd now: the letter moved, it is the same one"
        );
        let at = |place: &str| Identity {
            place: Some(place.into()),
            ..drive("sda", "D254")
        };
        assert_eq!(
            said(&at("usb-0:1.3"), &at("usb-0:1.4")),
            "the disk D254 was plugged in at usb-0:1.3 and is at usb-0:1.4 now"
        );
    }

    #[test]
    fn a_disk_that_says_nothing_of_itself_is_named_in_a_remark() {
        let nameless = Identity {
            name: "sda".into(),
            ..Identity::default()
        };
        assert!(
            check(&nameless)
                .unwrap()
                .text
                .starts_with("sda gives no serial")
        );
        assert_eq!(check(&drive("sda", "A64")), None);
        assert_eq!(compare(&nameless, &drive("sda", "A64")), None);
    }
}
