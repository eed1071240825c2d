//! Command lines, real output of fio 3.33, and histograms that add without loss.

use std::ffi::OsString;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::plan::{Direction, builtin};
use crate::units::{Bytes, Nanos};

const RANDOM_READ: &str = include_str!("fixtures/random-read.json");
const SEQUENTIAL_WRITE: &str = include_str!("fixtures/sequential-write.json");
const BUFFERED_WITH_NOTE: &str = include_str!("fixtures/buffered-write-with-note.json");

fn has(args: &[OsString], wanted: &str) -> bool {
    args.iter().any(|arg| arg == wanted)
}

fn args_of(workload: usize) -> Vec<OsString> {
    let plan = builtin("quick").unwrap();
    let job = FioCommand {
        name: &plan.workloads[workload].name,
        job: plan.workloads[workload].fio().unwrap(),
        subject: Subject::File(Path::new("/mnt/a:b/data")),
        size: Bytes(100 << 20),
        engine: Engine::IoUring,
        direct: true,
        seed: 9,
    };
    command::measure(&job, Path::new("/tmp/out.json"))
}

#[test]
fn a_measurement_never_creates_a_file_and_writes_end_with_a_flush() {
    let (read, write) = (args_of(0), args_of(1));
    assert!(has(&read, "--allow_file_create=0") && has(&write, "--allow_file_create=0"));
    assert!(has(&write, "--end_fsync=1") && !has(&read, "--end_fsync=1"));
    assert!(has(&read, "--rw=read") && has(&write, "--rw=write"));
    assert!(has(&args_of(2), "--rw=randread") && has(&args_of(3), "--rw=randwrite"));
}

#[test]
fn a_write_of_quick_moves_no_more_than_its_bytes_and_still_goes_over_all_of_the_file() {
    let (sequential, random, fsync) = (args_of(1), args_of(3), args_of(4));
    assert!(has(&sequential, &format!("--io_size={}", 32 << 20)));
    assert!(has(&random, &format!("--io_size={}", 16 << 20)));
    for args in [&sequential, &random, &fsync] {
        assert!(has(args, &format!("--size={}", 100 << 20)), "{args:?}");
    }
    assert!(has(&fsync, "--fsync=1") && has(&fsync, "--direct=0"));
    assert!(
        !args_of(0)
            .iter()
            .any(|arg| arg.to_string_lossy().contains("io_size"))
    );
}

/// fio counts an fsync in `sync`: the latency of the write alone says nothing of a commit.
#[test]
fn the_latency_of_a_write_with_an_fsync_is_that_of_the_fsync() {
    let mut root: serde_json::Value =
        serde_json::from_str(parse::without_remarks(SEQUENTIAL_WRITE)).unwrap();
    let job = &mut root["jobs"][0];
    job["job options"]["fsync"] = "1".into();
    job["sync"] = serde_json::json!({"lat_ns": {"bins": {"4000000": 3}}});
    let result = parse(&root.to_string()).unwrap();
    assert!(result.fsync);
    assert_eq!(result.latencies.count(), 3);
    // One write alone.
    root["jobs"][0]["sync"] = serde_json::json!({});
    let result = parse(&root.to_string()).unwrap();
    assert_eq!(result.latencies.count(), result.ios);
    assert!(!parse(SEQUENTIAL_WRITE).unwrap().fsync);
}

#[test]
fn a_colon_in_a_path_is_kept_from_fio_and_quoted_for_a_shell() {
    let args = args_of(0);
    assert!(has(&args, "--filename=/mnt/a\\:b/data"));
    assert!(command::shown("fio", &args).contains("'--filename=/mnt/a\\:b/data'"));
}

#[test]
fn the_same_job_on_two_targets_differs_in_the_file_alone() {
    let plan = builtin("quick").unwrap();
    let make = |file: &str| {
        let job = FioCommand {
            name: &plan.workloads[0].name,
            job: plan.workloads[0].fio().unwrap(),
            subject: Subject::File(Path::new(file)),
            size: Bytes(100 << 20),
            engine: Engine::Libaio,
            direct: true,
            seed: 1,
        };
        command::measure(&job, Path::new("/o"))
    };
    let (a, b) = (make("/a"), make("/b"));
    let different: Vec<_> = a.iter().zip(&b).filter(|(x, y)| x != y).collect();
    assert_eq!(different.len(), 1);
    assert_eq!(different[0].0, "--filename=/a");
}

#[test]
fn a_random_read_is_read_with_everything_that_is_reported() {
    let result = parse(RANDOM_READ).unwrap();
    assert_eq!(result.direction, Direction::Read);
    assert_eq!(result.bytes, Bytes(442_556_416));
    assert_eq!(result.ios, 108_046);
    assert_eq!(result.runtime, Nanos::from_ms(1501));
    assert_eq!(result.engine, "io_uring");
    assert_eq!((result.depth, result.direct), (16, true));
    assert_eq!(result.latencies.count(), result.ios);
}

#[test]
fn remarks_before_the_json_are_stepped_over() {
    let result = parse(BUFFERED_WITH_NOTE).unwrap();
    assert_eq!((result.direction, result.direct), (Direction::Write, false));
    assert_eq!(result.engine, "psync");
}

/// fio's own percentiles are read from the same buckets by the same rule.
#[test]
fn quantiles_of_the_buckets_are_those_that_fio_prints() {
    for text in [RANDOM_READ, SEQUENTIAL_WRITE] {
        let result = parse(text).unwrap();
        let json: serde_json::Value = serde_json::from_str(text).unwrap();
        let printed = json["jobs"][0][result.direction.as_str()]["lat_ns"]["percentile"]
            .as_object()
            .unwrap();
        assert!(printed.len() > 10);
        for (percent, value) in printed {
            let part = percent.parse::<f64>().unwrap() / 100.0;
            let ours = result.latencies.quantile(part).unwrap().value;
            assert_eq!(Some(ours.0), value.as_u64(), "p{percent}");
        }
    }
}

#[test]
fn output_that_is_no_result_is_an_error_value() {
    assert!(matches!(parse(""), Err(ParseError::NotJson(_))));
    assert_eq!(parse("{}"), Err(ParseError::Missing("job")));
    assert_eq!(
        parse(r#"{"jobs":[{"error":28}]}"#),
        Err(ParseError::Failed(28))
    );
    assert_eq!(
        parse(r#"{"jobs":[{"error":0}]}"#),
        Err(ParseError::Directions(0))
    );
    let both = r#"{"jobs":[{"read":{"io_bytes":1},"write":{"io_bytes":1}}]}"#;
    assert_eq!(parse(both), Err(ParseError::Directions(2)));
}

#[test]
fn the_version_is_compared_by_number() {
    assert_eq!(process::parse_version("fio-3.33"), Some((3, 33)));
    assert_eq!(process::parse_version("fio-3.5-12-gabc"), Some((3, 5)));
    assert!(process::parse_version("fio-3.33") > process::parse_version("fio-3.5"));
    assert_eq!(process::parse_version("2.1"), None);
}

#[test]
fn the_reason_is_what_failed_without_process_ids() {
    let said = "fio: io_u error on file /x: No space left on device: write offset=1\n\
                fio: pid=123, err=28/file:io_u.c:1845, func=io_u error, error=No space left on device\n";
    assert_eq!(process::reason(said), "No space left on device");
    assert_eq!(
        process::reason("fio: engine x not loadable\n"),
        "engine x not loadable"
    );
    assert!(process::reason("").contains("did not say why"));
}

#[test]
fn no_fio_and_an_old_fio_say_what_to_install() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let missing = process::Fio::at(dir.path().join("none")).unwrap_err();
    assert!(missing.to_string().contains("apt install fio"));
    let old = dir.path().join("old");
    std::fs::write(&old, "#!/bin/sh\necho fio-2.1.11\n").unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    let old = process::Fio::at(old).unwrap_err().to_string();
    assert!(
        old.contains("fio-2.1.11") && old.contains("3.5") && old.contains("apt install fio"),
        "{old}"
    );
}

fn histograms() -> impl Strategy<Value = Histogram> {
    prop::collection::vec((1u64..1 << 40, 1u64..1000), 1..60).prop_map(|pairs| {
        let mut histogram = Histogram::default();
        for (value, count) in pairs {
            let width = histogram::bucket_width(Nanos(value)).0;
            histogram.add(Nanos(value / width * width + width / 2), count);
        }
        histogram
    })
}

proptest! {
    #[test]
    fn merging_adds_counts_in_any_order(a in histograms(), b in histograms()) {
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b);
        ba.merge(&a);
        prop_assert_eq!(&ab, &ba);
        prop_assert_eq!(ab.count(), a.count() + b.count());
    }

    #[test]
    fn quantiles_rise_and_a_bucket_is_narrow(histogram in histograms()) {
        let mut last = Nanos(0);
        for step in 0..=20 {
            let found = histogram.quantile(f64::from(step) / 20.0).unwrap();
            prop_assert!(found.value >= last);
            prop_assert!(found.width.0 <= 1 + found.value.0 / 64);
            last = found.value;
        }
        prop_assert_eq!(Some(last), histogram.buckets().last().map(|(mid, _)| mid));
    }

    #[test]
    fn a_histogram_is_stored_and_read_back(histogram in histograms()) {
        let text = serde_json::to_string(&histogram).unwrap();
        prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,200}", cut in 0usize..12_000) {
        std::hint::black_box(parse(&text).is_ok());
        std::hint::black_box(parse(RANDOM_READ.get(..cut).unwrap_or("")).is_ok());
        std::hint::black_box(process::reason(&text));
    }
}

#[test]
fn a_job_that_is_sent_leaves_only_what_is_about_its_output_here() {
    let args = args_of(0);
    let (here, there) = command::sent(&args, "--client=ip:192.0.2.1,8765", Path::new("/tmp/j.fio"));
    let here: Vec<_> = here.iter().map(|arg| arg.to_str().unwrap()).collect();
    assert_eq!(here.first(), Some(&"--client=ip:192.0.2.1,8765"));
    assert_eq!(here.last(), Some(&"/tmp/j.fio"));
    assert!(here.contains(&"--output=/tmp/out.json") && here.contains(&"--output-format=json+"));
    let there = there.to_str().unwrap();
    let mut lines = there.lines();
    let name = &builtin("quick").unwrap().workloads[0].name;
    assert_eq!(lines.next(), Some(format!("[{name}]").as_str()));
    let lines: Vec<&str> = lines.collect();
    assert!(
        lines.contains(&"filename=/mnt/a\\:b/data") && lines.contains(&"thread"),
        "{there}"
    );
    // Nothing is lost, and nothing is reported twice.
    assert_eq!(here.len() - 2 + lines.len() + 1, args.len());
    assert!(
        !lines
            .iter()
            .any(|line| line.starts_with("output") || line.starts_with("name"))
    );
}

#[test]
fn a_path_that_fio_would_read_otherwise_is_not_sent() {
    for path in ["/mnt/nbd", "/mnt/a b:c", "/mnt/\u{e4}"] {
        assert!(command::can_be_sent(Path::new(path)), "{path}");
    }
    for path in ["/mnt/${HOME}", "/a;b", "/a#b", "/a\nb=c", "/a\"b", "/a\\b"] {
        assert!(!command::can_be_sent(Path::new(path)), "{path}");
    }
}
