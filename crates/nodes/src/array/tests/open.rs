//! Tests of opening: that nothing is written where an array is refused or only read, and what is reported.

use std::sync::Arc;

use block::{BlockDevice, Node, Range};
use testkit::{Effect, Fault, FaultDisk, MemDisk, block_on};

use super::super::format::{Level, Version, encode, places};
use super::super::{ArrayOptions, Candidate, open};
use super::striped::superblock;

/// Disks as members, called `a`, `b`…
pub(super) fn candidates(disks: &[Node]) -> Vec<Candidate> {
    let candidate = |(letter, disk): (char, &Node)| Candidate::local(letter, disk.clone());
    ('a'..).zip(disks).map(candidate).collect()
}

/// Disks with these superblocks at the place of version 1.2.
fn disks(bytes: &[Vec<u8>]) -> Vec<Arc<MemDisk>> {
    let disk = |bytes: &Vec<u8>| {
        let mut image = vec![0; 1 << 17];
        image[4096..4096 + bytes.len()].copy_from_slice(bytes);
        Arc::new(MemDisk::from_bytes(image))
    };
    bytes.iter().map(disk).collect()
}

fn nodes(disks: &[Arc<MemDisk>]) -> Vec<Node> {
    disks.iter().map(|disk| disk.clone() as Node).collect()
}

/// A linear array with members that are changed before it is opened, and why it is not opened. Nothing is
/// written.
fn refusal(change: impl FnOnce(&mut Vec<Vec<u8>>)) -> (String, String) {
    let blocks = (0..3).map(|number| encode(&superblock(Level::Linear, number), 4096));
    let mut blocks: Vec<_> = blocks.collect();
    change(&mut blocks);
    let disks = disks(&blocks);
    let before: Vec<_> = disks.iter().map(|disk| disk.snapshot()).collect();
    let opened = block_on(open(candidates(&nodes(&disks)), ArrayOptions::default()));
    let error = opened.map_or_else(|error| error, |array| panic!("{array:?}"));
    let after: Vec<_> = disks.iter().map(|disk| disk.snapshot()).collect();
    assert!(before == after, "what is refused is not written");
    let next = error.next().unwrap_or_default().to_owned();
    (error.to_string(), next)
}

#[test]
fn a_disk_without_a_superblock_is_no_member() {
    let (why, next) = refusal(|blocks| blocks[1].fill(0));
    assert!(why.contains("b has no md superblock"), "{why}");
    assert!(next.contains("outboard inspect"), "{next}");
}

#[test]
fn a_damaged_superblock_is_reported_with_its_place() {
    let (why, next) = refusal(|blocks| blocks[2][100] ^= 1);
    assert!(
        why.contains("the superblock 1.2 of c is damaged: its checksum is wrong"),
        "{why}"
    );
    assert!(next.contains("missing"), "{next}");
}

#[test]
fn what_the_rules_refuse_is_refused() {
    let (why, _) = refusal(|blocks| drop(blocks.pop()));
    assert!(
        why.contains("(linear) needs more than the 2 of its 3 members"),
        "{why}"
    );
}

#[test]
fn firmware_raid_is_refused_by_name() {
    for (at, mark, name) in [
        (
            1024,
            b"Intel Raid ISM Cfg Sig. ".as_slice(),
            "Intel's firmware RAID (IMSM)",
        ),
        (512, &[0xde, 0x11, 0xde, 0x11], "firmware RAID (DDF)"),
    ] {
        let mut image = vec![0; 1 << 17];
        let at = image.len() - at;
        image[at..at + mark.len()].copy_from_slice(mark);
        let disk: Node = Arc::new(MemDisk::from_bytes(image));
        let opened = block_on(open(candidates(&[disk]), ArrayOptions::default()));
        let error = opened.unwrap_err();
        assert_eq!(error.to_string(), format!("a is a member of {name}"));
    }
}

#[test]
fn a_member_that_cannot_be_read_is_named() {
    let disks = disks(&[encode(&superblock(Level::Linear, 0), 4096)]);
    let fault = Fault::new(Effect::Fail(block::Errno::Io)).on(block::Operation::Read);
    let bad: Node = FaultDisk::new(disks[0].clone(), 1, vec![fault]);
    let error = block_on(open(candidates(&[bad]), ArrayOptions::default())).unwrap_err();
    assert!(
        error.to_string().starts_with("a cannot be read: "),
        "{error}"
    );
}

#[test]
fn a_bad_sector_where_another_version_has_its_superblock_is_no_reason_to_refuse_a_member() {
    let of = superblock(Level::Linear, 0);
    let blocks: Vec<_> = (0..3)
        .map(|number| encode(&superblock(Level::Linear, number), 4096))
        .collect();
    for (version, at) in places(1 << 17) {
        let disks = disks(&blocks);
        let place = Range::new(at + 512, 512);
        let read = Fault::new(Effect::Fail(block::Errno::Io)).on(block::Operation::Read);
        let bad: Node = FaultDisk::new(disks[1].clone(), 1, vec![read.at(place)]);
        let nodes = [disks[0].clone() as Node, bad, disks[2].clone()];
        let opened = block_on(open(candidates(&nodes), ArrayOptions::default()));
        match version == of.version {
            true => {
                let error = opened.unwrap_err().to_string();
                assert!(error.starts_with("b cannot be read: "), "{error}");
            }
            false => {
                let size = opened.unwrap().geometry().size;
                assert!(size > 0, "{version}");
            }
        }
    }
}

#[test]
fn opening_to_read_writes_nothing() {
    for level in [Level::Linear, Level::Raid0] {
        let blocks: Vec<_> = (0..3)
            .map(|n| encode(&superblock(level, n), 4096))
            .collect();
        let disks = disks(&blocks);
        let before: Vec<_> = disks.iter().map(|disk| disk.snapshot()).collect();
        let options = ArrayOptions {
            read_only: true,
            ..ArrayOptions::default()
        };
        let array = block_on(open(candidates(&nodes(&disks)), options)).unwrap();
        let size = array.geometry().size;
        block_on(array.read(Range::new(0, size))).unwrap();
        block_on(array.flush()).unwrap();
        block_on(array.stop()).unwrap();
        let after: Vec<_> = disks.iter().map(|disk| disk.snapshot()).collect();
        assert!(before == after);
    }
}

#[test]
fn a_member_that_is_preferred_must_be_here() {
    let disks = disks(&[encode(&superblock(Level::Linear, 0), 4096)]);
    let mut candidates = candidates(&nodes(&disks));
    candidates.push(Candidate {
        name: "nbd://far".to_owned(),
        disk: None,
        remote: true,
        reopen: None,
    });
    let options = ArrayOptions {
        prefer: Some(1),
        ..ArrayOptions::default()
    };
    let error = block_on(open(candidates, options)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nbd://far is preferred and cannot be reached"
    );
}

#[test]
fn superblocks_of_every_version_make_an_array() {
    for version in [
        Version::V0_90 { big_endian: false },
        Version::V1_0,
        Version::V1_1,
        Version::V1_2,
    ] {
        let size = 1 << 20;
        let places = places(size);
        let same =
            |found: &Version| std::mem::discriminant(found) == std::mem::discriminant(&version);
        let (_, at) = places.into_iter().find(|(found, _)| same(found)).unwrap();
        let disks: Vec<Node> = (0..3)
            .map(|number| {
                let mut of = superblock(Level::Linear, number);
                of.version = version;
                if let Version::V0_90 { .. } = version {
                    (of.device, of.name) = (None, "127".to_owned());
                    of.roles.truncate(27);
                    of.data = Range::new(0, at);
                }
                if version == Version::V1_0 {
                    of.data = Range::new(0, 1 << 19);
                }
                let bytes = encode(&of, at);
                let mut image = vec![0; usize::try_from(size).unwrap()];
                let start = usize::try_from(at).unwrap();
                image[start..start + bytes.len()].copy_from_slice(&bytes);
                Arc::new(MemDisk::from_bytes(image)) as Node
            })
            .collect();
        let array = block_on(open(candidates(&disks), ArrayOptions::default())).unwrap();
        assert_eq!(array.status().version, version);
    }
}
