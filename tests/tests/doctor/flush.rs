//! Disks with a slow flush: it is named for programs that flush, and the disk is not called slow.

use outboard_tests::attachment::World;
use outboard_tests::image::Folder;
use outboard_tests::server::{By, Server};
use serde_json::Value;
use testkit::proc::Process;
use testkit::requires;

use super::{
    AnswerGrade, SECONDS, SECONDS_MAX, alone, diagnoses_until, doctor_in, limiter, runs_long_tests,
};

/// What is mounted, and where.
struct Mounted {
    world: World,
    point: String,
}

impl Mounted {
    /// `disk` with a filesystem; none where this machine cannot.
    fn new(disk: &str) -> Option<Self> {
        let world = World::new()?;
        if !requires::all(&[requires::command("fio")]) {
            return None;
        }
        let point = world.mount_point();
        world.attachment(disk).on(&point).ext4().device();
        Some(Self { world, point })
    }

    /// Its verdicts until `grade` calls them right: on reads, on writes, and on flushed writes where a flush is slow.
    #[track_caller]
    fn verdicts(&self, grade: impl Fn(&Value) -> AnswerGrade) -> Value {
        let folder = Folder::new();
        let found = diagnoses_until((SECONDS, SECONDS_MAX), grade, |seconds| {
            doctor_in(&self.world, &folder, seconds, &[&self.point, "--write"])
        });
        found.unwrap_or_else(|wrong| panic!("{wrong:#?}"))
    }

    fn end(self) {
        self.world.run(&["detach", &self.point]).ok();
        self.world.assert_clean();
    }
}

fn names_flush(verdict: &Value) -> bool {
    limiter(verdict) == ["flush"]
}

/// A flush of 80 ms is named with its time, and is the limiter of neither reads nor writes.
#[track_caller]
fn names_the_flush_of(mounted: Mounted) {
    // Without a third verdict, the flush was not measured or is not slow.
    let all = mounted.verdicts(|all| match names_flush(&all[1]) {
        true => AnswerGrade::Wrong,
        false if all[2].is_null() => AnswerGrade::Undecided,
        false => AnswerGrade::of_parts(&all[2], &["flush"]),
    });
    let flushed = &all[2];
    assert_eq!(flushed["examination"]["is_flushed"].as_bool(), Some(true));
    let nanos = flushed["examination"]["flush"]["flush"].as_u64();
    assert!(nanos.is_some_and(|nanos| nanos >= 60_000_000), "{nanos:?}");
    let advice = flushed["verdict"]["advice"].to_string();
    assert!(advice.contains("The writes are not slow"), "{advice}");
    assert!(!limiter(&all[0]).contains(&"flush".to_owned()));
    mounted.end();
}

#[test]
fn a_slow_flush_is_named_and_the_writes_are_not_called_slow() {
    let _alone = alone();
    if let Some(mounted) = Mounted::new("delay(memory(192M), flush=80ms)") {
        names_the_flush_of(mounted);
    }
}

#[test]
fn a_slow_flush_of_a_servers_disk_is_named() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    let server = Server::start(&["d=delay(memory(192M), flush=80ms)"]);
    if let Some(mounted) = Mounted::new(&server.uri_by(By::Tcp, "d")) {
        names_the_flush_of(mounted);
    }
}

/// A write takes as long as a flush does, so that the flush adds little.
#[test]
fn a_disk_with_slow_writes_has_no_slow_flush() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    if let Some(mounted) = Mounted::new("delay(memory(192M), write=60ms)") {
        let all = mounted.verdicts(|all| match all[2].is_null() && !names_flush(&all[1]) {
            true => AnswerGrade::Right,
            false => AnswerGrade::Wrong,
        });
        assert!(all[1]["examination"]["flush"].is_object());
        mounted.end();
    }
}

/// With `sync`, each write is flushed before it is done, so that the flush limits writes that no program flushes.
#[test]
fn a_mount_that_flushes_each_write_is_limited_by_the_flush() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    let Some(mounted) = Mounted::new("delay(memory(192M), flush=80ms)") else {
        return;
    };
    let mut remount = std::process::Command::new("mount");
    remount.args(["-o", "remount,sync", &mounted.point]);
    let mut done = Process::start(&mut remount).expect("mount");
    let status = done.wait(outboard_tests::server::LIMIT).expect("its end");
    assert!(status.success());
    let all = mounted.verdicts(|all| AnswerGrade::of_parts(&all[1], &["flush"]));
    let evidence = all[1]["verdict"]["evidence"].to_string();
    assert!(evidence.contains("flushed for"), "{evidence}");
    mounted.end();
}
