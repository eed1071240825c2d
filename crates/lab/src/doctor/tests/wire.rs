//! The wire by itself: a bound like others, and what contradicts it is reported.

use super::*;
use crate::plan::Direction;
use crate::units::BitRate;

/// What iperf3 got, in MiB/s, over a link that says so many Mb/s of itself.
fn bare(down: f64, up: f64, link: Option<u64>) -> BareWire {
    BareWire {
        by: "iperf3".into(),
        down: rate(down),
        up: rate(up),
        is_loopback: false,
        link: link.map(|mbit| ("eth0".into(), BitRate::from_mbit(mbit))),
    }
}

/// A target of so many MiB/s over it.
fn over(wire: BareWire, mib: f64, direction: Direction) -> Examination {
    let mut e = way(&REMOTE, mib);
    e.job.direction = direction;
    e.bounds = vec![wire.bound(direction), alone(Stage::Disk, 900.0)];
    e.wire = Some(wire);
    e
}

#[test]
fn a_wire_is_a_bound_in_the_way_that_the_bytes_go() {
    let down = over(bare(11.0, 110.0, None), 10.8, Direction::Read);
    let verdict = diagnose(&down);
    assert_eq!(
        (verdict.limiter, verdict.ground),
        (vec![Stage::Wire], VerdictBasis::Bound)
    );
    let said = verdict.evidence.join(" ");
    assert!(
        said.contains("from the server to here") && said.contains("the other way"),
        "{said}"
    );
    assert_eq!(verdict.contradictions, Vec::<String>::new());
    // The same wire is no limit the other way.
    let mut up = over(bare(11.0, 110.0, None), 10.8, Direction::Write);
    up.bounds.push(alone(Stage::Protocol, 11.5));
    assert_eq!(diagnose(&up).limiter, [Stage::Protocol]);
}

/// C's dock: the interface reported 1 Gb/s, and what was behind it carried a tenth.
#[test]
fn a_link_that_promises_more_than_it_carries_is_reported() {
    let e = over(bare(11.2, 11.2, Some(1000)), 10.9, Direction::Read);
    let said = diagnose(&e).contradictions;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("eth0 says it is a link of 1\u{202f}000 Mb/s"),
        "{}",
        said[0]
    );
    let e = over(bare(300.0, 300.0, Some(1000)), 250.0, Direction::Read);
    let said = diagnose(&e).contradictions;
    assert!(said[0].contains("its word is no bound"), "{said:?}");
    // 112 MiB/s are what such a link carries, and one way that is slower is no contradiction.
    let e = over(bare(111.9, 60.0, Some(1000)), 100.0, Direction::Read);
    assert_eq!(diagnose(&e).contradictions, Vec::<String>::new());
}

#[test]
fn a_target_beyond_the_wire_refutes_the_measurement_of_the_wire() {
    let e = over(bare(50.0, 50.0, None), 80.0, Direction::Read);
    let verdict = diagnose(&e);
    assert!(verdict.contradictions[0].contains("something else than the wire"));
    let said = verdict.evidence.join(" ");
    assert!(
        said.contains("so that is no bound") && !said.contains("caches"),
        "{said}"
    );
    assert_ne!(verdict.limiter, [Stage::Wire]);
}

#[test]
fn a_full_queue_in_front_of_a_wire_with_room_is_reported() {
    let full = Sign {
        part: Stage::Wire,
        text: "Packets wait in front of the wire.".into(),
    };
    let mut e = over(bare(110.0, 110.0, None), 11.0, Direction::Read);
    e.signs = vec![full.clone()];
    let said = diagnose(&e).contradictions;
    assert!(
        said[0].contains("something else may have used the wire meanwhile"),
        "{said:?}"
    );
    let mut e = over(bare(11.5, 11.5, None), 11.0, Direction::Read);
    e.signs = vec![full];
    let verdict = diagnose(&e);
    assert_eq!(verdict.contradictions, Vec::<String>::new());
    // Seen by itself, and confirmed by a second opinion.
    assert_eq!(verdict.ground, VerdictBasis::Sign);
    assert!(
        verdict.evidence.iter().any(|line| line.contains("iperf3")),
        "{verdict:?}"
    );
}

#[test]
fn on_one_machine_it_is_the_processor_that_ends_and_nothing_is_held_against_it() {
    let here = BareWire {
        is_loopback: true,
        ..bare(500.0, 500.0, None)
    };
    let mut e = over(here, 800.0, Direction::Read);
    e.bounds.retain(|bound| bound.part != Stage::Disk);
    e.bounds.push(alone(Stage::Disk, 810.0));
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Disk], "{verdict:#?}");
    assert_eq!(verdict.contradictions, Vec::<String>::new());
}

#[test]
fn what_does_not_fit_together_is_in_the_text() {
    let e = over(bare(11.2, 11.2, Some(1000)), 10.9, Direction::Read);
    let told = text(&e, &diagnose(&e));
    let (_, section) = told
        .split_once("\nDoes not fit together:\n")
        .expect("a section");
    assert!(section.contains("eth0"), "{told}");
}
