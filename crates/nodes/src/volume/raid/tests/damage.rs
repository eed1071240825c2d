//! Damaged metadata: an error or the right bytes, never a panic.

use block::{BlockDevice, Range};
use proptest::prelude::*;
use testkit::block_on;

use super::kit::{META, Volume, options};
use crate::array::format::Level;

/// Volumes to be damaged.
fn volumes() -> Vec<Volume> {
    vec![
        Volume::raid1(3, 16 << 10),
        Volume::raid10(4, 16),
        Volume::parity("raid5_ls", (Level::Raid5, 2), 3),
        Volume::parity("raid6", (Level::Raid6, 8), 5),
    ]
}

#[test]
fn numbers_that_cannot_be_are_reported_with_their_image() {
    let mut volume = Volume::raid1(2, 8192);
    volume.metadata[1].as_mut().unwrap()[8] = 0;
    assert_eq!(
        volume.refusal(),
        "the metadata of vol_rimage_1 are damaged: its number of images cannot be 0"
    );
}

#[test]
fn metadata_that_are_too_short_are_not_used() {
    let mut volume = Volume::raid1(2, 8192);
    volume.metadata[0].as_mut().unwrap().truncate(100);
    volume.assert_read();
    // Without room for a bitmap nothing says what was being written.
    let mut volume = Volume::raid1(2, 8192);
    for metadata in volume.metadata.iter_mut().flatten() {
        metadata.truncate(4096);
    }
    volume.data[1].as_mut().unwrap().fill(0xbd);
    volume.assert_read();
    let error = block_on(volume.open_with(&options(false))).unwrap_err();
    let what = "vol is not written: it has no bitmap that fits it";
    assert_eq!(error.to_string(), what);
}

#[test]
fn a_damaged_bitmap_counts_as_full() {
    for at in [0, 4, 8, 40, 52] {
        let mut volume = Volume::raid1(2, 16 << 10);
        for metadata in volume.metadata.iter_mut().flatten() {
            metadata[4096 + at] ^= 0x81;
        }
        volume.data[1].as_mut().unwrap().fill(0xbd);
        volume.assert_read();
        assert!(!volume.open().unwrap().status().clean);
    }
    // As does one that is older than the superblock.
    let mut volume = Volume::raid1(2, 16 << 10);
    volume.change_all(|own| own.events += 1);
    volume.data[1].as_mut().unwrap().fill(0xbd);
    volume.assert_read();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_damage_panics(
        which in 0..4_usize,
        read_only: bool,
        damage in prop::collection::vec((0..5_usize, 0..160_usize, any::<u8>()), 1..6),
        bitmap in prop::collection::vec((0..5_usize, 0..300_usize, any::<u8>()), 0..4),
        missing in prop::collection::vec(0..5_usize, 0..2),
    ) {
        let mut volume = volumes().swap_remove(which);
        let images = volume.metadata.len();
        let bitmap = bitmap.into_iter().map(|(image, at, byte)| (image, 4096 + at, byte));
        for (image, at, byte) in damage.into_iter().chain(bitmap) {
            volume.metadata[image % images].as_mut().unwrap()[at % META] = byte;
        }
        for image in missing {
            volume.lose(image % images);
        }
        block_on(async {
            let Ok(array) = volume.open_with(&options(read_only)).await else {
                return;
            };
            let size = array.geometry().size;
            let _read = array.read(Range::new(0, size)).await;
            let _status = array.status();
        });
    }
}
