//! LVM's names of segment types of RAID, as md's levels and layouts. Pure.

use super::RaidError;
use crate::array::format::Level;

/// Copies of a volume of RAID 10 where nothing says how many: LVM makes no others by itself.
const COPIES: u32 = 2;
/// Bit of the layout of RAID 10: far copies are one row further down.
const OFFSET: u32 = 1 << 16;
/// Bit of the layout of RAID 10 that device-mapper sets with far copies: they stay within sets of images.
const FAR_SETS: u32 = 1 << 17;

/// Names with one level and layout each, by md's numbers (`docs/formats/dm-raid.md`).
const FIXED: [(&str, Level, u32); 18] = [
    ("raid0", Level::Raid0, 0),
    ("raid0_meta", Level::Raid0, 0),
    ("raid1", Level::Raid1, 0),
    // Parity comes first: md calls that a layout of RAID 5.
    ("raid4", Level::Raid5, 4),
    ("raid5", Level::Raid5, 2),
    ("raid5_la", Level::Raid5, 0),
    ("raid5_ra", Level::Raid5, 1),
    ("raid5_ls", Level::Raid5, 2),
    ("raid5_rs", Level::Raid5, 3),
    ("raid5_n", Level::Raid5, 5),
    ("raid6", Level::Raid6, 8),
    ("raid6_zr", Level::Raid6, 8),
    ("raid6_nr", Level::Raid6, 9),
    ("raid6_nc", Level::Raid6, 10),
    ("raid6_la_6", Level::Raid6, 16),
    ("raid6_ra_6", Level::Raid6, 17),
    ("raid6_ls_6", Level::Raid6, 18),
    ("raid6_rs_6", Level::Raid6, 19),
];

/// A segment type of RAID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RaidKind {
    /// Its level.
    pub(super) level: Level,
    /// Its layout; of RAID 10 one of several.
    pub(super) layout: u32,
}

impl RaidKind {
    /// The kind of that name in LVM's metadata.
    pub(super) fn of(name: &str) -> Result<Self, RaidError> {
        let of = |level, layout| Ok(Self { level, layout });
        let mut fixed = FIXED.iter();
        if let Some((_, level, layout)) = fixed.find(|(known, ..)| *known == name) {
            return of(*level, *layout);
        }
        match name {
            // P and Q on the last two images, which md has among its layouts of RAID 5.
            "raid6_n_6" => of(Level::Raid6, 5),
            "raid10" | "raid10_near" => of(Level::Raid10, 1 << 8 | COPIES),
            "raid10_far" => of(Level::Raid10, FAR_SETS | COPIES << 8 | 1),
            "raid10_offset" => of(Level::Raid10, FAR_SETS | OFFSET | COPIES << 8 | 1),
            _ => Err(RaidError::refused(
                format!("volumes of the type {name} are not known here"),
                "use the volume with Linux",
            )),
        }
    }

    /// Whether metadata with this level and layout belong to it. The number of copies is only in the metadata.
    pub(super) fn fits(self, level: Level, layout: u32) -> bool {
        match (self.level, level) {
            (Level::Raid1, Level::Raid1) | (Level::Raid0, Level::Raid0) => true,
            (Level::Raid10, Level::Raid10) => raid10_form(self.layout) == raid10_form(layout),
            (own, other) => own == other && self.layout == layout,
        }
    }

    /// Whether it is not dealt out in chunks.
    pub(super) fn has_no_chunk(self) -> bool {
        self.level == Level::Raid1
    }

    /// Whether images may have changed their places since their metadata were written: their content is not bound to
    /// these.
    pub(super) fn may_reorder(self) -> bool {
        self.level == Level::Raid1
            || self.level == Level::Raid10 && raid10_form(self.layout) == Raid10Form::Near
    }

    /// Whether data stay where they are when images get another size. `layout`: as metadata have it.
    pub(super) fn can_resize(self, layout: u32) -> bool {
        self.level != Level::Raid10 || raid10_form(layout) == Raid10Form::Near
    }

    /// Bytes of each image that a volume of `size` bytes uses. `None`: the volume cannot be dealt out to so many.
    pub(super) fn image_size(self, size: u64, images: u32) -> Option<u64> {
        let images = u64::from(images);
        let data = match self.level {
            Level::Raid1 => return Some(size),
            Level::Raid0 => images,
            Level::Raid5 => images.checked_sub(1)?,
            Level::Raid6 => images.checked_sub(2)?,
            Level::Raid10 => {
                let copies = u64::from(self.layout & 0xff) * u64::from(self.layout >> 8 & 0xff);
                let all = size.checked_mul(copies)?;
                return (images > 0 && all.is_multiple_of(images)).then(|| all / images);
            }
            _ => return None,
        };
        (data > 0 && size.is_multiple_of(data)).then(|| size / data)
    }
}

/// Which of the three forms a layout of RAID 10 has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Raid10Form {
    Near,
    Far,
    Offset,
}

const fn raid10_form(layout: u32) -> Raid10Form {
    match (layout >> 8 & 0xff, layout & OFFSET) {
        (0 | 1, _) => Raid10Form::Near,
        (_, 0) => Raid10Form::Far,
        _ => Raid10Form::Offset,
    }
}
