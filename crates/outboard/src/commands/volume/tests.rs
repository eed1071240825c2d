//! Tests of what users write, and of how large filesystems are.

use super::amount::{AmountArgs, AmountBase, AmountSign, Extents};
use super::filesystem::{VolumeContent, identify};
use super::volume_path::{GroupPath, VolumePath};

/// A command line with the two options.
#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    amount: AmountArgs,
}

fn extents(words: &[&str]) -> Option<Extents> {
    let words = std::iter::once(&"x").chain(words);
    let line: Line = clap::Parser::try_parse_from(words).ok()?;
    let base = AmountBase {
        extent: 4 << 20,
        free: 150,
    };
    line.amount.extents(base).ok()
}

#[test]
fn sizes_become_whole_extents() {
    let of = |sign, count| Some(Extents { sign, count });
    assert_eq!(extents(&["--size", "600M"]), of(AmountSign::Total, 150));
    assert_eq!(extents(&["-L", "+1"]), of(AmountSign::More, 1));
    assert_eq!(extents(&["-L", "-4097K"]), of(AmountSign::Less, 2));
    assert_eq!(extents(&["--size=-8M"]), of(AmountSign::Less, 2));
    assert_eq!(extents(&["-l", "7"]), of(AmountSign::Total, 7));
    assert_eq!(
        extents(&["--extents", "+50%FREE"]),
        of(AmountSign::More, 75)
    );
    assert_eq!(extents(&["-l", "100%free"]), of(AmountSign::Total, 150));
    for wrong in [
        &["-l", "0%FREE"][..],
        &["-l", "101%FREE"],
        &["-l", "50%VG"],
        &["-l", "x"],
        &["-L", "x"],
        &["-L", "1G", "-l", "1"],
        &[],
    ] {
        assert_eq!(extents(wrong), None, "{wrong:?}");
    }
}

#[test]
fn volumes_are_written_as_lvm_has_them() {
    let path: VolumePath = "/dev/vg0/media".parse().unwrap();
    assert_eq!(path.to_string(), "vg0/media");
    assert!("vg0".parse::<VolumePath>().is_err());
    assert!("vg0/".parse::<VolumePath>().is_err());
    assert!("vg0/a/b".parse::<VolumePath>().is_err());
    let path: GroupPath = "vg0".parse().unwrap();
    assert_eq!(path.volume, None);
    let path: GroupPath = "vg0/a".parse().unwrap();
    assert_eq!(path.volume.as_deref(), Some("a"));
    assert!("a.img/".parse::<GroupPath>().is_err());
}

fn size(start: &[u8]) -> Option<u64> {
    match identify(start) {
        VolumeContent::Known { size, .. } => Some(size),
        _ => None,
    }
}

#[test]
fn filesystems_say_how_large_they_are() {
    let empty = vec![0; 128 << 10];
    assert_eq!(identify(&empty), VolumeContent::Unknown);
    assert_eq!(identify(&[]), VolumeContent::Unknown);
    let put = |at: usize, bytes: &[u8]| {
        let mut start = empty.clone();
        start[at..at + bytes.len()].copy_from_slice(bytes);
        start
    };
    let mut ext = put(1024 + 56, &[0x53, 0xef]);
    ext[1028..1032].copy_from_slice(&5000_u32.to_le_bytes());
    ext[1024 + 24] = 2;
    assert_eq!(size(&ext), Some(5000 * 4096));
    // The high half counts only with its feature.
    ext[1024 + 0x150] = 1;
    assert_eq!(size(&ext), Some(5000 * 4096));
    ext[1024 + 96] = 0x80;
    assert_eq!(size(&ext), Some((5000 + (1 << 32)) * 4096));
    ext[1024 + 27] = 0xff;
    assert_eq!(size(&ext), None, "such blocks cannot be");
    let mut xfs = put(0, b"XFSB");
    xfs[4..8].copy_from_slice(&4096_u32.to_be_bytes());
    xfs[8..16].copy_from_slice(&77_u64.to_be_bytes());
    assert_eq!(size(&xfs), Some(77 * 4096));
    let mut swap = put(4096 - 10, b"SWAPSPACE2");
    swap[1028..1032].copy_from_slice(&99_u32.to_le_bytes());
    assert_eq!(size(&swap), Some(100 * 4096));
    let mut btrfs = put(65_536 + 0x40, b"_BHRfS_M");
    btrfs[65_536 + 0xd1..65_536 + 0xd9].copy_from_slice(&123_456_u64.to_le_bytes());
    assert_eq!(size(&btrfs), Some(123_456));
    let luks = put(0, b"LUKS\xba\xbe\0\x02");
    assert!(matches!(identify(&luks), VolumeContent::Opaque(_)));
    for len in [0, 1, 1024, 1080, 1100, 4096, 65_600, 65_700] {
        for start in [&ext, &xfs, &swap, &btrfs] {
            let _content = identify(&start[..len]);
        }
    }
}
