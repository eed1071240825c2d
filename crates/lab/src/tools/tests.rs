//! Commands, real output of each tool, and each tool run small.

use std::path::Path;
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::units::Bytes;

const DBENCH: &str = include_str!("fixtures/dbench-4.00.txt");
const BONNIE: &str = include_str!("fixtures/bonnie-2.00a.csv");
const BONNIE_TOO_QUICK: &str = include_str!("fixtures/bonnie-2.00a-too-quick.csv");
const IPERF3: &str = include_str!("fixtures/iperf3-3.12.json");
const STRESS_CPU: &str = include_str!("fixtures/stress-ng-0.15-cpu.yaml");

mod real;
mod scenarios;

fn installed(name: &str) -> Installed {
    Installed {
        program: name.into(),
        version: "1".into(),
    }
}

fn place<'a>(directory: &'a Path, work: &'a Path) -> ToolDirs<'a> {
    ToolDirs {
        directory,
        beside: &[],
        work,
        seed: 7,
    }
}

fn value(figures: &[ToolFigure], name: &str) -> f64 {
    let found = figures.iter().find(|figure| figure.name == name);
    found
        .unwrap_or_else(|| panic!("{name} in {figures:?}"))
        .value
}

#[test]
fn dbench_counts_millions_of_bytes_and_milliseconds() {
    let figures = dbench::parse(DBENCH).unwrap();
    assert_eq!(figures[0].name, "throughput");
    assert_eq!(figures[0].unit, Unit::BytesPerSecond);
    assert_eq!(figures[0].value, 619.632e6);
    assert_eq!(value(&figures, "slowest operation"), 6.426e6);
    assert_eq!(value(&figures, "mean flush"), 0.423e6);
    assert_eq!(figures[1].better, Better::Lower);
}

#[test]
fn dbench_that_was_ended_before_its_first_second_has_no_figure() {
    assert_eq!(
        dbench::parse("Throughput 0 MB/sec  1 clients  1 procs  max_latency=0.000 ms"),
        None
    );
    assert_eq!(dbench::parse("2 of 2 processes prepared for launch"), None);
}

#[test]
fn bonnies_line_is_read_in_kib_with_the_block_read_first() {
    let (figures, findings) = bonnie::parse(BONNIE, Bytes(1 << 30), None).unwrap();
    assert_eq!(figures[0].name, "block read");
    assert_eq!(value(&figures, "block write"), 1_050_685.0 * 1024.0);
    assert_eq!(value(&figures, "rewrite"), 253_765.0 * 1024.0);
    assert_eq!(value(&figures, "seeks"), 15_512.0);
    assert_eq!(value(&figures, "create shuffled"), 1353.0);
    // The block read of this machine took less than half a second.
    assert_eq!(figures[0].value, (1u64 << 31) as f64);
    assert_eq!(findings.len(), 1);
}

#[test]
fn what_bonnie_could_not_time_is_a_bound_and_no_result() {
    let (figures, findings) = bonnie::parse(BONNIE_TOO_QUICK, Bytes(32 << 20), None).unwrap();
    assert_eq!(figures.len(), 1, "{figures:?}");
    let validity = crate::checks::Validity::of(&findings);
    assert!(!validity.is_usable());
    assert!(validity.to_string().contains("lower bound"), "{validity}");
}

#[test]
fn what_bonnie_could_not_time_is_by_our_clock_unless_that_is_too_coarse_as_well() {
    let size = Bytes(300_000_000);
    let by_us = |ms| bonnie::parse(BONNIE_TOO_QUICK, size, Some(Nanos::from_ms(ms))).unwrap();
    let (figures, findings) = by_us(250);
    assert_eq!(figures[0].value, 1.2e9);
    assert!(crate::checks::Validity::of(&findings).is_usable());
    assert!(findings[0].text.contains("own clock"), "{findings:?}");
    let (figures, findings) = by_us(49);
    assert_eq!(figures[0].value, 6e8);
    assert!(!crate::checks::Validity::of(&findings).is_usable());
}

#[test]
fn iperf3_is_believed_at_the_receiver() {
    let said = iperf3::parse(IPERF3).unwrap();
    assert_eq!(said.figures[0].name, "received");
    assert_eq!(said.figures[0].value.round(), 2_688_482_217.0);
    assert_eq!(said.bytes, Bytes(2_690_710_969));
    assert_eq!(value(&said.figures, "retransmits"), 5.0);
}

#[test]
fn iperf3_that_failed_says_so_in_its_own_words_although_it_ends_well() {
    let refused = r#"{"end":{},"error":"unable to connect to server: Connection refused"}"#;
    let error = iperf3::parse(refused).unwrap_err().to_string();
    assert_eq!(
        error,
        "iperf3 failed: unable to connect to server: Connection refused"
    );
}

#[test]
fn stress_ngs_headline_falls_when_a_machine_throttles() {
    let figures = stress_ng::parse(STRESS_CPU).unwrap();
    assert_eq!(figures[0].value, 1_773.796_582);
    assert_eq!(value(&figures, "CPU of each worker"), 0.955_334_44);
}

#[test]
fn commands_are_what_the_manuals_say() {
    let (directory, work) = (Path::new("/mnt/a b"), Path::new("/work"));
    let place = place(directory, work);
    let options = dbench::DbenchOptions {
        clients: 4,
        runtime_ms: 30_000,
        sync: true,
    };
    let command = dbench::command(&options, &installed("dbench"), &place);
    assert_eq!(command.shown(), "dbench -t 30 -D '/mnt/a b/dbench' -s 4");

    let options = bonnie::BonnieOptions {
        size: Bytes(64 << 20),
        block_size: Bytes(8192),
        files: 2,
        file_size: Bytes(4096),
        direct: true,
    };
    let command = bonnie::command(&options, &installed("bonnie++"), &place, true);
    assert_eq!(
        command.shown(),
        "stdbuf -oL bonnie++ -d '/mnt/a b' -s '64:8192' -n '2:4096:4096:1' -r 0 -m target -z 7 -u root -f \
         -D -y p"
    );
    let command = bonnie::command(&options, &installed("bonnie++"), &place, false);
    assert!(!command.shown().contains("root"));

    let [make, sync] = tar::commands(&installed("tar"), directory);
    assert_eq!(
        make.shown(),
        "tar --create --file '/mnt/a b/archive.tar' --directory '/mnt/a b' tree"
    );
    assert_eq!(sync.shown(), "sync '/mnt/a b/archive.tar'");

    let options = iperf3::Iperf3Options {
        host: None,
        port: None,
        streams: 4,
        reverse: true,
        runtime_ms: 3000,
    };
    let command = iperf3::client(&options, &installed("iperf3"), "127.0.0.1", 5201);
    assert_eq!(
        command.shown(),
        "iperf3 -c 127.0.0.1 -p 5201 -P 4 -t 3 --json -R"
    );
}

#[test]
fn a_tool_that_is_not_there_is_one_line_with_its_package() {
    let program = Program {
        name: "dbenchh",
        package: "dbench",
        version_args: &["--version"],
    };
    assert_eq!(
        find(program).unwrap_err().to_string(),
        "needs dbenchh: apt-get install dbench"
    );
}

#[test]
fn each_tools_own_words_have_its_version() {
    let said = [
        ("dbench version 4.00 - Copyright Andrew Tridgell", "4.00"),
        ("bonnie++: invalid option -- '?'\n\nVersion: 2.00a", "2.00a"),
        ("iperf 3.12 (cJSON 1.7.15)", "3.12"),
        ("stress-ng, version 0.15.06 (gcc 12.2.0, x86_64)", "0.15.06"),
        ("tar (GNU tar) 1.34\nCopyright (C) 2021", "1.34"),
    ];
    for (text, version) in said {
        assert_eq!(programs::version(text).as_deref(), Some(version));
    }
    assert_eq!(programs::version("no version here"), None);
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let wrong = [
        (
            "tool = \"dbench\"\nclients = 0\nruntime_ms = 2000",
            "clients",
        ),
        (
            "tool = \"dbench\"\nclients = 1\nruntime_ms = 1000",
            "runtime",
        ),
        ("tool = \"dbench\"\nclients = 1\nruntime_ms = 2500", "whole"),
        ("tool = \"bonnie++\"\nsize = \"1M\"", "size"),
        (
            "tool = \"bonnie++\"\nsize = \"64M\"\nblock_size = \"3K\"",
            "block",
        ),
        ("tool = \"tar\"\nbytes_max = \"1K\"", "bytes_max"),
        ("tool = \"tar\"\nbytes_max = \"1M\"\ntree = \"src\"", "root"),
        (
            "tool = \"stress-ng\"\nruntime_ms = 1000\nmethod = \"a b\"",
            "a b",
        ),
        (
            "tool = \"iperf3\"\nruntime_ms = 1000\nhost = \"-s\"",
            "host",
        ),
        ("tool = \"iperf3\"\nruntime_ms = 1000\nport = 9", "host"),
    ];
    for (text, word) in wrong {
        let tool: Tool = toml::from_str(text).unwrap();
        let error = tool.kind().check().unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
    let unknown = "tool = \"dbench\"\nclients = 1\nruntime_ms = 2000\nsynk = true";
    let error = toml::from_str::<Tool>(unknown).unwrap_err().to_string();
    assert!(error.contains("synk"), "{error}");
}

#[test]
fn a_figure_prints_in_the_unit_of_its_kind() {
    let rate = ToolFigure::higher("block read", 112.06 * 1024.0 * 1024.0, Unit::BytesPerSecond);
    assert_eq!(rate.to_string(), "block read 118 MB/s (112 MiB/s)");
    assert_eq!(Unit::Nanoseconds.shown(6.426e6), "6.43 ms");
    assert_eq!(Unit::Part.shown(0.955), "95.5 %");
    assert_eq!(Unit::Celsius.shown(65.84), "65.8 C");
}

proptest! {
    #[test]
    fn no_output_makes_a_parser_panic(text in "\\PC{0,300}") {
        std::hint::black_box(dbench::parse(&text).is_some());
        std::hint::black_box(bonnie::parse(&text, Bytes(1), None).is_some());
        std::hint::black_box(iperf3::parse(&text).is_ok());
        std::hint::black_box(stress_ng::parse(&text).is_some());
        std::hint::black_box(programs::version(&text).is_some());
    }

    #[test]
    fn a_part_of_a_tools_output_makes_no_parser_panic(end in 0usize..4096) {
        let cut = |text: &str| {
            text.chars().take(end).collect::<String>()
        };
        std::hint::black_box(dbench::parse(&cut(DBENCH)).is_some());
        std::hint::black_box(bonnie::parse(&cut(BONNIE), Bytes(1), None).is_some());
        std::hint::black_box(iperf3::parse(&cut(IPERF3)).is_ok());
        std::hint::black_box(stress_ng::parse(&cut(STRESS_CPU)).is_some());
    }
}

#[test]
fn a_server_of_its_own_is_brought_by_the_clients_and_by_iperf3_on_loopback() {
    let brings = |text: &str| toml::from_str::<Tool>(text).unwrap().brings_its_server();
    let clients = "tool = \"clients\"\nclients = 1\nbytes = \"1M\"\nblock_size = \"4K\"\ndepth = 1";
    assert!(brings(clients));
    assert!(brings("tool = \"iperf3\"\nruntime_ms = 1000"));
    assert!(!brings(
        "tool = \"iperf3\"\nruntime_ms = 1000\nhost = \"nas\""
    ));
    assert!(!brings("tool = \"tar\"\nbytes_max = \"1M\""));
}

/// In a guest bonnie++ on NFS was given up after a minute and a half, and the run with it.
#[test]
fn a_tool_gets_more_time_where_the_processor_is_a_program() {
    let tool = Tool::Dbench(dbench::DbenchOptions {
        clients: 1,
        runtime_ms: 2000,
        sync: false,
    });
    assert_eq!(limit_on("AMD EPYC", &tool), tool.limit());
    let emulated = limit_on("QEMU TCG CPU version 2.5+", &tool);
    assert_eq!(emulated, tool.limit() * 10);
}
