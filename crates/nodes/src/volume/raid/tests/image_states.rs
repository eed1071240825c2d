//! Volumes with images that are missing, failed, stale, new or not rebuilt whole.

use block::{BlockDevice, Range};
use testkit::block_on;

use super::kit::{EVENTS, PARITY, REGION, Volume, options};
use crate::array::MemberState;
use crate::array::format::Level;

/// How an image cannot be used.
const WAYS: usize = 7;

/// Makes an image unusable.
fn spoil(volume: &mut Volume, image: usize, way: usize) {
    match way {
        0 => volume.lose(image),
        1 => volume.metadata[image] = None,
        2 => volume.data[image] = None,
        3 => volume.metadata[image].as_mut().unwrap().fill(0),
        4 => volume.metadata[image].as_mut().unwrap()[..4].copy_from_slice(b"what"),
        5 => volume.fail(image),
        _ => {
            for other in (0..volume.data.len()).filter(|other| *other != image) {
                if volume.metadata[other].is_some() {
                    volume.commit_twice(other);
                }
            }
        }
    }
    // What it holds is wrong, if it is there at all.
    if let Some(data) = &mut volume.data[image] {
        data.fill(0xbd);
    }
}

#[test]
fn every_kind_with_parity_is_read_without_each_image_and_each_pair() {
    for (kind, level, layout) in PARITY {
        let images = if level == Level::Raid6 { 5 } else { 4 };
        let whole = Volume::parity(kind, (level, layout), images);
        for one in 0..images {
            let mut volume = whole.clone();
            spoil(&mut volume, one, one % WAYS);
            volume.assert_read();
            for other in one + 1..images {
                let mut volume = volume.clone();
                volume.lose(other);
                match level {
                    Level::Raid6 => volume.assert_read(),
                    _ => assert!(volume.refusal().contains("needs more than the 2 of its 4")),
                }
            }
        }
    }
}

#[test]
fn an_image_is_unusable_in_each_way() {
    for way in 0..WAYS {
        for image in 0..3 {
            let mut volume = Volume::parity("raid5_ls", (Level::Raid5, 2), 3);
            spoil(&mut volume, image, way);
            volume.assert_read();
            let array = volume.open().unwrap();
            assert_eq!(array.status().working, 2, "way {way}");
            assert_eq!(array.remarks().len(), 1, "{:?}", array.remarks());
            let mut volume = Volume::raid1(3, 16 << 10);
            spoil(&mut volume, image, way);
            volume.assert_read();
        }
    }
}

#[test]
fn a_mirror_is_read_of_each_image_alone() {
    for alone in 0..3 {
        let mut volume = Volume::raid1(3, 16 << 10);
        for other in (0..3).filter(|other| *other != alone) {
            volume.lose(other);
        }
        volume.assert_read();
    }
    let mut volume = Volume::raid1(2, 8192);
    volume.lose(0);
    volume.lose(1);
    assert_eq!(
        volume.refusal(),
        "no image of vol is there with its metadata"
    );
}

#[test]
fn raid10_is_read_as_long_as_each_pair_has_an_image() {
    let whole = Volume::raid10(4, 16);
    for one in 0..4 {
        for other in 0..4 {
            let mut volume = whole.clone();
            volume.lose(one);
            volume.lose(other);
            if one != other && one / 2 == other / 2 {
                assert!(volume.refusal().contains("needs more than the 2 of its 4"));
            } else {
                volume.assert_read();
            }
        }
    }
}

#[test]
fn an_image_that_is_not_rebuilt_whole_is_read_below_that_only() {
    for (kind, level, layout) in PARITY {
        let mut volume = Volume::parity(kind, (level, layout), 5);
        let size = volume.data[2].as_ref().unwrap().len();
        volume.change(2, |own| own.rebuilt_to = Some(size as u64 / 2));
        volume.data[2].as_mut().unwrap()[size / 2..].fill(0xbd);
        volume.assert_read();
        let status = volume.open().unwrap().status();
        let state = MemberState::Rebuilding(size as u64 / 2);
        assert_eq!(status.members[2].state, state);
        // Below that it is needed.
        if level == Level::Raid5 {
            volume.lose(0);
            assert!(volume.open().is_err());
        }
    }
    let mut volume = Volume::raid1(2, 16 << 10);
    volume.change(0, |own| own.rebuilt_to = Some(8192));
    volume.data[0].as_mut().unwrap()[8192..].fill(0xbd);
    volume.assert_read();
}

#[test]
fn an_image_one_commit_behind_is_used() {
    let mut volume = Volume::parity("raid5", (Level::Raid5, 2), 3);
    volume.change(1, |own| own.events = EVENTS - 1);
    volume.lose(2);
    volume.assert_read();
}

#[test]
fn images_that_were_written_without_each_other_are_not_joined_unless_forced() {
    let mut volume = Volume::raid1(2, 8192);
    volume.change(0, |own| {
        own.failed.put(1, true);
        own.events = 20;
    });
    volume.change(1, |own| {
        own.failed.put(0, true);
        own.events = 18;
    });
    volume.data[1].as_mut().unwrap().fill(0xbd);
    assert_eq!(
        volume.refusal(),
        "vol_rimage_0 and vol_rimage_1 were both written without the other"
    );
    let forced = crate::volume::raid::RaidOptions {
        force: true,
        ..options(true)
    };
    let array = block_on(volume.open_with(&forced)).unwrap();
    let all = block_on(array.read(Range::new(0, 8192))).unwrap().concat();
    assert!(all == volume.content);
}

#[test]
fn regions_that_were_being_written_are_not_computed_from_parity() {
    let mut volume = Volume::parity("raid5_ls", (Level::Raid5, 2), 3);
    // A crash: parity of the second region of each image is wrong.
    volume.mark(1);
    let size = volume.data[0].as_ref().unwrap().len();
    assert_eq!(size, 4 * REGION as usize);
    volume.assert_read();
    volume.lose(1);
    let array = volume.open().unwrap();
    assert!(!array.status().clean);
    block_on(async {
        let row = u64::from(REGION) * 2;
        for at in (0..volume.size()).step_by(1024) {
            let range = Range::new(at, 1024);
            let read = array.read(range).await;
            let of_image = at / 1024 % 2;
            // Left-symmetric over three images: which one has this chunk.
            let stripe = at / 2048;
            let parity = 2 - stripe % 3;
            let image = (parity + 1 + of_image) % 3;
            let is_lost = image == 1 && (row..2 * row).contains(&at);
            assert_eq!(read.is_err(), is_lost, "{range} on image {image}");
        }
    });
    let forced = crate::volume::raid::RaidOptions {
        force: true,
        ..options(true)
    };
    let array = block_on(volume.open_with(&forced)).unwrap();
    let all = block_on(array.read(Range::new(0, volume.size()))).unwrap();
    assert!(all.concat() == volume.content);
}

#[test]
fn regions_that_are_marked_for_an_image_that_failed_are_computed() {
    let mut volume = Volume::parity("raid5_ls", (Level::Raid5, 2), 3);
    volume.mark(1);
    volume.fail(1);
    volume.data[1].as_mut().unwrap().fill(0xbd);
    volume.assert_read();
    let array = volume.open().unwrap();
    let remarks = array.remarks().join("\n");
    assert!(remarks.contains("count as in sync"), "{remarks}");
    // Behind where a first resync came to it is not.
    let mut volume = volume.clone();
    volume.change_all(|own| own.synced_to = Some(0));
    let array = volume.open().unwrap();
    assert!(block_on(array.read(Range::new(0, volume.size()))).is_err());
}

#[test]
fn regions_of_a_mirror_that_were_being_written_are_read_of_the_first_image() {
    for images in [2, 3] {
        let mut volume = Volume::raid1(images, 16 << 10);
        volume.mark(2);
        for data in volume.data.iter_mut().skip(1).flatten() {
            data[2 * 4096..3 * 4096].fill(0xbd);
        }
        volume.assert_read();
        let status = volume.open().unwrap().status();
        assert!(!status.clean && status.resync_pending);
        assert_eq!(status.bitmap.unwrap().dirty, 1);
    }
    // A mirror that goes on with one image is not out of sync.
    let mut volume = Volume::raid1(2, 16 << 10);
    volume.mark(2);
    volume.lose(0);
    volume.assert_read();
    assert!(volume.open().unwrap().status().clean);
}

#[test]
fn a_first_resync_that_is_not_done_leaves_the_rest_to_the_first_image() {
    let mut volume = Volume::raid1(2, 16 << 10);
    volume.change_all(|own| own.synced_to = Some(8192));
    for bit in 0..4 {
        volume.mark(bit);
    }
    volume.data[1].as_mut().unwrap()[8192..].fill(0xbd);
    volume.assert_read();
}

#[test]
fn a_new_volume_is_read_of_its_first_images() {
    let mut volume = Volume::raid1(2, 16 << 10);
    for metadata in volume.metadata.iter_mut().flatten() {
        metadata.fill(0);
    }
    volume.data[1].as_mut().unwrap().fill(0xbd);
    volume.assert_read();
    volume.lose(1);
    let error = block_on(volume.open_with(&options(false))).unwrap_err();
    let what = "vol is not written: it was never in use, and images are missing";
    assert_eq!(error.to_string(), what);
    let mut volume = Volume::parity("raid5", (Level::Raid5, 2), 3);
    for metadata in volume.metadata.iter_mut().flatten() {
        metadata.fill(0);
    }
    volume.assert_read();
    volume.lose(0);
    let array = volume.open().unwrap();
    assert!(block_on(array.read(Range::new(0, volume.size()))).is_err());
}

#[test]
fn a_volume_that_was_resized_and_lacks_an_image_is_only_read() {
    let mut volume = Volume::raid1(2, 16 << 10);
    volume.change_all(|own| own.image_size = 8192);
    volume.data[1].as_mut().unwrap()[8192..].fill(0xbd);
    volume.assert_read();
    volume.fail(1);
    let error = block_on(volume.open_with(&options(false))).unwrap_err();
    let what = "vol is not written: it was resized, and not used since";
    assert_eq!(error.to_string(), what);
}
