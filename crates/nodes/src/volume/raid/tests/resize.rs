//! Volumes that got another size in LVM's text: what their metadata say once they are opened for writing, and after a power
//! cut meanwhile.

use std::sync::Arc;

use block::{BlockDevice, Errno, Node, Operation, Range};
use testkit::{CrashDisk, Effect, Fault, FaultDisk, MemDisk, block_on};

use super::kit::{
    BITS_AT, EVENTS, REGION, Volume, bytes_of, mem_disks, nodes, open_for_writing, options, paired,
    said,
};
use super::write::volumes;
use crate::volume::raid::{RaidImageDisks, open};

/// Where the header of a bitmap says how much it covers.
const COVERS_AT: usize = 4096 + 40;

/// Bytes of an image that a volume used before it was extended: half of them.
fn half(volume: &Volume) -> usize {
    volume.data[0].as_ref().unwrap().len() / 2
}

/// Bytes that a volume's bitmaps are for.
fn covered(volume: &Volume) -> u64 {
    match volume.kind {
        "raid10" => volume.size(),
        _ => half(volume) as u64 * 2,
    }
}

/// The metadata are of half the size, and the second half of the last image differs from what it should be.
fn extended(mut volume: Volume) -> Volume {
    volume.change_all(|own| {
        own.image_size /= 2;
        own.array_size /= 2;
    });
    let covers = (covered(&volume) / 2 / 512).to_le_bytes();
    for bytes in volume.metadata.iter_mut().flatten() {
        bytes[COVERS_AT..COVERS_AT + 8].copy_from_slice(&covers);
    }
    let from = half(&volume);
    volume.data.last_mut().unwrap().as_mut().unwrap()[from..].fill(0xbd);
    volume
}

/// Opens a volume for writing, resyncs it, and checks that each image is as good as the others. What it holds.
fn resync(volume: &Volume, disks: &[Arc<MemDisk>]) -> Vec<u8> {
    let range = Range::new(0, volume.size());
    block_on(async {
        let array = open_for_writing(volume, nodes(disks)).await;
        let all = array.read(range).await.unwrap().concat();
        array.work().await;
        array.stop().await.unwrap();
        for lost in 0..disks.len() / 2 {
            let mut images = paired(nodes(disks));
            images[lost] = RaidImageDisks::default();
            let array = open(volume.spec(images), &options(true)).await.unwrap();
            let read = array.read(range).await.unwrap().concat();
            assert!(read == all, "{} without image {lost}", volume.kind);
        }
        all
    })
}

#[test]
fn what_was_added_is_resynced_and_nothing_else() {
    for volume in volumes() {
        let volume = extended(volume);
        let disks = mem_disks(&volume);
        let array = block_on(open_for_writing(&volume, nodes(&disks)));
        let (first, last) = (covered(&volume) / 2, covered(&volume));
        let added = first / u64::from(REGION)..last / u64::from(REGION);
        let added: Vec<usize> = added.map(|bit| usize::try_from(bit).unwrap()).collect();
        for metadata in disks.iter().step_by(2) {
            let (own, bits) = said(&metadata.snapshot());
            assert_eq!((own.events, own.synced_to), (EVENTS + 1, Some(0)));
            assert_eq!(own.array_size, volume.size(), "{}", volume.kind);
            assert_eq!(own.image_size, half(&volume) as u64 * 2);
            assert_eq!(bits, added, "{}", volume.kind);
        }
        assert!(array.status().resync_pending);
        block_on(array.stop()).unwrap();
        let all = resync(&volume, &disks);
        let old = usize::try_from(volume.size() / 2).unwrap();
        assert!(all[..old] == volume.content[..old], "{}", volume.kind);
        for metadata in disks.iter().step_by(2) {
            let (own, bits) = said(&metadata.snapshot());
            assert_eq!((own.synced_to, bits), (None, vec![]), "{}", volume.kind);
        }
    }
}

#[test]
fn a_power_cut_meanwhile_leaves_no_added_region_that_counts_as_in_sync() {
    for volume in volumes() {
        let volume = extended(volume);
        let images = volume.data.len();
        // Each image's metadata take a bitmap, then a superblock, and a flush after each.
        let cuts = (0..images).flat_map(|image| {
            let operations = [Operation::Write, Operation::Flush].into_iter();
            operations.flat_map(move |operation| (0..2).map(move |nth| (image, operation, nth)))
        });
        for (image, operation, nth) in cuts {
            let disk = |bytes| Arc::new(CrashDisk::from_bytes(bytes));
            let disks: Vec<_> = bytes_of(&volume).into_iter().map(disk).collect();
            let mut below: Vec<Node> = disks.iter().map(|disk| disk.clone() as Node).collect();
            let fault = Fault::new(Effect::Fail(Errno::Io)).on(operation).after(nth);
            let cut = 2 * image;
            below[cut] = FaultDisk::new(below[cut].clone(), 1, vec![fault]);
            let opened = block_on(open(volume.spec(paired(below)), &options(false)));
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("cannot be written"), "{error}");
            for seed in 0..4 {
                let left = disks.iter().zip(0..);
                let left = left.map(|(disk, n)| MemDisk::from_bytes(disk.crash(seed * 31 + n)));
                let left: Vec<Arc<MemDisk>> = left.map(Arc::new).collect();
                resync(&volume, &left);
            }
        }
    }
}

#[test]
fn bits_that_any_image_has_stay_set_on_all() {
    let mut volume = extended(Volume::raid1(3, 32 << 10));
    // A region of the first half that only one bitmap knows to have been written.
    volume.metadata[2].as_mut().unwrap()[BITS_AT] |= 1 << 1;
    let disks = mem_disks(&volume);
    drop(block_on(open_for_writing(&volume, nodes(&disks))));
    for metadata in disks.iter().step_by(2) {
        assert_eq!(said(&metadata.snapshot()).1, [1, 4, 5, 6, 7]);
    }
    // A bitmap that is older than its superblock says nothing: all bits count as set.
    volume.metadata[1].as_mut().unwrap()[4096 + 24..4096 + 32].fill(0);
    let disks = mem_disks(&volume);
    drop(block_on(open_for_writing(&volume, nodes(&disks))));
    assert_eq!(said(&disks[4].snapshot()).1.len(), 8);
}

#[test]
fn a_smaller_volume_keeps_its_bits_and_its_state() {
    for volume in volumes() {
        let mut smaller = volume.clone();
        let half = half(&volume);
        for data in smaller.data.iter_mut().flatten() {
            data.truncate(half);
        }
        smaller.content.truncate(volume.content.len() / 2);
        let disks = mem_disks(&smaller);
        drop(block_on(open_for_writing(&smaller, nodes(&disks))));
        for metadata in disks.iter().step_by(2) {
            let (own, bits) = said(&metadata.snapshot());
            assert_eq!(
                (own.array_size, own.image_size),
                (smaller.size(), half as u64)
            );
            assert_eq!((own.synced_to, bits), (None, vec![]));
        }
        smaller.assert_read();
        // A bit of what was cut off is for nothing; another one stays.
        smaller.mark(1);
        smaller.mark(7);
        let disks = mem_disks(&smaller);
        drop(block_on(open_for_writing(&smaller, nodes(&disks))));
        let (own, bits) = said(&disks[0].snapshot());
        assert_eq!((own.synced_to, bits), (Some(0), vec![1]), "{}", volume.kind);
    }
}

#[test]
fn a_bitmap_without_room_is_refused_and_nothing_is_written() {
    let mut volume = extended(Volume::raid1(2, 32 << 10));
    volume.metadata[1].as_mut().unwrap().truncate(6 << 10);
    let disks = mem_disks(&volume);
    let opened = block_on(open(volume.spec(paired(nodes(&disks))), &options(false)));
    assert_eq!(
        opened.unwrap_err().to_string(),
        "vol cannot have its new size: image 1: its metadata need 8192 bytes, and have 6144"
    );
    let left: Vec<Vec<u8>> = disks.iter().map(|disk| disk.snapshot()).collect();
    assert!(left == bytes_of(&volume));
}
