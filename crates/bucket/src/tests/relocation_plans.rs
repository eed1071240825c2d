//! Which objects are vacated, and requests as bytes. Pure.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::format::{BLOCK, DataObject, RelocationProgress, RelocationRequest};
use crate::relocation_plan::{RelocatedPart, RelocationPlan};

const fn object(number: u64) -> DataObject {
    DataObject {
        generation: 2,
        number,
    }
}

fn part(percent: u8) -> RelocatedPart {
    RelocatedPart::new(percent).expect("1 to 100")
}

/// Objects with these blocks, of which so many are used.
fn plan(objects: &[(u64, u64)], held: &[u64], percent: u8) -> RelocationPlan {
    let numbered = || (0..).map(object).zip(objects);
    let listed = numbered().map(|(name, (blocks, _))| (name, blocks * BLOCK));
    let used = numbered().map(|(name, (_, used))| (name, used * BLOCK));
    let used: BTreeMap<_, _> = used.filter(|(_, used)| *used > 0).collect();
    let is_held = |name: &DataObject| held.contains(&name.number);
    let used = |name: &DataObject| used.get(name).copied();
    RelocationPlan::of(&listed.collect(), used, is_held, part(percent))
}

#[test]
fn objects_below_the_part_are_vacated_that_are_used_and_not_held() {
    // Unused, half used, three quarters, all; the fifth one is held by a snapshot.
    let objects = [(100, 0), (100, 50), (100, 75), (100, 100), (100, 1)];
    let found = plan(&objects, &[4], 75);
    assert_eq!(found.objects.into_iter().collect::<Vec<_>>(), [object(1)]);
    assert_eq!((found.bytes, found.used), (100 * BLOCK, 50 * BLOCK));
    let found = plan(&objects, &[], 100);
    let numbers: Vec<u64> = found.objects.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [1, 2, 4]);
    assert!(plan(&objects, &[4], 50).objects.is_empty());
}

#[test]
fn a_part_is_one_to_a_hundred_percent() {
    assert_eq!(RelocatedPart::new(0), None);
    assert_eq!(RelocatedPart::new(101), None);
    assert_eq!(RelocatedPart::default().percent(), 75);
}

proptest! {
    /// Nothing that the volume does not use counts: a collection deletes it.
    #[test]
    fn what_is_left_is_at_most_what_the_part_allows(
        objects in proptest::collection::vec((1_u64..2049, 0_u64..2049), 1..50),
        percent in 1_u8..=100,
    ) {
        let objects = objects.into_iter().map(|(blocks, used)| (blocks, used.min(blocks)));
        let objects: Vec<(u64, u64)> = objects.collect();
        let found = plan(&objects, &[], percent);
        let of_used = objects.iter().filter(|(_, used)| *used > 0);
        let all: u64 = of_used.clone().map(|(blocks, _)| blocks * BLOCK).sum();
        let used: u64 = of_used.map(|(_, used)| used * BLOCK).sum();
        let left = all - found.bytes + found.used;
        prop_assert!(left * u64::from(percent) <= used * 100);
    }
}

#[test]
fn a_request_is_read_as_it_was_written() {
    let request = RelocationRequest {
        objects: [object(7), object(9)].into(),
        progress: RelocationProgress { runs: 3, blocks: 4 },
        problem: Some("a block is gone".to_owned()),
    };
    assert_eq!(RelocationRequest::decode(&request.encode()), Ok(request));
}

#[test]
fn what_is_no_request_of_this_version_is_refused() {
    let request = RelocationRequest {
        objects: [object(7)].into(),
        ..RelocationRequest::default()
    };
    let text = String::from_utf8(request.encode()).unwrap();
    for (from, to, why) in [
        (
            "outboard relocation",
            "outboard collection",
            "its format is not",
        ),
        ("\"version\": 1", "\"version\": 2", "it has version 2"),
        ("00000002-", "2-", "is the name of no data object"),
        ("\"progress\"", "\"progres\"", "missing field"),
    ] {
        let other = text.replace(from, to);
        assert_ne!(other, text);
        let error = RelocationRequest::decode(other.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    assert!(RelocationRequest::decode(b"").is_err());
}
