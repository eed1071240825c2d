//! The layout of a new volume in `outboard volume create`: its type, and how it spreads over disks. Pure.

use std::str::FromStr;

use nodes::volume::edit::{NewRaidLevel, NewRaidVolume, NewVolume};

use crate::failure::Failure;
use crate::graph::ByteSize;

/// Stripes of striped volumes by default.
const STRIPES: usize = 2;

/// A type of volume that is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewVolumeType {
    Linear,
    Striped,
    Raid(NewRaidLevel),
}

/// Options that say how a volume spreads over disks.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct LayoutArgs {
    /// linear, striped, raid0, raid1, raid10, raid4, raid5 or raid6 [default: linear, or as --stripes and --mirrors say]
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<NewVolumeType>,

    /// Copies besides the first: raid1, and raid10 with --stripes [default: 1 with these types]
    #[arg(long, short = 'm', value_name = "NUMBER")]
    mirrors: Option<usize>,

    /// Stripe the volume over so many disks, parity not counted [default: 1, with raid0, raid10, raid4 and raid5 2, with raid6 3]
    #[arg(long, short = 'i', value_name = "NUMBER")]
    stripes: Option<usize>,

    /// Bytes of one stripe
    #[arg(
        long,
        alias = "stripesize",
        short = 'I',
        value_name = "SIZE",
        default_value = "64K"
    )]
    stripe_size: ByteSize,

    /// Bytes for each bit of the write-intent bitmaps of raid1, raid10, raid4, raid5 and raid6
    #[arg(
        long,
        alias = "regionsize",
        short = 'R',
        value_name = "SIZE",
        default_value = "2M"
    )]
    region_size: ByteSize,

    /// No first resync: take the images of raid1 and raid10 for equal, and parity of raid4 and raid5 for right. What was not written may read differently each time, or after the loss of a disk
    #[arg(long)]
    nosync: bool,
}

/// How a new volume is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewLayout {
    /// Linear or striped.
    Plain,
    /// Of RAID.
    Raid {
        level: NewRaidLevel,
        copies: usize,
        region_size: u64,
        assume_synced: bool,
    },
}

impl FromStr for NewVolumeType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "linear" => Ok(Self::Linear),
            "striped" => Ok(Self::Striped),
            "raid0" => Ok(Self::Raid(NewRaidLevel::Raid0)),
            "raid1" => Ok(Self::Raid(NewRaidLevel::Raid1)),
            "raid10" => Ok(Self::Raid(NewRaidLevel::Raid10)),
            "raid4" => Ok(Self::Raid(NewRaidLevel::Raid4)),
            "raid5" => Ok(Self::Raid(NewRaidLevel::Raid5)),
            "raid6" => Ok(Self::Raid(NewRaidLevel::Raid6)),
            _ => Err(
                "linear, striped, raid0, raid1, raid10, raid4, raid5 and raid6 are created here"
                    .to_owned(),
            ),
        }
    }
}

impl LayoutArgs {
    fn kind(&self) -> NewVolumeType {
        let (mirrors, stripes) = (self.mirrors.unwrap_or(0), self.stripes.unwrap_or(1));
        match (self.kind, mirrors, stripes) {
            (Some(kind), ..) => kind,
            (None, 0, 0 | 1) => NewVolumeType::Linear,
            (None, 0, _) => NewVolumeType::Striped,
            (None, _, 0 | 1) => NewVolumeType::Raid(NewRaidLevel::Raid1),
            (None, ..) => NewVolumeType::Raid(NewRaidLevel::Raid10),
        }
    }

    /// How many stripes, and how they are made safe.
    pub(super) fn layout(&self) -> Result<(usize, NewLayout), Failure> {
        let (mirrors, stripes) = (self.mirrors, self.stripes);
        let level = match self.kind() {
            NewVolumeType::Raid(level) => level,
            plain => {
                let name = match plain {
                    NewVolumeType::Striped => "striped",
                    _ => "linear",
                };
                let is_striped = stripes.unwrap_or(1) > 1;
                if mirrors.unwrap_or(0) > 0 || self.nosync {
                    let what = format!("a {name} volume has no copies");
                    return Err(Failure::usage(what).next("--type raid1 has them"));
                }
                return match (plain, is_striped) {
                    (NewVolumeType::Linear, true) => {
                        let failure = Failure::usage("a linear volume has no stripes");
                        Err(failure.next("--type striped has them"))
                    }
                    (NewVolumeType::Striped, _) => {
                        Ok((stripes.unwrap_or(STRIPES), NewLayout::Plain))
                    }
                    _ => Ok((stripes.unwrap_or(1), NewLayout::Plain)),
                };
            }
        };
        let stripes = stripes.unwrap_or(level.stripes_min());
        let copies = mirrors.unwrap_or(1).saturating_add(1);
        let (stripes, copies) = match level {
            NewRaidLevel::Raid0 if mirrors.unwrap_or(0) > 0 || self.nosync => {
                let failure = Failure::usage("a raid0 volume has no copies");
                return Err(failure.next("--type raid10 has them"));
            }
            NewRaidLevel::Raid1 if stripes > 1 => {
                let failure = Failure::usage("a raid1 volume has no stripes");
                return Err(failure.next("--type raid10 has them"));
            }
            NewRaidLevel::Raid1 => (1, copies),
            NewRaidLevel::Raid10 => (stripes, copies),
            _ if mirrors.unwrap_or(0) > 0 => {
                let failure = Failure::usage("a volume with parity has no copies");
                return Err(failure.next("--type raid10 has them"));
            }
            NewRaidLevel::Raid6 if self.nosync => {
                let what = "a raid6 volume needs its first resync, which computes P and Q";
                return Err(Failure::usage(what).next("leave --nosync out"));
            }
            _ => (stripes, 1),
        };
        let layout = NewLayout::Raid {
            level,
            copies,
            region_size: self.region_size.0,
            assume_synced: self.nosync,
        };
        Ok((stripes, layout))
    }

    /// Bytes of one stripe.
    pub(super) const fn stripe_size(&self) -> u64 {
        self.stripe_size.0
    }
}

impl NewLayout {
    /// `volume` as one of RAID; `None`: it is a plain one.
    pub(super) fn raid(self, volume: &NewVolume) -> Option<NewRaidVolume> {
        match self {
            Self::Plain => None,
            Self::Raid {
                level,
                copies,
                region_size,
                assume_synced,
            } => Some(NewRaidVolume {
                volume: volume.clone(),
                level,
                copies,
                region_size,
                assume_synced,
            }),
        }
    }
}
