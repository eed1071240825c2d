//! Volumes with parity that are written: parity fits what they hold, after power cuts where the metadata do not say otherwise,
//! and what is missing is computed or refused.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use block::{BlockDevice, Errno, Node, Operation, Range, WriteFlags};
use futures_util::future::poll_fn;
use proptest::prelude::*;
use testkit::{
    CrashDisk, Effect, Fault, FaultDisk, MemDisk, OpSpace, block_on, check_against_model, ops,
    pattern,
};

use super::kit::{
    CHUNK, PARITY, REGION, Volume, bytes_of, mem_disks, nodes, open_for_writing, options, paired,
    place, said, write,
};
use crate::array::format::Level;
use crate::array::parity_writer::{Sample, table};
use crate::array::{Array, MemberState};
use crate::volume::raid::{RaidImageDisks, RaidOptions, open};

/// Rows of each volume.
const ROWS: usize = 16;
const SPACE: OpSpace = OpSpace {
    size: (2 * CHUNK * ROWS) as u64,
    block_size: 512,
    len_max: 12 << 10,
};

/// A volume of the type of this number, of five images.
fn volume(which: usize) -> Volume {
    let (kind, level, layout) = PARITY[which % PARITY.len()];
    Volume::parity(kind, (level, layout), 5)
}

/// The volume that most tests are about.
fn five() -> Volume {
    volume(1)
}

fn form(volume: &Volume) -> (Level, u32) {
    let kind = PARITY.iter().find(|(kind, ..)| *kind == volume.kind);
    kind.map(|(_, level, layout)| (*level, *layout)).unwrap()
}

/// The images with parity at a column.
fn parities(volume: &Volume, column: usize) -> Vec<usize> {
    let (level, layout) = form(volume);
    let row = table(level, layout, volume.data.len(), column / CHUNK);
    std::iter::once(row.p).chain(row.q).collect()
}

/// What a volume with this data on its images holds, by the tables of layouts.
fn content(volume: &Volume, images: &[Vec<u8>]) -> Vec<u8> {
    let (level, layout) = form(volume);
    let mut content = Vec::new();
    for row in 0..ROWS {
        for part in table(level, layout, images.len(), row).data {
            content.extend_from_slice(&images[part][row * CHUNK..(row + 1) * CHUNK]);
        }
    }
    content
}

/// What images hold of a volume with this content.
fn ideal(volume: &Volume, content: Vec<u8>) -> Vec<Vec<u8>> {
    let (level, layout) = form(volume);
    let sample = Sample {
        level,
        layout,
        parts: volume.data.len(),
        chunk: CHUNK,
        rows: ROWS,
        data: content,
    };
    sample.members()
}

/// Regions in which parity does not fit the data of these images.
fn misfits(volume: &Volume, images: &[Vec<u8>]) -> Vec<usize> {
    let ideal = ideal(volume, content(volume, images));
    let regions = 0..images[0].len() / REGION as usize;
    let differs = |region: &usize| {
        let place = region * REGION as usize..(region + 1) * REGION as usize;
        let mut both = images.iter().zip(&ideal);
        both.any(|(held, ideal)| held[place.clone()] != ideal[place.clone()])
    };
    regions.filter(differs).collect()
}

/// The data of all images.
fn data(disks: &[Arc<MemDisk>]) -> Vec<Vec<u8>> {
    let data = disks.iter().skip(1).step_by(2);
    data.map(|disk| disk.snapshot()).collect()
}

fn assert_fits(volume: &Volume, disks: &[Arc<MemDisk>]) {
    let bad = misfits(volume, &data(disks));
    assert!(bad.is_empty(), "{}: regions {bad:?}", volume.kind);
}

/// Overwrites parity of a region.
fn spoil_parity(volume: &mut Volume, region: usize) {
    for column in (region * REGION as usize..(region + 1) * REGION as usize).step_by(CHUNK) {
        for image in parities(volume, column) {
            volume.data[image].as_mut().unwrap()[column..column + CHUNK].fill(0xbd);
        }
    }
}

fn whole(volume: &Volume) -> Range {
    Range::new(0, volume.size())
}

async fn read(array: &Array, range: Range) -> Vec<u8> {
    array.read(range).await.unwrap().concat()
}

/// These disks without an image.
fn without(disks: &[Arc<MemDisk>], image: usize) -> Vec<RaidImageDisks> {
    let mut images = paired(nodes(disks));
    images[image] = RaidImageDisks::default();
    images
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_kind_keeps_what_is_written_and_parity_fits(
        list in ops(SPACE, 0..30),
        which in 0..16_usize,
        lost in 0..5_usize,
    ) {
        let volume = volume(which);
        let disks = mem_disks(&volume);
        block_on(async {
            let array = open_for_writing(&volume, nodes(&disks)).await;
            check_against_model(&*array, &list).await.unwrap();
            let all = read(&array, whole(&volume)).await;
            array.stop().await.unwrap();
            assert_fits(&volume, &disks);
            // It goes on without an image, and with fewer none of it is lost.
            let array = open(volume.spec(without(&disks, lost)), &options(false)).await.unwrap();
            assert!(read(&array, whole(&volume)).await == all);
            check_against_model(&*array, &list).await.unwrap();
            let all = read(&array, whole(&volume)).await;
            array.stop().await.unwrap();
            let array = open(volume.spec(without(&disks, lost)), &options(true)).await.unwrap();
            assert!(read(&array, whole(&volume)).await == all);
        });
    }

    /// Linux recomputes parity of regions with a bit only if the superblock says that the volume is dirty, and of no others.
    #[test]
    fn after_a_crash_linux_resyncs_every_region_in_which_parity_does_not_fit(
        writes in prop::collection::vec((0..120_u64, 1..8_u64, any::<u8>(), 0..12_u8, 0..5_u8), 1..10),
        which in 0..16_usize,
        seed: u64,
    ) {
        let volume = volume(which);
        let disk = |bytes| Arc::new(CrashDisk::from_bytes(bytes).interleaved(seed));
        let disks: Vec<_> = bytes_of(&volume).into_iter().map(disk).collect();
        let sectors = volume.size() / 512;
        block_on(async {
            let below = disks.iter().map(|disk| disk.clone() as Node).collect();
            let array = open_for_writing(&volume, below).await;
            for (step, (at, len, fill, polls, clean)) in writes.into_iter().enumerate() {
                let at = at % sectors;
                let range = Range::new(at * 512, len.min(sectors - at) * 512);
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
                assert_resynced_by_linux(&volume, &disks, seed ^ step as u64);
                match early {
                    Some(answer) => answer.unwrap(),
                    None => request.await.unwrap(),
                }
                assert_resynced_by_linux(&volume, &disks, !seed ^ step as u64);
                if clean == 0 {
                    array.flush().await.unwrap();
                    array.work().await;
                    assert_resynced_by_linux(&volume, &disks, seed.rotate_left(7) ^ step as u64);
                }
            }
            array.stop().await.unwrap();
            for turn in 0..4 {
                assert_resynced_by_linux(&volume, &disks, seed.rotate_left(turn));
            }
        });
    }
}

/// A power cut now leaves parity that fits but where Linux, and we, recompute it when the volume is started.
fn assert_resynced_by_linux(volume: &Volume, disks: &[Arc<CrashDisk>], seed: u64) {
    let left = disks.iter().zip(0..).map(|(disk, n)| disk.crash(seed ^ n));
    let left: Vec<Vec<u8>> = left.collect();
    let metadata: Vec<_> = left.iter().step_by(2).map(|bytes| said(bytes)).collect();
    let data: Vec<Vec<u8>> = left.into_iter().skip(1).step_by(2).collect();
    let freshest = metadata.iter().max_by_key(|(own, _)| own.events).unwrap();
    for region in misfits(volume, &data) {
        let (own, _) = freshest;
        assert_eq!(own.synced_to, Some(0), "{region}: the volume is clean");
        for (_, bits) in &metadata {
            assert!(bits.contains(&region), "region {region} has no bit");
        }
    }
}

#[test]
fn parity_is_recomputed_where_bits_are_set_after_an_unclean_end() {
    for which in 0..PARITY.len() {
        // Linux leaves no other mark; we do.
        for synced_to in [None, Some(0)] {
            let mut volume = volume(which);
            volume.mark(1);
            volume.change_all(|own| own.synced_to = synced_to);
            spoil_parity(&mut volume, 1);
            let disks = mem_disks(&volume);
            block_on(async {
                let array = open_for_writing(&volume, nodes(&disks)).await;
                assert!(array.status().resync_pending);
                array.work().await;
                array.stop().await.unwrap();
            });
            assert_fits(&volume, &disks);
            for metadata in disks.iter().step_by(2) {
                let (own, bits) = said(&metadata.snapshot());
                assert_eq!((own.synced_to, bits), (None, vec![]));
            }
        }
    }
}

#[test]
fn a_new_volume_gets_metadata_and_its_parity_is_computed() {
    for which in 0..PARITY.len() {
        let mut volume = volume(which);
        for metadata in volume.metadata.iter_mut().flatten() {
            metadata.fill(0);
        }
        for region in 0..4 {
            spoil_parity(&mut volume, region);
        }
        let disks = mem_disks(&volume);
        block_on(async {
            let array = open_for_writing(&volume, nodes(&disks)).await;
            for metadata in disks.iter().step_by(2) {
                let (own, bits) = said(&metadata.snapshot());
                let is_whole = bits == [0, 1, 2, 3];
                assert_eq!((own.events, own.synced_to, is_whole), (1, Some(0), true));
            }
            // What is written before is not computed from parity.
            write(&array, Range::new(512, 1024), 1).await.unwrap();
            array.work().await;
            array.stop().await.unwrap();
        });
        assert_fits(&volume, &disks);
        assert_eq!(said(&disks[0].snapshot()).0.synced_to, None);
    }
}

/// With five images a short write would change parity; parity that was never computed would stay wrong.
#[test]
fn what_is_written_to_a_volume_that_was_never_resynced_survives_the_loss_of_an_image() {
    let mut volume = five();
    for metadata in volume.metadata.iter_mut().flatten() {
        metadata.fill(0);
    }
    for region in 0..4 {
        spoil_parity(&mut volume, region);
    }
    let disks = mem_disks(&volume);
    let range = Range::new(5 * CHUNK as u64 + 512, 1024);
    let assumed = |read_only| RaidOptions {
        assume_synced: true,
        ..options(read_only)
    };
    block_on(async {
        let spec = volume.spec(paired(nodes(&disks)));
        let array = open(spec, &assumed(false)).await.unwrap();
        assert!(!array.status().resync_pending);
        write(&array, range, 3).await.unwrap();
        array.stop().await.unwrap();
        assert_eq!(misfits(&volume, &data(&disks)), [0, 1, 2, 3], "no resync");
        for image in 0..5 {
            let spec = volume.spec(without(&disks, image));
            let array = open(spec, &assumed(true)).await.unwrap();
            assert!(
                read(&array, range).await == pattern(3, range),
                "without {image}"
            );
        }
    });
}

#[test]
fn an_image_that_fails_is_recorded_and_what_it_lacks_is_computed() {
    for (operation, image) in [
        (Operation::Write, 0),
        (Operation::Write, 4),
        (Operation::Flush, 2),
    ] {
        let volume = five();
        let disks = mem_disks(&volume);
        block_on(async {
            let mut all = nodes(&disks);
            let fault = Fault::new(Effect::Fail(Errno::Io)).on(operation);
            all[2 * image + 1] = FaultDisk::new(all[2 * image + 1].clone(), 1, vec![fault]);
            let array = open_for_writing(&volume, all).await;
            let range = Range::new(0, 8 * CHUNK as u64);
            write(&array, range, 1).await.unwrap();
            array.flush().await.unwrap();
            let (own, _) = said(&disks[2].snapshot());
            assert!(own.failed.has(image) && !own.failed.has(1));
            assert_eq!(array.status().members[image].state, MemberState::Missing);
            let all = read(&array, whole(&volume)).await;
            assert!(all[place(range)] == pattern(1, range));
            array.stop().await.unwrap();
            // Its bits stay for it, and it is not used again.
            assert!(!said(&disks[2].snapshot()).1.is_empty());
            let array = open_for_writing(&volume, nodes(&disks)).await;
            assert_eq!(array.status().working, 4);
            assert!(read(&array, whole(&volume)).await == all);
        });
    }
}

#[test]
fn an_image_that_was_being_rebuilt_is_rebuilt_whole() {
    for which in 0..PARITY.len() {
        let mut volume = volume(which);
        volume.change(1, |own| own.rebuilt_to = Some(4096));
        volume.data[1].as_mut().unwrap()[4096..].fill(0xbd);
        let disks = mem_disks(&volume);
        block_on(async {
            let array = open_for_writing(&volume, nodes(&disks)).await;
            write(&array, Range::new(0, 512), 1).await.unwrap();
            array.work().await;
            array.stop().await.unwrap();
        });
        assert_fits(&volume, &disks);
        assert_eq!(said(&disks[2].snapshot()).0.rebuilt_to, None);
    }
}

#[test]
fn a_volume_that_was_being_written_and_lacks_an_image_is_refused_for_writing() {
    let what = "was being written when it stopped, and images are missing";
    let refused = |volume: &Volume| {
        for force in [false, true] {
            let options = RaidOptions {
                force,
                ..options(false)
            };
            let error = block_on(volume.open_with(&options)).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.next().unwrap().contains("open it read-only"));
        }
    };
    for which in [0, 1, 7] {
        // As Linux leaves it, and as we do.
        for synced_to in [None, Some(0)] {
            let mut volume = volume(which);
            volume.mark(1);
            volume.change_all(|own| own.synced_to = synced_to);
            let mut lacks = volume.clone();
            lacks.lose(2);
            refused(&lacks);
            // One that is rebuilt in part holds nothing behind that; Linux keeps bits for it.
            volume.change(2, |own| own.rebuilt_to = Some(4096));
            match synced_to {
                Some(_) => refused(&volume),
                None => drop(block_on(volume.open_with(&options(false))).unwrap()),
            }
        }
    }
    // Ours says so, too, after a cut while it went on without one.
    let volume = five();
    let disks = mem_disks(&volume);
    block_on(async {
        let spec = volume.spec(without(&disks, 0));
        let array = open(spec.clone(), &options(false)).await.unwrap();
        write(&array, Range::new(0, 512), 1).await.unwrap();
        array.flush().await.unwrap();
        drop(array);
        let error = open(spec, &options(false)).await.unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        // All images are there again; one lacks what was written.
        let spec = volume.spec(paired(nodes(&disks)));
        let error = open(spec, &options(false)).await.unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    });
}

#[test]
fn trims_of_whole_rows_leave_parity_that_fits() {
    let volume = volume(7);
    let disks = mem_disks(&volume);
    block_on(async {
        let array = open_for_writing(&volume, nodes(&disks)).await;
        let range = Range::new(512, 9 * CHUNK as u64);
        let zeroed = array.write_zeroes(range, WriteFlags::empty());
        zeroed.await.unwrap();
        assert!(read(&array, range).await.iter().all(|byte| *byte == 0));
        if array.geometry().trim.any() {
            array.trim(range).await.unwrap();
        }
        array.stop().await.unwrap();
    });
    assert_fits(&volume, &disks);
}
