//! Power cuts while a snapshot is created, removed and merged: at every request, with any subset of what was not flushed.
//!
//! Afterwards the disk has exactly the old metadata or the new ones, each with the data that belong to them, and the change
//! can be carried out again.

use testkit::{CrashDisk, Effect, Fault, FaultDisk, block_on};

use super::*;
use crate::overlay::format::StoreLayout;
use crate::volume::edit::{EditStamp, GroupEdit, NewGroup, NewGroupMember, NewSnapshot, NewVolume};
use crate::volume::format::NewLabel;
use crate::volume::open::{OpenChangeError, SnapshotChange};
use crate::volume::random_id;
use crate::volume::scan::scan;
use crate::volume::snapshot::{SnapshotError, SnapshotState, wipe_store};
use crate::volume::update::{MetadataArea, commit, write_labels};

const PV_LEN: u64 = 1_200_000 / 512 * 512;
const AREA_END: u64 = 1 << 20;
/// Extents of the origin, and of the store.
const ORIGIN: u64 = 6;
pub(super) const STORE: u64 = 8;
pub(super) const ORIGIN_LEN: u64 = ORIGIN * EXTENT;
/// Seeds of the origin's bytes: when the snapshot is created, and later.
pub(super) const OLD: u8 = 0x31;
pub(super) const NEW: u8 = 0x7c;
/// Which images a cut may leave is chosen by so many seeds at each cut.
const SEEDS: u64 = 3;

pub(super) fn stamp() -> EditStamp {
    EditStamp {
        seconds: 2,
        host: "test".to_owned(),
        description: "test".to_owned(),
    }
}

pub(super) fn failed(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The group on a disk.
pub(super) async fn group_on(disk: &Node) -> Result<AssembledGroup, String> {
    let scan = scan(disk).await.map_err(failed)?;
    let scan = scan.expect("a label").map_err(failed)?;
    assert!(
        scan.areas.iter().all(|area| area.text.is_ok()),
        "metadata that are neither old nor new"
    );
    let found = FoundPhysicalVolume {
        name: "disk".to_owned(),
        size: PV_LEN,
        volume: scan.physical_volume(),
    };
    Ok(assemble(&[found]).pop().expect("a group"))
}

pub(super) fn volumes(group: AssembledGroup, disk: &Node) -> Arc<VolumeSet> {
    let disks = group.disks(|_| disk.clone());
    VolumeSet::new(group, disks, VolumeAccess::default()).unwrap()
}

async fn write_text(disk: &Node, edit: GroupEdit) -> Result<(), String> {
    let area = MetadataArea {
        name: "disk".to_owned(),
        disk: disk.clone(),
        area: NewLabel::METADATA_AREA,
        reset: false,
    };
    let text = edit.finish(&stamp()).unwrap();
    let written = commit(&[area], &text).await;
    written.map(|_| ()).map_err(failed)
}

pub(super) fn new_snapshot(extents: u64) -> NewSnapshot {
    NewSnapshot {
        name: "snap".to_owned(),
        origin: "media".to_owned(),
        id: random_id(),
        description_id: random_id(),
        extents,
        chunk: 4096,
        on: Vec::new(),
        seconds: 1,
        host: "test".to_owned(),
    }
}

pub(super) async fn create(disk: &Node) -> Result<(), String> {
    create_of(disk, STORE).await
}

pub(super) async fn create_of(disk: &Node, extents: u64) -> Result<(), String> {
    let group = group_on(disk).await?;
    let mut edit = GroupEdit::open(group.group.clone()).unwrap();
    edit.create_snapshot(&new_snapshot(extents)).unwrap();
    let after = AssembledGroup {
        group: edit.group().clone(),
        ..group
    };
    let store = volumes(after, disk).open_store("snap").await;
    wipe_store(&store.map_err(failed)?).await.map_err(failed)?;
    write_text(disk, edit).await
}

async fn remove(disk: &Node) -> Result<(), String> {
    let mut edit = GroupEdit::open(group_on(disk).await?.group).unwrap();
    edit.remove_snapshot("snap").unwrap();
    write_text(disk, edit).await
}

async fn merge(disk: &Node) -> Result<(), String> {
    let mut edit = GroupEdit::open(group_on(disk).await?.group).unwrap();
    if edit.begin_merge("snap").unwrap() {
        write_text(disk, edit).await?;
    }
    let group = group_on(disk).await?;
    let set = volumes(group.clone(), disk);
    let origin = set.open("media").await.map_err(failed)?;
    let left = set.merge("media", |_| true).await.map_err(failed)?;
    assert_eq!(left, 0);
    origin.disk.flush().await.map_err(failed)?;
    let mut edit = GroupEdit::open(group.group).unwrap();
    edit.finish_merge("snap").unwrap();
    write_text(disk, edit).await
}

pub(super) async fn fill(disk: &Node, seed: u8) -> Result<(), String> {
    let range = Range::new(0, ORIGIN_LEN);
    let set = volumes(group_on(disk).await?, disk);
    let origin = set.open("media").await.map_err(failed)?.disk;
    let data = single(pattern(seed, range));
    let written = origin.write(range, data, WriteFlags::empty()).await;
    written.map_err(failed)?;
    origin.flush().await.map_err(failed)
}

/// A change while the origin is open, and a write of all of it afterwards.
async fn change_served(disk: &Node, change: SnapshotChange) -> Result<(), String> {
    let set = volumes(group_on(disk).await?, disk);
    let origin = set.open("media").await.map_err(failed)?.disk;
    let sequence = set.group().group.sequence;
    let done = set.change_snapshots(sequence, &change, &stamp()).await;
    done.map_err(failed)?;
    assert_eq!(set.group().group.sequence, sequence + 1, "the set follows");
    let range = Range::new(0, ORIGIN_LEN);
    let data = single(pattern(NEW, range));
    let written = origin.write(range, data, WriteFlags::empty()).await;
    written.map_err(failed)?;
    origin.flush().await.map_err(failed)
}

pub(super) async fn content(disk: &Node, name: &str) -> Vec<u8> {
    let set = volumes(group_on(disk).await.unwrap(), disk);
    let volume = set.open(name).await.unwrap().disk;
    gather(&volume.read(Range::new(0, ORIGIN_LEN)).await.unwrap())
}

pub(super) fn bytes(seed: u8) -> Vec<u8> {
    pattern(seed, Range::new(0, ORIGIN_LEN))
}

/// A disk with a group of which the volume `media` holds [`OLD`]; where the store will be there is an older one that says that
/// chunks differ.
pub(super) async fn start() -> Node {
    let disk: Node = Arc::new(MemDisk::new(PV_LEN));
    let member = NewGroupMember {
        id: random_id(),
        device: "disk".to_owned(),
        size: PV_LEN,
    };
    let label = NewLabel::new(&member.id, PV_LEN).unwrap();
    write_labels(&[("disk", &disk, &label)]).await.unwrap();
    let new = NewGroup {
        name: "vg".to_owned(),
        id: random_id(),
        extent: EXTENT,
    };
    let mut edit = GroupEdit::create_group(&new, &[member]).unwrap();
    let media = NewVolume {
        name: "media".to_owned(),
        id: random_id(),
        extents: ORIGIN,
        stripes: 1,
        stripe_size: 0,
        on: Vec::new(),
        seconds: 1,
        host: "test".to_owned(),
    };
    edit.create_volume(&media).unwrap();
    write_text(&disk, edit).await.unwrap();
    let mut stale = StoreLayout::new(4096).unwrap().header().to_vec();
    stale.resize(4096, 0);
    stale.extend(0_u64.to_le_bytes());
    stale.extend(2_u64.to_le_bytes());
    stale.resize(4096 * 3, 0xee);
    stale[4096 + 16..8192].fill(0);
    let at = Range::new(AREA_END + ORIGIN_LEN, stale.len() as u64);
    let written = disk.write(at, single(stale), WriteFlags::empty());
    written.await.unwrap();
    fill(&disk, OLD).await.unwrap();
    disk
}

/// What a snapshot's text says after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    None,
    Snapshot,
    Merging,
}

pub(super) async fn found(disk: &Node) -> Found {
    let group = group_on(disk).await.unwrap().group;
    match group.snapshot_with_store("snap").map(|one| one.merging) {
        None => Found::None,
        Some(false) => Found::Snapshot,
        Some(true) => Found::Merging,
    }
}

/// Cuts `change` at every request; `check` gets what is left, and whether the change was acknowledged. Returns what was found.
pub(super) async fn cut_everywhere(
    image: Vec<u8>,
    change: impl AsyncFn(&Node) -> Result<(), String>,
    check: impl AsyncFn(Node, Found),
) -> Vec<Found> {
    let mut all = Vec::new();
    for cut in 0.. {
        let crash = Arc::new(CrashDisk::from_bytes(image.clone()));
        let fault = Fault::new(Effect::Fail(Errno::Io)).after(cut);
        let disk: Node = FaultDisk::new(crash.clone(), cut, vec![fault]);
        let done = change(&disk).await;
        for seed in 0..SEEDS {
            let left: Node = Arc::new(MemDisk::from_bytes(crash.crash(seed * 31 + cut)));
            let found = found(&left).await;
            all.push(found);
            check(left, found).await;
        }
        if done.is_ok() {
            assert!(cut > 8, "nothing was at stake");
            return all;
        }
    }
    unreachable!("the change ends")
}

pub(super) async fn image(disk: &Node) -> Vec<u8> {
    gather(&disk.read(Range::new(0, PV_LEN)).await.unwrap())
}

#[test]
fn a_creation_that_is_cut_leaves_no_snapshot_or_one_of_the_origin_as_it_was() {
    block_on(async {
        let image = image(&start().await).await;
        let all = cut_everywhere(image, create, async |left, found| {
            assert!(content(&left, "media").await == bytes(OLD));
            if found == Found::None {
                create(&left).await.unwrap();
            }
            fill(&left, NEW).await.unwrap();
            assert!(content(&left, "snap").await == bytes(OLD));
            assert!(content(&left, "media").await == bytes(NEW));
        });
        let all = all.await;
        assert!(all.contains(&Found::None) && all.contains(&Found::Snapshot));
        assert!(!all.contains(&Found::Merging));
    });
}

#[test]
fn a_removal_that_is_cut_leaves_the_snapshot_or_none() {
    block_on(async {
        let disk = start().await;
        create(&disk).await.unwrap();
        fill(&disk, NEW).await.unwrap();
        let all = cut_everywhere(image(&disk).await, remove, async |left, found| {
            assert!(content(&left, "media").await == bytes(NEW));
            if found == Found::Snapshot {
                assert!(content(&left, "snap").await == bytes(OLD));
                remove(&left).await.unwrap();
            }
        });
        let all = all.await;
        assert!(all.contains(&Found::None) && all.contains(&Found::Snapshot));
    });
}

#[test]
fn a_merge_that_is_cut_goes_on() {
    block_on(async {
        let disk = start().await;
        create(&disk).await.unwrap();
        fill(&disk, NEW).await.unwrap();
        let all = cut_everywhere(image(&disk).await, merge, async |left, found| {
            let (origin, snapshot) = match found {
                Found::Snapshot => (NEW, Some(OLD)),
                Found::Merging | Found::None => (OLD, None),
            };
            assert!(content(&left, "media").await == bytes(origin), "{found:?}");
            if let Some(seed) = snapshot {
                assert!(content(&left, "snap").await == bytes(seed));
            }
            if found != Found::None {
                merge(&left).await.unwrap();
            }
            assert!(content(&left, "media").await == bytes(OLD));
        });
        let all = all.await;
        for wanted in [Found::None, Found::Snapshot, Found::Merging] {
            assert!(all.contains(&wanted), "{wanted:?} was never left");
        }
    });
}

#[test]
fn the_status_of_stores_is_read_without_a_write() {
    block_on(async {
        let disk = start().await;
        create(&disk).await.unwrap();
        let before = image(&disk).await;
        let read_only = VolumeAccess {
            read_only: true,
            ..VolumeAccess::default()
        };
        let group = group_on(&disk).await.unwrap();
        let disks = group.disks(|_| disk.clone());
        let set = VolumeSet::new(group, disks, read_only).unwrap();
        let fill_of = async || match &set.snapshot_status().await[..] {
            [(owner, Ok(status))] => {
                assert_eq!((&*owner.origin, &*owner.name), ("media", "snap"));
                (status.state.clone(), status.copied, status.per_mille())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(fill_of().await, (SnapshotState::Valid, 0, 0));
        assert!(image(&disk).await == before, "the store was made");
        fill(&disk, NEW).await.unwrap();
        // Six chunks, a table and the header, of eight.
        assert_eq!(fill_of().await, (SnapshotState::Valid, 6, 1000));
    });
}

fn remove_change() -> SnapshotChange {
    SnapshotChange::Remove {
        name: "snap".to_owned(),
    }
}

fn extend_change(extents: u64) -> SnapshotChange {
    SnapshotChange::Extend {
        name: "snap".to_owned(),
        extents,
        on: Vec::new(),
    }
}

#[test]
fn a_snapshot_of_an_open_origin_is_cut_anywhere() {
    block_on(async {
        let image = image(&start().await).await;
        let create = async |disk: &Node| {
            change_served(disk, SnapshotChange::Create(new_snapshot(STORE))).await
        };
        let all = cut_everywhere(image, create, async |left, found| {
            if found == Found::Snapshot {
                assert!(content(&left, "snap").await == bytes(OLD));
            }
        });
        let all = all.await;
        assert!(all.contains(&Found::None) && all.contains(&Found::Snapshot));
    });
}

#[test]
fn a_removal_from_an_open_origin_is_cut_anywhere() {
    block_on(async {
        let disk = start().await;
        create(&disk).await.unwrap();
        let remove = async |disk: &Node| change_served(disk, remove_change()).await;
        let all = cut_everywhere(image(&disk).await, remove, async |left, found| {
            if found == Found::Snapshot {
                assert!(content(&left, "snap").await == bytes(OLD));
            }
        });
        let all = all.await;
        assert!(all.contains(&Found::None) && all.contains(&Found::Snapshot));
    });
}

#[test]
fn a_store_that_is_extended_under_an_open_origin_has_room_for_all_of_it() {
    block_on(async {
        let disk = start().await;
        // Room for two chunks, of six.
        create_of(&disk, 4).await.unwrap();
        let extend = async |disk: &Node| change_served(disk, extend_change(4)).await;
        let all = cut_everywhere(image(&disk).await, extend, async |left, _| {
            assert!(content(&left, "snap").await == bytes(OLD));
        });
        assert!(all.await.iter().all(|found| *found == Found::Snapshot));
    });
}

#[test]
fn what_is_in_use_or_was_changed_meanwhile_is_refused() {
    block_on(async {
        let disk = start().await;
        create_of(&disk, 4).await.unwrap();
        let before = image(&disk).await;
        let set = volumes(group_on(&disk).await.unwrap(), &disk);
        let sequence = set.group().group.sequence;
        let snapshot = set.open("snap").await.unwrap();
        for change in [remove_change(), extend_change(1)] {
            let refused = set.change_snapshots(sequence, &change, &stamp()).await;
            assert!(
                matches!(refused, Err(OpenChangeError::InUse(_))),
                "{refused:?}"
            );
        }
        drop(snapshot);
        let refused = set
            .change_snapshots(sequence - 1, &remove_change(), &stamp())
            .await;
        assert!(
            matches!(refused, Err(OpenChangeError::Changed { .. })),
            "{refused:?}"
        );
        let exists = SnapshotChange::Create(new_snapshot(STORE));
        let refused = set.change_snapshots(sequence, &exists, &stamp()).await;
        assert!(
            matches!(refused, Err(OpenChangeError::Edit(_))),
            "{refused:?}"
        );
        assert!(image(&disk).await[..1 << 20] == before[..1 << 20]);
        // Another process has changed the metadata.
        remove(&disk).await.unwrap();
        let refused = set
            .change_snapshots(sequence, &remove_change(), &stamp())
            .await;
        assert!(
            matches!(refused, Err(OpenChangeError::Changed { .. })),
            "{refused:?}"
        );
    });
}

#[test]
fn a_full_snapshot_is_not_extended_and_can_be_removed() {
    block_on(async {
        let disk = start().await;
        create_of(&disk, 4).await.unwrap();
        let set = volumes(group_on(&disk).await.unwrap(), &disk);
        let origin = set.open("media").await.unwrap().disk;
        let range = Range::new(0, ORIGIN_LEN);
        let data = single(pattern(NEW, range));
        origin.write(range, data, WriteFlags::FUA).await.unwrap();
        let sequence = set.group().group.sequence;
        let refused = set
            .change_snapshots(sequence, &extend_change(2), &stamp())
            .await;
        assert!(
            matches!(
                refused,
                Err(OpenChangeError::Snapshot(SnapshotError::Lost { .. }))
            ),
            "{refused:?}"
        );
        let removed = set
            .change_snapshots(sequence, &remove_change(), &stamp())
            .await;
        removed.unwrap();
        assert_eq!(found(&disk).await, Found::None);
        assert!(set.open_snapshots().is_empty());
    });
}
