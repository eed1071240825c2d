//! Attaching a disk with partitions: they appear, they are named where the disk itself cannot be mounted, and they
//! are gone with the device.
//!
//! The loop device was set up without a scan for partitions: none appeared, `--mount` failed with mount(8)'s text, and
//! what `partx` had made by hand stayed behind as devices without a disk.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::Path;

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB};
use outboard_tests::said::program;
use testkit::requires::{self, Missing};

/// An image with an ext4 in its second partition.
fn partitioned(folder: &Folder) -> String {
    let image = folder.empty("disk.img", 96 * MIB);
    let table = folder.at("table");
    std::fs::write(&table, "label: gpt\nsize=16MiB\nsize=64MiB\n").unwrap();
    program("sh", &["-c", &format!("sfdisk --quiet {image} <{table}")]).ok();
    program(
        "mkfs.ext4",
        &["-q", "-F", "-E", "offset=17825792", &image, "65536"],
    )
    .ok();
    image
}

/// Whether this machine's kernel reads partition tables; not all of those in clouds do.
fn kernel_reads_tables(image: &str) -> Result<(), Missing> {
    let device = program("losetup", &["--find", "--partscan", "--show", image]).ok();
    let is_shown = !shown(device.trim_end()).is_empty();
    program("losetup", &["--detach", device.trim_end()]).ok();
    match is_shown {
        true => Ok(()),
        false => Err(Missing::new(
            "the kernel reads no partition tables",
            "use one with CONFIG_EFI_PARTITION; the guest has it",
        )),
    }
}

fn needs() -> Option<World> {
    let world = World::new()?;
    let needs = [requires::command("sfdisk"), requires::command("partx")];
    requires::all(&needs).then_some(world)
}

/// The partitions that the kernel shows for a device.
fn shown(device: &str) -> Vec<String> {
    let name = device.trim_start_matches("/dev/");
    let entries = std::fs::read_dir(format!("/sys/block/{name}"))
        .into_iter()
        .flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut partitions: Vec<_> = names.filter(|entry| entry.starts_with(name)).collect();
    partitions.sort();
    partitions
}

#[test]
fn the_partitions_of_a_disk_appear_and_go_with_it() {
    let Some(world) = needs() else { return };
    let folder = Folder::new();
    let image = partitioned(&folder);
    if let Err(missing) = kernel_reads_tables(&image) {
        // No package brings it. The guest's kernel has it: tests/guest/attach-partitions.sh.
        eprintln!("skipped: {missing}");
        return;
    }
    let said = world.run(&["attach", &image, "--json"]);
    let printed: serde_json::Value = serde_json::from_str(&said.ok()).unwrap();
    let device = printed["device"].as_str().unwrap();
    let second = &printed["partitions"][1];
    assert_eq!(second["number"], 2, "{printed}");
    assert_eq!(second["size"], 64 * MIB, "{printed}");
    assert_eq!(second["device"], format!("{device}p2"), "{printed}");
    assert_eq!(shown(device).len(), 2);
    world.run(&["detach", device]).ok();
    assert_eq!(shown(device), Vec::<String>::new());
    let said = world.run(&["attach", &image]);
    assert!(said.stderr.contains("partition 2: /dev/loop"), "{said:?}");
    let device = said.ok();
    assert_eq!(device.lines().count(), 1, "{device}");
    world.run(&["detach", device.trim_end()]).ok();
    world.assert_clean();
}

#[test]
fn what_partx_made_goes_with_the_device() {
    let Some(world) = needs() else { return };
    let folder = Folder::new();
    let image = partitioned(&folder);
    let device = world.attach(&image);
    // Where the kernel has read the table this changes nothing.
    program("partx", &["--update", &device]).ok();
    assert_eq!(shown(&device).len(), 2);
    world.run(&["detach", &device]).ok();
    assert_eq!(shown(&device), Vec::<String>::new());
    world.assert_clean();
}

#[test]
fn a_mounted_partition_keeps_its_disk() {
    let Some(world) = needs() else { return };
    let folder = Folder::new();
    let image = partitioned(&folder);
    let device = world.attach(&image);
    program("partx", &["--update", &device]).ok();
    let mount = world.mount_point();
    program("mount", &[&format!("{device}p2"), &mount]).ok();
    let refused = world.run(&["detach", &device]).complaint(1);
    assert!(refused.contains(&mount), "{refused}");
    program("umount", &[&mount]).ok();
    world.run(&["detach", &device]).ok();
    world.assert_clean();
}

#[test]
fn a_mount_of_the_whole_disk_names_the_partitions_and_one_of_them_can_be_mounted() {
    let Some(world) = needs() else { return };
    let folder = Folder::new();
    let image = partitioned(&folder);
    let mount = world.at("mnt");
    let refused = world.attachment(&image).on(&mount).run().complaint(1);
    let expression = format!("partition({image}, 2)");
    assert!(refused.contains(&expression), "{refused}");
    assert!(!refused.contains("wrong fs type"), "{refused}");
    world.assert_clean();
    world.attachment(&expression).on(&mount).device();
    assert!(Path::new(&mount).join("lost+found").exists());
    world.run(&["detach", &mount]).ok();
    world.assert_clean();
}

/// A partition at sector 63, where fdisk placed the first one for decades, and one within a block of an overlay.
#[test]
fn a_partition_that_begins_off_a_block_of_its_disk_is_named_when_the_disk_is_attached() {
    let Some(world) = needs() else { return };
    let folder = Folder::new();
    let image = folder.empty("a.img", 64 * MIB);
    let attach = |disk: &str| {
        let attached = world.run(&["attach", disk]);
        let warnings = attached.stderr.clone();
        let device = attached.ok().trim().to_owned();
        world.run(&["detach", &device]).ok();
        assert!(warnings.matches("no multiple").count() <= 1, "{warnings}");
        warnings
    };
    let table = folder.at("table");
    let write = |lines: &str| {
        std::fs::write(&table, format!("label: dos\n{lines}")).unwrap();
        program("sh", &["-c", &format!("sfdisk --quiet {image} <{table}")]).ok();
    };
    write("start=63, size=32768\nstart=65536, size=32768\nstart=98305, size=2048\n");
    let warnings = attach(&image);
    let line = "partition 1 begins at byte 32256, no multiple of 4 KiB: writes are slow on most drives; \
                partition 3 is off, too";
    assert!(warnings.contains(line), "{warnings}");
    let overlay = |top: &str| format!("overlay({image}, {}, chunk=64K)", folder.at(top));
    write("start=72, size=32768\n");
    assert!(!attach(&image).contains("no multiple"));
    let warnings = attach(&overlay("top"));
    let line = "partition 1 begins at byte 36864, no multiple of the 64 KiB";
    assert!(warnings.contains(line), "{warnings}");
    write("start=2048, size=32768\n");
    let warnings = attach(&overlay("other"));
    assert!(!warnings.contains("no multiple"), "{warnings}");
    world.assert_clean();
}
