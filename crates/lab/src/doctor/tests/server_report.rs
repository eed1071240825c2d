//! What a server of ours reports: other clients, a slow half, a slow disk of a stripe; and where none of them is named.

use super::*;
use crate::units::{Nanos, SECOND};

const OURS: [Stage; 7] = [
    Stage::Generator,
    Stage::Queue,
    Stage::Client,
    Stage::Protocol,
    Stage::Wire,
    Stage::Server,
    Stage::Disk,
];

/// An export of a server of ours that is limited by its disk, which carries so many MiB/s by itself.
fn export(mib: f64, disk: f64) -> Examination {
    let mut e = way(&OURS, mib);
    let parts = &OURS[..6];
    e.bounds = parts.iter().map(|part| alone(*part, 900.0)).collect();
    e.bounds.push(alone(Stage::Disk, disk));
    e.is_own_server = true;
    e
}

fn reading(moved: &[(u64, &str, u64)], members: &[(&str, bool, u64)]) -> ServedReading {
    let client = |(id, _, mib): &(u64, &str, u64)| ClientReading {
        id: *id,
        name: format!("192.0.2.7:{id}"),
        process: None,
        read: mib * MIB,
        written: 0,
    };
    let clients_of = |name: &str| {
        let clients = moved.iter().filter(|(_, export, _)| *export == name);
        clients.map(client).collect()
    };
    let members = members.iter().map(|(name, is_remote, ms)| MemberReading {
        name: (*name).to_owned(),
        is_remote: *is_remote,
        read: AnsweredRequests::default(),
        written: AnsweredRequests {
            requests: *ms / 90,
            time: Nanos::from_ms(*ms),
        },
    });
    let members: Vec<_> = members.collect();
    let exports = [("media", "/a.img"), ("same", "/a.img"), ("other", "/b.img")];
    let exports = exports.map(|(name, file)| ExportReading {
        name: name.to_owned(),
        files: vec![file.into()],
        is_plain: true,
        clients: clients_of(name),
        members: members.clone(),
        stores: Vec::new(),
    });
    ServedReading {
        exports: exports.into(),
    }
}

/// Reads of the export `media` within a second.
fn use_between(before: &ServedReading, after: &ServedReading, own: &OwnClients) -> ServedUse {
    let found = after.since(before, "media", Direction::Read, own, Nanos(SECOND));
    found.expect("a use")
}

fn read_use(before: &[(u64, &str, u64)], after: &[(u64, &str, u64)]) -> ServedUse {
    let (before, after) = (reading(before, &[]), reading(after, &[]));
    // Of a disk in memory, which another instance of is measured.
    ServedUse {
        has_files: false,
        ..use_between(&before, &after, &OwnClients::default())
    }
}

#[test]
fn another_client_of_the_same_disk_is_named_with_what_is_there_without_it() {
    let mut e = export(10.0, 20.0);
    let (before, after) = (
        [(1, "media", 5), (2, "same", 0)],
        [(1, "media", 14), (2, "same", 1)],
    );
    e.served = Some(read_use(&before, &after));
    e.share_disk();
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Disk], "{verdict:#?}");
    assert!(
        verdict
            .sentence
            .contains("other clients of the same disk: 192.0.2.7:1 (9.44 MB/s"),
        "{}",
        verdict.sentence
    );
    assert!(verdict.advice.contains("192.0.2.7:1"), "{}", verdict.advice);
    let next = verdict.next.expect("what is there without it");
    assert!((next.times - 2.0).abs() < 0.01, "{next:?}");
}

#[test]
fn a_client_that_is_idle_or_on_another_disk_or_came_meanwhile_is_not_named() {
    for (before, after) in [
        (vec![(1, "media", 5)], vec![(1, "media", 5)]),
        (vec![(1, "other", 5)], vec![(1, "other", 500)]),
        (vec![], vec![(1, "media", 500)]),
        // A tenth of the disk is no limit.
        (vec![(1, "media", 5)], vec![(1, "media", 7)]),
    ] {
        let mut e = export(19.5, 20.0);
        e.served = Some(read_use(&before, &after));
        e.share_disk();
        let verdict = diagnose(&e);
        assert_eq!((verdict.limiter, verdict.cause), (vec![Stage::Disk], None));
        assert!(
            verdict.sentence.ends_with("is the disk."),
            "{}",
            verdict.sentence
        );
    }
}

#[test]
fn a_disk_that_was_measured_next_to_the_same_clients_is_left_as_it_is() {
    let served = read_use(&[(1, "media", 0)], &[(1, "media", 10)]);
    assert_eq!(served.left_by_others(rate(10.0), rate(10.0)), None);
    assert_eq!(
        served.left_by_others(rate(20.0), rate(9.5)),
        Some(rate(10.0))
    );
}

#[test]
fn a_disk_in_files_is_measured_next_to_its_other_clients() {
    let mut e = export(400.0, 510.0);
    let others = read_use(&[(1, "media", 0)], &[(1, "media", 110)]);
    e.served = Some(ServedUse {
        has_files: true,
        ..others
    });
    e.share_disk();
    let disk = e.bounds.iter().find(|bound| bound.part == Stage::Disk);
    assert_eq!(
        disk.map(|bound| bound.rate),
        Some(rate(510.0)),
        "it is what they leave"
    );
}

#[test]
fn bytes_that_may_come_from_memory_are_no_part_of_the_disks() {
    let mut e = export(100.0, 100.0);
    let others = read_use(&[(1, "media", 0)], &[(1, "media", 1000)]);
    e.served = Some(ServedUse {
        has_files: true,
        ..others
    });
    let verdict = diagnose(&e);
    assert_eq!((verdict.limiter, verdict.cause), (vec![Stage::Disk], None));
}

#[test]
fn what_limits_one_of_two_expressions_over_a_file_may_not_limit_the_other() {
    let readings = [
        reading(&[(1, "same", 0)], &[]),
        reading(&[(1, "same", 50)], &[]),
    ];
    let [before, mut after] = readings;
    after.exports[0].is_plain = false;
    let found = use_between(&before, &after, &OwnClients::default());
    assert!(found.others.is_empty());
}

#[test]
fn connections_from_one_address_are_one_client_and_unknown_ones_may_be_the_targets() {
    let ids: Vec<(u64, &str, u64)> = (1..=4).map(|id| (id, "media", 0)).collect();
    let later: Vec<(u64, &str, u64)> = (1..=4).map(|id| (id, "media", 10)).collect();
    let others = read_use(&ids, &later).others;
    assert_eq!(others.len(), 1);
    assert_eq!(others[0].name, "192.0.2.7");
    let (before, after) = (reading(&ids, &[]), reading(&later, &[]));
    let own = OwnClients {
        processes: vec![7],
        addresses: Vec::new(),
    };
    assert!(use_between(&before, &after, &own).others.is_empty());
}

/// A mount is a client of its server, too, and over TCP only its addresses say which one. Before, no client of a mount's
/// server was another one over TCP.
#[test]
fn a_mounts_own_connections_are_not_another_client_and_the_rest_is() {
    let ids: Vec<(u64, &str, u64)> = (1..=4).map(|id| (id, "media", 0)).collect();
    let later: Vec<(u64, &str, u64)> = (1..=4).map(|id| (id, "media", 10)).collect();
    let (before, after) = (reading(&ids, &[]), reading(&later, &[]));
    let others = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|one| one.parse().expect("an address"));
        let own = OwnClients {
            processes: vec![7],
            addresses: addresses.collect(),
        };
        let others = use_between(&before, &after, &own).others.into_iter();
        let others = others.map(|other| (other.name, crate::units::round(other.rate.0) / MIB));
        others.collect::<Vec<_>>()
    };
    let own = ["192.0.2.7:1", "[::ffff:192.0.2.7]:3", "192.0.2.7:4"];
    assert_eq!(others(&own), [("192.0.2.7:2".to_owned(), 10)]);
    assert_eq!(others(&["192.0.2.7:1"]), [("192.0.2.7".to_owned(), 30)]);
    // Behind a translation of addresses, none is known as the mount's, so that all of them may be.
    assert_eq!(others(&["198.51.100.7:1"]), []);
}

#[test]
fn the_wire_is_named_though_another_client_reads_a_little_of_the_disk() {
    let mut e = export(10.0, 100.0);
    e.bounds.retain(|bound| bound.part != Stage::Wire);
    e.bounds.push(alone(Stage::Wire, 10.2));
    e.served = Some(read_use(&[(1, "media", 0)], &[(1, "media", 40)]));
    e.share_disk();
    let verdict = diagnose(&e);
    assert_eq!((verdict.limiter, verdict.cause), (vec![Stage::Wire], None));
}

/// Each request took 90 ms; `alone`: the milliseconds of one by itself.
fn write_verdict(members: &[(&str, bool, u64)], alone: u64) -> Verdict {
    diagnose(&written(members, alone))
}

fn written(members: &[(&str, bool, u64)], alone: u64) -> Examination {
    let mut e = way(&OURS, 10.0);
    e.job.direction = Direction::Write;
    let idle: Vec<_> = members
        .iter()
        .map(|(name, remote, _)| (*name, *remote, 0))
        .collect();
    let (before, after) = (reading(&[], &idle), reading(&[], members));
    let served = after.since(
        &before,
        "media",
        Direction::Write,
        &OwnClients::default(),
        Nanos(SECOND),
    );
    let mut served = served.expect("a use");
    let mut one = served.clone();
    let members = one.members.iter_mut();
    members.for_each(|member| member.latency = Some(Nanos::from_ms(alone)));
    served.compare_alone(&one);
    e.served = Some(served);
    e
}

#[test]
fn a_slow_remote_half_is_named_for_writes() {
    // 30 of the 32 requests waited for it all the time.
    let verdict = write_verdict(&[("a.img", false, 900), ("nbd://far/b", true, 30_000)], 12);
    assert_eq!(verdict.limiter, [Stage::Disk]);
    assert!(
        verdict.sentence.contains("the remote member nbd://far/b"),
        "{verdict:?}"
    );
    let text = &verdict.evidence[0];
    let waited = "30.0 were waiting for nbd://far/b on average, 90.1 ms each";
    assert!(text.contains(waited), "{text}");
    assert!(verdict.advice.contains("--write-mostly"), "{verdict:?}");
}

/// Requests queue for the core of a server that has none left as they do for a slow member.
#[test]
fn a_busy_server_is_not_ruled_out_by_a_member_that_is_waited_for() {
    let members = [("a.img", false, 900), ("nbd://far/b", true, 30_000)];
    let mut e = written(&members, 12);
    for (running, waiting, expected) in [
        (0.45, 0.47, &[Stage::Server, Stage::Disk][..]),
        (0.45, 0.05, &[Stage::Disk]),
    ] {
        let busy = Bound::busy(Stage::Server, e.rate, cpu(running, waiting, None));
        e.bounds.push(busy.expect("it is not idle"));
        let verdict = diagnose(&e);
        assert_eq!(verdict.limiter, expected, "{verdict:#?}");
        e.bounds.pop();
    }
}

#[test]
fn halves_that_are_waited_for_alike_or_hardly_are_not_named() {
    // A far half without a queue: more requests at once would help.
    for (local, remote, alone) in [(15_000, 16_000, 12), (100, 900, 12), (900, 30_000, 80)] {
        let members = [("a.img", false, local), ("nbd://far/b", true, remote)];
        let verdict = write_verdict(&members, alone);
        assert_eq!(verdict.cause, None, "{verdict:#?}");
        assert_eq!(verdict.ground, VerdictBasis::Undecided);
    }
}

#[test]
fn a_slow_disk_of_a_stripe_is_named_with_what_the_next_slowest_permits() {
    let striped = |rates: &[f64]| {
        let mut e = export(19.8, 20.0);
        let stripe = rates.iter().enumerate().map(|(index, mib)| StripeMember {
            name: format!("/{index}.img"),
            rate: rate(*mib),
        });
        let stripe = stripe.collect();
        e.served = Some(ServedUse {
            stripe,
            ..ServedUse::default()
        });
        diagnose(&e)
    };
    let verdict = striped(&[30.0, 10.0]);
    assert!(
        verdict.sentence.contains("the slow member /1.img"),
        "{verdict:#?}"
    );
    let next = verdict.next.expect("what the next slowest permits");
    assert_eq!((next.part, next.rate), (Some(Stage::Disk), rate(60.0)));
    // Disks of one rate, and one that is slow and not what limits.
    assert_eq!(striped(&[10.0, 11.0]).cause, None);
    assert_eq!(striped(&[100.0, 50.0]).cause, None);
}
