//! Attaching without the kernel's nbd: a FUSE file under a loop device, as a user sees it.

use std::process::Command;

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB, assert_same};
use outboard_tests::said::{LIMIT, program, run};
use outboard_tests::server::Server;
use testkit::proc::Process;
use testkit::requires;

#[test]
fn a_disk_is_attached_made_a_filesystem_mounted_used_and_detached() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.empty("a.img", 64 * MIB);
    let data = folder.filled("data", 9 * MIB + 77, 4);
    let server = Server::start(&[&image]);
    let mount = world.at("mnt");
    let file = format!("{mount}/data");
    let uri = server.uri("");
    world.attachment(&uri).ext4().on(&mount).device();
    program("cp", &[&data, &file]).ok();
    assert_same(&data, &file);
    world.run(&["detach", &mount]).ok();
    world.assert_clean();
    assert!(
        !std::path::Path::new(&mount).exists(),
        "what attach made, detach removes"
    );

    world.attachment(&uri).on(&mount).device();
    assert_same(&data, &file);
    world.run(&["detach", &mount]).ok();
    world.assert_clean();
    drop(server);
    program("e2fsck", &["-fn", &image]).ok();
}

#[test]
fn a_filesystem_is_not_made_over_another_one() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.empty("a.img", 32 * MIB);
    program("mkfs.ext4", &["-q", "-F", &image]).ok();
    let before = std::fs::read(&image).unwrap();
    let server = Server::start(&[&image]);
    let line = world.attachment(&server.uri("")).ext4().run().complaint(1);
    assert!(line.contains("ext4"), "{line}");
    world.assert_clean();
    assert!(
        std::fs::read(&image).unwrap() == before,
        "nothing was written"
    );
}

#[test]
fn status_lists_an_attachment_until_it_is_detached() {
    let Some(world) = World::new() else { return };
    let server = Server::start(&["disk=memory(8M)"]);
    let uri = server.uri("disk");
    let device = world.attach(&uri);
    let printed = world.run(&["--json", "status"]).ok();
    assert!(
        printed.contains(&device) && printed.contains(&uri),
        "{printed}"
    );
    let printed = world.run(&["status"]).ok();
    assert!(
        printed.contains(&device) && printed.contains(&uri),
        "{printed}"
    );
    let size = program("blockdev", &["--getsize64", &device]).ok();
    assert_eq!(size.trim(), (8 * MIB).to_string());
    world.run(&["detach", &device]).ok();
    world.assert_clean();
    let printed = world.run(&["--json", "status"]).ok();
    assert!(!printed.contains(&device), "{printed}");
}

#[test]
fn a_local_disk_is_attached_without_a_server() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.filled("a.img", 4 * MIB, 3);
    let device = world.attach(&image);
    let copy = folder.at("copy");
    program("cp", &[&device, &copy]).ok();
    world.run(&["detach", &device]).ok();
    world.assert_clean();
    assert_same(&image, &copy);
}

#[test]
fn detach_all_takes_down_everything_of_this_user() {
    let Some(world) = World::new() else { return };
    let server = Server::start(&["a=memory(4M)", "b=memory(4M)"]);
    for export in ["a", "b"] {
        let device = world.attach(&server.uri(export));
        assert!(device.starts_with("/dev/loop"), "{device}");
    }
    world.run(&["detach", "--all"]).ok();
    world.assert_clean();
}

#[test]
fn a_mount_in_use_is_not_taken_away() {
    let Some(world) = World::new() else { return };
    let server = Server::start(&["memory(64M)"]);
    let mount = world.at("mnt");
    world.attachment(&server.uri("")).ext4().on(&mount).device();
    let mut user = Process::start(Command::new("sleep").arg("60").current_dir(&mount)).unwrap();
    let line = world.run(&["detach", &mount]).complaint(1);
    assert!(line.contains(&mount), "{line}");
    drop(user.signal(rustix::process::Signal::KILL));
    user.wait(LIMIT).unwrap();
    world.run(&["detach", &mount]).ok();
    world.assert_clean();
}

#[test]
fn a_failed_attach_prints_one_line_and_leaves_nothing() {
    let Some(world) = World::new() else { return };
    let server = Server::start(&["known=memory(4M)"]);
    let full = world.mount_point();
    std::fs::write(format!("{full}/file"), b"mine").unwrap();
    let gone = Server::start(&["memory(1M)"]);
    let gone_uri = gone.uri("");
    drop(gone);
    let known = server.uri("known");
    let cases: [(&str, Option<&str>, &str); 6] = [
        (&server.uri("unknown"), None, "unknown"),
        (&gone_uri, None, "refused"),
        ("nbd://no-such-host.invalid/x", None, "no-such-host.invalid"),
        (&known, Some(&full), "not empty"),
        (&known, Some("/proc"), "/proc"),
        (&known, Some("/nonexistent/mnt"), "/nonexistent"),
    ];
    for (uri, mount, part) in cases {
        let attachment = world.attachment(uri);
        let attachment = match mount {
            Some(dir) => attachment.on(dir),
            None => attachment,
        };
        let line = attachment.run().complaint(1);
        assert!(line.contains(part), "{attachment:?}: {line}");
        world.assert_clean();
    }
    assert_eq!(std::fs::read(format!("{full}/file")).unwrap(), b"mine");
}

#[test]
fn a_disk_without_a_filesystem_is_not_mounted_and_leaves_nothing() {
    let Some(world) = World::new() else { return };
    let server = Server::start(&["memory(4M)"]);
    let mount = world.at("mnt");
    let line = world
        .attachment(&server.uri(""))
        .on(&mount)
        .run()
        .complaint(1);
    assert!(line.contains(&mount), "{line}");
    world.assert_clean();
    assert!(!std::path::Path::new(&mount).exists());
}

#[test]
fn without_fuse_or_loop_devices_the_error_names_the_missing_one() {
    if !requires::all(&[requires::command("unshare")]) {
        return;
    }
    let Some(world) = World::new() else { return };
    let server = Server::start(&["memory(4M)"]);
    for (device, part) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        let attach = world.attachment(&server.uri("")).command();
        let words: Vec<String> = std::iter::once(attach.get_program())
            .chain(attach.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        // In a mount namespace of its own the device is another one.
        let script = format!(
            "mount --bind /dev/null {device} && exec {}",
            words.join(" ")
        );
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", &script])
            .env("OUTBOARD_RUNTIME_DIR", world.runtime());
        let line = run(&mut command).complaint(1);
        assert!(line.to_lowercase().contains(part), "{line}");
        world.assert_clean();
    }
}

#[test]
fn what_is_not_attached_cannot_be_detached() {
    let world = World::default();
    let line = world.run(&["detach", "/dev/loop9999"]).complaint(1);
    assert!(line.contains("/dev/loop9999"), "{line}");
    world.assert_clean();
}
