//! Volumes that are written: what metadata say when, power cuts, images that fail, and what Linux would do with what is left.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use block::{BlockDevice, Errno, IoError, Node, Operation, Range, WriteFlags};
use futures_util::future::poll_fn;
use proptest::prelude::*;
use testkit::{
    CrashDisk, Effect, Fault, FaultDisk, MemDisk, OpSpace, block_on, check_against_model,
    check_crashes, check_dropped_futures, check_in_batches, one_of_each, ops, pattern, single,
};

use super::kit::{
    CHUNK, EVENTS, META, REGION, Volume, bytes_of, mem_disks, nodes, open_for_writing, options,
    paired, said, write,
};
use crate::array::format::Level;
use crate::array::format::dm_raid::DmRaid;
use crate::array::{AddOptions, Candidate, MemberState};
use crate::volume::raid::{RaidImageDisks, open};

const LEN: usize = 32 << 10;
const SPACE: OpSpace = OpSpace {
    size: LEN as u64,
    block_size: 512,
    len_max: 12 << 10,
};

/// Every kind that is written.
pub(super) fn volumes() -> Vec<Volume> {
    vec![
        Volume::raid1(2, LEN),
        Volume::raid1(3, LEN),
        Volume::raid10(4, 16),
        Volume::parity("raid4", (Level::Raid5, 4), 3),
        Volume::parity("raid5", (Level::Raid5, 2), 5),
        Volume::parity("raid6", (Level::Raid6, 8), 5),
        Volume::parity("raid6_ls_6", (Level::Raid6, 18), 6),
    ]
}

/// The bit that is for a byte of a volume.
fn bit_of(volume: &Volume, at: u64) -> usize {
    let images = volume.data.len();
    let data = match volume.kind {
        "raid4" | "raid5" => images - 1,
        "raid6" | "raid6_ls_6" => images - 2,
        _ => return index(at / u64::from(REGION)),
    };
    index(at) / CHUNK / data * CHUNK / REGION as usize
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

#[test]
fn nothing_is_written_before_the_first_change() {
    for volume in volumes() {
        let disks = mem_disks(&volume);
        block_on(async {
            let array = open_for_writing(&volume, nodes(&disks)).await;
            array.read(Range::new(0, 4096)).await.unwrap();
            array.stop().await.unwrap();
        });
        let left: Vec<Vec<u8>> = disks.iter().map(|disk| disk.snapshot()).collect();
        assert!(left == bytes_of(&volume));
    }
}

#[test]
fn metadata_say_that_a_volume_is_dirty_while_it_is_and_not_afterwards() {
    for volume in volumes() {
        let disks = mem_disks(&volume);
        block_on(async {
            let array = open_for_writing(&volume, nodes(&disks)).await;
            let range = Range::new(6 * u64::from(REGION), 512);
            write(&array, range, 1).await.unwrap();
            for metadata in disks.iter().step_by(2) {
                let (own, bits) = said(&metadata.snapshot());
                assert_eq!((own.events, own.synced_to), (EVENTS + 1, Some(0)));
                assert_eq!(bits, [bit_of(&volume, range.offset)]);
                assert_eq!((own.rebuilt_to, own.failed.any(6)), (None, false));
            }
            array.stop().await.unwrap();
            for (image, metadata) in disks.iter().step_by(2).enumerate() {
                let (own, bits) = said(&metadata.snapshot());
                assert_eq!((own.synced_to, bits), (None, vec![]));
                let before = volume.superblock(image);
                let events = own.events;
                assert!(events > EVENTS);
                // Nothing else has changed.
                assert_eq!(own, DmRaid { events, ..before });
            }
        });
    }
}

#[test]
fn a_volume_that_was_not_shut_down_is_resynced() {
    let mut volume = Volume::raid1(3, LEN);
    volume.mark(1);
    volume.data[2].as_mut().unwrap()[4096..8192].fill(0xbd);
    let disks = mem_disks(&volume);
    block_on(async {
        let array = open_for_writing(&volume, nodes(&disks)).await;
        assert!(array.status().resync_pending);
        array.work().await;
        array.stop().await.unwrap();
    });
    for image in 0..3 {
        assert!(disks[2 * image + 1].snapshot() == volume.content);
        let (own, bits) = said(&disks[2 * image].snapshot());
        assert_eq!((own.synced_to, bits), (None, vec![]));
    }
}

#[test]
fn a_new_volume_gets_metadata_and_is_resynced_whole() {
    // A power cut left some images with metadata, all others without.
    for images_with_metadata in 0..2 {
        let mut volume = Volume::raid1(2, LEN);
        volume.change_all(|own| {
            own.events = 1;
            own.synced_to = Some(0);
        });
        for metadata in volume
            .metadata
            .iter_mut()
            .flatten()
            .skip(images_with_metadata)
        {
            metadata.fill(0);
        }
        volume.data[1].as_mut().unwrap().fill(0xbd);
        let disks = mem_disks(&volume);
        block_on(async {
            let array = open_for_writing(&volume, nodes(&disks)).await;
            let (own, bits) = said(&disks[2].snapshot());
            assert_eq!((own.events, own.synced_to, bits.len()), (1, Some(0), 8));
            assert_eq!(
                own.superblock(),
                DmRaid {
                    position: 1,
                    ..own.clone()
                }
                .superblock()
            );
            array.work().await;
            array.stop().await.unwrap();
        });
        assert!(disks[3].snapshot() == volume.content);
        for metadata in disks.iter().step_by(2) {
            let (own, bits) = said(&metadata.snapshot());
            assert_eq!((own.synced_to, bits), (None, vec![]));
        }
    }
    // In a volume that was in use an image without metadata is not used.
    let mut volume = Volume::raid1(2, LEN);
    volume.metadata[1].as_mut().unwrap().fill(0);
    let disks = mem_disks(&volume);
    let array = block_on(open_for_writing(&volume, nodes(&disks)));
    assert_eq!(array.status().working, 1);
    assert!(disks[2].snapshot().iter().all(|byte| *byte == 0));
}

#[test]
fn an_image_that_was_being_rebuilt_is_rebuilt_whole() {
    let mut volume = Volume::raid1(2, LEN);
    volume.change(1, |own| own.rebuilt_to = Some(8192));
    volume.data[1].as_mut().unwrap()[8192..].fill(0xbd);
    let disks = mem_disks(&volume);
    block_on(async {
        let array = open_for_writing(&volume, nodes(&disks)).await;
        array.work().await;
        array.stop().await.unwrap();
    });
    assert!(disks[3].snapshot() == volume.content);
    assert_eq!(said(&disks[2].snapshot()).0.rebuilt_to, None);
}

#[test]
fn an_image_that_fails_is_recorded_by_the_others_before_a_write_is_acknowledged() {
    let volume = Volume::raid1(2, LEN);
    let disks = mem_disks(&volume);
    block_on(async {
        let mut all = nodes(&disks);
        let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write);
        all[3] = FaultDisk::new(all[3].clone(), 1, vec![fault]);
        let array = open_for_writing(&volume, all).await;
        let range = Range::new(0, 4096);
        write(&array, range, 1).await.unwrap();
        let (own, _) = said(&disks[0].snapshot());
        assert!(own.failed.has(1) && !own.failed.has(0));
        assert_eq!(array.status().members[1].state, MemberState::Missing);
        array.stop().await.unwrap();
        // Its bits stay for it.
        assert_eq!(said(&disks[0].snapshot()).1, [0]);
        // The failed image is not used again.
        let array = open_for_writing(&volume, nodes(&disks)).await;
        assert_eq!(array.status().working, 1);
        let read = array.read(range).await.unwrap().concat();
        assert!(read == pattern(1, range));
    });
}

#[test]
fn an_image_that_is_missing_counts_as_failed_from_the_first_write_on() {
    let volume = Volume::raid10(4, 16);
    let disks = mem_disks(&volume);
    let range = Range::new(0, 4096);
    block_on(async {
        let mut images = paired(nodes(&disks));
        images[2] = RaidImageDisks::default();
        let array = open(volume.spec(images), &options(false)).await.unwrap();
        assert!(!said(&disks[0].snapshot()).0.failed.any(4));
        write(&array, range, 1).await.unwrap();
        array.stop().await.unwrap();
        for image in [0, 1, 3] {
            let failed = said(&disks[2 * image].snapshot()).0.failed;
            assert!(failed.has(2) && !failed.has(image));
        }
        // It is there again, and lacks what was written.
        let array = open_for_writing(&volume, nodes(&disks)).await;
        assert_eq!(array.status().working, 3);
        assert!(array.read(range).await.unwrap().concat() == pattern(1, range));
    });
}

#[test]
fn images_are_neither_added_nor_removed() {
    let volume = Volume::raid1(2, LEN);
    block_on(async {
        let array = open_for_writing(&volume, nodes(&mem_disks(&volume))).await;
        let disk = Candidate::local("more", Arc::new(MemDisk::new(1 << 20)) as Node);
        let refused = array.add(disk.clone(), AddOptions::default()).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.to_string(), "the images of vol are listed by LVM");
        assert_eq!(refused.next(), Some("change them with lvconvert"));
        assert!(array.re_add(disk).await.is_err());
        assert!(array.grow(3).await.is_err());
        assert!(array.remove("vol_rimage_1").await.is_err());
    });
}

#[test]
fn a_volume_on_disks_that_are_read_only_is_refused_for_writing() {
    let volume = Volume::raid1(2, LEN);
    let read_only = |bytes: Vec<u8>| {
        let disk = MemDisk::from_bytes(bytes);
        Arc::new(disk.with_geometry(|geometry| geometry.read_only = true)) as Node
    };
    let disks = bytes_of(&volume).into_iter().map(read_only).collect();
    let spec = volume.spec(paired(disks));
    let error = block_on(open(spec, &options(false))).unwrap_err();
    assert_eq!(error.to_string(), "vol_rimage_0 is read-only");
}

/// Disks of zeroes get the metadata of a volume of zeroes; others are opened as they are.
async fn open_or_make(volume: Volume, disks: Vec<Node>) -> Result<Node, IoError> {
    let head = disks[0].read(Range::new(0, 512)).await?.concat();
    if head.iter().all(|byte| *byte == 0) {
        for (disk, bytes) in disks.iter().zip(bytes_of(&volume)).step_by(2) {
            let range = Range::new(0, bytes.len() as u64);
            let flags = WriteFlags::FUA;
            disk.write(range, single(bytes), flags).await?;
        }
    }
    Ok(open_for_writing(&volume, disks).await)
}

fn sizes(volume: &Volume) -> Vec<u64> {
    let disks = bytes_of(volume);
    disks.iter().map(|bytes| bytes.len() as u64).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_kind_keeps_what_is_written(list in ops(SPACE, 0..40), which in 0..7_usize) {
        let volume = volumes().swap_remove(which);
        let disks = mem_disks(&volume);
        block_on(async {
            let array = open_for_writing(&volume, nodes(&disks)).await;
            check_against_model(&*array, &list).await.unwrap();
            let range = Range::new(0, volume.size());
            let all = array.read(range).await.unwrap().concat();
            array.stop().await.unwrap();
            // Each image is as good as the others.
            for lost in 0..disks.len() / 2 {
                let mut images = paired(nodes(&disks));
                images[lost] = RaidImageDisks::default();
                let array = open(volume.spec(images), &options(true)).await.unwrap();
                assert!(array.read(range).await.unwrap().concat() == all);
            }
        });
    }

    #[test]
    fn every_kind_keeps_what_is_written_at_once(
        list in ops(SPACE, 0..60),
        which in 0..7_usize,
        width in 1..8_usize,
    ) {
        let volume = volumes().swap_remove(which);
        block_on(async {
            let array = open_for_writing(&volume, nodes(&mem_disks(&volume))).await;
            check_in_batches(&*array, &list, width).await.unwrap();
            array.stop().await.unwrap();
        });
    }

    #[test]
    fn what_was_flushed_is_there_after_a_crash(
        list in ops(SPACE, 0..24),
        which in 0..7_usize,
        seed: u64,
    ) {
        let volume = volumes().swap_remove(which);
        let open = |disks: Vec<Node>| open_or_make(volume.clone(), disks);
        block_on(check_crashes(open, &sizes(&volume), &list, seed)).unwrap();
    }

    /// Linux resyncs regions with a bit only if the superblock says that the volume is dirty, and no others.
    #[test]
    fn after_a_crash_linux_resyncs_every_region_in_which_images_differ(
        writes in prop::collection::vec((0..60_u64, 1..8_u64, any::<u8>(), 0..12_u8, 0..5_u8), 1..12),
        seed: u64,
    ) {
        let volume = Volume::raid1(2, LEN);
        let disk = |bytes| Arc::new(CrashDisk::from_bytes(bytes).interleaved(seed));
        let disks: Vec<_> = bytes_of(&volume).into_iter().map(disk).collect();
        block_on(async {
            let below = disks.iter().map(|disk| disk.clone() as Node).collect();
            let array = open_for_writing(&volume, below).await;
            for (step, (at, len, fill, polls, clean)) in writes.into_iter().enumerate() {
                let range = Range::new(at * 512, len.min(64 - at) * 512);
                let mut request = pin!(write(&array, range, fill));
                let early = poll_fn(|context| {
                    for _ in 0..polls {
                        if let Poll::Ready(answer) = request.as_mut().poll(context) {
                            return Poll::Ready(Some(answer));
                        }
                    }
                    Poll::Ready(None)
                });
                let early = early.await;
                assert_resynced_by_linux(&disks, seed ^ step as u64);
                match early {
                    Some(answer) => answer.unwrap(),
                    None => request.await.unwrap(),
                }
                assert_resynced_by_linux(&disks, !seed ^ step as u64);
                if clean == 0 {
                    array.flush().await.unwrap();
                    array.work().await;
                    assert_resynced_by_linux(&disks, seed.rotate_left(7) ^ step as u64);
                }
            }
            array.stop().await.unwrap();
            for image in 0..4 {
                assert_resynced_by_linux(&disks, seed.rotate_left(image));
            }
        });
    }
}

/// A power cut now leaves images that differ only where Linux makes them equal when it starts the volume.
fn assert_resynced_by_linux(disks: &[Arc<CrashDisk>], seed: u64) {
    let left = disks.iter().zip(0..).map(|(disk, n)| disk.crash(seed ^ n));
    let left: Vec<Vec<u8>> = left.collect();
    let metadata = [said(&left[0]), said(&left[2])];
    let freshest = usize::from(metadata[1].0.events > metadata[0].0.events);
    let (own, _) = &metadata[freshest];
    let both = left[1]
        .chunks(REGION as usize)
        .zip(left[3].chunks(REGION as usize));
    for (region, (one, other)) in both.enumerate() {
        if one == other {
            continue;
        }
        assert_eq!(
            own.synced_to,
            Some(0),
            "region {region} differs, and the volume is clean"
        );
        // Linux unites the bitmaps of no images: it reads that of the first one.
        for (_, bits) in &metadata {
            assert!(
                bits.contains(&region),
                "region {region} differs without a bit"
            );
        }
    }
    assert_eq!(left[0].len(), META);
}

#[test]
fn dropped_futures_leave_nothing_that_lands_late() {
    for volume in volumes() {
        let open = |disks: Vec<Node>| open_or_make(volume.clone(), disks);
        let size = volume.size();
        let list = one_of_each(Range::new(4096, 8192), size);
        block_on(check_dropped_futures(open, &sizes(&volume), &list)).unwrap();
    }
}
