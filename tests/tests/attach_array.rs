//! Arrays that are attached: made of files of this machine, mounted, and stopped in order.

use std::io::Write;
use std::process::Command;

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB};
use outboard_tests::mirror::{assert_alike, create};
use outboard_tests::said::{program, run};
use outboard_tests::server::Server;
use testkit::requires;

const SIZE: u64 = 64 * MIB;
/// Looks at a member while it is written.
const TRIES: u32 = 20;

/// Two files that are a mirror.
#[track_caller]
fn mirror(folder: &Folder) -> [String; 2] {
    let members = ["a.img", "b.img"].map(|name| folder.empty(name, SIZE));
    create(&[&members[0], &members[1]], &[]);
    members
}

/// What mdadm says of a member's state.
#[track_caller]
fn state(member: &str) -> Option<String> {
    if !requires::all(&[requires::command("mdadm")]) {
        return None;
    }
    let printed = program("mdadm", &["--examine", member]).ok();
    let line = printed
        .lines()
        .find_map(|line| line.trim().strip_prefix("State : "));
    Some(line.unwrap_or_else(|| panic!("{printed}")).to_owned())
}

#[test]
fn a_mirror_is_mounted_written_and_clean_after_it_was_detached() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let [a, b] = mirror(&folder);
    let disk = format!("array({a}, {b})");
    let mount = world.mount_point();
    world.attachment(&disk).ext4().on(&mount).device();
    // Without a write for a moment the array is clean again: on a busy machine that may be over before mdadm looks.
    let state_in_use = || {
        let mut file = std::fs::File::create(format!("{mount}/file")).unwrap();
        file.write_all(&[b'm'; 10 << 20]).unwrap();
        file.sync_all().unwrap();
        state(&a)
    };
    let is_active = || state_in_use().is_none_or(|state| state == "active");
    assert!((0..TRIES).any(|_| is_active()), "it is in use");
    let printed = world.run(&["array", "status", "--json"]).ok();
    assert!(
        printed.contains(&a) && printed.contains("in_sync"),
        "{printed}"
    );
    world.run(&["detach", &mount]).ok();
    world.assert_clean();
    for member in [&a, &b] {
        if let Some(state) = state(member) {
            assert_eq!(state, "clean", "{member}");
        }
    }
    assert_alike(&a, &b);

    world.attachment(&disk).on(&mount).device();
    let file = std::fs::read(format!("{mount}/file")).unwrap();
    assert!(file == vec![b'm'; 10 << 20]);
    world.run(&["detach", &mount]).ok();
    world.assert_clean();
}

#[test]
fn a_lost_member_under_an_attachment_is_reported_and_the_mount_goes_on() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let [a, b] = mirror(&folder);
    let backup = Server::start(&[&b]);
    let disk = format!("array({a}, {}, member-timeout=3s)", backup.uri(""));
    let mount = world.mount_point();
    world.attachment(&disk).ext4().on(&mount).device();
    assert!(world.run(&["status"]).ok().contains("connected"));
    backup.kill();
    std::fs::write(format!("{mount}/file"), vec![b'm'; 10 << 20]).unwrap();
    run(Command::new("sync").args(["-f", &mount])).ok();
    let printed = world.run(&["status"]).ok();
    assert!(printed.contains("degraded"), "{printed}");
    world.run(&["detach", &mount]).ok();
    world.assert_clean();
    if let Some(state) = state(&a) {
        assert_eq!(state, "clean");
    }
}

#[test]
fn the_array_below_an_attachment_is_changed_by_commands_while_it_is_mounted() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let [a, b] = mirror(&folder);
    let c = folder.empty("c.img", SIZE);
    let disk = format!("array({a}, {b})");
    let mount = world.mount_point();
    world.attachment(&disk).ext4().on(&mount).device();
    let file = format!("{mount}/file");
    std::fs::write(&file, vec![b'm'; 5 << 20]).unwrap();
    let array = |args: &[&str]| world.run(&[&["array"], args].concat());
    let printed = array(&["fail", "m", "--member", &b]).ok();
    assert!(printed.contains("degraded: 1 of 2 parts work"), "{printed}");
    std::fs::write(&file, vec![b'n'; 10 << 20]).unwrap();
    let printed = array(&["re-add", "m", "--disk", &b, "--wait"]).ok();
    assert!(printed.contains("complete"), "{printed}");
    array(&["grow", "m", "--copies", "3"]).ok();
    let printed = array(&["add", "m", "--disk", &c, "--wait"]).ok();
    assert!(
        printed.contains("raid1 of 3") && printed.contains("complete"),
        "{printed}"
    );
    run(Command::new("sync").args(["-f", &mount])).ok();
    let printed = array(&["scrub", "m", "--wait"]).ok();
    assert!(
        printed.contains("last scrub  all copies are identical"),
        "{printed}"
    );
    let printed = array(&["stop", "m"]).complaint(1);
    assert!(printed.contains("outboard detach"), "{printed}");
    world.run(&["detach", &mount]).ok();
    world.assert_clean();
    assert_alike(&a, &b);
    assert_alike(&a, &c);
    // The next start names all three.
    world
        .attachment(&format!("array({a}, {b}, {c})"))
        .on(&mount)
        .device();
    assert!(std::fs::read(&file).unwrap() == vec![b'n'; 10 << 20]);
    world.run(&["detach", &mount]).ok();
    world.assert_clean();
}
