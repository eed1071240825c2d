//! Tests of the member table: which member may fail, which is alone, what becomes of parts and numbers.

use std::sync::Arc;

use block::Range;
use testkit::MemDisk;
use tokio::sync::{Notify, broadcast};

use super::super::layout::Layout;
use super::super::member_table::{Failing, LogChange, MemberTable, Slot, SlotState};
use super::super::members::{SlotId, Target};
use super::kit::{DISK, MEMBER, Recipe};
use crate::array::assembly::Facts;
use crate::array::member::Member;
use crate::array::member_guard::ArrayFence;

/// A table with members that hold all parts; members behind these are spares.
fn table(recipe: &Recipe, members: u16) -> MemberTable {
    let fence = ArrayFence::new(
        "box:test",
        broadcast::Sender::new(1),
        Arc::new(Notify::new()),
    );
    let slot = |number: u16| {
        let (at, superblock) = recipe.superblock(number, DISK);
        let member = Member {
            name: format!("m{number}"),
            disk: Arc::new(MemDisk::new(DISK)),
            remote: false,
            reopen: None,
            at,
            bytes: Vec::new(),
            bitmap: None,
            bad: Vec::new(),
            superblock,
        };
        let id = SlotId(number.into());
        let target = Target::new(id, &member, std::time::Duration::MAX, fence.clone(), None);
        let (part, state) = match u32::from(number) < recipe.parts {
            true => (Some(number), SlotState::InSync),
            false => (None, SlotState::Spare),
        };
        Slot::new(Arc::new(target), member, part, state)
    };
    let slots: Vec<Slot> = (0..members).map(slot).collect();
    let superblock = &slots[0].superblock;
    let facts = Facts {
        reshape: None,
        uuid: superblock.array,
        name: superblock.name.clone(),
        version: superblock.version,
        level: superblock.level,
        layout: superblock.layout,
        chunk: superblock.chunk,
        parts: recipe.parts,
        member_size: MEMBER,
        size: MEMBER * u64::from(recipe.parts),
    };
    let layout = Arc::new(Layout::of(&facts).unwrap());
    let parts = (0..recipe.parts as usize).map(|part| Some(SlotId(part)));
    MemberTable::new(layout, slots, parts.collect(), Vec::new(), 10)
}

#[test]
fn the_last_member_in_sync_is_never_failed() {
    let mut table = table(&Recipe::mirror(2), 2);
    assert_eq!(table.fail(SlotId(0), "it broke"), Failing::Failed);
    assert_eq!(table.fail(SlotId(0), "again"), Failing::Already);
    assert_eq!(table.fail(SlotId(1), "it broke"), Failing::Last);
    assert!(table.is_degraded());
    assert_eq!(table.working(), 1);
    assert!(table.view.holder(0).is_none() && table.view.holder(1).is_some());
}

#[test]
fn in_raid10_a_member_is_the_last_one_where_no_other_has_its_chunks() {
    // Two near copies of each chunk: members 0 and 1 hold the same, and so do 2 and 3.
    let mut table = table(&Recipe::raid10(0x102, 4), 4);
    assert_eq!(table.fail(SlotId(0), "it broke"), Failing::Failed);
    assert_eq!(table.fail(SlotId(1), "it broke"), Failing::Last);
    assert_eq!(table.fail(SlotId(3), "it broke"), Failing::Failed);
    assert_eq!(table.fail(SlotId(2), "it broke"), Failing::Last);
}

#[test]
fn a_spare_takes_a_vacant_part_and_is_in_sync_once_it_is_rebuilt() {
    let mut table = table(&Recipe::mirror(2), 3);
    assert_eq!(table.vacancies(), (Vec::new(), vec![SlotId(2)]));
    table.fail(SlotId(1), "it broke");
    assert_eq!(table.vacancies(), (vec![1], vec![SlotId(2)]));
    table.give_part(SlotId(2), 1, false);
    assert_eq!(table.rebuilding(), [(1, 0, false)]);
    table.set_rebuilt(1, 4096);
    table.set_rebuilt(1, 512);
    assert_eq!(table.rebuilding(), [(1, 4096, false)], "never back");
    // It holds its part up to there, and is no copy to go on with alone.
    let holder = table.view.holder(1).unwrap();
    assert!(holder.can_read(Range::new(0, 4096)) && !holder.can_read(Range::new(0, 4608)));
    assert_eq!(table.fail(SlotId(0), "it broke"), Failing::Last);
    assert_eq!(table.in_sync(1), Some("m2".to_owned()));
    assert_eq!(table.in_sync(1), None, "it was already");
    assert!(!table.is_degraded());
    assert_eq!(table.fail(SlotId(0), "it broke"), Failing::Failed);
}

#[test]
fn a_view_does_not_change_after_a_request_has_taken_it() {
    let mut table = table(&Recipe::mirror(2), 2);
    let before = table.view.clone();
    table.fail(SlotId(0), "it broke");
    assert_eq!(before.holders().count(), 2);
    assert_eq!(table.view.holders().count(), 1);
}

#[test]
fn bad_places_are_logged_where_a_member_has_a_log() {
    let bad = Range::new(4096, 512);
    let mut without = table(&Recipe::mirror(2), 2);
    assert_eq!(without.log_bad(SlotId(0), &[bad]), LogChange::Impossible);
    let recipe = Recipe {
        log: true,
        ..Recipe::mirror(2)
    };
    let mut table = table(&recipe, 3);
    assert_eq!(
        table.log_bad(SlotId(2), &[bad]),
        LogChange::Impossible,
        "a spare"
    );
    assert_eq!(table.log_bad(SlotId(0), &[bad]), LogChange::Changed);
    assert_eq!(table.log_bad(SlotId(0), &[bad]), LogChange::Unchanged);
    assert!(!table.view.no_bad && table.slots[0].log_changed);
    assert_eq!(
        table.clear_bad(SlotId(0), Range::new(0, 4096)),
        LogChange::Unchanged
    );
    assert_eq!(
        table.clear_bad(SlotId(0), Range::new(0, 8192)),
        LogChange::Changed
    );
    assert!(table.view.no_bad);
}

#[test]
fn a_number_of_a_lost_member_is_given_again_only_where_the_format_reuses_them() {
    use crate::array::format::Role;
    let mut table = table(&Recipe::mirror(2), 2);
    table.roles = vec![Role::Active(0), Role::Active(1), Role::Faulty, Role::Spare];
    assert!(table.has_number(1) && !table.has_number(2));
    assert_eq!(table.free_number(false), 3, "2 may come back");
    assert_eq!(table.free_number(true), 2);
}

#[test]
fn an_array_that_shrinks_gives_up_vacant_parts_alone() {
    let mut table = table(&Recipe::mirror(3), 3);
    table.fail(SlotId(2), "it broke");
    table.set_parts(2);
    assert_eq!((table.parts.len(), table.is_degraded()), (2, false));
    table.set_parts(4);
    assert_eq!(table.vacancies().0, [2, 3]);
}
