//! Any bytes as what is found on disks of others: md superblocks and bitmaps, LVM labels, metadata areas
//! and their text. The report must stay within bounds, and making it must not panic. A checksum that is wrong
//! is put right, so that what lies behind it is met too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nodes::array::format::{MEMBERS_MAX, Version, bitmap::Bitmap, layout_name};
use nodes::volume::format::{self as volume, Header, TEXT_MAX, VolumeGroup, text, text_place};
use outboard_fuzz::decode_mended;

fuzz_target!(|input: (u8, u64, &[u8])| {
    let (choice, at, bytes) = input;
    match choice % 5 {
        0 => superblock(at % (1 << 50), bytes),
        1 => {
            let _told = Bitmap::decode(bytes);
        }
        2 => label(bytes),
        3 => area(at, bytes),
        _ => group(&String::from_utf8_lossy(bytes)),
    }
});

fn superblock(at: u64, bytes: &[u8]) {
    let versions = [
        Version::V0_90 { big_endian: false },
        Version::V1_0,
        Version::V1_1,
        Version::V1_2,
    ];
    for version in versions {
        // The place is the requested one, so that more than the first checks is reached; no disk has one
        // behind this.
        let asked = bytes.get(144..152).map_or(at, |place| {
            let place = place.try_into().expect("eight bytes");
            u64::from_le_bytes(place).wrapping_mul(512) & i64::MAX.cast_unsigned()
        });
        for at in [at, asked] {
            let Ok(Some((found, _))) = decode_mended(version, at, bytes) else {
                continue;
            };
            assert!(found.members <= MEMBERS_MAX && found.roles.len() <= MEMBERS_MAX as usize);
            let working = found.working();
            assert_eq!(working.len(), found.members as usize);
            let _told = (found.array_size(), found.fits(at), found.unknown_features());
            let _told = found.level.survives(found.layout, &working);
            let _told = layout_name(found.level, found.layout);
        }
    }
}

fn label(bytes: &[u8]) {
    let Err(volume::VolumeProblem::Checksum { computed, .. }) = Header::decode(bytes) else {
        return;
    };
    let mut sectors = bytes.chunks(512);
    let label = sectors.position(|sector| sector.starts_with(b"LABELONE") && sector.len() == 512);
    let at = label.expect("it has a checksum") * 512 + 16;
    let mut mended = bytes.to_vec();
    mended[at..at + 4].copy_from_slice(&computed.to_le_bytes());
    let Ok(Some(header)) = Header::decode(&mended) else {
        return;
    };
    for area in header.data_areas.iter().chain(&header.metadata_areas) {
        assert!(area.offset.checked_add(area.len).is_some());
    }
}

fn area(at: u64, bytes: &[u8]) {
    let area = block::Range::new(at % (1 << 60), 1 << 20);
    let Some((header, text)) = bytes.split_at_checked(512) else {
        return;
    };
    let mut header = header.to_vec();
    // The area itself is right, and so is its checksum; the description of the text is not.
    header[24..32].copy_from_slice(&area.offset.to_le_bytes());
    header[32..40].copy_from_slice(&area.len.to_le_bytes());
    if let Err(volume::VolumeProblem::Checksum { computed, .. }) = text_place(area, &header) {
        header[..4].copy_from_slice(&computed.to_le_bytes());
    }
    let Ok(Some(place)) = text_place(area, &header) else {
        return;
    };
    let len: u64 = place.pieces().map(|piece| piece.len).sum();
    assert!(len <= TEXT_MAX);
    let _told = place.decode(text);
}

fn group(told: &str) {
    let _told = text::parse(told);
    let Ok(group) = VolumeGroup::of(told) else {
        return;
    };
    assert!(group.free() <= group.size());
    for volume in &group.volumes {
        let _told = (volume.kind(), volume.is_visible(), volume.extents());
        for piece in group.pieces(volume).unwrap_or_default() {
            assert!(piece.range.offset.checked_add(piece.range.len).is_some());
        }
    }
}
