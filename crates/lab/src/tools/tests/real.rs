//! The tools themselves, small. Each is a package of the tests' set, so none may be missing.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::checks::Check;
use crate::host::residency::{drop_caches, look};
use crate::units::Bytes;

struct ToolTest {
    target: TempDir,
    work: TempDir,
}

impl ToolTest {
    fn new() -> Self {
        let make = || tempfile::tempdir().unwrap();
        Self {
            target: make(),
            work: make(),
        }
    }

    fn place(&self) -> ToolDirs<'_> {
        place(self.target.path(), self.work.path())
    }

    fn run(&self, text: &str) -> Ran {
        let tool: Tool = toml::from_str(text).unwrap();
        tool.kind().check().unwrap();
        let installed = find(tool.kind().program()).unwrap();
        tool.kind().prepare(&self.place(), &mut |_| true).unwrap();
        run(&tool, &installed, &self.place(), &mut |_| true).unwrap()
    }

    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.target.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn dbench_moves_data_and_leaves_nothing() {
    let bench = ToolTest::new();
    let ran = bench.run("tool = \"dbench\"\nclients = 1\nruntime_ms = 2000");
    assert!(ran.result.figures[0].value > 1e6, "{ran:?}");
    assert!(ran.result.elapsed >= Nanos::from_ms(1500), "{ran:?}");
    assert_eq!(ran.result.version, "4.00");
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn bonnie_gives_its_headline_and_leaves_nothing() {
    let bench = ToolTest::new();
    let ran = bench.run("tool = \"bonnie++\"\nsize = \"16M\"\nfiles = 1");
    let read = &ran.result.figures[0];
    assert_eq!(read.name, "block read");
    // A part of the whole time; what takes too little of it for a figure counts as half a second.
    let seconds = ran.result.elapsed.seconds().max(0.5);
    assert!(read.value * seconds >= f64::from(16 << 20), "{ran:?}");
    assert_eq!(bench.left(), Vec::<String>::new());
    // It waited before each of its tests, and nothing of its file was left in memory then.
    let root = rustix::process::geteuid().is_root();
    if root && forgets(bench.target.path()) {
        let cache = |finding: &&Finding| finding.check == Check::Cache;
        assert_eq!(ran.findings.iter().find(cache), None);
    }
}

/// Whether files there can leave the page cache: not those that are nowhere else.
fn forgets(directory: &Path) -> bool {
    let path = directory.join("file");
    fs::write(&path, vec![1; 1 << 20]).unwrap();
    drop_caches(&path, Bytes(1 << 20), true, &mut |_| true);
    let left = look(&path, Bytes(1 << 20));
    fs::remove_file(&path).unwrap();
    left.is_some_and(|left| left.part() < 0.02)
}

#[test]
fn tar_makes_an_archive_of_a_real_tree_that_stays_and_removes_the_archive() {
    let bench = ToolTest::new();
    let text = "tool = \"tar\"\nbytes_max = \"2M\"";
    let first = bench.run(text);
    let second = bench.run(text);
    let bytes = first.result.bytes.unwrap().0;
    assert!(bytes > 2 << 20, "{bytes} read and written");
    assert_eq!(first.result.bytes, second.result.bytes);
    assert_eq!(first.result.subject, second.result.subject);
    let subject = first.result.subject.unwrap();
    assert!(subject.contains("files"), "{subject}");
    assert_eq!(bench.left(), ["tree", "tree.json"]);
}

/// Two tests of one plan work in the same directory.
#[test]
fn tar_takes_no_tree_that_another_test_has_left() {
    let bench = ToolTest::new();
    let large = bench.run("tool = \"tar\"\nbytes_max = \"2M\"");
    let small = bench.run("tool = \"tar\"\nbytes_max = \"1M\"");
    assert!(small.result.bytes < large.result.bytes, "{small:?}");
    assert_ne!(small.result.subject, large.result.subject);
}

#[test]
fn a_compilation_keeps_its_sources_and_removes_what_it_made() {
    let bench = ToolTest::new();
    let text = "tool = \"compile\"\nfiles = 3\njobs = 2";
    let first = bench.run(text);
    let second = bench.run(text);
    assert_eq!(first.result.figures[0].name, "files compiled");
    assert!(first.result.figures[0].value > 0.0, "{first:?}");
    assert!(first.result.bytes > Some(Bytes(0)));
    assert_eq!(first.result.subject, second.result.subject);
    assert_eq!(bench.left(), ["sources", "sources.complete"]);
    // Another number of files is another tree.
    let fewer = bench.run("tool = \"compile\"\nfiles = 2").result;
    assert!(fewer.subject.unwrap().starts_with("2 generated"));
}

#[test]
fn drives_that_work_together_each_have_a_figure_and_all_have_one() {
    let bench = ToolTest::new();
    let others = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let beside = others.each_ref().map(|other| other.path().join("tools"));
    let place = ToolDirs {
        beside: &beside,
        ..bench.place()
    };
    for direction in ["write", "read"] {
        let text = format!(
            "tool = \"together\"\ndirection = \"{direction}\"\nblock_size = \"64K\"\n\
             bytes = \"1M\"\nruntime_ms = 200"
        );
        let tool: Tool = toml::from_str(&text).unwrap();
        let installed = find(tool.kind().program()).unwrap();
        tool.kind().prepare(&place, &mut |_| true).unwrap();
        let ran = run(&tool, &installed, &place, &mut |_| true).unwrap();
        let figures = &ran.result.figures;
        assert!(value(figures, "all together") > figures[0].value, "{ran:?}");
        assert_eq!(value(figures, "drives"), 3.0);
    }
}

#[test]
fn stress_ng_computes_beside_the_target() {
    let bench = ToolTest::new();
    let ran = bench.run("tool = \"stress-ng\"\nworkers = 1\nruntime_ms = 1000");
    assert!(ran.result.figures[0].value > 1.0, "{ran:?}");
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn iperf3_reaches_its_own_server_in_both_directions_and_ends_it() {
    let bench = ToolTest::new();
    for reverse in [false, true] {
        let ran = bench.run(&format!(
            "tool = \"iperf3\"\nstreams = 2\nreverse = {reverse}\nruntime_ms = 1000"
        ));
        assert!(ran.result.figures[0].value > 1e7, "{ran:?}");
        assert_eq!(ran.commands.len(), 2);
    }
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn iperf3_says_that_no_server_listens() {
    let bench = ToolTest::new();
    let text = "tool = \"iperf3\"\nhost = \"127.0.0.1\"\nport = 1\nruntime_ms = 1000";
    let tool: Tool = toml::from_str(text).unwrap();
    let installed = find(tool.kind().program()).unwrap();
    let error = run(&tool, &installed, &bench.place(), &mut |_| true).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}

/// A shell with a child, as a tool that starts processes of its own.
fn forks(bench: &ToolTest, script: &str) -> (Invocation, PathBuf) {
    let file = bench.target.path().join("child");
    let script = format!("{script} & echo $! > {}; wait", file.display());
    let command = Invocation::new(Path::new("sh"), ["-c".to_owned(), script]);
    (command, file)
}

/// Whether the process is there, no zombie, and goes on being so.
fn lives(file: &Path) -> bool {
    let pid = fs::read_to_string(file).unwrap();
    let stat = || fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // One that was killed is gone once it was given a processor.
    (0..200).all(|_| {
        std::thread::sleep(Duration::from_millis(10));
        stat().is_ok_and(|stat| !stat.contains(") Z"))
    })
}

#[test]
fn a_tool_that_is_stopped_takes_its_children_with_it() {
    let bench = ToolTest::new();
    let (command, file) = forks(&bench, "sleep 60");
    let started = engine::clock::now();
    let mut tick = |_: Instant| !fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'));
    let error = command
        .run(&bench.place(), Duration::from_secs(30), &mut tick)
        .unwrap_err();
    assert!(matches!(error, ToolError::Cancelled), "{error}");
    assert!(!lives(&file));
    assert!(engine::clock::now().duration_since(started) < Duration::from_secs(10));
}

#[test]
fn a_child_that_outlives_its_tool_is_ended_too() {
    let bench = ToolTest::new();
    let file = bench.target.path().join("child");
    let script = format!("sleep 60 & echo $! > {}", file.display());
    let command = Invocation::new(Path::new("sh"), ["-c".to_owned(), script]);
    command
        .run(&bench.place(), Duration::from_secs(30), &mut |_| true)
        .unwrap();
    assert!(!lives(&file));
}

#[test]
fn a_tool_that_takes_too_long_or_prints_too_much_is_ended() {
    let bench = ToolTest::new();
    let run = |script: &str, limit| {
        let command = Invocation::new(Path::new("sh"), ["-c", script]);
        command
            .run(&bench.place(), limit, &mut |_| true)
            .unwrap_err()
    };
    let slow = run("sleep 60", Duration::from_millis(100));
    assert!(matches!(slow, ToolError::TimedOut { .. }), "{slow}");
    let much = run("yes", Duration::from_secs(30));
    assert!(matches!(much, ToolError::TooMuch { .. }), "{much}");
}

#[test]
fn a_tool_that_fails_is_quoted_in_one_line() {
    let bench = ToolTest::new();
    let command = Invocation::new(Path::new("sh"), ["-c", "echo a; echo b >&2; exit 3"]);
    let error = command
        .run(&bench.place(), Duration::from_secs(9), &mut |_| true)
        .unwrap_err();
    assert_eq!(error.to_string(), "sh failed: b");
}

#[test]
fn a_tree_is_bounded_ordered_and_the_same_each_time() {
    let from = tempfile::tempdir().unwrap();
    fs::create_dir(from.path().join("b")).unwrap();
    for (name, bytes) in [("a", 10), ("b/x", 20), ("b/y", 30), ("c", 40)] {
        fs::write(from.path().join(name), vec![1; bytes]).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", from.path().join("a-link")).unwrap();
    let names = |bytes_max| {
        let entries = tree::walk(from.path(), Bytes(bytes_max)).unwrap();
        let paths = entries.into_iter().map(|entry| entry.path);
        paths.collect::<Vec<_>>()
    };
    assert_eq!(names(1000), ["a", "b/x", "b/y", "c"].map(PathBuf::from));
    assert_eq!(names(59), ["a", "b/x"].map(PathBuf::from));
    assert_eq!(names(5), Vec::<PathBuf>::new());
}

#[test]
fn a_tree_without_files_is_said_to_be_one() {
    let bench = ToolTest::new();
    let from = tempfile::tempdir().unwrap();
    let target = bench.target.path().join("tree");
    let error = tree::copy(from.path(), &target, Bytes(1 << 20), &mut |_| true).unwrap_err();
    assert!(error.to_string().contains("no files"), "{error}");
}
