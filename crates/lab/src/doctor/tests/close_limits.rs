//! Systems that were judged wrongly once, each by the measurements that misled the doctor. The story of each is at its
//! test.

use super::*;
use crate::agent::protocol::Counters;
use crate::plan::Direction;
use crate::sensors::{CoreTimes, DiskCounters, ProcessCpu, QuotaCounters};
use crate::units::{BitRate, Nanos, round};

/// An export on another machine, read at so many MiB/s.
fn export(mib: f64) -> Examination {
    let mut e = way(&REMOTE, mib);
    e.job.block_size = Bytes(128 << 10);
    e.job.depth = 16;
    e.bounds = vec![Bound::at_least(
        Stage::Protocol,
        rate(700.0),
        "a null export",
    )];
    e
}

fn busy(part: Stage, e: &Examination, running: f64) -> Bound {
    Bound::busy(part, e.rate, cpu(running, 0.0, None)).expect("it is not idle")
}

fn iperf3(mib: f64) -> BareWire {
    BareWire {
        by: "iperf3".into(),
        down: rate(mib),
        up: rate(mib),
        is_loopback: false,
        link: None,
    }
}

/// [`export`] over a wire that iperf3 has measured; neither end computes much.
fn export_over(wire: f64, mib: f64) -> Examination {
    let mut e = export(mib);
    e.wire = Some(iperf3(wire));
    e.bounds.extend([
        iperf3(wire).bound(Direction::Read),
        busy(Stage::Client, &e, 0.1),
        busy(Stage::Server, &e, 0.03),
    ]);
    e
}

fn millis(all: &[f64]) -> Vec<Nanos> {
    all.iter().map(|ms| Nanos(round(ms * 1e6))).collect()
}

/// The wire was named: the target is at 0.75 of its bound, and the null export was 1.33 times as fast, less than the 1.4
/// that counted.
#[test]
fn a_faster_export_over_the_same_wire_proves_that_it_is_not_the_wire() {
    let mut e = export_over(11.3, 8.5);
    e.substitutions = vec![without(&[Stage::Disk], 11.3)];
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Disk], "{verdict:#?}");
    let next = verdict.next.expect("the wire comes next");
    assert_eq!(next.part, Some(Stage::Wire));
    assert!((next.rate.mib() - 11.3).abs() < 0.01);
}

/// The disk was named: short pairs, each after a pause, made the null export 5 % faster over a wire that the target filled.
#[test]
fn pairs_that_contradict_the_longer_measurements_prove_nothing() {
    let mut e = export_over(11.46, 11.52);
    let with_null = |mib: f64| Substitution {
        pairs: vec![1.05, 1.035, 1.07],
        ..without(&[Stage::Disk], mib)
    };
    e.substitutions = vec![with_null(11.41)];
    assert_eq!(diagnose(&e).limiter, [Stage::Wire]);
    e.substitutions = vec![with_null(12.1)];
    assert_eq!(diagnose(&e).limiter, [Stage::Disk]);
    // One measurement in a disturbance takes back no large gain.
    let mut disturbed = export_over(11.46, 8.5);
    disturbed.substitutions = vec![Substitution {
        pairs: vec![1.3, 1.31, 1.29],
        ..without(&[Stage::Disk], 8.4)
    }];
    assert_eq!(diagnose(&disturbed).limiter, [Stage::Disk]);
}

/// "Had work for 92 % of the time" was written of a thread that had work for 46 %, and computing was advised against.
#[test]
fn a_quota_that_is_nearly_used_up_is_the_cause_and_is_named() {
    let quota = Quota {
        file: "/sys/fs/cgroup/nbd.slice/cpu.max".into(),
        cores: 0.5,
        throttled: 0.05,
    };
    let cpu = CpuUse {
        quota: Some(quota.clone()),
        ..cpu(0.46, 0.0, None)
    };
    assert_eq!(Cause::of_processor(&cpu), Cause::Quota(quota.clone()));
    // A core that is shared with others is nearer to its end.
    let crowded = CpuUse {
        waiting: 0.5,
        ..cpu.clone()
    };
    assert_eq!(Cause::of_processor(&crowded), Cause::Starved);
    let idle = CpuUse {
        quota: Some(Quota {
            cores: 4.0,
            throttled: 0.0,
            ..quota
        }),
        ..cpu
    };
    assert_eq!(Cause::of_processor(&idle), Cause::Computes);
}

/// "The processor of the server" was named at 3 %, as the nearest bound.
#[test]
fn a_server_that_neither_computes_nor_waits_for_its_disk_waits_by_itself() {
    let mut e = export(20.0);
    e.bounds.extend([
        Bound::at_least(Stage::Wire, rate(700.0), "a null export"),
        busy(Stage::Client, &e, 0.1),
        busy(Stage::Server, &e, 0.03),
        alone(Stage::Disk, 900.0),
    ]);
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Server], "{verdict:#?}");
    assert_eq!(verdict.cause, Some(Cause::WaitsByItself));
    assert!(verdict.advice.contains("rate limit"), "{}", verdict.advice);
    // outboard's own server does not.
    e.is_own_server = true;
    assert_ne!(diagnose(&e).cause, Some(Cause::WaitsByItself));
}

/// Its disk was never measured, and was named by elimination.
#[test]
fn a_server_that_may_wait_by_itself_and_an_unknown_disk_are_not_distinguished() {
    let mut e = export(20.0);
    e.bounds.extend([
        iperf3(100.0).bound(Direction::Read),
        busy(Stage::Client, &e, 0.1),
        busy(Stage::Server, &e, 0.03),
    ]);
    assert_eq!(diagnose(&e).limiter, [Stage::Server, Stage::Disk]);
    // A disk of the server's that is busy all the time is known.
    e.bounds
        .push(Bound::device_busy(e.rate, "sda".into(), 0.99));
    assert_eq!(diagnose(&e).limiter, [Stage::Disk]);
}

/// Only running time was counted on the other machine, so the server was ruled out at 5 %; and a quota was advised
/// against as another program.
#[test]
fn threads_and_quotas_of_another_machine_are_counted_with_their_waiting() {
    let counters = |seconds: u64, waiting_ms: u64, throttled: u64| Counters {
        at: Nanos::from_ms(seconds * 1000),
        cores: vec![(0, CoreTimes::default())],
        tick: Nanos::from_ms(10),
        server: Some(ProcessCpu {
            started: 1,
            ..ProcessCpu::default()
        }),
        agent: None,
        processor: Some(cpu::ProcessorReading {
            program: "nbdkit".into(),
            threads: vec![(
                7,
                8,
                cpu::ThreadTimes {
                    running: Nanos::from_ms(seconds * 50),
                    waiting: Nanos::from_ms(waiting_ms),
                },
            )],
            pressure: None,
            quotas: vec![QuotaCounters {
                file: "/sys/fs/cgroup/nbd/cpu.max".into(),
                cores: 0.05,
                periods: seconds * 10,
                throttled,
            }],
        }),
        disks: Vec::new(),
        served: None,
    };
    let verdict = |waiting_ms: u64, throttled: u64| {
        let (before, after) = (counters(1, 0, 0), counters(3, waiting_ms, throttled));
        let cpu = cpu::of_counters(&before, &after, "the server on nas".into());
        let mut e = export(20.0);
        let cpu = cpu.expect("it was seen");
        e.bounds.extend(Bound::busy(Stage::Server, e.rate, cpu));
        diagnose(&e)
    };
    let starved = verdict(1850, 0);
    assert_eq!(starved.limiter, [Stage::Server], "{starved:#?}");
    assert_eq!(starved.cause, Some(Cause::Starved));
    // On a busy machine a server waits for its quota's time as well, and has used up all of it in the end.
    for stopped in [verdict(0, 19), verdict(1500, 5)] {
        assert_eq!(stopped.limiter, [Stage::Server], "{stopped:#?}");
        let is_named = stopped.advice.contains("/sys/fs/cgroup/nbd/cpu.max");
        assert!(
            is_named && stopped.sentence.contains("quota"),
            "{stopped:#?}"
        );
    }
}

/// Behind the wire lay a slower disk of another machine, and a part that is far faster was named as the next limit.
#[test]
fn what_comes_next_is_an_upper_limit_while_a_part_behind_it_is_not_known() {
    let mut e = way(
        &[Stage::Client, Stage::Wire, Stage::Server, Stage::Disk],
        11.0,
    );
    e.bounds = vec![
        alone(Stage::Wire, 11.2),
        alone(Stage::Client, 33.0),
        alone(Stage::Server, 90.0),
    ];
    e.note_unmeasured(Stage::Disk, "it is another machine's");
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Wire], "{verdict:#?}");
    let next = verdict.next.expect("an upper limit");
    assert_eq!(
        (next.part, next.rate, next.unknown),
        (None, rate(33.0), vec![Stage::Disk])
    );
    // The disk carried that much without the wire.
    e.substitutions = vec![without(&[Stage::Wire], 40.0)];
    let next = diagnose(&e).next.expect("what comes next");
    assert_eq!((next.part, next.unknown), (Some(Stage::Client), vec![]));
}

/// A disk that did not move the bytes is another one.
#[test]
fn only_a_disk_that_moved_the_bytes_is_a_bound() {
    let disk = |name: &str, read: u64, busy_ms: u64| DiskCounters {
        number: (8, 0),
        name: name.into(),
        reads: 0,
        read: Bytes(read),
        writes: 0,
        written: Bytes(0),
        busy_ms,
        waited_ms: 0,
    };
    let counters = |seconds: u64, disks: Vec<DiskCounters>| Counters {
        at: Nanos::from_ms(seconds * 1000),
        cores: Vec::new(),
        tick: Nanos::from_ms(10),
        server: None,
        agent: None,
        processor: None,
        disks,
        served: None,
    };
    let before = counters(1, vec![disk("sda", 0, 0), disk("sdb", 0, 0)]);
    let after = counters(3, vec![disk("sda", 40 * MIB, 1900), disk("sdb", MIB, 2000)]);
    let bound = Bound::of_disks(&before, &after, rate(20.0), Direction::Read);
    let bound = bound.expect("one moved the bytes");
    assert!((bound.rate.mib() - 20.0 / 0.95).abs() < 0.1, "{bound:?}");
    let cached = counters(3, vec![disk("sdb", MIB, 2000)]);
    let none = Bound::of_disks(&before, &cached, rate(20.0), Direction::Read);
    assert_eq!(none, None);
}

/// Four parts were named: the link, which the verdict on reading used, was left out with `--write`.
#[test]
fn a_link_that_writes_fill_is_named() {
    let mut e = export(10.9);
    e.job.direction = Direction::Write;
    e.bounds
        .push(Bound::link("eth0".into(), BitRate::from_mbit(100)));
    e.bounds.push(busy(Stage::Client, &e, 0.1));
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Wire], "{verdict:#?}");
}

/// Most connects waited for a reply of 128 KiB, so the wire was held to be full, and "something else used it".
#[test]
fn connects_that_wait_for_one_reply_are_no_sign_of_a_full_wire() {
    let mut e = export_over(11.3, 5.0);
    e.bounds.push(alone(Stage::Disk, 5.1));
    let own_replies = millis(&[0.2, 0.2, 0.3, 4.0, 5.5, 6.1, 7.9, 8.8, 9.4, 10.2]);
    e.connect = ConnectTimes::new(millis(&[0.2; 5]), own_replies);
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Disk], "{verdict:#?}");
    assert_eq!(verdict.contradictions, Vec::<String>::new());
    // With every one of them waiting, it is full.
    let mut e = export(11.2);
    let queue = millis(&[14.0, 15.5, 17.0, 21.0, 30.0, 44.0]);
    e.connect = ConnectTimes::new(millis(&[0.2; 5]), queue);
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Wire], "{verdict:#?}");
    assert!(
        verdict.evidence[0].starts_with("Packets wait"),
        "{verdict:#?}"
    );
}

/// fio counts what was in flight before it began to count: 14.8 MB/s over a wire of 11.8 MB/s, which was then no bound.
#[test]
fn what_was_in_flight_before_counting_began_refutes_no_bound() {
    let mut e = export(14.1);
    e.wire = Some(iperf3(11.3));
    e.bounds.push(iperf3(11.3).bound(Direction::Read));
    assert_ne!(diagnose(&e).limiter, [Stage::Wire]);
    e.in_flight_part = 0.3;
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Wire], "{verdict:#?}");
    assert_eq!(verdict.contradictions, Vec::<String>::new());
}

/// One result each says that they are the same; three pairs that one is faster.
#[test]
fn pairs_decide_what_one_measurement_does_not() {
    let judge = |pairs: &[f64]| {
        let mut e = export(20.0);
        e.bounds
            .extend([busy(Stage::Client, &e, 0.1), busy(Stage::Server, &e, 0.03)]);
        e.bounds.push(iperf3(24.0).bound(Direction::Read));
        let sub = without(&[Stage::Disk], 21.5);
        assert!(needs_pairs(&e, &sub));
        e.substitutions = vec![Substitution {
            pairs: pairs.to_vec(),
            ..sub
        }];
        diagnose(&e).limiter
    };
    assert_eq!(judge(&[1.07, 1.08, 1.075]), [Stage::Disk]);
    assert_eq!(judge(&[0.995, 1.0, 1.004]), [Stage::Wire, Stage::Server]);
    // Scatter decides nothing.
    assert!(judge(&[0.8, 1.3, 1.1]).contains(&Stage::Disk));
}

/// Three parts were named: the scatter of three pairs reached down to a gain of 1.97 %, and one of 2 % counts.
#[test]
fn two_more_pairs_decide_what_three_leave_open() {
    let judge = |pairs: &[f64]| {
        let mut e = unseen(10.26, 0.7);
        e.bounds.retain(|bound| bound.part != Stage::Wire);
        e.substitutions = vec![Substitution {
            pairs: pairs.to_vec(),
            ..without(&[Stage::Disk], 11.45)
        }];
        let limiter = diagnose(&e).limiter;
        (limiter, needs_more_pairs(&e.substitutions[0]))
    };
    let three = [1.072_407, 1.075_986, 1.032_438];
    let (limiter, is_open) = judge(&three);
    assert_eq!((limiter.len(), is_open), (3, true), "{limiter:?}");
    let five = [&three[..], &[1.065, 1.07]].concat();
    assert_eq!(judge(&five), (vec![Stage::Disk], false));
    // The second look is no excuse: what still scatters is undecided, and nothing more is measured.
    let scattered = [&three[..], &[0.99, 1.12]].concat();
    let (limiter, is_open) = judge(&scattered);
    assert_eq!((limiter.len(), is_open), (3, false), "{limiter:?}");
    assert!(!judge(&[1.07, 1.08, 1.075]).1, "decided");
}

/// A server of ours behind a wire of 11.3 MiB/s, on a machine of which nothing is seen, with a null export that fills the wire.
fn unseen(mib: f64, greeting: f64) -> Examination {
    let mut e = export(mib);
    e.peer = Some(std::net::Ipv4Addr::new(192, 0, 2, 7).into());
    e.is_own_server = true;
    e.bounds.extend([
        Bound::link("eth0".into(), BitRate::from_mbit(100)),
        busy(Stage::Client, &e, 0.1),
    ]);
    e.connect = ConnectTimes::new(millis(&[0.2; 5]), millis(&[0.2; 20]));
    e.greeting = Nanos::middle(millis(&[0.1, greeting, 900.0]));
    e.substitutions = vec![without(&[Stage::Disk], 11.3)];
    e
}

/// The server and its disk were named. What an export without data carries over the same wire is no proof that the server
/// had the time for an export with data.
#[test]
fn a_server_that_greets_at_once_waits_for_its_disk() {
    let limiter = |e: &Examination| diagnose(e).limiter;
    let e = unseen(5.0, 0.4);
    assert_eq!(limiter(&e), [Stage::Disk]);
    // A server that waits for a core may wait for its disk, too.
    for late in [3.0, 40.0] {
        assert_eq!(limiter(&unseen(5.0, late)), [Stage::Server, Stage::Disk]);
    }
    // Another thread may greet than the one that serves the target: one that takes as much may be busy.
    let mut fast = unseen(60.0, 0.4);
    fast.substitutions = vec![without(&[Stage::Disk], 110.0)];
    fast.bounds.retain(|bound| bound.part != Stage::Wire);
    assert_eq!(limiter(&fast), [Stage::Server, Stage::Disk]);
    // Other servers may have a limit for the export.
    let mut other = unseen(5.0, 0.4);
    other.is_own_server = false;
    other.substitutions[0].perhaps = vec![Stage::Server];
    assert_eq!(limiter(&other), [Stage::Server, Stage::Disk]);
}

/// Wire and disk were named at nine tenths of the wire: a connect waits until the queue is empty, and what follows finds it so.
#[test]
fn a_greeting_that_finds_the_queue_empty_shows_a_wire_that_is_not_full() {
    let mut e = export_over(11.44, 10.25);
    e.connect = ConnectTimes::new(millis(&[0.25; 5]), millis(&[3.7; 20]));
    assert_eq!(
        diagnose(&e).limiter,
        [Stage::Wire, Stage::Server, Stage::Disk]
    );
    e.is_own_server = true;
    e.greeting = Nanos::middle(millis(&[0.8; 20]));
    assert_eq!(diagnose(&e).limiter, [Stage::Disk]);
    // A wire that is full has its queue full again at once.
    e.greeting = Nanos::middle(millis(&[9.0; 20]));
    assert_eq!(diagnose(&e).limiter, [Stage::Wire, Stage::Disk]);
}
