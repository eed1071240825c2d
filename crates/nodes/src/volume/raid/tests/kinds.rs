//! Each type of segment, complete, and by its names.

use block::{BlockDevice, Range};
use testkit::{block_on, pattern};

use super::kit::{CHUNK, PARITY, Volume, options};
use crate::array::format::{Level, Version};
use crate::volume::raid::kind::RaidKind;

#[test]
fn every_kind_with_parity_is_read_complete() {
    for (kind, level, layout) in PARITY {
        let least = if level == Level::Raid6 { 4 } else { 3 };
        for images in least..6 {
            Volume::parity(kind, (level, layout), images).assert_read();
        }
    }
}

#[test]
fn mirrors_are_read_complete() {
    for images in 1..4 {
        Volume::raid1(images, 48 << 10).assert_read();
    }
    for images in [4, 6] {
        Volume::raid10(images, 16).assert_read();
    }
    let mut near = Volume::raid10(4, 16);
    near.kind = "raid10_near";
    near.assert_read();
}

/// A volume without copies.
fn striped(kind: &'static str, images: usize) -> Volume {
    let content = pattern(0x19, Range::new(0, (images * 8 * CHUNK) as u64));
    let mut data = vec![Vec::new(); images];
    for (index, chunk) in content.chunks(CHUNK).enumerate() {
        data[index % images].extend_from_slice(chunk);
    }
    let form = (Level::Raid0, 0);
    let mut volume = Volume::new(kind, form, CHUNK as u64, content, data);
    if kind == "raid0" {
        volume.metadata.fill(None);
    }
    volume
}

#[test]
fn volumes_without_copies_are_read_and_written() {
    for kind in ["raid0", "raid0_meta"] {
        for images in 1..4 {
            let volume = striped(kind, images);
            volume.assert_read();
            let array = block_on(volume.open_with(&options(false))).unwrap();
            assert!(!array.geometry().read_only);
            let range = Range::new(512, 4096);
            let new = pattern(3, range);
            block_on(array.write(range, testkit::single(new.clone()), Default::default())).unwrap();
            assert_eq!(block_on(array.read(range)).unwrap().concat(), new);
        }
        let mut volume = striped(kind, 3);
        volume.lose(1);
        assert_eq!(
            volume.refusal(),
            "vol_rimage_1 is missing, and nothing else holds it"
        );
    }
}

#[test]
fn a_volume_says_what_it_is_and_leaves_its_identity_to_lvm() {
    let array = Volume::raid10(4, 16).open().unwrap();
    let status = array.status();
    assert_eq!(
        (status.version, status.name.as_str()),
        (Version::DmRaid, "vol")
    );
    assert_eq!(
        (status.level, status.parts, status.working),
        (Level::Raid10, 4, 4)
    );
    assert!(status.clean && status.read_only);
    assert_eq!(status.members[2].name, "vol_rimage_2");
    for volume in [
        Volume::raid1(2, 8192),
        Volume::parity("raid5", (Level::Raid5, 2), 3),
    ] {
        assert_eq!(volume.open().unwrap().identity(), None);
    }
}

#[test]
fn an_unknown_type_of_segment_is_refused_by_name() {
    for name in ["raid7", "raid1+RESHAPE", "", "mirror"] {
        let error = RaidKind::of(name).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("volumes of the type {name} are not known here")
        );
    }
}

#[test]
fn a_size_that_does_not_fit_the_images_is_refused() {
    let mut volume = Volume::parity("raid5", (Level::Raid5, 2), 3);
    volume.content.pop();
    assert_eq!(
        volume.refusal(),
        "32767 bytes of vol cannot be dealt out to 3 images"
    );
    let mut volume = Volume::raid1(2, 8192);
    volume.content.extend([0; 4096]);
    assert_eq!(
        volume.refusal(),
        "vol_rimage_0 is smaller than the volume needs"
    );
}

#[test]
fn metadata_of_another_form_are_refused() {
    let mut volume = Volume::parity("raid5", (Level::Raid5, 2), 3);
    volume.kind = "raid5_rs";
    assert_eq!(
        volume.refusal(),
        "by LVM vol is raid5_rs, by the metadata of vol_rimage_0 raid5 of layout 0x2"
    );
    let mut volume = Volume::parity("raid5", (Level::Raid5, 2), 3);
    volume.chunk = 2048;
    assert_eq!(
        volume.refusal(),
        "by LVM vol has stripes of 2048 bytes, by the metadata of vol_rimage_0 of 1024"
    );
    let mut volume = Volume::parity("raid5", (Level::Raid5, 2), 4);
    volume.change_all(|own| own.images = 5);
    assert_eq!(
        volume.refusal(),
        "by LVM vol has 4 images, by the metadata of vol_rimage_0 5"
    );
    let mut volume = Volume::parity("raid5", (Level::Raid5, 2), 3);
    volume.change_all(|own| own.flags = 1);
    assert_eq!(volume.refusal(), "vol_rimage_0: a reshape was going on");
}

#[test]
fn images_of_a_mirror_may_have_changed_places_and_others_may_not() {
    let mut volume = Volume::raid1(3, 8192);
    volume.metadata.swap(0, 2);
    volume.assert_read();
    let mut volume = Volume::parity("raid5", (Level::Raid5, 2), 3);
    volume.metadata.swap(0, 2);
    assert_eq!(
        volume.refusal(),
        "vol_rimage_0 was image 2 when its metadata were written"
    );
    // A mirror may also have had more images.
    let mut volume = Volume::raid1(2, 8192);
    volume.change_all(|own| own.images = 3);
    volume.assert_read();
}

#[test]
fn data_may_begin_further_on_in_an_image() {
    let mut volume = Volume::parity("raid5_ls", (Level::Raid5, 2), 3);
    volume.change_all(|own| {
        own.data_at = 2048;
        own.new.data_at = 2048;
    });
    for data in volume.data.iter_mut().flatten() {
        data.splice(0..0, [0xee; 2048]);
    }
    volume.assert_read();
    volume.lose(1);
    volume.assert_read();
}
