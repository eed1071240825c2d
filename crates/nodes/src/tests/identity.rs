//! Which disk a composed disk is: the same for the same disks in the same order, and another one else.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Identity, Node, Range};
use testkit::{CrashDisk, MemDisk};

use crate::{Blocks, Delay, DelayTimes, Linear, Memory, Null, ReadAhead, Segment, Stripe};

const MIB: u64 = 1 << 20;

fn disk() -> Node {
    Arc::new(MemDisk::new(MIB))
}

/// A disk that nothing is known of.
fn unknown() -> Node {
    Arc::new(CrashDisk::from_bytes(vec![0; 1 << 20]))
}

fn linear(segments: &[(&Node, u64, u64)]) -> Option<Identity> {
    let segments = segments.iter().map(|(disk, offset, len)| Segment {
        disk: (*disk).clone(),
        range: Range::new(*offset, *len),
    });
    Linear::new(segments.collect()).unwrap().identity()
}

fn stripe(disks: &[&Node], chunk: u64) -> Option<Identity> {
    let segments = disks.iter().map(|disk| Segment::whole((*disk).clone()));
    Stripe::new(segments.collect(), chunk).unwrap().identity()
}

#[test]
fn a_disk_that_answers_otherwise_is_the_disk_below() {
    let child = disk();
    let times = DelayTimes {
        read: Duration::from_millis(1),
        ..DelayTimes::default()
    };
    let others: [Node; 3] = [
        Arc::new(Blocks::new(child.clone(), 4096).unwrap()),
        Arc::new(Delay::new(child.clone(), times)),
        Arc::new(ReadAhead::new(child.clone(), 1 << 20).unwrap()),
    ];
    assert!(child.identity().is_some());
    for other in others {
        assert_eq!(other.identity(), child.identity());
    }
}

#[test]
fn a_composed_disk_is_identified_by_its_disks_their_order_and_layout() {
    let (a, b) = (disk(), disk());
    let both = linear(&[(&a, 0, MIB), (&b, 0, MIB)]);
    assert!(both.is_some());
    assert_eq!(both, linear(&[(&a, 0, MIB), (&b, 0, MIB)]));
    let others = [
        linear(&[(&b, 0, MIB), (&a, 0, MIB)]),
        linear(&[(&a, 0, MIB)]),
        linear(&[(&a, 4096, MIB - 4096), (&b, 0, MIB)]),
        linear(&[(&a, 0, MIB - 4096), (&b, 0, MIB)]),
        stripe(&[&a, &b], 65_536),
        stripe(&[&a, &b], 131_072),
        stripe(&[&b, &a], 65_536),
    ];
    for (at, other) in others.iter().enumerate() {
        assert!(other.is_some() && *other != both, "{at}");
        assert!(!others[..at].contains(other), "{at}");
    }
    // A disk is the same one after its last part has grown.
    assert_eq!(linear(&[(&a, 0, MIB), (&b, 0, 4096)]), both);
}

#[test]
fn what_is_not_known_of_a_part_is_not_known_of_the_whole() {
    let (known, unknown) = (disk(), unknown());
    assert_eq!(linear(&[(&known, 0, MIB), (&unknown, 0, MIB)]), None);
    assert_eq!(stripe(&[&unknown, &known], 65_536), None);
}

#[test]
fn each_disk_in_memory_is_another_one_and_what_keeps_nothing_is_always_the_same() {
    assert_ne!(Memory::new(MIB).identity(), Memory::new(MIB).identity());
    assert_eq!(Null::new(MIB).identity(), Null::new(2 * MIB).identity());
}
