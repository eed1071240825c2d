//! Metadata that cannot be right, and what is not supported: refused by name, never a panic.

use super::*;

#[test]
fn a_volume_that_does_not_exist_is_answered_with_those_that_do() {
    let volumes = volume("media", VISIBLE, &[(1, &linear("pv0", 0))])
        + &volume("part", PART, &[(1, &linear("pv0", 1))]);
    let error = open(&volumes, &[], "meida").unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no volume `meida` in the group vg: it has media"
    );
    assert_eq!(error.wrong_name().unwrap().0, "meida");
}

#[test]
fn extents_behind_the_end_of_a_disk_are_refused() {
    let volumes = volume("v", VISIBLE, &[(2, &linear("pv0", 15))]);
    let text = refusal(&volumes, "v");
    assert!(
        text.contains("2 extents of pv0 from extent 15 on, which has 16"),
        "{text}"
    );
    let volumes = volume("v", VISIBLE, &[(2, &linear("w", 1))])
        + &volume("w", PART, &[(2, &linear("pv0", 0))]);
    let text = refusal(&volumes, "v");
    assert!(
        text.contains("2 extents of w from extent 1 on, which has 2"),
        "{text}"
    );
}

#[test]
fn a_disk_that_was_cut_off_is_refused() {
    let volumes = volume("v", VISIBLE, &[(1, &linear("pv0", 15))]);
    let mut disks = disks();
    disks[0] = Arc::new(MemDisk::new(DISK_LEN - 512));
    let error = block_on(set(&volumes, &[], &disks).open("v")).unwrap_err();
    assert!(matches!(error, VolumeError::Short { end: DISK_LEN, .. }));
}

#[test]
fn gaps_and_circles_are_refused() {
    let gap = volume("v", VISIBLE, &[(1, &linear("pv0", 0))])
        .replace("start_extent = 0", "start_extent = 1");
    assert!(refusal(&gap, "v").contains("begins at 1, not at 0"));
    let circle =
        volume("v", VISIBLE, &[(1, &linear("w", 0))]) + &volume("w", PART, &[(1, &linear("v", 0))]);
    assert!(refusal(&circle, "v").contains("made of itself"));
    let own = volume("v", VISIBLE, &[(1, &linear("v", 0))]);
    assert!(refusal(&own, "v").contains("made of itself"));
    let lost = volume("v", VISIBLE, &[(1, &linear("nothing", 0))]);
    assert!(refusal(&lost, "v").contains("`nothing`, which the group does not have"));
}

#[test]
fn nesting_is_bounded() {
    let mut volumes = volume("v0", VISIBLE, &[(1, &linear("v1", 0))]);
    for depth in 1..40 {
        volumes += &volume(
            &format!("v{depth}"),
            PART,
            &[(1, &linear(&format!("v{}", depth + 1), 0))],
        );
    }
    assert!(refusal(&volumes, "v0").contains("nested more than 12 deep"));
}

#[test]
fn a_volume_that_is_referred_to_often_is_visited_once() {
    // 16 levels of 16 references each would be 2^64 visits.
    let many = |on: &str| -> Vec<(u64, String)> { (0..16).map(|_| (1, linear(on, 0))).collect() };
    let mut volumes = String::new();
    for depth in 0..10 {
        let segments = many(&format!("v{}", depth + 1));
        let segments: Vec<(u64, &str)> = segments.iter().map(|(n, s)| (*n, s.as_str())).collect();
        let status = if depth == 0 { VISIBLE } else { PART };
        volumes += &volume(&format!("v{depth}"), status, &segments);
    }
    volumes += &volume("v10", PART, &[(1, &linear("pv0", 0))]);
    assert_eq!(
        open(&volumes, &[], "v0").unwrap().disk.geometry().size,
        16 * EXTENT
    );
}

#[test]
fn types_that_are_not_known_are_refused_by_name() {
    for kind in ["vdo", "writecache", "raid5_ls+RESHAPE", "flashcache"] {
        let volumes = volume(
            "v",
            VISIBLE,
            &[(1, &format!("type = \"{kind}\" origin = \"w\""))],
        );
        let text = refusal(&volumes, "v");
        assert!(
            text.contains(&format!("segment of the type {kind}")),
            "{text}"
        );
    }
    let lacks = volume(
        "v",
        VISIBLE,
        &[(
            1,
            "type = \"striped\" stripe_count = 2 stripes = [\"pv0\", 0]",
        )],
    );
    assert!(refusal(&lacks, "v").contains("`stripe_count` is missing or cannot be"));
    let status = volume(
        "v",
        "\"READ\", \"VISIBLE\", \"HALTED\"",
        &[(1, &linear("pv0", 0))],
    );
    assert!(refusal(&status, "v").contains("the volume v has the unknown status HALTED"));
}

#[test]
fn pools_and_descriptions_of_snapshots_are_no_disks() {
    let pool =
        "type = \"thin-pool\" metadata = \"m\" pool = \"d\" transaction_id = 1 chunk_size = 128";
    let snapshot = "type = \"snapshot\" chunk_size = 16 origin = \"v\" cow_store = \"s\"";
    let volumes = volume("p", VISIBLE, &[(1, pool)])
        + &volume("m", PART, &[(1, &linear("pv0", 0))])
        + &volume("d", PART, &[(1, &linear("pv0", 1))])
        + &volume("v", VISIBLE, &[(1, &linear("pv0", 2))])
        + &volume("s", PART, &[(1, &linear("pv0", 3))])
        + &volume("snapshot0", VISIBLE, &[(1, snapshot)])
        + &volume("lvol0_pmspare", PART, &[(1, &linear("pv0", 4))]);
    assert!(refusal(&volumes, "p").contains("p is a thin pool, and no disk"));
    assert!(refusal(&volumes, "m").contains("m is a part of the volume p"));
    assert!(refusal(&volumes, "snapshot0").contains("the description of a snapshot"));
    assert!(refusal(&volumes, "lvol0_pmspare").contains("a hidden volume"));
    assert_eq!(assembled(&volumes, &[]).volume_names(), ["v", "s"]);
}

proptest! {
    #[test]
    fn no_numbers_panic(
        extents: [u32; 3],
        places in prop::collection::vec((0_usize..5, any::<u32>()), 1..4),
        stripe in 0_u64..40,
    ) {
        let names = ["pv0", "pv1", "w", "v", "x"];
        let small = |number: u32| if number.is_multiple_of(3) { u64::from(number) } else { u64::from(number % 20) };
        let areas: Vec<(&str, u64)> = places.iter().map(|(on, extent)| (names[*on], small(*extent))).collect();
        let volumes = volume("v", VISIBLE, &[(small(extents[0]), &striped(stripe, &areas)), (small(extents[1]), &linear("w", 0))])
            + &volume("w", PART, &[(small(extents[2]), &linear("pv1", 3))]);
        if let Ok(opened) = open(&volumes, &[], "v") {
            prop_assert!(opened.uses.iter().all(|used| used.range.end() <= DISK_LEN));
        }
    }
}
