//! Whether what is written of a member lies where nothing else is. Pure.
//!
//! A superblock says where data, bitmap and log are. One that lies must not make us write one over the other.

use block::Range;

use super::super::format::{PLACE_LEN, Superblock, Version};

/// Bytes of a superblock before its roles, and of each role.
const FIXED_LEN: u64 = 256;
const ROLE_LEN: u64 = 2;
const SECTOR: u64 = 512;

/// Where everything of a member is, bytes of its disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) superblock: &'a Superblock,
    /// Where that is.
    pub(super) at: u64,
    /// Bytes of data that are used.
    pub(super) used: u64,
    /// Bytes of its bitmap.
    pub(super) bitmap: u64,
    /// Bytes of the disk.
    pub(super) disk: u64,
}

impl Places<'_> {
    /// What lies over something else, or behind the end; `None`: nothing does.
    pub(super) fn clash(&self) -> Option<String> {
        let own = match self.superblock.version {
            Version::V0_90 { .. } => PLACE_LEN,
            _ => {
                let roles = self.superblock.roles.len() as u64;
                (FIXED_LEN + ROLE_LEN * roles).next_multiple_of(SECTOR)
            }
        };
        let bitmap = self.superblock.bitmap_at;
        let places = [
            ("superblock", Some(Range::new(self.at, own))),
            (
                "data",
                Some(Range::new(self.superblock.data.offset, self.used)),
            ),
            ("bitmap", bitmap.map(|at| Range::new(at, self.bitmap))),
            ("log of bad blocks", self.superblock.bad_blocks),
        ];
        for (index, (what, place)) in places.iter().enumerate() {
            let Some(place) = place else { continue };
            if place.check(self.disk, 1).is_err() {
                return Some(format!("its {what} ({place}) lies behind its end"));
            }
            for (other, there) in &places[..index] {
                if there.is_some_and(|there| there.overlaps(place)) {
                    return Some(format!("its {what} ({place}) lies on its {other}"));
                }
            }
        }
        None
    }
}
