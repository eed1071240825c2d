//! Tests of putting arrays together: [`membership`] of which member is fresh, [`refused`] of what is no array,
//! [`comeback`] of which may come back, [`hostile`] of what no program writes.

mod comeback;
mod hostile;
mod membership;
mod refusals;

use super::{Rules, Verdict, Witness, assemble};
use crate::array::ArrayError;
use crate::array::format::bitmap::{Bitmap, array_in, covered};
use crate::array::format::tests::{DISK_LEN, mirror};
use crate::array::format::{Level, Role, Superblock, Version, features};

const MIB: u64 = 1 << 20;

/// Member `number` of a whole array of `parts`, each holding the part of its number.
pub(super) fn superblock(level: Level, parts: u16, number: u16) -> Superblock {
    let mut of = mirror(Version::V1_2, number);
    of.level = level;
    of.members = parts.into();
    of.device = Some([u8::try_from(number).expect("few"); 16]);
    for (place, role) in (0..parts).zip(&mut of.roles) {
        *role = Role::Active(place);
    }
    match level {
        Level::Raid0 => {
            (of.chunk, of.member_size, of.layout) = (65_536, 0, 2);
            of.features |= features::RAID0_LAYOUT;
        }
        Level::Linear => of.member_size = 0,
        Level::Raid1 => {}
        Level::Raid10 => (of.chunk, of.layout) = (65_536, 0x102),
        _ => (of.chunk, of.layout) = (65_536, 2),
    }
    of
}

/// The bitmap of a whole array.
pub(super) fn bitmap(of: &Superblock) -> Bitmap {
    Bitmap {
        version: 4,
        array: array_in(of),
        events: of.events,
        events_cleared: of.events,
        size: covered(of).expect("it can have one"),
        chunk: 65_536,
        stale: false,
        daemon_sleep: 5,
        write_behind: 0,
    }
}

/// A set of members, to be changed before it is judged.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub(super) members: Vec<Witness>,
    pub(super) rules: Rules,
}

impl Set {
    /// A whole array, its members called `a`, `b`…
    pub(super) fn whole(level: Level, parts: u16) -> Self {
        let members = (0..parts).zip('a'..).map(|(number, letter)| Witness {
            name: letter.to_string(),
            size: DISK_LEN,
            superblock: superblock(level, parts, number),
            bitmap: None,
        });
        Self {
            members: members.collect(),
            rules: Rules::default(),
        }
    }

    /// The superblock of a member.
    pub(super) fn of(&mut self, member: usize) -> &mut Superblock {
        &mut self.members[member].superblock
    }

    /// The array goes on without a member, with so many events; that one is not written.
    pub(super) fn goes_on_without(&mut self, gone: usize, events: u64) {
        let number = usize::try_from(self.members[gone].superblock.number).expect("few");
        for (index, member) in self.members.iter_mut().enumerate() {
            if index != gone {
                member.superblock.roles[number] = Role::Faulty;
                member.superblock.events = events;
            }
        }
    }

    /// One member alone goes on without another, with so many events.
    pub(super) fn one_goes_on_without(&mut self, one: usize, gone: usize, events: u64) {
        let number = usize::try_from(self.members[gone].superblock.number).expect("few");
        let superblock = self.of(one);
        superblock.roles[number] = Role::Faulty;
        superblock.events = events;
    }

    pub(super) fn judged(&self) -> Result<Verdict, ArrayError> {
        assemble(&self.members, &self.rules)
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.judged().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The holder of each part.
    pub(super) fn holders(&self) -> Vec<Option<usize>> {
        let parts = self.verdict().parts;
        parts.into_iter().map(|held| Some(held?.0)).collect()
    }

    /// Why it is refused, and what to do next.
    pub(super) fn refusal(&self) -> (String, String) {
        let error = self
            .judged()
            .map_or_else(|error| error, |v| panic!("{v:?}"));
        let next = error.next().unwrap_or_default().to_owned();
        (error.to_string(), next)
    }
}
