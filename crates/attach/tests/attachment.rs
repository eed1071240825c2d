//! Attachments from end to end on this machine's FUSE and loop devices, through the example program
//! and a disk in memory.
//!
//! Each test has a runtime directory of its own and ends by asserting that nothing is left: no
//! device, mount, process or file.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

use testkit::requires;

/// How long things that end by themselves may take.
const END_FOR: Duration = Duration::from_secs(60);

struct World {
    folder: tempfile::TempDir,
    /// Labels of the loop devices that its attachments made: `outboard-ID-PID`.
    labels: RefCell<BTreeSet<String>>,
}

impl World {
    /// `None` where this machine cannot run it; why is printed.
    fn new() -> Option<Self> {
        let needs = [
            requires::root(),
            requires::fuse(),
            requires::loop_device(),
            requires::command("mkfs.ext4"),
            requires::command("blkid"),
        ];
        let folder = tempfile::tempdir().unwrap();
        requires::all(&needs).then(|| Self {
            folder,
            labels: RefCell::default(),
        })
    }

    fn run_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn mount(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn run(&self, args: &[&str]) -> Output {
        self.note_labels();
        let output = self.command(args).output().unwrap();
        self.note_labels();
        output
    }

    /// Learns the labels of what is attached at the moment.
    fn note_labels(&self) {
        let folders = fs::read_dir(self.run_dir()).into_iter().flatten().flatten();
        for folder in folders {
            let name = folder.file_name().to_string_lossy().into_owned();
            let record = fs::read(folder.path().join("state.json")).unwrap_or_default();
            let record = serde_json::from_slice::<serde_json::Value>(&record).unwrap_or_default();
            let id = name.strip_prefix("attach-").unwrap_or_default();
            if let Some(pid) = record["process"]["pid"].as_i64() {
                let label = format!("outboard-{id}-{pid}");
                self.labels.borrow_mut().insert(label);
            }
        }
    }

    /// Loop devices of this world's attachments. Those of other processes do not count: they may be those of another container, with its
    /// processes cannot be seen from here.
    fn devices(&self) -> Vec<String> {
        let all = fs::read_dir("/sys/block").unwrap().flatten();
        all.filter_map(|entry| fs::read_to_string(entry.path().join("loop/backing_file")).ok())
            .filter(|file| {
                let label = file.trim().trim_start_matches('/');
                self.labels.borrow().contains(label)
            })
            .collect()
    }

    fn command(&self, args: &[&str]) -> Command {
        let test = std::env::current_exe().unwrap();
        let program = test.ancestors().nth(2).unwrap().join("examples/attachment");
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("OUTBOARD_RUNTIME_DIR", self.run_dir());
        command
    }

    /// Runs what must go well, and returns its first line.
    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}");
        let stdout = String::from_utf8_lossy(&output.stdout);
        stdout.lines().next().unwrap_or_default().to_owned()
    }

    /// Runs what must fail with one line, and returns the line.
    #[track_caller]
    fn fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(!output.status.success(), "{args:?} went well");
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        stderr
    }

    fn pid(&self) -> i32 {
        let record = fs::read_to_string(self.run_dir().join("attach-1/state.json")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        i32::try_from(record["process"]["pid"].as_i64().unwrap()).unwrap()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    #[track_caller]
    fn assert_nothing_left(&self) {
        assert!(!self.run_dir().exists(), "the runtime directory is gone");
        assert!(
            !self.mount().exists(),
            "the mount point that attach made is gone"
        );
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let here = self.folder.path().to_str().unwrap();
        assert!(!mounts.contains(here), "{mounts}");
        assert!(wait_until(|| owners(here).is_empty()), "{:?}", owners(here));
        assert_eq!(self.devices(), Vec::<String>::new());
    }

    /// The same once `user`, which still has `device` open, has ended: the kernel frees it then.
    #[track_caller]
    fn assert_nothing_left_after(&self, mut user: Child, device: &str) {
        user.kill().unwrap();
        user.wait().unwrap();
        let label = device.replace("/dev/", "/sys/block/") + "/loop/backing_file";
        assert!(wait_until(|| !Path::new(&label).exists()));
        self.assert_nothing_left();
    }
}

/// Processes started with this world's runtime directory.
fn owners(here: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(here)
    })
    .map(|entry| fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default())
    .filter(|line| line.contains("background"))
    .collect()
}

fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    let step = Duration::from_millis(20);
    for _ in 0..END_FOR.as_millis() / step.as_millis() {
        if done() {
            return true;
        }
        std::thread::sleep(step);
    }
    false
}

fn tool(name: &str, args: &[&str]) {
    let output = Command::new(name).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name} {args:?}: {said}");
}

fn read_device(device: &str) -> Vec<u8> {
    tool("blockdev", &["--flushbufs", device]);
    fs::read(device).unwrap()
}

#[test]
fn a_filesystem_is_made_mounted_used_checked_and_taken_down() {
    let Some(world) = World::new() else { return };
    let device = world.ok(&["attach", "64M", "--mkfs", "ext4", "--mount", "mnt"]);
    let data: Vec<u8> = (0..5_000_003u32).map(|n| (n % 251) as u8).collect();
    fs::write(world.mount().join("data"), &data).unwrap();
    tool("umount", &[world.mount().to_str().unwrap()]);
    tool("e2fsck", &["-f", "-n", &device]);
    tool("mount", &[&device, world.mount().to_str().unwrap()]);
    assert!(fs::read(world.mount().join("data")).unwrap() == data);
    world.ok(&["detach", "mnt"]);
    world.assert_nothing_left();
}

#[test]
fn a_device_without_a_mount_is_found_by_its_path_and_keeps_what_was_written() {
    let Some(world) = World::new() else { return };
    let device = world.ok(&["attach", "8M"]);
    let image: Vec<u8> = (0..8u32 << 20).map(|n| (n % 241) as u8).collect();
    fs::write(&device, &image).unwrap();
    assert!(read_device(&device) == image);
    world.ok(&["detach", &device]);
    world.assert_nothing_left();
}

#[test]
fn a_discarded_range_reads_as_zeroes() {
    let Some(world) = World::new() else { return };
    let device = world.ok(&["attach", "4M"]);
    fs::write(&device, vec![7; 4 << 20]).unwrap();
    tool("blkdiscard", &["-o", "1048576", "-l", "1048576", &device]);
    tool(
        "blkdiscard",
        &["-z", "-o", "3145728", "-l", "65536", &device],
    );
    let found = read_device(&device);
    for (at, byte) in found.iter().enumerate() {
        let zeroed = (1 << 20..2 << 20).contains(&at) || (3 << 20..(3 << 20) + 65536).contains(&at);
        assert_eq!(*byte == 0, zeroed, "byte {at}");
    }
    world.ok(&["detach", "--all"]);
    world.assert_nothing_left();
}

#[test]
fn a_read_only_attachment_refuses_writes() {
    let Some(world) = World::new() else { return };
    let device = world.ok(&["attach", "4M", "--read-only"]);
    let read_only = fs::read_to_string(device.replace("/dev/", "/sys/block/") + "/ro").unwrap();
    assert_eq!(read_only.trim(), "1");
    world.ok(&["detach", &device]);
    world.assert_nothing_left();
}

#[test]
fn detach_cleans_up_after_a_killed_process_and_reports_possible_data_loss() {
    let Some(world) = World::new() else { return };
    world.ok(&["attach", "64M", "--mkfs", "ext4", "--mount", "mnt"]);
    fs::write(world.mount().join("unsynced"), b"x").unwrap();
    world.signal(rustix::process::Signal::KILL);
    assert!(wait_until(|| world.ok(&["status"]).contains("\"dead\"")));
    let line = world.fails(&["detach", "mnt"]);
    assert!(
        line.contains("may be lost: the process behind it had died"),
        "{line}"
    );
    world.assert_nothing_left();
}

#[test]
fn a_killed_process_without_a_mount_leaves_no_device_and_detach_the_rest() {
    let Some(world) = World::new() else { return };
    let device = world.ok(&["attach", "8M"]);
    world.signal(rustix::process::Signal::KILL);
    assert!(wait_until(|| world.ok(&["status"]).contains("\"dead\"")));
    // What the page cache of the device held went with it.
    let line = world.fails(&["detach", &device]);
    assert!(line.contains("may be lost"), "{line}");
    world.assert_nothing_left();
}

#[test]
fn a_process_that_does_not_answer_is_ended_by_detach() {
    let Some(world) = World::new() else { return };
    world.ok(&["attach", "64M", "--mkfs", "ext4", "--mount", "mnt"]);
    world.signal(rustix::process::Signal::STOP);
    let line = world.fails(&["detach", "mnt"]);
    assert!(line.contains("did not answer"), "{line}");
    world.assert_nothing_left();
}

#[test]
fn a_terminated_process_takes_its_attachment_down() {
    let Some(world) = World::new() else { return };
    world.ok(&["attach", "64M", "--mkfs", "ext4", "--mount", "mnt"]);
    world.signal(rustix::process::Signal::TERM);
    assert!(wait_until(|| !world.run_dir().exists()));
    world.assert_nothing_left();
}

#[test]
fn a_device_that_another_process_detached_stays_until_its_owner_ends() {
    let Some(world) = World::new() else { return };
    let device = world.ok(&["attach", "8M"]);
    tool("losetup", &["--detach", &device]);
    assert!(world.ok(&["status"]).contains("\"connected\""));
    assert_eq!(read_device(&device).len(), 8 << 20);
    world.ok(&["detach", "--all"]);
    world.assert_nothing_left();
}

#[test]
fn a_device_in_use_is_refused_by_name_and_taken_away_by_force() {
    let Some(world) = World::new() else { return };
    let device = world.ok(&["attach", "8M"]);
    let user = Command::new("sh")
        .args(["-c", &format!("exec 3<{device} && exec sleep 300")])
        .spawn()
        .unwrap();
    let descriptor = format!("/proc/{}/fd/3", user.id());
    assert!(wait_until(|| Path::new(&descriptor).exists()));
    let line = world.fails(&["detach", &device]);
    assert!(line.contains(&format!("sleep {}", user.id())), "{line}");
    assert_eq!(read_device(&device).len(), 8 << 20, "it is as it was");
    let line = world.fails(&["detach", &device, "--force"]);
    assert!(line.contains("still had it open"), "{line}");
    world.assert_nothing_left_after(user, &device);
}

#[test]
fn a_device_has_a_name_of_its_own_until_it_is_detached() {
    let Some(world) = World::new() else { return };
    let device = world.ok(&["attach", "8M", "--name", "media"]);
    let link = world.run_dir().join("by-name/media");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new(&device));
    let line = world.fails(&["attach", "8M", "--name", "media"]);
    assert!(line.contains("the name media is taken"), "{line}");
    world.ok(&["detach", link.to_str().unwrap()]);
    world.assert_nothing_left();
}

#[test]
fn what_holds_the_root_filesystem_goes_by_force_only_and_outlives_the_end_of_all_processes() {
    let Some(world) = World::new() else { return };
    let device = world.ok(&["attach", "8M", "--for-root"]);
    let arguments = fs::read(format!("/proc/{}/cmdline", world.pid())).unwrap();
    assert_eq!(arguments[0], b'@', "systemd spares it");
    world.signal(rustix::process::Signal::TERM);
    let line = world.fails(&["detach", &device]);
    assert!(line.contains("root filesystem"), "{line}");
    assert!(world.ok(&["status"]).contains("\"connected\""));
    world.ok(&["detach", &device, "--force"]);
    world.assert_nothing_left();
}

#[test]
fn a_busy_mount_is_refused_by_name_and_taken_away_by_force() {
    let Some(world) = World::new() else { return };
    let device = world.ok(&["attach", "64M", "--mkfs", "ext4", "--mount", "mnt"]);
    let user = Command::new("sleep")
        .arg("60")
        .current_dir(world.mount())
        .spawn()
        .unwrap();
    let line = world.fails(&["detach", "mnt"]);
    assert!(line.contains(&format!("sleep {}", user.id())), "{line}");
    assert!(world.mount().join("lost+found").exists(), "it is as it was");
    let line = world.fails(&["detach", "mnt", "--force"]);
    assert!(line.contains("still had it open"), "{line}");
    world.assert_nothing_left_after(user, &device);
}

#[test]
fn a_failed_attach_prints_one_line_and_leaves_nothing() {
    let Some(world) = World::new() else { return };
    let file = world.folder.path().join("file");
    fs::write(&file, b"x").unwrap();
    let here = world.folder.path().to_str().unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["nonsense"], "no such disk"),
        (&["size=500"], "needs 512 at least"),
        (&["4M", "--mount", here], "not empty"),
        (
            &["4M", "--mount", file.to_str().unwrap()],
            "not a directory",
        ),
        (&["4M", "--mount", "a/b/c"], "above it does not exist"),
        (&["4M", "--mount", "mnt"], "cannot be mounted"),
        (&["4M", "--mkfs", "nonsuch"], "mkfs.nonsuch"),
    ];
    for (args, part) in cases {
        let line = world.fails(&[&["attach"], args].concat());
        assert!(line.contains(part), "{args:?}: {line}");
        world.assert_nothing_left();
    }
    assert!(owners(here).is_empty());
}

#[test]
fn a_supervised_disk_reports_its_problem_and_is_closed_in_order() {
    let Some(world) = World::new() else { return };
    let kept = world.folder.path().join("kept");
    fs::write(&kept, "").unwrap();
    let device = world.ok(&["attach", "kept=kept"]);
    assert!(world.ok(&["status"]).contains("connected"));
    fs::write(&kept, "one is missing").unwrap();
    let status = world.ok(&["status"]);
    assert!(status.contains(r#""state":"degraded""#), "{status}");
    assert!(status.contains("one is missing"), "{status}");
    world.ok(&["detach", &device]);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "closed");
    world.assert_nothing_left();
}

#[test]
fn a_disk_that_cannot_be_closed_in_order_is_detached_with_a_message() {
    let Some(world) = World::new() else { return };
    fs::write(world.folder.path().join("kept"), "broken").unwrap();
    let device = world.ok(&["attach", "kept=kept"]);
    let said = world.fails(&["detach", &device]);
    let wanted = "left: kept=kept is not stopped in order: broken";
    assert!(said.contains(wanted), "{said}");
    world.assert_nothing_left();
}

#[test]
fn a_filesystem_is_never_made_over_something() {
    let Some(world) = World::new() else { return };
    let image = world.folder.path().join("image");
    fs::write(&image, vec![0; 16 << 20]).unwrap();
    tool("mkfs.ext4", &["-q", "-L", "mine", image.to_str().unwrap()]);
    let source = format!("copy={}", image.display());
    let line = world.fails(&["attach", &source, "--mkfs", "ext4"]);
    assert!(line.contains("ext4 \"mine\""), "{line}");
    world.ok(&["attach", &source, "--mount", "mnt"]);
    world.ok(&["detach", "mnt"]);
    world.assert_nothing_left();
}

#[test]
fn an_attachment_whose_parent_has_ended_is_taken_down() {
    let Some(world) = World::new() else { return };
    let mut parent = world.command(&["attach", "slow=8M"]).spawn().unwrap();
    // What it is to do must have reached the background process: that writes itself down then.
    assert!(wait_until(|| world
        .ok(&["status"])
        .contains("\"starting\"")
        && u32::try_from(world.pid()).unwrap() != parent.id()));
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert!(wait_until(|| !world.run_dir().exists()));
    world.assert_nothing_left();
}

#[test]
fn two_attachments_coexist_and_are_detached_together() {
    let Some(world) = World::new() else { return };
    let first = world.ok(&["attach", "4M"]);
    let second = world.ok(&["attach", "8M"]);
    assert_ne!(first, second);
    assert_eq!(
        world
            .run(&["status"])
            .stdout
            .iter()
            .filter(|b| **b == b'\n')
            .count(),
        2
    );
    world.ok(&["detach", "--all"]);
    world.assert_nothing_left();
    world.assert_nothing_left();
}

/// `cargo xtask test` failed next to a container with an attachment: its loop device is in our `/sys/block`, and the process in the device's
/// label is not in our `/proc`, which was taken for a device that an attachment of a test had left.
#[test]
fn a_loop_device_of_a_neighbour_container_is_no_leftover_and_one_of_our_own_is() {
    let Some(world) = World::new() else { return };
    let file = world.folder.path().join("outboard-1-4194305");
    fs::write(&file, vec![0; 1 << 20]).unwrap();
    let neighbour = testkit::LoopDevice::over(&file).unwrap();
    let device = world.ok(&["attach", "8M"]);
    assert_eq!(world.devices().len(), 1, "{device} is ours");
    world.ok(&["detach", &device]);
    world.assert_nothing_left();
    drop(neighbour);
}
