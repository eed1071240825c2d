//! Any text as the metadata of a volume group. What is understood is printed as a text that says the same; a group that can
//! be changed is written back with the same volumes on the same extents.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nodes::volume::edit::{EditStamp, GroupEdit, free_runs, used_runs};
use nodes::volume::format::VolumeGroup;
use nodes::volume::format::text::parse;

fuzz_target!(|text: &str| {
    if let Ok(section) = parse(text) {
        assert_eq!(parse(&section.print()).as_ref(), Ok(&section));
    }
    let Ok(group) = VolumeGroup::of(text) else {
        return;
    };
    let _sizes = (group.size(), group.free());
    for volume in &group.volumes {
        let _places = group.pieces(volume);
    }
    let Ok(edit) = GroupEdit::open(group.clone()) else {
        return;
    };
    let stamp = EditStamp {
        seconds: 1,
        host: "fuzz".to_owned(),
        description: "fuzz".to_owned(),
    };
    let Ok(text) = edit.finish(&stamp) else {
        return;
    };
    let again = VolumeGroup::of(&text).expect("a text that was written here");
    assert_eq!(again.volumes, group.volumes);
    assert_eq!(again.members, group.members);
    assert_eq!(free_runs(&again).ok(), free_runs(&group).ok());
    assert_eq!(used_runs(&again).is_ok(), used_runs(&group).is_ok());
});
