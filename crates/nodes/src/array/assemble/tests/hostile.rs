//! Superblocks that no program writes: for each of them there is an answer.

use block::Range;
use proptest::prelude::*;

use super::Set;
use crate::array::Raid0Layout;
use crate::array::format::{Level, Role};

const LEVELS: [Level; 8] = [
    Level::Linear,
    Level::Raid0,
    Level::Raid1,
    Level::Raid4,
    Level::Raid5,
    Level::Raid6,
    Level::Raid10,
    Level::Other(9),
];

/// A number, small or anything.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..6_u64, Just(65_536), Just(i64::MAX as u64), any::<u64>()]
}

fn role() -> impl Strategy<Value = Role> {
    let part = prop_oneof![0..5_u16, any::<u16>()];
    prop_oneof![
        4 => part.prop_map(Role::Active),
        1 => Just(Role::Spare),
        1 => Just(Role::Faulty),
    ]
}

/// What of a member is another thing: the field, and what is put there.
fn changes() -> impl Strategy<Value = Vec<(usize, u8, u64, Role)>> {
    prop::collection::vec((0..4_usize, 0..14_u8, number(), role()), 0..12)
}

fn change(set: &mut Set, (member, field, value, role): (usize, u8, u64, Role)) {
    let low = u32::try_from(value & 0xffff_ffff).expect("32 bits");
    let of = set.of(member);
    match field {
        0 => of.events = value,
        1 => of.number = low,
        2 => of.role = role,
        3 => {
            let index = usize::try_from(low % 9).expect("few");
            if let Some(slot) = of.roles.get_mut(index) {
                *slot = role;
            }
        }
        4 => of.roles.truncate(usize::try_from(low % 9).expect("few")),
        5 => of.rebuilt_to = Some(value),
        6 => of.synced_to = Some(value),
        7 => of.chunk = value,
        8 => of.layout = low,
        9 => of.member_size = value,
        10 => of.data = Range::new(value, of.data.len),
        11 => of.data.len = value,
        12 => of.members = low % 2000,
        _ => of.features = low & 0x1fff,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn whatever_superblocks_say_there_is_an_answer(
        level in 0..LEVELS.len(),
        parts in 1..5_u16,
        changes in changes(),
        everybody: bool,
        lax: bool,
        prefer in prop::option::of(0..4_usize),
    ) {
        let mut set = Set::whole(LEVELS[level], parts.max(4));
        for (member, field, value, role) in changes {
            // Members that agree on what cannot be come further.
            let all = if everybody { 0..4 } else { member..member + 1 };
            all.for_each(|member| change(&mut set, (member, field, value, role)));
        }
        set.members.truncate(parts.into());
        set.rules.prefer = prefer.filter(|prefer| *prefer < set.members.len());
        (set.rules.read_only, set.rules.run, set.rules.force_dirty_degraded) = (lax, lax, lax);
        set.rules.raid0_layout = lax.then_some(Raid0Layout::Original);
        if let Ok(verdict) = set.judged() {
            prop_assert_eq!(verdict.parts.len() as u64, u64::from(verdict.facts.parts));
            prop_assert!(verdict.facts.size > 0);
            let mut held: Vec<usize> = verdict.parts.iter().flatten().map(|part| part.0).collect();
            held.extend(verdict.others.iter().map(|other| other.0));
            held.sort_unstable();
            held.dedup();
            prop_assert_eq!(held.len(), set.members.len(), "each member is in one place");
        }
    }
}
