//! Disks that the kernel makes of others: what of, in which order.
//!
//! Invariant: every layer makes one device of all below it. A table of device mapper is over images,
//! of sizes in the plan.

use serde::{Deserialize, Serialize};

/// What the kernel makes of one or more devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// A mirror of md, with its bitmap inside.
    MdMirror,
    /// Devices in turns, by md.
    MdStripe,
    /// With one parity, by md, and a bitmap inside.
    MdRaid5,
    /// With two parities, by md, and a bitmap inside.
    MdRaid6,
    /// One behind the other, by device mapper.
    DmLinear,
    /// Devices in turns, by device mapper.
    DmStripe,
    /// A logical volume of LVM on all of them.
    Volume,
}

impl Layer {
    /// As in a plan.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MdMirror => "md-mirror",
            Self::MdStripe => "md-stripe",
            Self::MdRaid5 => "md-raid5",
            Self::MdRaid6 => "md-raid6",
            Self::DmLinear => "dm-linear",
            Self::DmStripe => "dm-stripe",
            Self::Volume => "volume",
        }
    }

    /// The fewest devices that make sense.
    const fn devices_min(self) -> usize {
        match self {
            Self::MdMirror | Self::MdStripe | Self::DmStripe => 2,
            Self::MdRaid5 => 3,
            Self::MdRaid6 => 4,
            Self::DmLinear | Self::Volume => 1,
        }
    }

    const fn is_table(self) -> bool {
        matches!(self, Self::DmLinear | Self::DmStripe)
    }
}

/// The first thing that makes no sense about `layers` on so many images.
pub(super) fn check(images: usize, layers: &[Layer]) -> Result<(), String> {
    if images == 0 {
        return Err("it has no images".into());
    }
    if layers.is_empty() && images > 1 {
        return Err("nothing makes one device of its images".into());
    }
    let mut devices = images;
    for (at, layer) in layers.iter().enumerate() {
        let name = layer.as_str();
        let least = layer.devices_min();
        if devices < least {
            return Err(format!("{name} takes {least} devices at least"));
        }
        if at > 0 && layer.is_table() {
            return Err(format!("{name} stands on images and on nothing else"));
        }
        devices = 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Layer::{DmLinear, DmStripe, MdMirror, MdRaid5, MdRaid6, Volume};
    use super::check;

    #[test]
    fn every_layer_makes_one_device_of_all_below_it() {
        for (images, layers) in [
            (1, &[][..]),
            (1, &[Volume]),
            (2, &[MdMirror, Volume]),
            (3, &[DmLinear]),
            (2, &[DmStripe, Volume]),
        ] {
            assert_eq!(check(images, layers), Ok(()), "{images} {layers:?}");
        }
    }

    #[test]
    fn what_cannot_be_made_is_refused_with_what_is_wrong() {
        for (images, layers, part) in [
            (0, &[MdMirror][..], "no images"),
            (2, &[], "one device"),
            (1, &[MdMirror], "md-mirror takes 2 devices"),
            (2, &[MdRaid5], "md-raid5 takes 3 devices"),
            (3, &[MdRaid6], "md-raid6 takes 4 devices"),
            (2, &[Volume, DmStripe], "dm-stripe takes 2 devices"),
            (2, &[MdMirror, DmLinear], "stands on images"),
        ] {
            let why = check(images, layers).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
