//! Merges into an origin while its group is open: refused while it is in use, cut anywhere, and ended in the metadata.

use std::cell::Cell;

use testkit::{CrashDisk, Effect, Fault, FaultDisk, block_on};

use super::snapshot_changes::{
    Found, NEW, OLD, ORIGIN_LEN, STORE, bytes, content, create, cut_everywhere, failed, fill,
    found, group_on, image, new_snapshot, stamp, start, volumes,
};
use super::*;
use crate::volume::open::{OpenChangeError, SnapshotChange};
use crate::volume::snapshot::SnapshotError;

/// Where a client writes while the merge is under way: a part of two chunks.
const WRITTEN: Range = Range::new(6000, 4096);
const SEED: u8 = 0x55;

fn merge_change() -> SnapshotChange {
    SnapshotChange::Merge {
        name: "snap".to_owned(),
    }
}

async fn begin(set: &VolumeSet, sequence: u64) -> Result<(), OpenChangeError> {
    let (change, stamp) = (merge_change(), stamp());
    let begun = set.change_snapshots(sequence, &change, &stamp).await;
    begun.map(|_| ())
}

/// What the origin reads as once the client has written.
fn written() -> Vec<u8> {
    let mut all = bytes(OLD);
    let at = usize::try_from(WRITTEN.offset).unwrap();
    let data = pattern(SEED, WRITTEN);
    all[at..at + data.len()].copy_from_slice(&data);
    all
}

/// A group with a snapshot that is [`OLD`], of an origin that is [`NEW`].
async fn with_snapshot() -> Node {
    let disk = start().await;
    create(&disk).await.unwrap();
    fill(&disk, NEW).await.unwrap();
    disk
}

/// Merges while the group is open. The origin has users before and, in the middle, one that writes.
async fn merge_served(disk: &Node, acknowledged: &Cell<bool>) -> Result<(), String> {
    acknowledged.set(false);
    let set = volumes(group_on(disk).await?, disk);
    let origin = set.open("media").await.map_err(failed)?.disk;
    origin.flush().await.map_err(failed)?;
    drop(origin);
    let sequence = set.group().group.sequence;
    begin(&set, sequence).await.map_err(failed)?;
    let origin = set.open("media").await.map_err(failed)?.disk;
    let data = single(pattern(SEED, WRITTEN));
    let written = origin.write(WRITTEN, data, WriteFlags::FUA).await;
    written.map_err(failed)?;
    acknowledged.set(true);
    let left = set.merge("media", |_| true).await.map_err(failed)?;
    assert_eq!(left, 0);
    set.finish_merge("media", &stamp()).await.map_err(failed)?;
    origin.flush().await.map_err(failed)
}

#[test]
fn a_merge_into_an_open_origin_is_cut_anywhere() {
    block_on(async {
        let image = image(&with_snapshot().await).await;
        let acknowledged = Cell::new(false);
        let merge = async |disk: &Node| merge_served(disk, &acknowledged).await;
        let all = cut_everywhere(image, merge, async |left, found| {
            if found == Found::Snapshot {
                assert!(!acknowledged.get());
                assert!(content(&left, "media").await == bytes(NEW));
                assert!(content(&left, "snap").await == bytes(OLD));
                return;
            }
            let now = content(&left, "media").await;
            match acknowledged.get() {
                true => assert!(now == written(), "{found:?}"),
                false => assert!(
                    now[..6000] == bytes(OLD)[..6000] && now[10_096..] == bytes(OLD)[10_096..],
                    "{found:?}"
                ),
            }
        });
        let all = all.await;
        for wanted in [Found::None, Found::Snapshot, Found::Merging] {
            assert!(all.contains(&wanted), "{wanted:?} was never left");
        }
    });
}

#[test]
fn the_origin_goes_on_after_a_merge_and_has_another_snapshot() {
    block_on(async {
        let disk = with_snapshot().await;
        let set = volumes(group_on(&disk).await.unwrap(), &disk);
        let origin = set.open("media").await.unwrap().disk;
        drop(origin);
        let sequence = set.group().group.sequence;
        begin(&set, sequence).await.unwrap();
        let origin = set.open("media").await.unwrap().disk;
        // The end comes only when all is merged: the call makes a step, and the disk has few enough chunks for one.
        set.finish_merge("media", &stamp()).await.unwrap();
        assert_eq!(found(&disk).await, Found::None);
        assert!(set.open_snapshots().is_empty());
        let again = set.finish_merge("media", &stamp()).await;
        assert!(
            matches!(again, Err(OpenChangeError::Volume(_))),
            "{again:?}"
        );
        let new = new_snapshot(STORE);
        let sequence = set.group().group.sequence;
        set.change_snapshots(sequence, &SnapshotChange::Create(new), &stamp())
            .await
            .unwrap();
        let data = single(pattern(NEW, Range::new(0, ORIGIN_LEN)));
        origin
            .write(Range::new(0, ORIGIN_LEN), data, WriteFlags::FUA)
            .await
            .unwrap();
        let snapshot = set.open("snap").await.unwrap().disk;
        let kept = snapshot.read(Range::new(0, ORIGIN_LEN)).await.unwrap();
        assert!(gather(&kept) == bytes(OLD));
    });
}

#[test]
fn what_is_in_use_is_not_merged_nor_what_is_merging() {
    block_on(async {
        let disk = with_snapshot().await;
        let set = volumes(group_on(&disk).await.unwrap(), &disk);
        let sequence = set.group().group.sequence;
        for name in ["media", "snap"] {
            let open = set.open(name).await.unwrap();
            let refused = begin(&set, sequence).await;
            assert!(
                matches!(&refused, Err(OpenChangeError::InUse(used)) if used == name),
                "{refused:?}"
            );
            drop(open);
        }
        assert_eq!(found(&disk).await, Found::Snapshot);
        begin(&set, sequence).await.unwrap();
        assert_eq!(found(&disk).await, Found::Merging);
        let again = begin(&set, sequence + 1).await;
        assert!(
            matches!(
                again,
                Err(OpenChangeError::Snapshot(SnapshotError::Merging { .. }))
            ),
            "{again:?}"
        );
        assert!(set.open("snap").await.is_err(), "it is no disk any more");
    });
}

#[test]
fn an_origin_is_not_opened_after_a_merge_that_failed_behind_its_text() {
    block_on(async {
        let image = image(&with_snapshot().await).await;
        let mut refused = 0;
        for cut in 0.. {
            let crash = Arc::new(CrashDisk::from_bytes(image.clone()));
            let fault = Fault::new(Effect::Fail(Errno::Io)).after(cut);
            let disk: Node = FaultDisk::new(crash.clone(), cut, vec![fault.times(1)]);
            let Ok(group) = group_on(&disk).await else {
                continue;
            };
            let set = volumes(group, &disk);
            if set.open("media").await.is_err() {
                continue;
            }
            let sequence = set.group().group.sequence;
            let begun = begin(&set, sequence).await;
            let opened = set.open("media").await;
            if begun.is_ok() {
                assert!(opened.is_ok());
                break;
            }
            let Ok(origin) = opened else {
                refused += 1;
                continue;
            };
            // It may be written only where no text of the merge is on the disk.
            let read = origin.disk.read(Range::new(0, ORIGIN_LEN)).await.unwrap();
            assert!(gather(&read) == bytes(NEW));
            let left: Node = Arc::new(MemDisk::from_bytes(crash.crash(cut)));
            assert_eq!(found(&left).await, Found::Snapshot);
        }
        assert!(refused > 0, "no failure was behind the text");
    });
}
