//! [`Picture`]: how the members of a set stand to each other. Pure; it refuses nothing.
//!
//! # The rules
//!
//! * The freshest member, spares aside, has the superblock that counts. A member is up to date if it has seen
//!   as many changes, or one less: superblocks are written one after the other.
//! * What part a member holds is in the freshest member's table, at the member's number.
//! * Of two with one number the one that has seen more changes is the member: it got the number after the other one had gone.
//! * A member that works with one of those that work now, by its own table, was left behind while that one
//!   went on: it is only stale. So is one that works with such a stale one, and so on.
//! * A member that works with none of them, while a part is missing by its own table, went its own way
//!   (*split brain*): it was written without the others, and they without it.

use super::consistency::FormDifference;
use crate::array::format::{Role, Superblock, features};

/// How a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// It holds its part.
    InSync {
        /// Which.
        part: u16,
    },
    /// It is being rebuilt, and holds its part so far.
    Rebuilding {
        /// Which.
        part: u16,
        /// Up to this byte of its data.
        to: u64,
    },
    /// It is to take the place of a member that still works.
    Replacement {
        /// The part.
        part: u16,
        /// Up to this byte of its data it holds what that member does; `None`: all of it.
        to: Option<u64>,
    },
    /// The array went on without it.
    Stale {
        /// What it held.
        part: u16,
    },
    /// It was written without the others, and they without it.
    Split {
        /// What it holds.
        part: u16,
    },
    /// It waits for a member to fail.
    Spare,
    /// The array says that it failed.
    Failed,
    /// It keeps the journal.
    Journal,
}

impl Membership {
    /// The part that it holds, all or some of it.
    #[must_use]
    pub const fn holds(self) -> Option<u16> {
        match self {
            Self::InSync { part } | Self::Rebuilding { part, .. } => Some(part),
            _ => None,
        }
    }
}

/// How the members of a set stand to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Index of the member with the superblock that counts.
    pub freshest: usize,
    /// By member.
    pub memberships: Vec<Membership>,
}

impl Picture {
    /// Judges the superblocks of one array; `prefer` is the member with the side that counts, no matter what the
    /// others have seen. `None` if there is no superblock.
    #[must_use]
    pub fn of(superblocks: &[&Superblock], prefer: Option<usize>) -> Option<Self> {
        let freshest = match prefer {
            Some(preferred) if preferred < superblocks.len() => side(superblocks, preferred),
            _ => freshest(superblocks, |_| true)?,
        };
        let fresh = superblocks[freshest];
        let mut memberships: Vec<Membership> = superblocks
            .iter()
            .map(|member| membership(member, fresh, prefer.is_some()))
            .collect();
        leave_replaced_numbers(superblocks, &mut memberships);
        hold_what_others_lost(&mut memberships, fresh);
        for index in went_their_own_way(superblocks, &memberships) {
            if let Membership::Stale { part } = memberships[index] {
                memberships[index] = Membership::Split { part };
            }
        }
        Some(Self {
            freshest,
            memberships,
        })
    }

    /// The holder of each of `parts`: those that are in sync before those that are being rebuilt.
    #[must_use]
    pub fn holders(&self, parts: u32) -> Vec<Option<usize>> {
        let holder = |part: u32| {
            let all = || self.memberships.iter().enumerate();
            let in_sync = all().find(
                |(_, membership)| matches!(membership, Membership::InSync { part: own } if u32::from(*own) == part),
            );
            let any =
                || all().find(|(_, membership)| membership.holds().map(u32::from) == Some(part));
            in_sync.or_else(any).map(|(index, _)| index)
        };
        (0..parts).map(holder).collect()
    }

    /// Which parts are held without a gap.
    #[must_use]
    pub fn in_sync(&self, parts: u32) -> Vec<bool> {
        let held = |part: u32| {
            let mut memberships = self.memberships.iter();
            memberships
                .any(|membership| matches!(membership, Membership::InSync { part: own } if u32::from(*own) == part))
        };
        (0..parts).map(held).collect()
    }
}

/// The part that a member holds by its own word.
pub(super) const fn own_part(member: &Superblock) -> Option<u16> {
    match member.role {
        Role::Active(part) => Some(part),
        _ => None,
    }
}

/// What `table` says that `member` is.
pub(super) fn recorded_role(table: &Superblock, member: &Superblock) -> Role {
    let index = usize::try_from(member.number).ok();
    let recorded_role = index.and_then(|index| table.roles.get(index));
    recorded_role.copied().unwrap_or(Role::Faulty)
}

/// Whether `table` has `member` as a working one.
pub(super) fn lists(table: &Superblock, member: &Superblock) -> bool {
    own_part(member).is_some_and(|part| recorded_role(table, member) == Role::Active(part))
}

/// The member with most changes among those that `counts` lets through, the first of equals. Spares count
/// only where there is nothing else, and a member that is being rebuilt only behind one that is not.
fn freshest(members: &[&Superblock], counts: impl Fn(&Superblock) -> bool) -> Option<usize> {
    let rank = |member: &Superblock| {
        let active = own_part(member).is_some();
        let is_replacement = member.features & features::REPLACEMENT != 0;
        let holds_all = member.rebuilt_to.is_none() && !is_replacement;
        (active, member.events, holds_all)
    };
    let counted = members.iter().enumerate().rev();
    let counted = counted.filter(|(_, member)| counts(member));
    counted
        .max_by_key(|(_, member)| rank(member))
        .map(|(index, _)| index)
}

/// The freshest member of those that work with `preferred`.
fn side(members: &[&Superblock], preferred: usize) -> usize {
    let center = members[preferred];
    let beside = |member: &Superblock| {
        std::ptr::eq(member, center) || (lists(center, member) && lists(member, center))
    };
    freshest(members, beside).unwrap_or(preferred)
}

/// How `member` stands by the word of `fresh`. With a preferred side, what lies beyond it may have seen
/// more changes than it.
fn membership(member: &Superblock, fresh: &Superblock, preferred: bool) -> Membership {
    let own = match member.role {
        Role::Journal => return journal(member, fresh, preferred),
        // It was absent while the form of the array changed: what it would take part in is not what its superblock says.
        Role::Spare if FormDifference::of(fresh, member).is_some() => return Membership::Failed,
        Role::Spare => return begun_with(member, fresh).unwrap_or(Membership::Spare),
        Role::Faulty => return Membership::Failed,
        Role::Active(own) => own,
    };
    if std::ptr::eq(member, fresh) {
        return holding(member, own);
    }
    let ahead = preferred && member.events > fresh.events.saturating_add(1);
    let up_to_date = member.events.saturating_add(1) >= fresh.events && !ahead;
    match recorded_role(fresh, member) {
        Role::Active(part) if up_to_date => holding(member, part),
        _ => Membership::Stale { part: own },
    }
}

/// A spare that was to hold a part once a reshape began, which it did not hear of before a power cut: nothing was written there.
fn begun_with(member: &Superblock, fresh: &Superblock) -> Option<Membership> {
    let reshape = fresh.reshape.filter(|reshape| reshape.position == 0)?;
    let Role::Active(part) = recorded_role(fresh, member) else {
        return None;
    };
    let is_new = u32::from(part) >= reshape.parts_before(fresh.members);
    let is_one_behind = member.events.checked_add(1) == Some(fresh.events);
    (is_new && is_one_behind).then_some(Membership::InSync { part })
}

/// What is in a journal counts only if it has seen what the members have, as far as a cut lets it, and they list it.
fn journal(member: &Superblock, fresh: &Superblock, preferred: bool) -> Membership {
    let is_listed = recorded_role(fresh, member) == Role::Journal;
    // It may have zeroes in place of the parity of a member that a preferred side still has.
    let is_ahead = preferred && member.events > fresh.events;
    match is_listed && member.events.abs_diff(fresh.events) <= 1 && !is_ahead {
        true => Membership::Journal,
        false => Membership::Failed,
    }
}

const fn holding(member: &Superblock, part: u16) -> Membership {
    if member.features & features::REPLACEMENT != 0 {
        return Membership::Replacement {
            part,
            to: member.rebuilt_to,
        };
    }
    match member.rebuilt_to {
        Some(to) => Membership::Rebuilding { part, to },
        None => Membership::InSync { part },
    }
}

/// A member of which a later one has the number is stale: the table speaks of that one.
fn leave_replaced_numbers(members: &[&Superblock], memberships: &mut [Membership]) {
    for (membership, member) in memberships.iter_mut().zip(members) {
        let is_later = |other: &&Superblock| {
            let is_active = own_part(other).is_some();
            is_active && other.number == member.number && other.events > member.events
        };
        if let Some(part) = membership.holds()
            && members.iter().any(is_later)
        {
            *membership = Membership::Stale { part };
        }
    }
}

/// A replacement of a member that is not here holds the part, as far as it was copied. Where what repairs its parity after an
/// unclean end is in the partial parity log of that member, all of it is computed; but not where it is taking its place, and others
/// know of that already: no row was being written.
fn hold_what_others_lost(memberships: &mut [Membership], fresh: &Superblock) {
    let has_old_logs = fresh.keeps_ppl() && fresh.synced_to.is_some();
    for index in 0..memberships.len() {
        let Membership::Replacement { part, to } = memberships[index] else {
            continue;
        };
        if memberships.iter().all(|other| other.holds() != Some(part)) {
            let holders = fresh.roles.iter();
            let holders = holders.filter(|role| **role == Role::Active(part));
            let takes_place = to.is_none() && holders.count() == 1;
            memberships[index] = match to {
                _ if has_old_logs && !takes_place => Membership::Rebuilding { part, to: 0 },
                Some(to) => Membership::Rebuilding { part, to },
                None => Membership::InSync { part },
            };
        }
    }
}

/// Stale members that no chain of members leads from to one that works now.
fn went_their_own_way(members: &[&Superblock], memberships: &[Membership]) -> Vec<usize> {
    let is_stale = |index: &usize| matches!(memberships[*index], Membership::Stale { .. });
    let mut known: Vec<usize> = (0..members.len())
        .filter(|&index| memberships[index].holds().is_some())
        .collect();
    let mut left: Vec<usize> = (0..members.len()).filter(is_stale).collect();
    loop {
        let knows = |index: &usize| {
            known
                .iter()
                .any(|&other| lists(members[*index], members[other]))
        };
        let (behind, others): (Vec<usize>, Vec<usize>) = left.into_iter().partition(knows);
        left = others;
        if behind.is_empty() {
            break;
        }
        known.extend(behind);
    }
    left.retain(|&index| members[index].working().contains(&false));
    left
}
