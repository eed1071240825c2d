//! Tests of moves: their text is that of LVM's pvmove, and what has no place of its own is refused.

use super::*;
use crate::volume::edit::{MoveRequest, NewRaidLevel, NewRaidVolume};

fn request(from: &str) -> MoveRequest {
    MoveRequest {
        from: from.to_owned(),
        to: Vec::new(),
        volume: None,
        id: id(7000),
        seconds: 1,
        host: "test".to_owned(),
    }
}

/// Refused, with the group as it was.
fn refusal(edit: &GroupEdit, request: &MoveRequest) -> EditError {
    let mut changed = edit.clone();
    let refused = changed.begin_move(request).unwrap_err();
    assert_eq!(changed, *edit);
    refused
}

/// What LVM 2.03.16 wrote for `pvmove -b` of a linear volume in two segments and a stripe, when the first segment was moved.
const BEGUN: &str = r#"
pvmove0 {
id = "007000-0000-0000-0000-0000-0000-000000"
status = ["READ", "WRITE", "PVMOVE", "LOCKED"]
flags = []
creation_time = 1
creation_host = "test"
allocation_policy = "contiguous"
segment_count = 3

segment1 {
start_extent = 0
extent_count = 3

type = "mirror"
mirror_count = 2
extents_moved = 3
region_size = 4096

mirrors = [
"pv0", 0,
"pv2", 0
]
}
segment2 {
start_extent = 3
extent_count = 2

type = "mirror"
mirror_count = 2
extents_moved = 0
region_size = 4096

mirrors = [
"pv0", 4,
"pv2", 3
]
}
segment3 {
start_extent = 5
extent_count = 2

type = "mirror"
mirror_count = 2
extents_moved = 0
region_size = 4096

mirrors = [
"pv0", 6,
"pv2", 5
]
}
}
"#;

/// A linear volume in two segments, and a striped one.
fn start() -> GroupEdit {
    let mut edit = group(&[8, 2, 20]);
    edit.create_volume(&volume("a", 3, 1)).unwrap();
    edit.create_volume(&volume("gap", 1, 1)).unwrap();
    edit.extend("a", 2, &["pv0".to_owned()]).unwrap();
    edit.create_volume(&volume("wide", 4, 2)).unwrap();
    edit
}

#[test]
fn a_move_is_described_as_by_lvm() {
    let mut edit = start();
    edit.remove("gap").unwrap();
    let mut moved = request("pv0");
    moved.to = vec!["pv2".to_owned()];
    assert_eq!(edit.begin_move(&moved), Ok("pvmove0".to_owned()));
    edit.set_moved("pvmove0", 0).unwrap();
    let text = edit.clone().finish(&stamp()).unwrap();
    assert!(text.contains(BEGUN), "{text}");
    for (name, segments) in [
        (
            "a",
            vec![(3, vec![on("pvmove0", 0)]), (2, vec![on("pvmove0", 3)])],
        ),
        ("wide", vec![(4, vec![on("pvmove0", 5), on("pv1", 0)])]),
    ] {
        assert_eq!(layout(&edit, name), segments);
        let volume = edit.group().volume(name).unwrap();
        assert_eq!(volume.status, ["READ", "WRITE", "VISIBLE", "LOCKED"]);
    }
    // While it is going on, no place of it is free, and its volumes stay as they are.
    assert_eq!(free_runs(edit.group()).unwrap().len(), 2);
    assert!(matches!(
        edit.extend("a", 1, &[]),
        Err(EditError::Flag { .. })
    ));
    assert!(matches!(
        edit.remove("pvmove0"),
        Err(EditError::Flag { .. })
    ));
    assert!(matches!(
        refusal(&edit, &request("pv0")),
        EditError::Flag { .. }
    ));
    // Ended now, each segment is where its bytes are.
    edit.end_move("pvmove0").unwrap();
    assert_eq!(
        layout(&edit, "a"),
        [(3, vec![on("pv2", 0)]), (2, vec![on("pv0", 4)])]
    );
    assert_eq!(
        layout(&edit, "wide"),
        [(4, vec![on("pv0", 6), on("pv1", 0)])]
    );
    assert_eq!(edit.moves(), Ok(Vec::new()));
}

#[test]
fn a_move_that_is_ended_at_once_leaves_the_group_as_it_was() {
    let before = start();
    let mut edit = before.clone();
    let name = edit.begin_move(&request("pv0")).unwrap();
    edit.end_move(&name).unwrap();
    assert_eq!(edit, before);
}

#[test]
fn a_move_that_is_not_made_by_segments_is_refused() {
    let mut edit = start();
    let name = edit.begin_move(&request("pv0")).unwrap();
    edit.change(|root| {
        let layer = volume_section(root, &name)?;
        for (_, segment) in layer.sections_mut() {
            segment.remove("extents_moved");
        }
        Ok(())
    })
    .unwrap();
    assert!(matches!(edit.moves(), Err(EditError::Kind { .. })));
    assert!(matches!(edit.end_move(&name), Err(EditError::Kind { .. })));
    assert!(matches!(edit.end_move("a"), Err(EditError::Kind { .. })));
}

#[test]
fn stripes_and_images_keep_physical_volumes_of_their_own() {
    // pv1 has room, but the other stripe is there.
    let mut edit = group(&[4, 8, 1]);
    edit.create_volume(&volume("wide", 4, 2)).unwrap();
    let refused = refusal(&edit, &request("pv0")).to_string();
    assert!(
        refused.contains("2 extents are needed, but 1 is free (1 on pv2)"),
        "{refused}"
    );
    let mut edit = group(&[4, 12, 3]);
    let safe = NewRaidVolume {
        volume: volume("safe", 3, 1),
        level: NewRaidLevel::Raid1,
        copies: 2,
        region_size: 2 * MIB,
        assume_synced: false,
    };
    edit.create_raid(&safe, || id(3000)).unwrap();
    let refused = refusal(&edit, &request("pv0")).to_string();
    assert!(
        refused.contains("for safe_rmeta_0, apart from"),
        "{refused}"
    );
    edit.add_member(&member(9, 4)).unwrap();
    edit.begin_move(&request("pv0")).unwrap();
    let moves = edit.moves().unwrap();
    let to = moves[0]
        .segments
        .iter()
        .map(|segment| segment.to.on.as_str());
    assert!(
        to.clone().all(|to| to != "pv1"),
        "{:?}",
        to.collect::<Vec<_>>()
    );
}

#[test]
fn volumes_that_are_merged_or_unknown_are_refused() {
    let theirs = VolumeGroup::of(EVERY_TYPE).unwrap();
    let edit = GroupEdit::open(theirs).unwrap();
    let begun = edit.clone().begin_move(&request("pv0"));
    assert!(
        matches!(begun, Ok(_) | Err(EditError::NoSpace { .. })),
        "{begun:?}"
    );
    let merging = EVERY_TYPE.replace("cow_store", "merging_store");
    let edit = GroupEdit::open(VolumeGroup::of(&merging).unwrap()).unwrap();
    let refused = refusal(&edit, &request("pv0"));
    assert!(
        matches!(&refused, EditError::Unmovable { kind, .. } if kind.contains("merged")),
        "{refused}"
    );
    let unknown = EVERY_TYPE.replace("type = \"thin-pool\"", "type = \"writecache\"");
    let edit = GroupEdit::open(VolumeGroup::of(&unknown).unwrap()).unwrap();
    let mut one = request("pv0");
    one.volume = Some("pool".to_owned());
    let refused = ["pv0", "pv1", "pv2", "pv3", "pv4"]
        .into_iter()
        .find_map(|from| {
            one.from = from.to_owned();
            edit.clone().begin_move(&one).err().filter(
                |error| matches!(error, EditError::Unmovable { kind, .. } if kind == "writecache"),
            )
        });
    assert!(refused.is_some());
}

proptest! {
    #[test]
    fn any_move_keeps_every_extent_of_every_volume(
        sizes in proptest::collection::vec((1_u64..6, 1_usize..3), 1..6),
        from in 0_usize..3,
        moved in proptest::collection::vec(any::<bool>(), 16),
    ) {
        let mut edit = group(&[14, 14, 14, 40]);
        for (number, (extents, stripes)) in sizes.iter().enumerate() {
            let new = volume(&format!("v{number}"), *extents, *stripes);
            prop_assume!(edit.create_volume(&new).is_ok());
        }
        let before = edit.clone();
        let Ok(name) = edit.begin_move(&request(&format!("pv{from}"))) else { return Ok(()) };
        let begun = edit.moves().unwrap().remove(0);
        for (segment, moved) in begun.segments.iter().zip(moved) {
            if moved {
                edit.set_moved(&name, segment.start).unwrap();
            }
        }
        let current = edit.moves().unwrap().remove(0);
        edit.end_move(&name).unwrap();
        // Each extent is where it was, or where the move took it.
        for volume in &before.group().volumes {
            let places = |edit: &GroupEdit| -> Vec<(String, u64)> {
                let volume = edit.group().volume(&volume.name).unwrap().clone();
                volume.segments.iter().flat_map(|segment| {
                    let stripes = segment.areas().len() as u64;
                    (0..segment.extents).map(move |at| {
                        let area = &segment.areas()[usize::try_from(at % stripes).unwrap()];
                        (area.on.clone(), area.extent + at / stripes)
                    })
                }).collect()
            };
            let expected: Vec<(String, u64)> = places(&before).into_iter().map(|(on, extent)| {
                let here = current.segments.iter().find(|segment| {
                    segment.moved && segment.from.on == on
                        && (segment.from.extent..segment.from.extent + segment.extents).contains(&extent)
                });
                match here {
                    Some(one) => (one.to.on.clone(), one.to.extent + extent - one.from.extent),
                    None => (on, extent),
                }
            }).collect();
            prop_assert_eq!(places(&edit), expected);
        }
    }
}
