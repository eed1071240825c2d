//! The look at threads, on threads with a known load.

use std::time::Duration;

use super::*;
use crate::agent::protocol::Counters;
use crate::sensors::{CoreTimes, ProcessCpu};
use crate::units::Nanos;

#[test]
fn the_busiest_thread_counts_and_not_their_mean() {
    let times = |running: u64, waiting: u64| cpu::ThreadTimes {
        running: Nanos::from_ms(running),
        waiting: Nanos::from_ms(waiting),
    };
    let before = cpu::Threads::from([((1, 1), times(500, 0)), ((1, 2), times(0, 0))]);
    let after = cpu::Threads::from([
        ((1, 1), times(600, 0)),
        ((1, 2), times(400, 500)),
        ((1, 3), times(50, 0)),
    ]);
    let (busy, together) = cpu::busiest(&before, &after, Nanos::from_ms(1000)).unwrap();
    assert!((busy.running - 0.4).abs() < 1e-9 && (busy.waiting - 0.5).abs() < 1e-9);
    assert!((together - 0.55).abs() < 1e-9);
    assert!(cpu::busiest(&before, &after, Nanos(0)).is_none());
}

#[test]
fn a_thread_that_computes_is_seen_to_have_work_all_the_time() {
    let own = [std::process::id()];
    let start = engine::clock::now();
    let before = cpu::read(&own);
    while start.elapsed() < Duration::from_millis(200) {
        std::hint::black_box(0);
    }
    let after = cpu::read(&own);
    let elapsed = Nanos::from_duration(start.elapsed());
    let (busy, _) = cpu::busiest(&before, &after, elapsed).unwrap();
    // It may be kept from its core, but then it waits for it.
    assert!(busy.utilisation() > 0.8, "{busy:?}");
}

#[test]
fn a_process_that_is_not_there_has_no_threads() {
    assert!(cpu::read(&[u32::MAX]).is_empty());
}

#[test]
fn a_server_behind_an_agent_is_as_busy_as_its_core_and_no_busier_than_itself() {
    let counters = |seconds: u64, server: u64, core: u64| Counters {
        at: Nanos::from_ms(seconds * 1000),
        cores: vec![(
            0,
            CoreTimes {
                user: core,
                idle: seconds * 100 - core,
                ..CoreTimes::default()
            },
        )],
        tick: Nanos::from_ms(10),
        server: Some(ProcessCpu {
            ticks: server,
            own: server,
            started: 1,
        }),
        agent: None,
        processor: None,
        disks: Vec::new(),
        served: None,
    };
    let busy = |server: u64, core: u64| {
        let found = cpu::of_counters(&counters(1, 0, 0), &counters(3, server, core), "nas".into());
        found.unwrap().running
    };
    assert!((busy(190, 190) - 0.95).abs() < 1e-9);
    // The core was busy with something else.
    assert!((busy(40, 190) - 0.2).abs() < 1e-9);
    let gone = Counters {
        server: None,
        ..counters(3, 0, 0)
    };
    assert!(cpu::of_counters(&counters(1, 0, 0), &gone, "nas".into()).is_none());
}

#[test]
fn pressure_is_evidence_of_a_starved_thread_and_of_no_other() {
    let evidence = |waiting: f64, part: f64| {
        let mut e = way(&REMOTE, 200.0);
        let file = "/proc/pressure/cpu".to_owned();
        let busy = CpuUse {
            pressure: Some(Pressure { file, part }),
            ..cpu(0.97 - waiting, waiting, None)
        };
        e.bounds = vec![Bound::busy(Stage::Server, e.rate, busy).expect("it is busy")];
        diagnose(&e).evidence.join(" ")
    };
    let starved = evidence(0.5, 0.8);
    assert!(
        starved.contains("in 80 % of the time, by /proc/pressure/cpu"),
        "{starved}"
    );
    assert!(!evidence(0.01, 0.8).contains("pressure"));
    assert!(!evidence(0.5, 0.05).contains("pressure"));
}
