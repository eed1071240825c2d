//! Tests of LVM's formats, on what LVM 2.03.16 wrote and on hostile input.

use proptest::prelude::*;

use super::text::{DEPTH_MAX, Section, parse};
use super::{
    AREA_HEADER_LEN, Header, PhysicalRange, TEXT_MAX, VolumeGroup, VolumeProblem, checksum,
    text_place,
};
use block::Range;

/// The first 12 KiB of the three physical volumes of `vg0`. See `fixtures/README.md`.
pub(crate) const FIXTURES: [&[u8]; 3] = [
    include_bytes!("../../../../fixtures/lvm/pv0.bin"),
    include_bytes!("../../../../fixtures/lvm/pv1.bin"),
    include_bytes!("../../../../fixtures/lvm/pv2.bin"),
];
const AREA: Range = Range {
    offset: 4096,
    len: 1_044_480,
};

/// Writes the right checksum into the header of an area.
pub(crate) fn seal_area(header: &mut [u8]) {
    let sum = checksum(&header[4..512]);
    header[..4].copy_from_slice(&sum.to_le_bytes());
}

fn group() -> VolumeGroup {
    let start = FIXTURES[0];
    let place = text_place(AREA, &start[4096..4096 + 512]).unwrap().unwrap();
    let bytes: Vec<u8> = place
        .pieces()
        .flat_map(|piece| {
            let from = usize::try_from(piece.offset).unwrap();
            start[from..from + piece.len_usize()].to_vec()
        })
        .collect();
    place.decode(&bytes).unwrap()
}

#[test]
fn the_checksum_is_that_of_lvm() {
    // A CRC-32 of nothing is what it begins with.
    assert_eq!(checksum(b""), 0xf597_a6cf);
    let label = &FIXTURES[0][512..1024];
    assert_eq!(checksum(&label[20..]).to_le_bytes(), label[16..20]);
}

#[test]
fn a_header_lists_where_data_and_metadata_are() {
    let header = Header::decode(FIXTURES[0]).unwrap().unwrap();
    assert_eq!(header.data_areas, [Range::new(1 << 20, 0)]);
    assert_eq!(header.metadata_areas, [AREA]);
}

#[test]
fn an_old_header_does_not_say_whether_it_is_used() {
    let mut start = FIXTURES[0].to_vec();
    start[512 + 136..1024].fill(0);
    let sum = checksum(&start[512 + 20..1024]);
    start[512 + 16..512 + 20].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(Header::decode(&start).unwrap().unwrap().used, None);
}

#[test]
fn a_group_has_the_sizes_that_vgs_and_lvs_print() {
    let group = group();
    assert_eq!(group.size(), 188_743_680);
    assert_eq!(group.free(), 92_274_688);
    assert_eq!(group.extent, 4 << 20);
    assert_eq!(group.status, ["RESIZEABLE", "READ", "WRITE"]);
    let told = group.volumes.iter().map(|volume| {
        let size = group.bytes(volume.extents());
        (
            volume.name.as_str(),
            volume.kind(),
            size,
            volume.is_visible(),
        )
    });
    let told: Vec<_> = told.collect();
    let mib = 1 << 20;
    assert_eq!(
        told,
        [
            ("media", "linear", 68 * mib, true),
            ("fast", "striped", 24 * mib, true)
        ]
    );
}

#[test]
fn a_linear_volume_lies_where_lvs_says() {
    let group = group();
    let extent = |member: usize, extent: u64, count: u64| PhysicalRange {
        member: group.members[member].id.clone(),
        range: Range::new((1 << 20) + extent * (4 << 20), count * (4 << 20)),
    };
    let media = group.pieces(&group.volumes[0]).unwrap();
    assert_eq!(media, [extent(0, 0, 5), extent(0, 7, 8), extent(1, 2, 4)]);
    assert_eq!(group.pieces(&group.volumes[1]), None, "it is striped");
}

#[test]
fn a_text_that_cannot_be_says_where() {
    for (text, line) in [
        ("a = ", 1),
        ("a {\n b = 1\n", 3),
        ("a = 1\n}\n", 2),
        ("a = \"b\nc", 2),
        ("a = [1 2]", 1),
        ("\n\n= 1", 3),
        ("a 1", 1),
        ("a = 99999999999999999999", 1),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error}");
    }
    let deep = "a { ".repeat(usize::try_from(DEPTH_MAX).unwrap() + 1);
    assert_eq!(
        parse(&deep).unwrap_err().what,
        "sections are nested too deep"
    );
    let deep = format!("a = {}", "[".repeat(1000));
    assert_eq!(parse(&deep).unwrap_err().what, "lists are nested too deep");
}

#[test]
fn a_text_keeps_quotes_remarks_and_lists() {
    let text = "a { # b = 1\n c = \"x \\\" # y\" \"d\" = -7 e = [ \"f\", 2, [], ] }";
    let root = parse(text).unwrap();
    let a = root.section("a").unwrap();
    assert_eq!(a.text("c"), Some("x \" # y"));
    assert_eq!(a.number("d"), None, "it is below zero");
    assert_eq!(a.texts("e"), ["f"]);
    assert_eq!(a.list("e").unwrap().len(), 3);
    assert_eq!(root.section("b"), None::<&Section>);
}

/// A whole area with a place of text as given.
fn area_header(offset: u64, len: u64) -> Vec<u8> {
    let mut header = FIXTURES[0][4096..4096 + 512].to_vec();
    header[40..48].copy_from_slice(&offset.to_le_bytes());
    header[48..56].copy_from_slice(&len.to_le_bytes());
    seal_area(&mut header);
    header
}

#[test]
fn a_text_lies_within_its_ring() {
    let problem = |offset, len| text_place(AREA, &area_header(offset, len)).is_err();
    assert!(!problem(512, 100));
    assert!(!problem(AREA.len - 1, AREA.len - 512));
    assert!(problem(511, 100));
    assert!(problem(AREA.len, 100));
    assert!(problem(512, AREA.len - 511));
    assert!(problem(512, TEXT_MAX + 1));
    assert_eq!(
        text_place(AREA, &area_header(0, 0)),
        Ok(None),
        "nothing was written yet"
    );
    assert_eq!(text_place(AREA, &[0; 12]), Err(VolumeProblem::Cut));
    let at = AREA.offset;
    assert_eq!(
        text_place(AREA, &[0; 512]),
        Err(VolumeProblem::NoArea { at })
    );
}

proptest! {
    #[test]
    fn the_pieces_of_a_text_are_as_long_as_it_is(offset in 512..AREA.len, len in 0..AREA.len - 512) {
        let place = text_place(AREA, &area_header(offset, len)).unwrap().unwrap();
        let pieces: Vec<Range> = place.pieces().collect();
        prop_assert_eq!(pieces.iter().map(|piece| piece.len).sum::<u64>(), len);
        let ring = Range::new(AREA.offset + AREA_HEADER_LEN, AREA.len - AREA_HEADER_LEN);
        prop_assert!(pieces.iter().all(|p| p.offset >= ring.offset && p.end() <= ring.end()));
        prop_assert!(pieces.windows(2).all(|two| !two[0].overlaps(&two[1])));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048), areas: [u64; 4]) {
        let _told = Header::decode(&bytes);
        let mut start = vec![0; 2048];
        start[512..1024].copy_from_slice(&FIXTURES[0][512..1024]);
        for (place, value) in [72, 80, 104, 112].into_iter().zip(areas) {
            start[512 + place..512 + place + 8].copy_from_slice(&value.to_le_bytes());
        }
        let sum = checksum(&start[512 + 20..1024]);
        start[512 + 16..512 + 20].copy_from_slice(&sum.to_le_bytes());
        if let Ok(Some(header)) = Header::decode(&start) {
            prop_assert!(header.metadata_areas.iter().all(|area| area.end() <= i64::MAX as u64));
        }
    }

    #[test]
    fn no_text_panics(text in "([a-z]{1,3}( = |\\{|\\}|\"|\\[|\\]|,|#|\n|[0-9]{1,20}|-| ){1,2}){0,60}") {
        let _told = parse(&text);
        let _told = VolumeGroup::of(&text);
    }

    #[test]
    fn a_group_of_any_numbers_has_sizes(numbers: [u32; 6], extra in 0_u64..u64::MAX / 2) {
        let [extent, start, count, first, extents, seq] = numbers;
        let text = format!(
            "contents = \"Text Format Volume Group\" v {{ id = \"i\" seqno = {seq} extent_size = {extent}
             physical_volumes {{ pv0 {{ id = \"p\" pe_start = {start} pe_count = {extra} dev_size = {count} }} }}
             logical_volumes {{ l {{ id = \"l\" segment1 {{ start_extent = {first} extent_count = {extents}
             type = \"striped\" stripe_count = 1 stripes = [ \"pv0\", {extra} ] }} }} }} }}"
        );
        if let Ok(group) = VolumeGroup::of(&text) {
            let _told = (group.size(), group.free(), group.pieces(&group.volumes[0]));
        }
    }
}
