//! LVM itself on what is written here: `pvck` on the files, and `pvs`, `vgs`, `lvs`, `vgck` and LVM's own changes on loop
//! devices, without device-mapper.

use std::path::Path;
use std::process::Command;

use testkit::{LoopDevice, requires};

use super::{areas, images, on, volume};

/// What LVM warns of because of how it is run here.
const EXPECTED: [&str; 4] = [
    "Running as a non-root user",
    "Activation disabled",
    "not zeroed",
    "NOT backed up",
];

/// The answer of a program of LVM, and that it has nothing to complain about.
pub(super) fn judge(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect("it runs");
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {stdout}{stderr}"
    );
    let is_expected = |line: &str| EXPECTED.iter().any(|expected| line.contains(expected));
    let complaint = stdout
        .lines()
        .chain(stderr.lines())
        .find(|line| (line.contains("CHECK:") || line.contains("WARNING")) && !is_expected(line));
    assert_eq!(complaint, None, "{program} {arguments:?}");
    stdout
}

fn pvck(folder: &Path, disk: &str, what: &str) -> String {
    let path = folder.join(disk);
    judge("pvck", &["--dump", what, path.to_str().expect("UTF-8")])
}

#[test]
fn pvck_finds_labels_headers_and_metadata_good() {
    if !requires::all(&[requires::command("pvck")]) {
        return;
    }
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    volume(
        path,
        &[
            "create",
            "vg0/media",
            "-L",
            "20M",
            "--disks",
            "a.img",
            "b.img",
        ],
    );
    for number in 0..5 {
        let name = format!("vg0/v{number}");
        volume(
            path,
            &["create", &name, "a.img", "b.img", "-l", "2", "-i", "2"],
        );
        for disk in ["a.img", "b.img"] {
            let headers = pvck(path, disk, "headers");
            assert!(headers.contains("metadata text"), "{headers}");
            let text = pvck(path, disk, "metadata");
            assert!(text.contains(&format!("v{number} {{")), "{text}");
        }
    }
    volume(
        path,
        &["add-disk", "vg0", "a.img", "b.img", "--disk", "c.img"],
    );
    pvck(path, "c.img", "headers");
    let all = ["a.img", "b.img", "c.img"];
    volume(
        path,
        &[&["remove-disk", "vg0"], &all[..], &["--disk", "c.img"]].concat(),
    );
    pvck(path, "c.img", "headers");
    // The texts before are there, too.
    let texts = pvck(path, "a.img", "metadata_all");
    assert!(texts.matches("seqno").count() > 5, "{texts}");
}

/// LVM on loop devices of the images, with its own files in the folder.
struct LoopLvm {
    devices: Vec<LoopDevice>,
    config: String,
}

impl LoopLvm {
    fn new(folder: &Path, disks: &[&str]) -> Self {
        let device = |disk: &&str| LoopDevice::over(&folder.join(disk)).expect("a loop device");
        let devices: Vec<LoopDevice> = disks.iter().map(device).collect();
        let names: Vec<String> = devices
            .iter()
            .map(|device| format!("\"a|^{}$|\"", device.path().display()))
            .collect();
        let config = format!(
            "devices {{ filter=[{},\"r|.*|\"] use_devicesfile=0 }} backup {{ backup=0 archive=0 }} \
             global {{ use_lvmpolld=0 }}",
            names.join(",")
        );
        Self { devices, config }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let all = [
            &[
                "--driverloaded",
                "n",
                "--nolocking",
                "--config",
                &self.config,
            ],
            arguments,
        ]
        .concat();
        judge(program, &all)
    }
}

#[test]
fn lvm_and_we_change_a_group_in_turn() {
    let needs = [
        requires::root(),
        requires::command("lvs"),
        requires::loop_device(),
    ];
    if !requires::all(&needs) {
        return;
    }
    let disks = ["a.img", "b.img"];
    let folder = images(&disks);
    let path = folder.path();
    let change = |words: &[&str]| volume(path, &[words, &disks].concat());
    volume(
        path,
        &[
            "create",
            "vg0/media",
            "-L",
            "20M",
            "--disks",
            "a.img",
            "b.img",
        ],
    );
    for round in 0..10_u32 {
        let (ours, theirs) = (format!("o{round}"), format!("t{round}"));
        {
            let lvm = LoopLvm::new(path, &disks);
            lvm.run("vgck", &["vg0"]);
            let listed = lvm.run(
                "lvs",
                &["--noheadings", "-o", "lv_name,seg_pe_ranges", "-a", "vg0"],
            );
            assert!(listed.contains("media"), "{listed}");
            let count = lvm.run("pvs", &["--noheadings", "-o", "pv_used,vg_seqno"]);
            assert_eq!(count.lines().count(), 2, "{count}");
            lvm.run(
                "lvcreate",
                &["-an", "-Zn", "-Wn", "-l", "1", "-n", &theirs, "vg0"],
            );
            if round > 0 {
                lvm.run("lvremove", &["-y", &format!("vg0/t{}", round - 1)]);
            }
            drop(lvm.devices);
        }
        change(&["create", &format!("vg0/{ours}"), "-l", "2", "-i", "2"]);
        change(&["extend", &format!("vg0/{theirs}"), "-l", "+1"]);
        change(&["reduce", &format!("vg0/{theirs}"), "-l", "-1", "--force"]);
        change(&["remove", &format!("vg0/{ours}")]);
        assert_eq!(areas(path, "media"), [on("a.img", 0, 5)]);
        let check = volume(path, &["check", "a.img", "b.img"]);
        assert!(check.starts_with("vg0: good"), "{check}");
    }
    let lvm = LoopLvm::new(path, &disks);
    lvm.run("vgck", &["vg0"]);
    lvm.run("lvextend", &["-l", "+1", "vg0/media"]);
}
