//! The figures of the study of a slow NAS (C of the lab's references), and what its author found by hand.
//! He had no figure of the processors of either end, so the doctor may not invent one. He measured past the
//! page cache.

use super::*;
use crate::units::BitRate;

/// SSH encrypts.
const OVER_SSH: [Stage; 6] = [
    Stage::Client,
    Stage::Cipher,
    Stage::Protocol,
    Stage::Wire,
    Stage::Server,
    Stage::Disk,
];

/// 940 Mb/s by netcat and iperf3.
fn wire() -> Bound {
    let bits = BitRate::from_mbit(940).bytes_per_second();
    Bound::alone(Stage::Wire, bits, "iperf3")
}

#[test]
fn cifs_is_held_by_the_wire() {
    let mut reading = way(&REMOTE, 90.2);
    reading.bounds = vec![wire(), alone(Stage::Disk, 85.6)];
    let mut writing = way(&REMOTE, 94.2);
    writing.job.direction = Direction::Write;
    writing.bounds = vec![wire(), alone(Stage::Disk, 115.0)];
    for examination in [&reading, &writing] {
        let verdict = diagnose(examination);
        assert_eq!(verdict.limiter, [Stage::Wire], "{verdict:#?}");
        assert_eq!(verdict.ground, VerdictBasis::Bound);
    }
    // 90.2 is more than the disk did alone, so 85.6 was no ceiling: caches answer on the way.
    assert!(
        diagnose(&reading)
            .evidence
            .iter()
            .any(|line| line.contains("was passed"))
    );
    let next = diagnose(&writing).next.unwrap();
    assert_eq!(next.part, Some(Stage::Disk));
    assert!((next.rate.mib() - 115.0).abs() < 1e-9);
}

#[test]
fn sshfs_is_held_by_its_protocol_and_processor_time_and_not_by_wire_or_disk() {
    let mut sshfs = way(&OVER_SSH, 56.3);
    sshfs.bounds = vec![wire(), alone(Stage::Disk, 85.6)];
    sshfs.substitutions = vec![
        // With RAM behind it, it was the same 56 MB/s.
        without(&[Stage::Disk], 56.3),
        // CIFS to the same directory over the same cable.
        without(
            &[Stage::Client, Stage::Cipher, Stage::Protocol, Stage::Server],
            90.2,
        ),
    ];
    let verdict = diagnose(&sshfs);
    let left = [Stage::Client, Stage::Cipher, Stage::Protocol, Stage::Server];
    assert_eq!(verdict.limiter, left, "{verdict:#?}");
    assert_eq!(verdict.ground, VerdictBasis::Undecided);
    assert!(
        verdict
            .evidence
            .iter()
            .any(|line| line.contains("it is not the disk"))
    );
    // The other protocol got no further than the disk, either.
    assert_eq!(verdict.next.unwrap().part, Some(Stage::Disk));
}

#[test]
fn sshfs_with_a_busy_ssh_is_held_by_the_processor_of_that_end() {
    let mut sshfs = way(&OVER_SSH, 56.3);
    let busy = Bound::busy(Stage::Server, sshfs.rate, cpu(0.98, 0.01, None)).unwrap();
    sshfs.bounds = vec![wire(), alone(Stage::Disk, 85.6), busy];
    sshfs.substitutions = vec![without(&[Stage::Disk], 56.3)];
    assert_eq!(diagnose(&sshfs).limiter, [Stage::Server]);
}

/// Three parts were named. Encryption is work of a processor, and both had time to spare.
#[test]
fn sshfs_between_two_ends_with_time_to_spare_is_not_held_by_its_cipher() {
    let mut sshfs = way(&OVER_SSH, 56.3);
    let busy = |part, running| {
        let bound = Bound::busy(part, rate(56.3), cpu(running, 0.0, None));
        bound.expect("it is not idle")
    };
    sshfs.bounds = vec![wire(), alone(Stage::Disk, 85.6), busy(Stage::Client, 0.3)];
    sshfs.substitutions = vec![without(&[Stage::Disk], 56.3)];
    let with_client = [Stage::Cipher, Stage::Protocol, Stage::Server];
    assert_eq!(diagnose(&sshfs).limiter, with_client);
    sshfs.bounds.push(busy(Stage::Server, 0.2));
    assert_eq!(diagnose(&sshfs).limiter, [Stage::Protocol, Stage::Server]);
}

#[test]
fn gvfs_is_held_by_its_client() {
    let mut gvfs = way(&REMOTE, 13.9);
    gvfs.bounds = vec![wire(), alone(Stage::Disk, 85.6)];
    // The kernel's client of the same protocol, to the same server and disk.
    gvfs.substitutions = vec![without(&[Stage::Client], 90.2)];
    let verdict = diagnose(&gvfs);
    assert_eq!(verdict.limiter, [Stage::Client], "{verdict:#?}");
    // Without it, the disk would come next.
    assert_eq!(verdict.next.unwrap().part, Some(Stage::Disk));
}

#[test]
fn the_dock_was_found_by_a_wire_that_carries_less_in_one_direction() {
    // 700 Mb/s through the dock, 940 without: what C found by pulling cables.
    let mut reading = way(&REMOTE, 80.0);
    let dock = BitRate::from_mbit(700).bytes_per_second();
    reading.bounds = vec![
        Bound::alone(Stage::Wire, dock, "iperf3 -R"),
        alone(Stage::Disk, 115.0),
    ];
    assert_eq!(diagnose(&reading).limiter, [Stage::Wire]);
}
