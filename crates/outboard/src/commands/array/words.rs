//! Levels, layouts, kinds of superblocks, bitmaps and consistency policies as mdadm's users write them. Pure.

use nodes::array::ConsistencyChoice;
use nodes::array::format::{Level, Version, parity_layout};

use crate::failure::Failure;
use crate::graph::ByteSize;

/// `--level`
pub(super) fn level(text: &str) -> Result<Level, String> {
    match text {
        "linear" => Ok(Level::Linear),
        "0" | "raid0" | "stripe" => Ok(Level::Raid0),
        "1" | "raid1" | "mirror" => Ok(Level::Raid1),
        "4" | "raid4" => Ok(Level::Raid4),
        "5" | "raid5" => Ok(Level::Raid5),
        "6" | "raid6" => Ok(Level::Raid6),
        "10" | "raid10" => Ok(Level::Raid10),
        _ => Err("known are 1 (mirror), 10, 5, 6, 4, 0 (stripe) and linear".to_owned()),
    }
}

/// `--metadata`
pub(super) fn version(text: &str) -> Result<Version, String> {
    match text {
        "1.2" | "1" | "default" => Ok(Version::V1_2),
        "1.1" => Ok(Version::V1_1),
        "1.0" => Ok(Version::V1_0),
        "0.90" | "0" | "0.9" => Ok(Version::V0_90 {
            big_endian: cfg!(target_endian = "big"),
        }),
        _ => Err("known are 1.2, 1.1, 1.0 and 0.90".to_owned()),
    }
}

/// `--layout` of an array of this level, as md's number. `None`: the level has no layouts.
pub(super) fn layout(level: Level, text: &str) -> Option<Result<u32, String>> {
    match level {
        Level::Raid5 | Level::Raid6 => {
            let found = parity_layout(level, text);
            Some(found.map_err(|known| format!("known are {}", known.join(", "))))
        }
        Level::Raid10 => Some(copies(text)),
        _ => None,
    }
}

/// The same, or why there is none.
pub(super) fn layout_of(level: Level, text: &str) -> Result<u32, Failure> {
    match layout(level, text) {
        Some(Ok(number)) => Ok(number),
        Some(Err(next)) => {
            let what = format!("{level} has no layout `{text}`");
            Err(Failure::usage(what).next(next))
        }
        None => {
            let what = format!("{level} has no layouts");
            Err(Failure::usage(what).next("leave --layout away"))
        }
    }
}

/// A layout of RAID 10: near copies in the lowest byte, far ones in the next, and a bit for those of `offset`.
fn copies(text: &str) -> Result<u32, String> {
    const OFFSET: u32 = 1 << 16;
    let wrong = || "n2, f2 and o2 are known, with as many copies as the number says".to_owned();
    let (way, copies) = text.split_at_checked(1).ok_or_else(wrong)?;
    let copies: u32 = copies.parse().map_err(|_| wrong())?;
    if !(1..=255).contains(&copies) {
        return Err(wrong());
    }
    match way {
        "n" => Ok(1 << 8 | copies),
        "f" => Ok(copies << 8 | 1),
        "o" => Ok(OFFSET | copies << 8 | 1),
        _ => Err(wrong()),
    }
}

/// `--bitmap`
pub(super) fn bitmap(text: &str) -> Result<ConsistencyChoice, String> {
    match text {
        "internal" => Ok(ConsistencyChoice::Bitmap(None)),
        "none" => Ok(ConsistencyChoice::Resync),
        size => match size.parse::<ByteSize>() {
            Ok(ByteSize(chunk)) if chunk.is_power_of_two() => {
                Ok(ConsistencyChoice::Bitmap(Some(chunk)))
            }
            Ok(_) => Err("its chunk is a power of two, like 64M".to_owned()),
            Err(error) => Err(format!(
                "internal, none, or the size of its chunk ({error})"
            )),
        },
    }
}

/// `--consistency-policy`
pub(super) fn policy(text: &str) -> Result<ConsistencyChoice, String> {
    match text {
        "ppl" => Ok(ConsistencyChoice::Ppl),
        "journal" => Ok(ConsistencyChoice::Journal),
        "bitmap" => Ok(ConsistencyChoice::Bitmap(None)),
        "resync" => Ok(ConsistencyChoice::Resync),
        _ => Err("known are ppl, journal, bitmap and resync".to_owned()),
    }
}

/// `--consistency-policy` and `--bitmap` together. `None`: they contradict each other.
pub(super) fn consistency(
    policy: Option<ConsistencyChoice>,
    bitmap: Option<ConsistencyChoice>,
) -> Option<ConsistencyChoice> {
    use ConsistencyChoice::{Bitmap, Default, Journal, Ppl, Resync};
    match (policy, bitmap) {
        (None, None) => Some(Default),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (Some(Bitmap(_)), Some(bits @ Bitmap(_))) => Some(bits),
        (Some(policy @ (Ppl | Journal | Resync)), Some(Resync)) => Some(policy),
        _ => None,
    }
}
