//! Real loop devices, mounts, swaps and signatures. Needs root; skipped with the reason elsewhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use testkit::{LoopDevice, requires};

use super::*;

const SIZE: u64 = 64 << 20;

/// A loop device over an empty file.
struct Disk {
    folder: tempfile::TempDir,
    file: PathBuf,
    device: LoopDevice,
}

impl Disk {
    fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk.img");
        fs::write(&file, []).unwrap();
        let open = fs::OpenOptions::new().write(true).open(&file).unwrap();
        open.set_len(SIZE).unwrap();
        let device = LoopDevice::over(&file).unwrap();
        Self {
            folder,
            file,
            device,
        }
    }

    fn path(&self) -> &Path {
        self.device.path()
    }

    fn name(&self) -> String {
        self.path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned()
    }

    /// The serial of a loop device is the file below it.
    fn serial(&self) -> &str {
        self.file.to_str().unwrap()
    }

    fn run(&self, program: &str, args: &[&str]) {
        run(program, &[args, &[self.path().to_str().unwrap()]].concat());
    }
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program)
        .args(args)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn can(programs: &[&str]) -> bool {
    let mut needs = vec![
        requires::root(),
        requires::loop_device(),
        requires::command("blkid"),
    ];
    needs.extend(programs.iter().map(|program| requires::command(program)));
    requires::all(&needs)
}

/// Claims a device, and retries while a program that no test started has it open: what another test starts has
/// our files open until it runs, and programs that look at new devices look at ours.
fn claim_at_rest(path: &Path, serials: &[&str]) -> Result<Claim, Refusal> {
    let passes = |one: &Reason| match one {
        Reason::Open { by, .. } => !by.starts_with("sleep "),
        Reason::Unknown { .. } => path.exists(),
        _ => false,
    };
    for _ in 0..80 {
        match claim(path, &typed(serials)) {
            Err(refused) if refused.reasons.iter().any(passes) => {
                std::thread::sleep(std::time::Duration::from_millis(25));
            }
            found => return found,
        }
    }
    claim(path, &typed(serials))
}

fn reasons(path: &Path, serial: &str) -> Vec<Reason> {
    match claim_at_rest(path, &[serial]) {
        Ok(_) => Vec::new(),
        Err(refused) => refused.reasons,
    }
}

/// Unmounts when dropped, on every way out of the test.
struct Mounted(PathBuf);

impl Mounted {
    fn new(disk: &Disk) -> Self {
        let point = disk.folder.path().join("mnt");
        fs::create_dir(&point).unwrap();
        disk.run(
            "mount",
            &[
                "-t",
                "ext4",
                "--target",
                point.to_str().unwrap(),
                "--source",
            ],
        );
        Self(point)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(e) = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH) {
            eprintln!("{} could not be unmounted: {e}", self.0.display());
        }
    }
}

#[test]
fn an_empty_device_with_its_serial_typed_is_claimed_and_no_other_process_may_use_it_meanwhile() {
    if !can(&["mkfs.ext4", "mount"]) {
        return;
    }
    let disk = Disk::empty();
    assert!(matches!(
        &claim_at_rest(disk.path(), &[]).unwrap_err().reasons[..],
        [Reason::SerialNotTyped { serial }] if serial == disk.serial()
    ));
    let ours = claim_at_rest(disk.path(), &[disk.serial()]).unwrap();
    assert_eq!(ours.path(), disk.path());
    let again = reasons(disk.path(), disk.serial());
    assert!(
        again
            .iter()
            .any(|one| matches!(one, Reason::Exclusive { .. })),
        "{again:?}"
    );
    drop(ours);
    // A program that another test starts has our claim, too, until it runs.
    let is_let_go = (0..80).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(25));
        reasons(disk.path(), disk.serial()).is_empty()
    });
    assert!(is_let_go, "it is held for ever");
}

#[test]
fn a_signature_of_any_kind_is_refused() {
    if !can(&["mkfs.ext4", "mkswap", "sfdisk"]) {
        return;
    }
    for (program, args, kind) in [
        ("mkfs.ext4", &["-q", "-F"][..], "ext4"),
        ("mkswap", &[], "swap"),
    ] {
        let disk = Disk::empty();
        disk.run(program, args);
        assert_eq!(
            reasons(disk.path(), disk.serial()),
            [Reason::Signature {
                device: disk.path().display().to_string(),
                kind: kind.into()
            }]
        );
    }
}

#[test]
fn a_member_of_an_array_or_a_volume_group_is_refused() {
    if !can(&["mdadm"]) {
        return;
    }
    // What mdadm would write needs md in the kernel; its superblock alone does not.
    let disk = Disk::empty();
    fs::OpenOptions::new()
        .write(true)
        .open(disk.path())
        .and_then(|open| std::os::unix::fs::FileExt::write_all_at(&open, &md_superblock(), 4096))
        .unwrap();
    assert!(matches!(
        &reasons(disk.path(), disk.serial())[..],
        [Reason::Signature { kind, .. }] if kind == "linux_raid_member"
    ));
    let disk = Disk::empty();
    let mut label = [0u8; 512];
    label[..8].copy_from_slice(b"LABELONE");
    label[8] = 1;
    label[20] = 32;
    label[24..32].copy_from_slice(b"LVM2 001");
    let checksum = lvm_checksum(&label[20..]);
    label[16..20].copy_from_slice(&checksum.to_le_bytes());
    fs::OpenOptions::new()
        .write(true)
        .open(disk.path())
        .and_then(|open| std::os::unix::fs::FileExt::write_all_at(&open, &label, 512))
        .unwrap();
    assert!(matches!(
        &reasons(disk.path(), disk.serial())[..],
        [Reason::Signature { kind, .. }] if kind == "LVM2_member"
    ));
}

/// A superblock of version 1.2: magic, major version, its own place, and its checksum.
fn md_superblock() -> Vec<u8> {
    let mut block = vec![0u8; 1024];
    block[0..4].copy_from_slice(&0xa92b_4efcu32.to_le_bytes());
    block[4..8].copy_from_slice(&1u32.to_le_bytes());
    block[16..32].copy_from_slice(&[7; 16]);
    block[144..152].copy_from_slice(&8u64.to_le_bytes());
    let sum: u64 = block[..256]
        .chunks_exact(4)
        .map(|word| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]])))
        .sum();
    let folded = (sum & 0xffff_ffff) + (sum >> 32);
    block[216..220].copy_from_slice(&folded.to_le_bytes()[..4]);
    block
}

/// LVM's CRC 32: reflected, without the inversion at the end, from a seed of its own.
fn lvm_checksum(data: &[u8]) -> u32 {
    data.iter().fold(0xf597_a6cf, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
fn a_mounted_device_is_refused_and_so_are_a_link_to_it_and_a_second_node_of_it() {
    if !can(&["mkfs.ext4", "mount", "mknod"]) {
        return;
    }
    let disk = Disk::empty();
    disk.run("mkfs.ext4", &["-q", "-F"]);
    let mounted = Mounted::new(&disk);
    let link = disk.folder.path().join("by-id");
    symlink(disk.path(), &link).unwrap();
    let node = disk.folder.path().join("node");
    let number = fs::read_to_string(format!("/sys/class/block/{}/dev", disk.name())).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    run("mknod", &[node.to_str().unwrap(), "b", major, minor]);
    for path in [disk.path(), &link, &node] {
        let found = reasons(path, disk.serial());
        let wanted = Reason::Mounted {
            device: disk.name(),
            at: mounted.0.clone(),
        };
        assert!(found.contains(&wanted), "{path:?}: {found:?}");
        assert!(
            found
                .iter()
                .any(|one| matches!(one, Reason::Exclusive { .. }))
        );
    }
    // The file below it, and a second loop device over that file.
    let below = reasons(&disk.file, "");
    assert!(
        below.contains(&Reason::Held {
            device: disk.file.display().to_string(),
            by: disk.name()
        }),
        "{below:?}"
    );
}

#[test]
fn a_loop_device_over_a_mounted_device_is_refused() {
    if !can(&["mkfs.ext4", "mount"]) {
        return;
    }
    let disk = Disk::empty();
    disk.run("mkfs.ext4", &["-q", "-F"]);
    let upper = LoopDevice::over(disk.path()).unwrap();
    let mounted = Mounted::new(&disk);
    let found = reasons(upper.path(), disk.path().to_str().unwrap());
    assert!(
        found.contains(&Reason::Mounted {
            device: disk.name(),
            at: mounted.0.clone()
        }),
        "{found:?}"
    );
    // And what is below a loop device is held by it.
    let by = upper
        .path()
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let device = disk.name();
    assert!(reasons(disk.path(), disk.serial()).contains(&Reason::Held { device, by }));
}

#[test]
fn a_disk_with_partitions_is_refused_and_a_partition_of_it_is_judged_by_itself() {
    if !can(&["sfdisk", "mkfs.ext4", "partx"]) {
        return;
    }
    let disk = Disk::empty();
    let table = disk.folder.path().join("table");
    fs::write(&table, "label: gpt\nsize=20M\nsize=20M\n").unwrap();
    run(
        "sh",
        &[
            "-c",
            "sfdisk -q --no-reread --no-tell-kernel \"$0\" < \"$1\" && partx -a \"$0\"",
            disk.path().to_str().unwrap(),
            table.to_str().unwrap(),
        ],
    );
    let _partitions = Partitions(disk.path().to_owned());
    let part = |n: u32| PathBuf::from(format!("{}p{n}", disk.path().display()));
    let found = reasons(disk.path(), disk.serial());
    assert!(
        matches!(&found[..], [Reason::Signature { kind, .. }] if kind == "a partition table (gpt)"),
        "{found:?}"
    );
    assert_eq!(
        reasons(&part(2), disk.serial()),
        [],
        "an empty partition may be written"
    );
    run("mkfs.ext4", &["-q", "-F", part(1).to_str().unwrap()]);
    let found = reasons(&part(1), disk.serial());
    assert!(
        matches!(&found[..], [Reason::Signature { kind, .. }] if kind == "ext4"),
        "{found:?}"
    );
}

/// Takes the partitions of a loop device away, which outlive its file.
struct Partitions(PathBuf);

impl Drop for Partitions {
    fn drop(&mut self) {
        if let Err(e) = Command::new("partx").arg("-d").arg(&self.0).status() {
            eprintln!("the partitions of {} are left: {e}", self.0.display());
        }
    }
}

#[test]
fn swap_is_refused_as_a_device_and_as_a_file() {
    if !can(&["mkswap", "swapon", "swapoff"]) {
        return;
    }
    let disk = Disk::empty();
    disk.run("mkswap", &[]);
    let on = Command::new("swapon").arg(disk.path()).output().unwrap();
    if !on.status.success() {
        eprintln!("skipped: swapon: {}", String::from_utf8_lossy(&on.stderr));
        return;
    }
    let found = reasons(disk.path(), disk.serial());
    disk.run("swapoff", &[]);
    assert!(
        found.contains(&Reason::Swap {
            device: disk.name()
        }),
        "{found:?}"
    );
}

#[test]
fn a_device_that_a_program_has_open_is_refused_with_the_program_s_name() {
    if !can(&["sleep"]) {
        return;
    }
    let disk = Disk::empty();
    let open = fs::OpenOptions::new().read(true).open(disk.path()).unwrap();
    let mut child = Command::new("sleep").arg("60").stdin(open).spawn().unwrap();
    let found = reasons(disk.path(), disk.serial());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        found,
        [Reason::Open {
            device: disk.path().display().to_string(),
            by: format!("sleep {}", child.id())
        }]
    );
}

#[test]
fn a_file_is_written_when_it_is_empty_or_all_zeroes_and_not_when_it_holds_a_byte() {
    if !can(&[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    fs::write(&path, []).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    assert_eq!(reasons(&path, ""), []);
    fs::write(&path, vec![0u8; 3 << 20]).unwrap();
    assert_eq!(reasons(&path, ""), []);
    let mut data = vec![0u8; 3 << 20];
    data[2_500_000] = 1;
    fs::write(&path, data).unwrap();
    assert_eq!(reasons(&path, ""), [Reason::HoldsData]);
    assert!(matches!(&reasons(folder.path(), "")[..], [Reason::Neither]));
    let missing = folder.path().join("missing");
    assert!(matches!(
        &reasons(&missing, "")[..],
        [Reason::Unknown { .. }]
    ));
}

#[test]
fn what_lies_in_a_folder_of_ours_needs_no_claim_and_what_a_link_leads_to_outside_does() {
    if !can(&[]) {
        return;
    }
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let image = ours.path().join("a.img");
    let precious = theirs.path().join("precious");
    let link = ours.path().join("link");
    fs::write(&image, b"ours").unwrap();
    fs::write(&precious, b"theirs").unwrap();
    symlink(&precious, &link).unwrap();
    let folders = [ours.path()];
    let claims = claim_foreign(&[&image], &folders, &[]).unwrap();
    assert!(claims.is_empty());
    let refused = claim_foreign(&[&image, &link], &folders, &[]).unwrap_err();
    assert_eq!(refused.reasons, [Reason::HoldsData]);
}
