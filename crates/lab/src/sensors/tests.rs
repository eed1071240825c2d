//! The kernel's files are read as documented, and nothing in them makes a parser panic.

use proptest::prelude::*;

use super::sampler::{SensorReading, difference};
use super::*;
use crate::plan::Direction;
use crate::units::{Bytes, SECOND};

mod machines;

const STAT: &str = "cpu  14675 0 6629 206091 1862 0 331 23 0 0\n\
    cpu0 6825 5 2607 105076 178 1 122 7 0 0\n\
    cpu1 7849 0 4022 101015 1683 0 209 16 0 0\n\
    intr 123 0\nctxt 5\n";

#[test]
fn each_core_is_read_and_their_sum_is_not_taken_for_one() {
    let cores = stat::parse(STAT);
    assert_eq!(
        cores.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
        [0, 1]
    );
    let first = cores[0].1;
    assert_eq!(
        (
            first.user,
            first.system,
            first.irq,
            first.softirq,
            first.steal
        ),
        (6830, 2607, 1, 122, 7)
    );
    assert_eq!(first.idle, 105_076 + 178);
}

#[test]
fn a_process_whose_name_has_brackets_and_spaces_is_read() {
    let line = "77 (a) b (c)) S 1 77 77 0 -1 4194560 100 5 0 0 150 50 7 3 20 0 4 0 8888 1 2 3";
    assert_eq!(
        process::parse(line),
        Some(ProcessCpu {
            ticks: 210,
            own: 200,
            started: 8888
        })
    );
}

#[test]
fn a_device_is_read_in_sectors_of_512_bytes() {
    let line = " 254       0 vda 320720 29184 9225666 65866 152460 37377 8718120 46105 0 26496 112838 6243 59 622392 785 2386 81";
    let found = disks::parse(line).remove(0);
    assert_eq!((found.number, found.name.as_str()), ((254, 0), "vda"));
    assert_eq!((found.reads, found.read), (320_720, Bytes(9_225_666 * 512)));
    assert_eq!(
        (found.writes, found.written),
        (152_460, Bytes(8_718_120 * 512))
    );
}

#[test]
fn flushes_are_found_by_the_devices_name() {
    let line = "7 0 loop0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 42 1260";
    assert_eq!(disks::flushes(line, "loop0"), Some((42, 1260)));
    assert_eq!(disks::flushes(line, "loop1"), None);
    // Before Linux 5.5.
    assert_eq!(
        disks::flushes("7 0 loop0 1 2 3 4 5 6 7 8 9 10 11", "loop0"),
        None
    );
}

#[test]
fn a_counter_that_went_back_gives_zero() {
    let mut later = disks::parse("7 0 loop0 10 0 100 0 5 0 50 0").remove(0);
    let earlier = later.clone();
    later.read = Bytes(0);
    later.reads = 0;
    let traffic = later.since(&earlier, Direction::Read);
    assert_eq!((traffic.bytes, traffic.requests), (Bytes(0), 0));
}

fn reading(seconds: u64, busy: u64, started: u64) -> SensorReading {
    let core = CoreTimes {
        user: busy,
        idle: seconds * 100 - busy,
        ..CoreTimes::default()
    };
    SensorReading {
        at: Nanos(seconds * SECOND),
        cores: vec![(0, core)],
        processes: vec![(
            "server".into(),
            ProcessCpu {
                ticks: busy,
                own: busy,
                started,
            },
        )],
        counters: vec![
            Counter::new("net", "eth0/rx-bytes".into(), busy * 1000),
            Counter::new("pressure", "io/some".into(), busy * 10_000).worth(1e-6),
        ],
        gauges: vec![Gauge::new("temperature", "cpu-thermal".into(), 50.0)],
    }
}

#[test]
fn half_a_core_for_a_second_is_a_sample_of_one_half() {
    let samples = difference(&reading(1, 0, 1), &reading(2, 50, 1));
    let value = |sensor: &str, item: &str| {
        samples
            .iter()
            .find(|s| s.sensor == sensor && s.item == item)
            .map(|s| s.value)
    };
    assert_eq!(value("cpu", "0/user"), Some(0.5));
    assert_eq!(value("process", "server"), Some(0.5));
    assert_eq!(value("net", "eth0/rx-bytes"), Some(50_000.0));
    assert_eq!(value("pressure", "io/some"), Some(0.5));
    assert_eq!(value("temperature", "cpu-thermal"), Some(50.0));
}

/// An interface that came or went in between moves the others to another place of the list.
#[test]
fn counters_are_found_by_name_when_the_list_has_changed() {
    let (earlier, mut later) = (reading(1, 0, 1), reading(2, 50, 1));
    let came = Counter::new("net", "wlan0/rx-bytes".into(), 7);
    later.counters.insert(0, came);
    let samples = difference(&earlier, &later);
    let of = |item: &str| {
        let mut found = samples.iter().filter(|sample| sample.item == item);
        found.next().map(|sample| sample.value)
    };
    assert_eq!(of("eth0/rx-bytes"), Some(50_000.0));
    assert_eq!(of("wlan0/rx-bytes"), None, "nothing is known of it yet");
}

#[test]
fn only_the_busiest_sources_of_interrupts_are_kept() {
    let at = |seconds: u64| {
        let mut reading = reading(seconds, 0, 1);
        let counters = (0..40u64)
            .map(|n| Counter::new("interrupts", format!("source/{n}"), n * (seconds - 1)));
        reading.counters = counters.collect();
        reading
    };
    let samples = difference(&at(1), &at(2));
    let kept = samples.iter().filter(|one| one.sensor == "interrupts");
    let kept: Vec<&str> = kept.map(|one| one.item.as_str()).collect();
    assert_eq!(kept.len(), interrupts::SOURCES_MAX);
    assert_eq!(kept[0], "source/39");
}

#[test]
fn another_process_under_the_same_id_gives_no_sample() {
    let samples = difference(&reading(1, 0, 1), &reading(2, 50, 2));
    assert!(samples.iter().all(|sample| sample.sensor != "process"));
}

#[test]
fn this_machine_has_cores_and_this_process_has_cpu_time() {
    assert!(!read::cores().is_empty());
    assert!(read::process_tree(std::process::id()).is_some());
    assert_eq!(read::process_tree(u32::MAX), None);
}

#[test]
fn a_reading_is_taken_once_a_second() {
    let mut sampler = Sampler::new(vec![("lab".into(), std::process::id())], Disks::Used);
    sampler.tick(Nanos(0));
    sampler.tick(Nanos(SECOND / 2));
    assert!(sampler.collect().is_empty());
    sampler.tick(Nanos(SECOND));
    let samples = sampler.collect();
    for sensor in ["cpu", "process", "net", "interrupts", "load", "memory"] {
        assert!(samples.iter().any(|one| one.sensor == sensor), "{sensor}");
    }
    assert!(samples.iter().all(|one| one.value.is_finite()));
}

proptest! {
    #[test]
    fn nothing_in_the_files_makes_a_parser_panic(text in "\\PC{0,200}") {
        std::hint::black_box(stat::parse(&format!("cpu0 {text}")));
        std::hint::black_box(stat::parse(&text));
        std::hint::black_box(process::parse(&format!("1 (x) {text}")));
        std::hint::black_box(disks::parse(&text));
        std::hint::black_box(interrupts::parse(&text));
        std::hint::black_box(interrupts::parse(&format!("CPU0 CPU1\n1: {text}\n{text}: 1 2")));
        std::hint::black_box(net::parse(&format!("eth0: {text}")));
        std::hint::black_box(pressure::parse("io", &format!("some total={text}")));
        std::hint::black_box(load::parse(&text));
        std::hint::black_box(load::parse_memory(&format!("Cached: {text}")));
        std::hint::black_box(thermal::degrees(&text));
        std::hint::black_box(thermal::throttled(&format!("throttled={text}")));
    }
}
