//! Systems that no test machine has: arrays, volume groups and disks with partitions, as folders like
//! those of `/sys`. The walk is the same; only device nodes are not there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::super::read::used;
use super::super::walk::{Number, System, family};
use super::*;

/// A system below a temporary directory.
struct MadeUp {
    root: tempfile::TempDir,
    mounts: String,
}

impl MadeUp {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["sys/block", "sys/dev/block", "proc/self"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("proc/swaps"), "Filename Type\n").unwrap();
        Self {
            root,
            mounts: String::new(),
        }
    }

    /// A device; `way` is `sda` or `sda/sda1`.
    fn add(&mut self, way: &str, number: Number) -> PathBuf {
        let sys = self.root.path().join("sys");
        let folder = sys.join("devices").join(way);
        for inside in ["holders", "slaves"] {
            fs::create_dir_all(folder.join(inside)).unwrap();
        }
        let (major, minor) = number;
        fs::write(folder.join("dev"), format!("{major}:{minor}\n")).unwrap();
        if way.contains('/') {
            fs::write(folder.join("partition"), "1\n").unwrap();
        } else {
            symlink(&folder, sys.join("block").join(way)).unwrap();
        }
        symlink(&folder, sys.join(format!("dev/block/{major}:{minor}"))).unwrap();
        folder
    }

    /// `upper` stands on `lower`.
    fn stack(upper: &Path, lower: &Path) {
        let name = |path: &Path| path.file_name().unwrap().to_owned();
        symlink(upper, lower.join("holders").join(name(upper))).unwrap();
        symlink(lower, upper.join("slaves").join(name(lower))).unwrap();
    }

    fn mount(&mut self, (major, minor): Number, at: &str) {
        self.mounts += &format!("30 1 {major}:{minor} / {at} rw - ext4 /dev/made-up rw\n");
    }

    fn reasons(&self, number: Number) -> Vec<Reason> {
        fs::write(self.root.path().join("proc/self/mountinfo"), &self.mounts).unwrap();
        let system = System::at(self.root.path());
        let device = system.device(number).unwrap();
        used(&system, &family(&system, &device, &|_| None))
    }
}

fn held(device: &str, by: &str) -> Reason {
    Reason::Held {
        device: device.into(),
        by: by.into(),
    }
}

fn mounted(device: &str, at: &str) -> Reason {
    Reason::Mounted {
        device: device.into(),
        at: at.into(),
    }
}

const SDA: Number = (8, 0);
const SDA1: Number = (8, 1);
const SDA2: Number = (8, 2);
const SDB: Number = (8, 16);
const MD0: Number = (9, 0);
const DM0: Number = (253, 0);

/// sda has two partitions; sda1 is a member of md0, on which a volume is mounted. sdb is spare.
fn server() -> MadeUp {
    let mut made = MadeUp::new();
    made.add("sda", SDA);
    let sda1 = made.add("sda/sda1", SDA1);
    made.add("sda/sda2", SDA2);
    made.add("sdb", SDB);
    let md0 = made.add("md0", MD0);
    let dm0 = made.add("dm-0", DM0);
    MadeUp::stack(&md0, &sda1);
    MadeUp::stack(&dm0, &md0);
    made.mount(DM0, "/srv");
    made
}

#[test]
fn a_member_of_an_array_under_a_mounted_volume_is_reported_with_the_whole_stack() {
    let wanted = [
        mounted("dm-0", "/srv"),
        held("sda1", "md0"),
        held("md0", "dm-0"),
    ];
    assert_eq!(server().reasons(SDA1), wanted);
    assert_eq!(server().reasons(SDA), wanted, "and for the disk it lies on");
}

#[test]
fn a_partition_beside_one_that_is_used_is_free_and_so_is_another_disk() {
    assert_eq!(server().reasons(SDA2), []);
    assert_eq!(server().reasons(SDB), []);
}

#[test]
fn a_partition_of_a_disk_that_is_mounted_or_held_as_a_whole_is_refused() {
    let mut made = server();
    made.mount(SDA, "/old");
    assert_eq!(made.reasons(SDA2), [mounted("sda", "/old")]);
    let mut made = server();
    let sdc = made.add("sdc", (8, 32));
    made.add("sdc/sdc1", (8, 33));
    let md1 = made.add("md1", (9, 1));
    MadeUp::stack(&md1, &sdc);
    assert_eq!(made.reasons((8, 33)), [held("sdc", "md1")]);
}

#[test]
fn an_array_itself_is_free_when_nothing_stands_on_it() {
    let mut made = MadeUp::new();
    let sda = made.add("sda", SDA);
    let md0 = made.add("md0", MD0);
    MadeUp::stack(&md0, &sda);
    assert_eq!(
        made.reasons(MD0),
        [],
        "that it stands on its members is no reason"
    );
    made.mount(SDA, "/odd");
    assert_eq!(made.reasons(MD0), [mounted("sda", "/odd")]);
}

#[test]
fn a_ring_of_devices_ends_the_walk() {
    let mut made = MadeUp::new();
    let sda = made.add("sda", SDA);
    let md0 = made.add("md0", MD0);
    MadeUp::stack(&md0, &sda);
    MadeUp::stack(&sda, &md0);
    assert_eq!(made.reasons(SDA), [held("sda", "md0")]);
}

#[test]
fn a_machine_with_more_devices_than_are_looked_at_is_refused() {
    let mut made = MadeUp::new();
    let sda = made.add("sda", SDA);
    for n in 0..300u32 {
        let dm = made.add(&format!("dm-{n}"), (253, n));
        MadeUp::stack(&dm, &sda);
    }
    assert!(made.reasons(SDA).iter().any(|one| {
        matches!(one, Reason::Unknown { what } if what.contains("more stands on it"))
    }));
}

#[test]
fn a_system_whose_mounts_cannot_be_read_is_refused() {
    let made = MadeUp::new();
    let system = System::at(made.root.path());
    let reasons = used(&system, &walk::Family::default());
    assert!(matches!(&reasons[..], [Reason::Unknown { what }] if what.contains("mounts")));
}
