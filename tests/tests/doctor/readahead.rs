//! How much the kernel reads ahead of a mount: too little limits a program that reads in order, much of it hides the disk.

use std::path::Path;
use std::process::Command;

use outboard_tests::attachment::World;
use outboard_tests::image::Folder;
use outboard_tests::said::run;
use outboard_tests::server::{By, Server};
use serde_json::Value;
use testkit::requires;

use super::files::fill;
use super::{
    AnswerGrade, SECONDS, SECONDS_MAX, alone, diagnoses_until, doctor_in, limiter, runs_long_tests,
};

/// Each read takes 20 ms, however many there are, up to 60 MiB a second.
const LATE: &str = "throttle(delay(memory(192M), read=20ms), read-bytes=60M/s)";

/// A mount with a file that the page cache has nothing of.
struct ColdMount {
    world: World,
    point: String,
    setting: String,
}

impl ColdMount {
    /// `disk` with so much readahead; none where this machine cannot.
    fn new(disk: &str, kib: u64) -> Option<Self> {
        let world = World::new()?;
        if !requires::all(&[requires::command("fio")]) {
            return None;
        }
        let point = world.mount_point();
        let device = world.attachment(disk).on(&point).ext4().device();
        let name = device.trim_start_matches("/dev/").to_owned();
        let setting = format!("/sys/block/{name}/queue/read_ahead_kb");
        let file = Path::new(&point).join("film");
        fill(&file, 96);
        let mount = Self {
            world,
            point,
            setting,
        };
        mount.set(kib);
        let of = format!("of={}", file.display());
        let mut dd = Command::new("dd");
        dd.args([&of, "oflag=nocache", "conv=notrunc,fdatasync", "count=0"]);
        run(&mut dd).ok();
        Some(mount)
    }

    fn set(&self, kib: u64) {
        std::fs::write(&self.setting, kib.to_string()).expect("a readahead");
    }

    /// Runs the doctor through the page cache until `grade` calls its answer right.
    #[track_caller]
    fn verdict(&self, depth: &str, grade: impl Fn(&Value) -> AnswerGrade) -> Value {
        let folder = Folder::new();
        let args = [&self.point, "--buffered", "--depth", depth];
        let right = |all: &Value| grade(&all[0]);
        let found = diagnoses_until((SECONDS, SECONDS_MAX), right, |seconds| {
            doctor_in(&self.world, &folder, seconds, &args)
        });
        let all = found.unwrap_or_else(|wrong| panic!("{wrong:#?}"));
        all[0].clone()
    }

    fn end(self) {
        self.world.run(&["detach", &self.point]).ok();
        self.world.assert_clean();
    }
}

fn names_readahead(found: &Value) -> bool {
    limiter(found) == ["readahead"]
}

/// Of a verdict, where the readahead is large enough.
fn grade_without(found: &Value) -> AnswerGrade {
    match names_readahead(found) {
        true => AnswerGrade::Wrong,
        false => AnswerGrade::Right,
    }
}

/// 128 KiB in 20 ms are 6.5 MB/s; what the doctor suggests is set then, and brings what it predicted.
#[track_caller]
fn suggests_what_helps(mount: ColdMount) {
    let found = mount.verdict("1", |found| AnswerGrade::of_parts(found, &["readahead"]));
    let advice = found["verdict"]["advice"].as_str().expect("advice");
    assert!(advice.contains("read_ahead_kb"), "{advice}");
    let (_, rest) = advice.split_once("`echo ").expect("a command");
    let kib = rest.split(' ').next().and_then(|kib| kib.parse().ok());
    let predicted = found["verdict"]["next"]["rate"].as_f64().expect("a rate");
    assert!(predicted > 20e6, "{predicted}");
    mount.set(kib.unwrap_or_else(|| panic!("{advice}")));
    mount.verdict("1", |again| {
        let rate = again["examination"]["rate"].as_f64().expect("a rate");
        let is_reached = (rate / predicted - 1.0).abs() <= 0.15;
        grade_without(again).max(AnswerGrade::of(is_reached))
    });
    mount.end();
}

#[test]
fn a_readahead_that_is_too_small_is_named_with_one_that_helps() {
    let _alone = alone();
    if let Some(mount) = ColdMount::new(LATE, 128) {
        suggests_what_helps(mount);
    }
}

#[test]
fn a_small_readahead_of_a_mount_over_nbd_is_named() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    let server = Server::start(&[&format!("d={LATE}")]);
    if let Some(mount) = ColdMount::new(&server.uri_by(By::Tcp, "d"), 128) {
        suggests_what_helps(mount);
    }
}

/// The disk takes no time for a request, so that a larger readahead is no faster; or the readahead is large.
#[test]
fn a_readahead_that_limits_nothing_is_not_named_and_one_that_hides_the_disk_is_reported() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    if let Some(mount) = ColdMount::new("throttle(memory(192M), read-bytes=20M/s)", 512) {
        mount.verdict("1", grade_without);
        mount.end();
    }
    if let Some(mount) = ColdMount::new(LATE, 8192) {
        let found = mount.verdict("1", grade_without);
        let remarks = found["examination"]["remarks"].to_string();
        assert!(remarks.contains("hides the disk"), "{remarks}");
        mount.end();
    }
}
