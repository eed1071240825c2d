//! Tests of volumes of RAID that get another size.

use super::raid::{create, raid};
use super::*;
use crate::volume::edit::NewRaidLevel;

/// Extents of the volume and of each of its images' data.
fn extents(edit: &GroupEdit, name: &str) -> (u64, Vec<u64>) {
    let group = edit.group();
    let images = (0..)
        .map(|n| group.volume(&format!("{name}_rimage_{n}")))
        .map_while(|image| Some(image?.extents()));
    (group.volume(name).unwrap().extents(), images.collect())
}

#[test]
fn all_images_of_every_type_grow_and_shrink_equally() {
    let all = [
        (NewRaidLevel::Raid0, (6, 3)),
        (NewRaidLevel::Raid1, (5, 5)),
        (NewRaidLevel::Raid10, (6, 3)),
        (NewRaidLevel::Raid4, (6, 3)),
        (NewRaidLevel::Raid5, (6, 3)),
        (NewRaidLevel::Raid6, (6, 2)),
    ];
    for (level, (whole, each)) in all {
        let mut edit = group(&[30, 30, 30, 30, 30]);
        let mut new = raid("m", level, 2);
        new.volume.extents = level.stripes_min().max(2) as u64;
        create(&mut edit, &new).unwrap();
        let before = edit.clone();
        let (had, images) = extents(&edit, "m");
        // Rounded up to whole stripes.
        edit.extend("m", 3, &[]).unwrap();
        assert_eq!(extents(&edit, "m").0, whole, "{level:?}");
        assert_eq!(extents(&edit, "m").1, vec![each; images.len()], "{level:?}");
        // Directly behind what was there: one segment.
        assert_eq!(layout(&edit, "m_rimage_1").len(), 1, "{level:?}");
        edit.clone().finish(&stamp()).unwrap();
        edit.reduce("m", had).unwrap();
        assert_eq!(edit, before, "{level:?}");
    }
}

#[test]
fn an_image_goes_on_where_no_other_image_lies() {
    let mut edit = group(&[6, 5, 20]);
    create(&mut edit, &raid("m", NewRaidLevel::Raid1, 4)).unwrap();
    // The second image fills its physical volume; it goes on on the third, which has room for both.
    edit.extend("m", 1, &[]).unwrap();
    assert_eq!(layout(&edit, "m_rimage_0"), [(5, vec![on("pv0", 1)])]);
    assert_eq!(
        layout(&edit, "m_rimage_1"),
        [(4, vec![on("pv1", 1)]), (1, vec![on("pv2", 0)])]
    );
    // Now the first one has no room either, and the third is the second image's.
    let refused = edit.extend("m", 1, &[]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no space: 1 extents on each of 2 physical volumes are needed, those of the images or others, but 19 are free (19 on pv2)"
    );
    assert_eq!(edit.largest_raid_extension("m", &[]).unwrap(), Some(0));
    edit.reduce("m", 4).unwrap();
    assert_eq!(layout(&edit, "m_rimage_1"), [(4, vec![on("pv1", 1)])]);
    assert_eq!(edit.largest_raid_extension("m", &[]).unwrap(), Some(1));
    let only = ["pv0".to_owned()];
    assert_eq!(edit.largest_raid_extension("m", &only).unwrap(), Some(0));
}

#[test]
fn metadata_grow_with_their_bitmap_and_never_shrink() {
    let mut edit = group(&[2_000_000, 2_000_000]);
    let mut new = raid("m", NewRaidLevel::Raid1, 16);
    new.region_size = 4096;
    create(&mut edit, &new).unwrap();
    let metadata = |edit: &GroupEdit| edit.group().volume("m_rmeta_1").unwrap().extents();
    // 32 MiB of bits are for 1 TiB; device-mapper takes 2^21 regions, here 8 GiB.
    assert_eq!(metadata(&edit), 1);
    edit.extend("m", 2032, &[]).unwrap();
    assert_eq!(metadata(&edit), 1);
    let refused = edit.extend("m", 1, &[]).unwrap_err();
    assert!(
        refused.to_string().contains("have regions of 4096"),
        "{refused}"
    );
    // Extents of 4 KiB: 2^15 regions have their bits in one of them, superblock and header in two.
    let small = NewGroup {
        name: "vg0".to_owned(),
        id: id(99),
        extent: 4096,
    };
    let members: Vec<NewGroupMember> = (0..2).map(|n| member(n, 100)).collect();
    let mut edit = GroupEdit::create_group(&small, &members).unwrap();
    new.volume.extents = 1 << 15;
    create(&mut edit, &new).unwrap();
    assert_eq!(metadata(&edit), 3);
    edit.extend("m", 1, &[]).unwrap();
    assert_eq!(metadata(&edit), 4);
    assert_eq!(layout(&edit, "m_rmeta_1").len(), 2);
    edit.reduce("m", 16).unwrap();
    assert_eq!(metadata(&edit), 4);
    new.region_size = MIB;
    new.volume.name = "n".to_owned();
    new.volume.extents = 512;
    create(&mut edit, &new).unwrap();
    let refused = edit.reduce("n", 255).unwrap_err();
    assert!(
        refused.to_string().contains("do not fit 1044480"),
        "{refused}"
    );
}

#[test]
fn volumes_of_which_data_would_not_stay_keep_their_size() {
    let mut edit = group(&[30, 30, 30, 30]);
    create(&mut edit, &raid("m", NewRaidLevel::Raid10, 4)).unwrap();
    let text = edit.clone().finish(&stamp()).unwrap();
    let with = |change: &dyn Fn(&str) -> String| {
        let group = VolumeGroup::of(&change(&text)).unwrap();
        let mut edit = GroupEdit::open(group).unwrap();
        let extended = edit.extend("m", 4, &[]).unwrap_err();
        let reduced = edit.reduce("m", 2).unwrap_err();
        assert_eq!(extended, reduced);
        extended.to_string()
    };
    let far = with(&|text| text.replace("\"raid10\"", "\"raid10_far\""));
    assert_eq!(
        far,
        "the size of the volume m is not changed here: it is raid10_far"
    );
    let reshaped =
        with(&|text| text.replace("data_copies = 2", "data_copies = 2\ndata_offset = 8"));
    assert!(reshaped.ends_with("it has `data_offset`"), "{reshaped}");
    let mut odd = edit.clone();
    odd.change(|root| {
        let image = volume_section(root, "m_rimage_2")?;
        image
            .section_mut("segment1")
            .unwrap()
            .set("extent_count", number(1));
        Ok(())
    })
    .unwrap();
    let refused = odd.extend("m", 4, &[]).unwrap_err().to_string();
    assert!(refused.ends_with("m_rimage_2 has 1 extents"), "{refused}");
    let mut lost = edit.clone();
    lost.change(|root| {
        let image = volume_section(root, "m_rimage_2")?;
        image
            .section_mut("segment1")
            .unwrap()
            .set("type", super::super::text("error".to_owned()));
        Ok(())
    })
    .unwrap();
    let refused = lost.extend("m", 4, &[]).unwrap_err().to_string();
    assert!(refused.ends_with("m_rimage_2 is not linear"), "{refused}");
}
