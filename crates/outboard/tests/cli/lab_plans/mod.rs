//! `lab run PLAN --small`: every plan that comes with the program, made for real and as short as it goes.
//!
//! A plan passes if each of its targets was built or is left out with a reason that is known here, if each
//! of its tests has a figure on each target it is for, and if nothing is left of it afterwards.
//!
//! Of a plan with targets of its own, each test runs on as few as cover all of them ([`cover`]); where
//! `OUTBOARD_WHOLE_PLANS` is set, which `cargo xtask soak plans` does, each runs on all that it is for.

mod cover;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use ::lab::plan::{Job, Plan};
use ::lab::tools::Tool;
use ::lab::units::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::requires;

use super::{answer, outboard, run, within_a_minute};

/// Has every test of a plan run on every target that it is for.
const WHOLE: &str = "OUTBOARD_WHOLE_PLANS";

/// Targets that this machine's kernel, or what is installed, may be unable to build, by plan.
const MAY_LACK: [(&str, &[&str]); 7] = [
    (
        "layers",
        &[
            "nbd-kernel",
            "kernel-linear",
            "kernel-stripe",
            "kernel-raid-1",
            "kernel-volume",
            "kernel-raid-1-volume",
            "kernel-raid-1-nbd",
            "nfs",
        ],
    ),
    (
        "filesystems",
        &["xfs", "btrfs", "f2fs", "jfs", "reiserfs", "nilfs2"],
    ),
    ("remote-fs", &["nfs", "cifs", "gvfs"]),
    ("block-size", &["btrfs"]),
    ("uneven-mirror", &["mirror-ext3"]),
    ("raid-levels", &["kernel-raid-5", "kernel-raid-6"]),
    (
        "raid-smb",
        &[
            "raid-0-smb",
            "raid-1-smb",
            "raid-10-smb",
            "raid-5-smb",
            "raid-6-smb",
        ],
    ),
];

fn may_lack(plan: &str) -> &'static [&'static str] {
    let mut known = MAY_LACK.iter();
    known
        .find(|(name, _)| *name == plan)
        .map_or(&[], |(_, targets)| *targets)
}

/// A half of a mirror that is slower than the other: a plan's own is too slow for a short run, in which a resync
/// copies 144 MiB through it under load.
const SLOW_HALF: &str = "bytes=100M/s";

/// A folder in which a plan is made.
struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    /// None, with the reason printed, where plans cannot be made.
    fn new(programs: &[&str]) -> Option<Self> {
        let mut needs = vec![
            requires::root(),
            requires::fuse(),
            requires::loop_device(),
            requires::command("fio"),
        ];
        needs.extend(programs.iter().map(|program| requires::command(program)));
        if !requires::all(&needs) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("base")).expect("a folder");
        Some(Self { folder })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a plan small, and gives what was stored of it.
    fn made(&self, plan: &str, more: &[&str]) -> Value {
        let is_whole = std::env::var_os(WHOLE).is_some();
        let what = match is_whole {
            true => plan.to_owned(),
            false => self.cut_down(plan),
        };
        let words = [
            &["lab", "run", &what, "base", "--small", "--seed", "7"],
            more,
        ]
        .concat();
        answer(self.path(), &words);
        let told = answer(self.path(), &["lab", "export"]);
        let mut told: Value = serde_json::from_str(&told).expect("JSON");
        self.is_tidy();
        told["run"].take()
    }

    /// A file with the part of a plan that covers it, and with faster slow disks.
    fn cut_down(&self, name: &str) -> String {
        let mut plan = ::lab::plan::builtin(name).expect("a plan that comes with the program");
        cover::cover(&mut plan, may_lack(name));
        hasten(&mut plan);
        let file = self.path().join(format!("{name}.toml"));
        let text = plan.to_toml().expect("a plan has a TOML form");
        std::fs::write(&file, text).expect("a new file");
        file.to_string_lossy().into_owned()
    }

    /// Nothing is mounted, nothing is attached, no file is there.
    fn is_tidy(&self) {
        assert_eq!(self.left(), Vec::<String>::new());
    }

    /// What is mounted, attached and in the folder.
    fn left(&self) -> Vec<String> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
        let own = self.path().to_string_lossy().into_owned();
        let mounts = mounts.lines().filter(|line| line.contains(&own));
        let mut left: Vec<String> = mounts.map(str::to_owned).collect();
        let attached = answer(self.path(), &["status"]);
        left.extend((attached != "nothing is attached\n").then_some(attached));
        let files = std::fs::read_dir(self.path().join("base")).expect("the base");
        left.extend(files.map(|file| format!("{file:?}")));
        left
    }
}

/// What an array with parity copies in a short run: while it grows it yields to users, for minutes with more.
const COPIED: Bytes = Bytes(16 << 20);

/// Gives the slow halves of mirrors that are resynced [`SLOW_HALF`], and arrays with parity less to copy.
fn hasten(plan: &mut Plan) {
    for workload in &mut plan.workloads {
        if let Job::Tool(Tool::Resync(options)) = &mut workload.job {
            options.half = options.half.take().map(|_| SLOW_HALF.to_owned());
            if options.level > 1 {
                options.bytes = COPIED;
            }
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        drop(run(self.path(), &["detach", "--all", "--force"]));
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Every target is there or left out for a reason, and only those are left out that may lack here.
fn every_target_is_accounted_for(run: &Value) {
    let may_lack = may_lack(text(&run["plan"], "name"));
    let manifest = &run["manifest"];
    for target in list(&run["plan"], "target") {
        let name = text(target, "name");
        let built = list(manifest, "targets");
        if built.iter().any(|one| text(one, "name") == name) {
            continue;
        }
        let mut left_out = list(manifest, "left_out").iter();
        let left = left_out.find(|one| text(one, "name") == name);
        let left = left.unwrap_or_else(|| panic!("{name} is neither built nor left out"));
        assert!(!text(left, "reason").is_empty(), "{left}");
        assert!(may_lack.contains(&name), "{left}");
    }
}

/// Every test has a figure on every target it is for, and is for one that was built.
fn every_test_has_a_figure(run: &Value) {
    let targets = list(&run["manifest"], "targets");
    for (w, workload) in list(&run["plan"], "workload").iter().enumerate() {
        let on = list(workload, "on");
        let is_for = |target: &Value| on.is_empty() || on.contains(&target["name"]);
        assert!(targets.iter().any(is_for), "{workload}");
        for (t, target) in targets.iter().enumerate() {
            if !is_for(target) {
                continue;
            }
            let mut cells = list(run, "cells").iter();
            let cell = cells.find(|cell| cell["workload"] == w && cell["target"] == t);
            let name = &target["name"];
            let cell = cell.unwrap_or_else(|| panic!("nothing of {workload} on {name}"));
            let outcome = &cell["outcome"];
            let bytes = outcome["fio"]["bytes"].as_u64().unwrap_or(0);
            let figures = list(&outcome["tool"], "figures").len();
            assert!(bytes > 0 || figures > 0, "{cell}");
        }
    }
}

/// The figure of a tool in the first cell of a workload by the start of its name.
fn figure(run: &Value, workload: &str, name: &str) -> f64 {
    let workloads = list(&run["plan"], "workload");
    let at = workloads
        .iter()
        .position(|one| text(one, "name").starts_with(workload));
    let mut cells = list(run, "cells").iter();
    let cell = cells.find(|cell| cell["workload"].as_u64() == at.map(|at| at as u64));
    let cell = cell.unwrap_or_else(|| panic!("no {workload}"));
    let mut figures = list(&cell["outcome"]["tool"], "figures").iter();
    let found = figures.find(|figure| text(figure, "name") == name);
    let found = found.unwrap_or_else(|| panic!("no {name} in {cell}"));
    found["value"].as_f64().expect("a number")
}

/// Makes `plan` small and checks what every plan has to keep.
fn check(plan: &str, programs: &[&str]) -> Option<Value> {
    let ground = Ground::new(programs)?;
    let run = ground.made(plan, &[]);
    every_target_is_accounted_for(&run);
    every_test_has_a_figure(&run);
    Some(run)
}

const PAPER: [&str; 3] = ["bonnie++", "dbench", "tar"];
const PROGRAMS: [&str; 5] = ["bonnie++", "dbench", "tar", "make", "cc"];

#[test]
fn layers_are_built_on_each_other_measured_and_taken_down() {
    let Some(run) = check("layers", &PAPER) else {
        return;
    };
    let targets = list(&run["manifest"], "targets");
    let mut nested = targets
        .iter()
        .filter(|one| text(one, "name").starts_with("loop-"));
    assert!(nested.all(|one| text(one, "filesystem") == "ext4"));
    let commands = list(&run, "commands");
    for part in [
        "losetup",
        "array create",
        "outboard serve",
        "outboard attach",
    ] {
        let there = commands.iter().any(|one| text(one, "line").contains(part));
        assert!(there, "{part} is in no command");
    }
}

#[test]
fn filesystems_that_the_kernel_has_are_measured_and_others_left_out() {
    check("filesystems", &PAPER);
}

#[test]
fn partitions_are_swept_by_place_and_held_against_each_other_by_size() {
    check("partitions", &["bonnie++", "dbench"]);
}

#[test]
fn the_omni_drive_loses_what_was_on_the_pulled_drive_and_gets_it_back() {
    let Some(run) = check("dm-linear", &["mkfs.ext4"]) else {
        return;
    };
    assert!(figure(&run, "pull-middle", "lost while pulled") > 0.0);
    assert!(figure(&run, "pull-middle", "until a program is told") > 0.0);
    assert_eq!(figure(&run, "pull-middle", "lost afterwards"), 0.0);
    // The mistake of the study: the kernel knows nothing of a disk that is composed here, and the report was silent about it.
    let findings = list(&run, "findings").iter();
    let off = findings.filter(|one| text(one, "check") == "alignment");
    let off: Vec<&str> = off.map(|one| text(one, "text")).collect();
    let [only] = off.as_slice() else {
        panic!("{off:?}");
    };
    assert!(
        only.contains("d.img") && only.contains("is 3.5 KiB off its blocks of 4 KiB"),
        "{only}"
    );
}

#[test]
fn thermal_loads_the_processor() {
    check("thermal", &["stress-ng"]);
}

#[test]
fn network_measures_the_wire_and_an_export_that_stores_nothing() {
    let Some(run) = check("network", &["iperf3"]) else {
        return;
    };
    assert!(figure(&run, "to-server", "received") > 1e6);
}

#[test]
fn remote_filesystems_are_mounted_by_a_server_of_their_own() {
    let programs = ["sshfs", "sshd", "ssh-keygen"];
    let Some(run) = check("remote-fs", &programs) else {
        return;
    };
    // Once the directory under a mount that was gone again was measured, and called SSHFS.
    let mut targets = list(&run["manifest"], "targets").iter();
    let sshfs = targets.find(|one| text(one, "name") == "sshfs");
    let sshfs = sshfs.expect("the target of SSHFS");
    assert_eq!(text(sshfs, "filesystem"), "fuse.sshfs");
    // It and its ssh were taken for programs of others.
    let processes = list(sshfs, "processes").iter();
    let clients = processes.filter(|one| text(one, "role") == "client");
    assert!(clients.count() >= 2, "{sshfs}");
}

#[test]
fn block_sizes_are_swept_aligned_and_not() {
    check("block-size", &[]);
}

#[test]
fn connections_are_swept_over_both_transports() {
    check("connections", &[]);
}

#[test]
fn a_mirror_is_made_alike_again_under_load() {
    let Some(run) = check("mirror", &[]) else {
        return;
    };
    assert!(figure(&run, "resync", "until both are alike") > 0.0);
    assert!(figure(&run, "resync", "load alone") > 0.0);
}

/// Study B's figure 6: its drives are held to 80 and 30 MiB/s, which no figure may be above.
#[test]
fn a_mirror_of_a_fast_and_a_slow_disk_is_held_against_both() {
    let Some(run) = check("uneven-mirror", &PAPER) else {
        return;
    };
    let older = list(&run["manifest"], "targets")
        .iter()
        .position(|one| text(one, "name") == "older");
    let older = older.expect("the older disk");
    let mut cells = list(&run, "cells").iter();
    let cell = cells.find(|cell| cell["target"] == older && !cell["outcome"]["fio"].is_null());
    let fio = &cell.expect("a figure of fio")["outcome"]["fio"];
    let number = |key: &str| fio[key].as_f64().expect("a number");
    let rate = number("bytes") / number("runtime") * 1e9;
    assert!(rate < 40e6, "{rate}");
}

#[test]
fn raid_levels_are_measured_complete_degraded_and_while_they_copy() {
    let Some(run) = check("raid-levels", &[]) else {
        return;
    };
    for workload in ["re-add-5", "rebuild-5", "rebuild-6"] {
        assert!(figure(&run, workload, "until the member is in sync") > 0.0);
        assert!(figure(&run, workload, "load alone") > 0.0);
    }
    assert!(figure(&run, "grow-5", "until all is spread over one more") > 0.0);
    let commands: Vec<&str> = list(&run, "commands")
        .iter()
        .map(|one| text(one, "line"))
        .collect();
    for part in ["array re-add", "array remove", "array grow"] {
        let there = commands.iter().any(|line| line.contains(part));
        assert!(there, "{part} is in no command");
    }
}

#[test]
fn raid_levels_are_shared_by_smb_or_the_shares_are_left_out_by_name() {
    check("raid-smb", &[]);
}

#[test]
fn wires_of_three_speeds_stand_before_the_same_disk() {
    check("wire-speeds", &["dbench", "tar"]);
}

/// Study D's hub: what one drive has, and what all have, when they work at the same time.
#[test]
fn all_drives_of_a_run_work_at_once() {
    let Some(ground) = Ground::new(&[]) else {
        return;
    };
    let others = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
    let others = others.each_ref().map(|one| one.path().to_string_lossy());
    let more = ["--against", &others[0], "--against", &others[1]];
    let run = ground.made("disks", &more);
    let names: Vec<&str> = list(&run["manifest"], "targets")
        .iter()
        .map(|one| text(one, "name"))
        .collect();
    assert_eq!(names, ["target", "against", "against-2"]);
    every_test_has_a_figure(&run);
    assert_eq!(figure(&run, "all-write-4k", "drives"), 3.0);
    let own = figure(&run, "all-read-1m", "this drive");
    assert!(own > 0.0 && own < figure(&run, "all-read-1m", "all together"));
}

#[test]
fn clients_of_one_server_are_served_fairly() {
    let Some(run) = check("clients", &[]) else {
        return;
    };
    let fairness = figure(&run, "shared-8", "fairness");
    assert!((0.125..=1.0).contains(&fairness), "{fairness}");
    let (first, last) = ("first done", "last done");
    assert!(figure(&run, "shared-8", first) <= figure(&run, "shared-8", last));
}

/// Makes `plan`, which has no targets of its own, on two directories.
fn check_on_directories(plan: &str, programs: &[&str]) {
    let Some(ground) = Ground::new(programs) else {
        return;
    };
    let other = tempfile::tempdir().expect("a folder");
    let other = other.path().to_string_lossy().into_owned();
    let run = ground.made(plan, &["--against", &other]);
    assert_eq!(list(&run["manifest"], "targets").len(), 2, "{plan}");
    every_test_has_a_figure(&run);
}

#[test]
fn raspi_nbd_is_made_on_two_directories() {
    check_on_directories("raspi-nbd", &[]);
}

#[test]
fn programs_is_made_on_two_directories() {
    check_on_directories("programs", &PROGRAMS);
}

#[test]
fn queue_depths_are_swept_on_two_directories() {
    check_on_directories("queue-depth", &[]);
}

#[test]
fn a_replay_is_made_on_two_directories() {
    check_on_directories("replay", &PROGRAMS);
}

#[test]
fn a_dry_run_shows_what_would_be_built_and_what_is_lacking_and_builds_nothing() {
    let Some(ground) = Ground::new(&[]) else {
        return;
    };
    let words = ["lab", "run", "layers", "base", "--dry-run"];
    let told = answer(ground.path(), &words);
    for part in ["array create", "losetup", "serve", "mkfs.ext4"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    ground.is_tidy();
}

#[test]
fn ctrl_c_takes_down_what_was_built_so_far() {
    let Some(ground) = Ground::new(&[]) else {
        return;
    };
    let words = ["lab", "run", "mirror", "base", "--seed", "7"];
    let mut command = outboard(ground.path(), &words);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
    let own = ground.path().join("base").to_string_lossy().into_owned();
    within_a_minute(|| {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
        mounts.contains(&own).then_some(())
    });
    std::thread::sleep(Duration::from_millis(500));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).expect("it is there");
    let status = child.wait().expect("it ends");
    assert!(!status.success(), "{status}");
    // On a busy machine the command ends before the process that takes all of it down.
    within_a_minute(|| ground.left().is_empty().then_some(()));
}
