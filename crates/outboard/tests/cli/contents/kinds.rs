//! One disk of each kind: what it is reported to be, and that inspecting it changes no byte.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use testkit::requires;

use super::{
    MIB, answer, empty, folder, inspected, partitioned, physical_volumes, put, tool, write,
};

/// A kind of disk: the tool that makes it, and what inspect must say of it.
type KindCase = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
);

const SMALL: u64 = 64 * MIB;

/// Made in a file of [`SMALL`] bytes that is named as the last argument.
const FILESYSTEMS: [KindCase; 8] = [
    (
        "ext4",
        "mkfs.ext4",
        &["-q", "-L", "label"],
        "ext4 \"label\"",
    ),
    (
        "ext2",
        "mkfs.ext2",
        &["-q", "-L", "label"],
        "ext2 \"label\"",
    ),
    (
        "vfat",
        "mkfs.vfat",
        &["-F", "32", "-n", "LABEL"],
        "vfat \"LABEL\"",
    ),
    (
        "ntfs",
        "mkfs.ntfs",
        &["-Q", "-F", "-q", "-L", "label"],
        "ntfs \"label\"",
    ),
    (
        "f2fs",
        "mkfs.f2fs",
        &["-q", "-l", "label"],
        "f2fs \"label\"",
    ),
    ("swap", "mkswap", &["-L", "label"], "swap \"label\""),
    (
        "luks",
        "cryptsetup",
        &[
            "luksFormat",
            "-q",
            "--type",
            "luks2",
            "--pbkdf",
            "pbkdf2",
            "--pbkdf-force-iterations",
            "1000",
            "--label",
            "label",
            "--key-file",
            "key",
        ],
        "crypto_LUKS \"label\"",
    ),
    (
        "luks1",
        "cryptsetup",
        &[
            "luksFormat",
            "-q",
            "--type",
            "luks1",
            "--pbkdf-force-iterations",
            "1000",
            "--key-file",
            "key",
        ],
        "crypto_LUKS ",
    ),
];

/// What must stay as it is: the bytes, and the allocated size and times.
fn state(path: &Path) -> (Vec<u8>, [i64; 3]) {
    let file = File::open(path).expect("readable");
    // The filesystem allocates what a tool wrote when it writes it to its disk, which changes the allocated size.
    file.sync_all().expect("it is on the disk");
    let found = file.metadata().expect("it is there");
    let blocks = i64::try_from(found.blocks()).expect("a small file");
    let bytes = fs::read(path).expect("readable");
    (bytes, [blocks, found.mtime(), found.mtime_nsec()])
}

/// Looks at a disk in both ways; what it says, and that nothing changed.
fn looked_at(folder: &Path, disk: &str) -> String {
    let before = state(&folder.join(disk));
    let text = answer(folder, &["inspect", disk]);
    let _told = inspected(folder, &[disk]);
    let after = state(&folder.join(disk));
    assert_eq!(before.1, after.1, "{disk} was changed");
    assert!(before.0 == after.0, "bytes of {disk} were changed");
    text
}

#[test]
fn each_filesystem_is_named_and_not_a_byte_of_it_changes() {
    let folder = folder();
    fs::write(folder.path().join("key"), [7; 32]).expect("a key");
    for (name, program, arguments, expected) in FILESYSTEMS {
        if !requires::all(&[requires::command(program), requires::command("blkid")]) {
            continue;
        }
        empty(folder.path(), name, SMALL);
        tool(folder.path(), program, &[arguments, &[name]].concat());
        let text = looked_at(folder.path(), name);
        assert!(text.contains(expected), "{name}: {text}");
    }
}

#[test]
fn large_filesystems_are_found_through_what_blkid_follows() {
    let needs = ["mkfs.xfs", "mkfs.btrfs", "mkfs.ntfs", "blkid"];
    if !requires::all(&needs.map(requires::command)) {
        return;
    }
    let folder = folder();
    let made: [KindCase; 3] = [
        ("xfs", "mkfs.xfs", &["-q", "-L", "label"], "xfs \"label\""),
        (
            "btrfs",
            "mkfs.btrfs",
            &["-q", "-L", "label"],
            "btrfs \"label\"",
        ),
        // The label of a large one is in its file table, in the middle of nowhere.
        (
            "ntfs",
            "mkfs.ntfs",
            &["-Q", "-F", "-q", "-L", "label"],
            "ntfs \"label\"",
        ),
    ];
    for (name, program, arguments, expected) in made {
        empty(folder.path(), name, 8 << 30);
        tool(folder.path(), program, &[arguments, &[name]].concat());
        // Eight gigabytes are not read twice: a change would also show in the extents.
        let before = fs::metadata(folder.path().join(name)).expect("it is there");
        let text = answer(folder.path(), &["inspect", name]);
        assert!(text.contains(expected), "{name}: {text}");
        let after = fs::metadata(folder.path().join(name)).expect("it is there");
        let facts = |found: &fs::Metadata| (found.blocks(), found.mtime(), found.mtime_nsec());
        assert_eq!(facts(&before), facts(&after));
    }
}

#[test]
fn disks_of_other_kinds_are_named_and_not_a_byte_changes() {
    let folder = folder();
    physical_volumes(folder.path());
    let text = looked_at(folder.path(), "pv0");
    assert!(text.contains("physical volume of vg0"), "{text}");
    empty(folder.path(), "none", 4 * MIB);
    assert!(looked_at(folder.path(), "none").contains("nothing known"));
    if requires::all(&["sgdisk", "mkfs.vfat", "mkfs.ext4", "mkswap"].map(requires::command)) {
        partitioned(folder.path());
        assert!(looked_at(folder.path(), "disk.img").contains("GPT, 4 partitions"));
    }
}

#[test]
fn images_are_named_and_not_opened() {
    if !requires::all(&[requires::command("qemu-img"), requires::command("xz")]) {
        return;
    }
    let folder = folder();
    for (format, expected) in [
        ("qcow2", "an image: QEMU Copy On Write (QCOW), not opened"),
        (
            "vhdx",
            "an image: Microsoft Virtual Hard Disk 2 (VHDX), not opened",
        ),
        ("vmdk", "an image: Virtual Machine Disk (VMDK), not opened"),
    ] {
        tool(
            folder.path(),
            "qemu-img",
            &["create", "-q", "-f", format, format, "64M"],
        );
        let text = looked_at(folder.path(), format);
        assert!(text.contains(expected), "{format}: {text}");
    }
    // Bytes that no packer makes less than a sector of.
    let noise = (0..1_u32 << 16).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]);
    fs::write(folder.path().join("raw"), noise.collect::<Vec<u8>>()).expect("written");
    tool(folder.path(), "xz", &["raw"]);
    let text = looked_at(folder.path(), "raw.xz");
    assert!(text.contains("packed: XZ (XZ), not opened"), "{text}");
}

#[test]
fn garbage_is_reported_and_does_no_harm() {
    if !requires::all(&["sgdisk", "mkfs.vfat", "mkfs.ext4", "mkswap"].map(requires::command)) {
        return;
    }
    let folder = folder();
    partitioned(folder.path());
    physical_volumes(folder.path());
    let disk = fs::read(folder.path().join("disk.img")).expect("readable");
    let volume = fs::read(folder.path().join("pv0")).expect("readable");
    // Every byte of what describes them, one after the other; a few of them change a checksum.
    for (index, source) in [&disk, &volume].into_iter().enumerate() {
        for step in 0..24_usize {
            let at = 440 + step * 173;
            let mut bytes = source[..2 << 20].to_vec();
            bytes[at] ^= 0xff;
            bytes.truncate(if step % 3 == 0 { at + 512 } else { bytes.len() });
            let name = format!("bad{index}");
            fs::write(folder.path().join(&name), &bytes).expect("written");
            let text = answer(folder.path(), &["inspect", &name]);
            assert!(text.starts_with(&name), "{text}");
        }
    }
    empty(folder.path(), "both", 64 * MIB);
    put(folder.path(), "both", 0, "ext");
    write(folder.path(), "both", 64 << 10, b"\0");
}
