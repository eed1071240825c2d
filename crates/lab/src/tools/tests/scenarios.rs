//! What scenarios make of what they saw. They are run by the tests of the binary, which they start.

use super::*;
use crate::plan::Direction;
use crate::tools::pull::{PullSeen, ReadBack};
use crate::tools::{clients, compile, concurrent_drives, pull, resync};

#[test]
fn jains_index_is_one_for_equals_and_one_in_n_for_one_that_gets_all() {
    assert_eq!(clients::fairness(&[5.0, 5.0, 5.0, 5.0]), 1.0);
    assert_eq!(clients::fairness(&[8.0, 0.0, 0.0, 0.0]), 0.25);
    assert_eq!(clients::fairness(&[0.0]), 1.0);
}

#[test]
fn clients_are_counted_until_the_last_is_done() {
    let job = include_str!("../../fio/fixtures/random-read.json");
    let mut quick = crate::fio::parse(job).unwrap();
    quick.bytes = Bytes(100_000_000);
    quick.runtime = Nanos::from_ms(1000);
    let mut slow = quick.clone();
    slow.runtime = Nanos::from_ms(4000);
    let figures = clients::figures(&[quick, slow]).unwrap();
    assert_eq!(figures[0].name, "together");
    assert_eq!(figures[0].value, 50e6);
    assert_eq!(value(&figures, "slowest client"), 25e6);
    assert_eq!(value(&figures, "first done"), 1e9);
    assert_eq!(value(&figures, "last done"), 4e9);
    assert_eq!(clients::figures(&[]), None);
}

#[test]
fn a_source_is_the_same_each_time_and_another_one_for_each_number() {
    assert_eq!(compile::source(1, 3), compile::source(1, 3));
    assert_ne!(compile::source(1, 3), compile::source(2, 3));
    let mains = (0..3).filter(|number| compile::source(*number, 3).contains("int main("));
    assert_eq!(mains.collect::<Vec<_>>(), [0]);
}

#[test]
fn a_compilation_is_counted_in_files_and_in_bytes() {
    let options = compile::CompileOptions { files: 50, jobs: 0 };
    let (sources, written) = (Bytes(3_000_000), Bytes(1_000_000));
    let figures = compile::figures(&options, sources, written, Nanos::from_ms(2000));
    assert_eq!(figures[0].value, 25.0);
    assert_eq!(value(&figures, "read and written"), 2e6);
}

#[test]
fn drives_that_work_at_once_are_read_from_fios_jobs_in_their_order() {
    let job = |bytes: u64, ms: u64| {
        format!(
            r#"{{"error":0,"read":{{"io_bytes":{bytes},"runtime":{ms}}},"write":{{"io_bytes":0,"runtime":0}}}}"#
        )
    };
    let text = format!(
        "fio: a remark\n{{\"jobs\":[{},{}]}}",
        job(4_000_000, 2000),
        job(1_000_000, 1000)
    );
    let rates = concurrent_drives::rates(&text, Direction::Read).unwrap();
    assert_eq!(rates, [2e6, 1e6]);
    let figures = concurrent_drives::figures(&rates).unwrap();
    assert_eq!((figures[0].value, figures[1].value), (2e6, 3e6));
    assert_eq!(concurrent_drives::figures(&[]), None);
    // A direction that was not requested is no result, and neither is a job that failed.
    assert_eq!(concurrent_drives::rates(&text, Direction::Write), None);
    assert_eq!(
        concurrent_drives::rates(&text.replace("\"error\":0", "\"error\":5"), Direction::Read),
        None
    );
    assert_eq!(
        concurrent_drives::rates("fio: nothing", Direction::Read),
        None
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_of_drives_panic(text in "\\PC{0,80}") {
        std::hint::black_box(concurrent_drives::rates(&text, Direction::Read));
    }
}

#[test]
fn a_drive_without_reads_is_not_reported() {
    let whole = ReadBack {
        lost: Bytes(0),
        told: None,
    };
    let seen = PullSeen {
        pulled: whole,
        plugged: whole,
        touched: true,
        wrote_pulled: false,
        wrote_plugged: true,
    };
    let figures = pull::figures(&seen);
    assert_eq!(figures[0].name, "lost while pulled");
    assert_eq!(value(&figures, "an empty file could be made"), 1.0);
    assert_eq!(value(&figures, "data could be written while pulled"), 0.0);
    let told = figures.iter().find(|one| one.name.contains("told"));
    assert_eq!(told, None);
}

/// The scenario: a half had missed 32 MiB, in all three of its bitmap's chunks, and its array copied these, 159 MiB at
/// 1.5 MiB/s. What was reported as copied were the 32 MiB by the time: a fifth of it, below the rate that arrays promise.
#[test]
fn what_a_resync_leaves_of_the_load_is_a_part_of_it() {
    let seen = resync::ResyncSeen {
        resync: Nanos::from_ms(2000),
        copied: Some(1e8),
        alone: 1000.0,
        beside: Some(400.0),
    };
    let options = |text: &str| -> resync::ResyncOptions { toml::from_str(text).unwrap() };
    let figures = resync::figures(&seen, &options("bytes = \"64M\""));
    assert_eq!(figures[0].name, "until both are alike");
    assert_eq!(figures[0].better, Better::Lower);
    let missed = value(&figures, "made good of what it missed");
    assert_eq!(missed, f64::from(32 << 20));
    assert_eq!(value(&figures, "rate of the copying"), 1e8);
    assert_eq!(value(&figures, "left of the load"), 0.4);
    // Members of a third of the data and of 128 MiB, all of which a new one gets.
    let rebuilt = options("bytes = \"96M\"\nlevel = 5\nmembers = 4\naction = \"add\"");
    let figures = resync::figures(&seen, &rebuilt);
    assert_eq!(figures[0].name, "until the member is in sync");
    let rate = value(&figures, "rebuilt of the member");
    assert_eq!(rate, f64::from(75 << 20) / 2.0);
    let grown = options("bytes = \"96M\"\nlevel = 5\nmembers = 4\naction = \"grow\"");
    let figures = resync::figures(&seen, &grown);
    assert_eq!(figures[0].name, "until all is spread over one more");
    assert_eq!(value(&figures, "spread of the array's data"), 3.0 * rate);
}

#[test]
fn stories_that_make_no_sense_are_refused_by_name() {
    let wrong = [
        ("tool = \"pull\"\ndrive = \"e\"\nbytes = \"32M\"", "drive"),
        ("tool = \"pull\"\ndrive = \"a\"\nbytes = \"1M\"", "bytes"),
        ("tool = \"resync\"\nbytes = \"1M\"", "bytes"),
        ("tool = \"resync\"\nbytes = \"16M\"\nlevel = 2", "level"),
        (
            "tool = \"resync\"\nbytes = \"16M\"\nlevel = 6\nmembers = 3",
            "members",
        ),
        (
            "tool = \"resync\"\nbytes = \"16M\"\nmembers = 13",
            "members",
        ),
        (
            "tool = \"resync\"\nbytes = \"16M\"\naction = \"grow\"",
            "action",
        ),
        (
            "tool = \"clients\"\nclients = 0\nbytes = \"1M\"\nblock_size = \"4K\"\ndepth = 1",
            "clients",
        ),
        (
            "tool = \"clients\"\nclients = 1\nbytes = \"1M\"\nblock_size = \"2M\"\ndepth = 1",
            "block_size",
        ),
    ];
    for (text, word) in wrong {
        let tool: Tool = toml::from_str(text).unwrap();
        let error = tool.kind().check().unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
}
