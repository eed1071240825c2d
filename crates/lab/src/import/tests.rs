//! Files of fio 2 and 3 as runs: what they count, what they do not contain, and what is refused.

use proptest::prelude::*;

use super::*;
use crate::report::{Summary, csv, json, markdown, table};

const RANDOM_READ: &str = include_str!("../fio/fixtures/random-read.json");
const SEQUENTIAL_WRITE: &str = include_str!("../fio/fixtures/sequential-write.json");

/// The shape of fio 2.1's json: KiB, microseconds, no options, no histogram. The figures are study A's:
/// `WRITE: io=61956KB, aggrb=1031KB/s … maxt=60070msec`.
const OLD: &str = r#"fio: this is a remark of fio
{
  "fio version" : "fio-2.1.11",
  "jobs" : [ { "jobname" : "SEQ Read", "groupid" : 0, "error" : 0,
    "read" : { "io_bytes" : 0, "bw" : 0, "iops" : 0, "runtime" : 0 },
    "write" : { "io_bytes" : 61956, "bw" : 1031, "iops" : 257.84, "runtime" : 60070, "total_ios" : 15489,
      "lat" : { "min" : 100, "max" : 442499, "mean" : 3870.1, "stddev" : 1.0 } },
    "usr_cpu" : 1.5, "sys_cpu" : 3.5 } ]
}"#;

fn source(name: &str, text: &str) -> ImportFile {
    ImportFile {
        name: name.into(),
        text: text.into(),
    }
}

fn import(sources: Vec<ImportFile>) -> Import {
    Import {
        sources,
        label: None,
        now_unix_ms: 5,
    }
}

fn kept(import: &Import) -> crate::store::RunRecord {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("lab.sqlite")).unwrap();
    let run = keep(&mut store, &read(import).unwrap()).unwrap();
    store.load(run).unwrap()
}

#[test]
fn a_file_of_a_job_that_wrote_zeroes_is_marked() {
    let marked = |text: &str| {
        let run = kept(&import(vec![source("a.json", text)]));
        let mut findings = run.cells[0].findings.iter();
        findings.any(|finding| finding.text.contains("is zeroes"))
    };
    assert!(!marked(SEQUENTIAL_WRITE));
    let zeroes = SEQUENTIAL_WRITE.replacen("\"rw\"", "\"zero_buffers\" : \"1\", \"rw\"", 1);
    assert_ne!(zeroes, SEQUENTIAL_WRITE);
    assert!(marked(&zeroes));
}

#[test]
fn study_a_is_read_with_its_kib_and_its_swapped_heading_is_noticed() {
    let run = kept(&import(vec![source("a.json", OLD)]));
    let result = run.cells[0].fio().unwrap();
    assert_eq!(result.direction, Direction::Write);
    assert_eq!(result.bytes, Bytes(61_956 * 1024));
    // aggrb=1031KB/s
    assert!((run.cells[0].rate().0 / 1024.0 - 1031.4).abs() < 0.1);
    assert_eq!(run.status, Status::Imported);
    let says = |text: &str| run.cells[0].findings.iter().any(|f| f.text.contains(text));
    assert!(says("its name says read and the bytes were a write"));
    let told: Vec<&str> = run.findings.iter().map(|f| f.text.as_str()).collect();
    for unknown in ["machine", "block size", "depth", "latency histogram"] {
        assert!(
            told.iter().any(|text| text.contains(unknown)),
            "{unknown}: {told:?}"
        );
    }
    assert!(Summary::of(&run).rows[0].p50.is_none());
}

#[test]
fn two_files_of_one_job_are_two_blocks_and_another_job_is_another_test() {
    let run = kept(&import(vec![
        source("1", RANDOM_READ),
        source("2", SEQUENTIAL_WRITE),
        source("3", RANDOM_READ),
    ]));
    assert_eq!(run.plan.workloads.len(), 2);
    let blocks: Vec<(usize, u32)> = run.cells.iter().map(|c| (c.workload, c.block)).collect();
    assert_eq!(blocks, [(0, 0), (1, 0), (0, 1)]);
    let read = run.plan.workloads[0].fio().unwrap();
    assert_eq!(
        (read.pattern, read.direction),
        (Pattern::Random, Direction::Read)
    );
    assert_eq!(read.block_size, Bytes(4096));
    assert!(Summary::of(&run).rows[0].p99.is_some());
    assert_eq!(
        run.cells[0].fio().unwrap(),
        &crate::fio::parse(RANDOM_READ)
            .map(|mut result| {
                // The lab keeps fio's own word for it, an import its number.
                result.block_size = "4096".into();
                result
            })
            .unwrap()
    );
}

#[test]
fn a_run_that_was_imported_has_every_report() {
    let mut import = import(vec![source("1", RANDOM_READ), source("2", OLD)]);
    import.label = Some("the old card".into());
    let run = kept(&import);
    assert_eq!(run.manifest.targets.len(), 1);
    for text in [
        table(&run),
        markdown(&run),
        json(&run).unwrap(),
        csv(&run),
        crate::report::html(&run),
    ] {
        assert!(text.contains("the old card"), "{text}");
    }
    assert!(table(&run).contains("imported"));
}

/// Four processes at 33 MB/s each were four repeats of 33 MB/s.
#[test]
fn the_processes_of_one_job_ran_at_the_same_time_and_their_rates_add_up() {
    let mut file: serde_json::Value = serde_json::from_str(RANDOM_READ).unwrap();
    let job = file["jobs"][0].clone();
    let one = kept(&import(vec![source("1", RANDOM_READ)]));
    file["jobs"] = vec![job.clone(); 4].into();
    let run = kept(&import(vec![source("4", &file.to_string())]));
    assert_eq!(run.cells.len(), 1);
    let (one, all) = (&one.cells[0], &run.cells[0]);
    assert!((all.rate().0 / one.rate().0 - 4.0).abs() < 1e-9);
    let count = |cell: &Cell| cell.fio().unwrap().latencies.count();
    assert_eq!(count(all), 4 * count(one));
    assert_eq!(run.plan.workloads[0].fio().unwrap().jobs, 4);
    // Of another group: after the others. Of another name: a remark.
    let mut later = job.clone();
    later["groupid"] = 1.into();
    let mut other = job.clone();
    other["jobname"] = "other".into();
    file["jobs"] = vec![job, later, other].into();
    let run = kept(&import(vec![source("3", &file.to_string())]));
    assert_eq!(run.cells.len(), 3);
    let beside = |cell: &&Cell| {
        let mut findings = cell.findings.iter();
        findings.any(|finding| finding.text.contains("at the same time"))
    };
    assert_eq!(run.cells.iter().filter(beside).count(), 2);
}

#[test]
fn a_mixed_job_is_two_tests_and_says_that_neither_stands_alone() {
    let mut file: serde_json::Value = serde_json::from_str(RANDOM_READ).unwrap();
    file["jobs"][0]["write"] = file["jobs"][0]["read"].clone();
    let found = read(&import(vec![source("mixed", &file.to_string())])).unwrap();
    assert_eq!(found.cells.len(), 2);
    let mixed = |cell: &Cell| cell.findings.iter().any(|f| f.text.contains("mixed"));
    assert!(found.cells.iter().all(|(cell, _)| mixed(cell)));
}

#[test]
fn what_is_no_file_of_fio_is_refused_by_name_in_one_line() {
    let failed = OLD.replace("\"error\" : 0", "\"error\" : 5");
    let impossible = OLD.replace("\"bw\" : 1031", "\"bw\" : 7");
    let idle = OLD.replace("61956", "0");
    let absurd = OLD
        .replace("61956", "7328000000000")
        .replace("1031", "121992000000");
    let texts = [
        ("", "empty"),
        ("hello", "no JSON"),
        ("{\"a\": 1}", "not fio's"),
        ("{\"fio version\": \"fio-3.1\"}", "no jobs"),
        (failed.as_str(), "error 5"),
        (impossible.as_str(), "do not belong together"),
        (idle.as_str(), "moved a byte"),
        (absurd.as_str(), "no medium is that fast"),
    ];
    for (text, why) in texts {
        let error = read(&import(vec![source("x.json", text)]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("x.json") && error.contains(why), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

/// The printed rate alone was held against what is possible, and that of each job of several by itself.
#[test]
fn a_rate_beyond_any_medium_is_refused_by_bytes_and_time_and_of_all_jobs_together() {
    let reason = |text: &str| job::read(text).err().unwrap_or_default();
    let scaled = |bytes: u64, rate: u64| {
        OLD.replace("61956", &bytes.to_string())
            .replace("1031", &rate.to_string())
    };
    // KiB in 60.07 s: 2e12 bytes per second, with 0.9e12 printed.
    let by_bytes = scaled(117_300_000_000, 878_906_250);
    assert!(
        reason(&by_bytes).contains("no medium is that fast"),
        "{}",
        reason(&by_bytes)
    );
    // 0.6e12 in each of two jobs of one group.
    let one = scaled(35_200_000_000, 585_937_500);
    assert_eq!(reason(&one), "");
    let json = &one[one.find('{').unwrap()..];
    let mut both: serde_json::Value = serde_json::from_str(json).unwrap();
    both["jobs"] = vec![both["jobs"][0].clone(); 2].into();
    let both = both.to_string();
    assert!(
        reason(&both).contains("no medium is that fast"),
        "{}",
        reason(&both)
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        std::hint::black_box(job::read(&text).is_ok());
        let inside = OLD.replace("1031", &text);
        std::hint::black_box(job::read(&inside).is_ok());
    }
}
