//! Whether what is written of a member lies where nothing else is, and can be written there. Pure.
//!
//! A superblock says where data, bitmap and log are. One that lies must not make us write one over the other, and a disk
//! with larger blocks than the one that it was made on must not get requests for parts of them.

use block::Range;

use super::super::ArrayError;
use super::super::format::{PLACE_LEN, SECTOR, Superblock, Version, dm_raid};

/// Bytes of a superblock before its roles, and of each role.
const FIXED_LEN: u64 = 256;
const ROLE_LEN: u64 = 2;
/// What data are called.
const DATA: &str = "data";

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
    /// Bytes of the disk, and of its blocks.
    pub(super) disk: u64,
    pub(super) block: u32,
}

/// What is to be done with blocks that are too large.
const SMALLER: &str = "put smaller blocks on it: blocks(DISK, size=512)";

impl Places<'_> {
    /// Refuses what lies over something else, behind the end, or on parts of blocks. `what` is not done then, with the
    /// member of this `name`; `next` is what is left to do.
    ///
    /// # Errors
    /// Which of it does.
    pub(super) fn check(
        &self,
        what: &str,
        name: &str,
        next: &'static str,
    ) -> Result<(), ArrayError> {
        let refused = |clash, next| {
            Err(ArrayError::refused(
                format!("{what}: {name}: {clash}"),
                next,
            ))
        };
        match (self.clash(), self.cut_block()) {
            (Some(clash), _) => refused(clash, next),
            (None, Some(cut)) => refused(cut, SMALLER),
            (None, None) => Ok(()),
        }
    }

    /// What lies over something else, or behind the end; `None`: nothing does.
    fn clash(&self) -> Option<String> {
        let places = self.all();
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

    /// What begins or ends within a block. Data do not count: they are written in blocks of the array.
    fn cut_block(&self) -> Option<String> {
        let block = u64::from(self.block.max(1));
        let is_cut =
            |place: &Range| !place.offset.is_multiple_of(block) || !place.len.is_multiple_of(block);
        let places = self.all().into_iter().filter(|(what, _)| *what != DATA);
        let mut places = places.filter_map(|(what, place)| Some((what, place?)));
        let (what, place) = places.find(|(_, place)| is_cut(place))?;
        Some(format!(
            "its {what} ({place}) is not made of whole blocks, which have {block} bytes"
        ))
    }

    /// Everything that is written, by its name.
    fn all(&self) -> [(&'static str, Option<Range>); 5] {
        let block = u64::from(self.block.max(1));
        let own = match self.superblock.version {
            Version::V0_90 { .. } => PLACE_LEN,
            Version::DmRaid => (dm_raid::LEN as u64).next_multiple_of(SECTOR.max(block)),
            _ => {
                let roles = self.superblock.roles.len() as u64;
                (FIXED_LEN + ROLE_LEN * roles).next_multiple_of(SECTOR.max(block))
            }
        };
        let bitmap = self.superblock.bitmap_at;
        [
            ("superblock", Some(Range::new(self.at, own))),
            (
                DATA,
                Some(Range::new(self.superblock.data.offset, self.used)),
            ),
            ("bitmap", bitmap.map(|at| Range::new(at, self.bitmap))),
            ("log of bad blocks", self.superblock.bad_blocks),
            ("partial parity log", self.superblock.ppl),
        ]
    }
}
