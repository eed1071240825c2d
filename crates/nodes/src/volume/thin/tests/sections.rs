//! Sections against a plain map.

use std::collections::BTreeMap;

use fastrand::Rng;
use proptest::prelude::*;

use super::super::sections::{ChunkRun, SECTION_CHUNKS, Section, SectionBuilder};

/// Largest data chunk of a mapping.
const DATA_MAX: u64 = (1 << 40) - 1;

fn build(mappings: &BTreeMap<u64, u64>) -> Section {
    let mut builder = SectionBuilder::default();
    for (chunk, data) in mappings {
        builder.push(*chunk, *data);
    }
    builder.build()
}

/// The answer by a plain map.
fn find(mappings: &BTreeMap<u64, u64>, index: u64, wanted: u64) -> ChunkRun {
    let data = mappings.get(&index).copied();
    let follows = |behind: &u64| {
        let found = mappings.get(&(index + behind)).copied();
        found == data.map(|data| data + behind)
    };
    let limit = wanted.min(SECTION_CHUNKS - index);
    let chunks = (0..limit).take_while(follows).count() as u64;
    ChunkRun { data, chunks }
}

fn random(rng: &mut Rng) -> BTreeMap<u64, u64> {
    let base = *[0, u64::from(u32::MAX) - 300, DATA_MAX - 600]
        .get(rng.usize(0..3))
        .unwrap();
    let (gaps, jumps) = (rng.u8(..), rng.u8(..));
    let mut mappings = BTreeMap::new();
    let mut data = base;
    for chunk in 0..SECTION_CHUNKS {
        data = if rng.u8(..) < jumps {
            base + rng.u64(0..600)
        } else {
            (data + 1).min(DATA_MAX)
        };
        if rng.u8(..) >= gaps {
            mappings.insert(chunk, data);
        }
    }
    mappings
}

proptest! {
    #[test]
    fn a_section_answers_as_a_plain_map_does(seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let mappings = random(&mut rng);
        let section = build(&mappings);
        for index in 0..SECTION_CHUNKS {
            let wanted = rng.u64(1..=600);
            prop_assert_eq!(section.find(index, wanted), find(&mappings, index, wanted));
        }
    }
}

#[test]
fn a_section_in_order_is_one_run_and_a_shuffled_one_a_table() {
    let in_order = (0..SECTION_CHUNKS)
        .map(|chunk| (chunk, 77 + chunk))
        .collect();
    assert!(matches!(build(&in_order), Section::Runs(runs) if runs.len() == 1));
    let backwards = (0..SECTION_CHUNKS)
        .map(|chunk| (chunk, 5000 - chunk))
        .collect();
    assert!(matches!(build(&backwards), Section::Table(_)));
    let far = |chunk| (chunk, u64::from(u32::MAX) + 5000 - chunk);
    let far_away = (0..SECTION_CHUNKS).map(far).collect();
    assert!(matches!(build(&far_away), Section::Runs(runs) if runs.len() == 512));
    assert!(matches!(build(&BTreeMap::new()), Section::Runs(runs) if runs.is_empty()));
}
