//! What users meet around an attachment: a second one of the same disk, an interrupted start, another user, what
//! `status` and `detach` say.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB};
use outboard_tests::said::{LIMIT, program, run};
use outboard_tests::server::Server;
use rustix::process::Signal;
use testkit::proc::Process;
use testkit::requires;

/// How long a background process may take to notice that its parent has ended.
const END_FOR: Duration = Duration::from_secs(10);

/// Another project's server, which knows nothing of writers.
fn foreign(folder: &Folder) -> Option<(Process, String)> {
    if !requires::all(&[requires::command("nbdkit")]) {
        return None;
    }
    let socket = folder.at("socket");
    let mut command = Command::new("nbdkit");
    command.args([
        "--foreground",
        "--exit-with-parent",
        "--unix",
        &socket,
        "memory",
        "8M",
    ]);
    let mut server = Process::start(&mut command).unwrap();
    server.wait_for_socket(socket.as_ref(), LIMIT).unwrap();
    Some((server, format!("nbd+unix:///?socket={socket}")))
}

// The same export attached twice, read-write, without a word: a filesystem was destroyed.
#[test]
fn a_second_writing_attachment_of_an_export_is_refused_unless_it_is_shared() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let Some((_server, uri)) = foreign(&folder) else {
        return;
    };
    let device = world.attach(&uri);
    let refused = world.attachment(&uri).run().complaint(1);
    assert!(
        refused.contains("already attached for writing"),
        "{refused}"
    );
    assert!(
        refused.contains(&device) && refused.contains("--shared"),
        "{refused}"
    );
    assert_eq!(
        world.processes().len(),
        1,
        "nothing of the second one is left"
    );
    for option in ["--read-only", "--shared"] {
        let second = world.attachment(&uri).with(&[option]).device();
        assert_ne!(second, device);
        world.run(&["detach", &second]).ok();
    }
    world.run(&["detach", &device]).ok();
    let again = world.attach(&uri);
    world.run(&["detach", &again]).ok();
    world.assert_clean();
}

// `attach` requests the access from our server that its options name; the server knows the writers of every machine.
#[test]
fn a_server_of_ours_takes_shared_attachments_where_it_has_many_writers() {
    let Some(world) = World::new() else { return };
    let server = Server::start(&["memory(8M)", "--writers=many"]);
    let uri = server.uri("");
    let devices = [0, 1].map(|_| world.attachment(&uri).with(&["--shared"]).device());
    assert_ne!(devices[0], devices[1]);
    world.run(&["detach", "--all"]).ok();
    world.assert_clean();
    let server = Server::start(&["memory(8M)"]);
    let uri = server.uri("");
    let elsewhere = World::default();
    let device = elsewhere.attach(&uri);
    let refused = world.attachment(&uri).run().complaint(1);
    assert!(
        refused.contains("already attached for writing by"),
        "{refused}"
    );
    elsewhere.run(&["detach", &device]).ok();
    let device = world.attach(&uri);
    world.run(&["detach", &device]).ok();
    world.assert_clean();
    elsewhere.assert_clean();
}

/// The namespace of another program has a copy of the mount, which `detach` does not see. Removing the directory that `attach` made
/// unmounts that, too: by the process that removes it, which must not be the one that serves the disk.
#[test]
fn a_mount_that_another_namespace_has_a_copy_of_is_detached() {
    if !requires::all(&[requires::command("unshare")]) {
        return;
    }
    let Some(world) = World::new() else { return };
    let server = Server::start(&["memory(16M)"]);
    let uri = server.uri("");
    let mount = world.at("mnt");
    world.attachment(&uri).on(&mount).ext4().device();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "echo copied; exec sleep 600"]);
    let mut other = Process::start(&mut command).unwrap();
    other.wait_for_line("copied", LIMIT).unwrap();
    std::fs::write(format!("{mount}/file"), [7; 4096]).unwrap();
    // It may say that the device is in use; it must say something.
    drop(world.run(&["detach", &mount]));
    assert!(!std::path::Path::new(&mount).exists());
    let freed = other.wait_until("the end of the attachment", END_FOR, |_| {
        world.traces().is_empty().then_some(())
    });
    freed.unwrap_or_else(|e| panic!("{e}; {:?}", world.traces()));
    world.assert_clean();
}

// After Ctrl-C the background process went on trying, attached the disk minutes later, and wrote to it.
#[test]
fn an_attachment_that_is_interrupted_while_it_waits_is_never_made() {
    let Some(world) = World::new() else { return };
    let server = Server::start(&["memory(8M)"]);
    let uri = server.uri("");
    let port = server.kill();
    let attachment = world.attachment(&uri).with(&["--wait", "60"]);
    let mut attach = Process::start(&mut attachment.command()).unwrap();
    let started = attach.wait_until("a background process", LIMIT, |_| {
        (world.processes().len() == 2).then_some(())
    });
    started.unwrap();
    attach.signal(Signal::INT).unwrap();
    attach.wait(LIMIT).unwrap();
    let mut waiting = Process::start(Command::new("sleep").arg("600")).unwrap();
    let ended = waiting.wait_until("the end of the background process", END_FOR, |_| {
        world.traces().is_empty().then_some(())
    });
    ended.unwrap_or_else(|e| panic!("{e}; {:?}", world.traces()));
    let server = Server::start_on(port, &["memory(8M)"]);
    drop(server);
    world.assert_clean();
}

#[test]
fn status_of_another_user_mentions_the_attachments_of_root() {
    let Some(world) = World::new() else { return };
    if !requires::all(&[requires::command("setpriv")]) {
        return;
    }
    let device = world.attach("memory(8M)");
    let folder = world.runtime();
    let above = folder.parent().unwrap();
    std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o711)).unwrap();
    let mine = world.outboard(&["status"]);
    let binary = tempfile_copy(mine.get_program());
    let user = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(binary.path().join("outboard"))
            .args(args)
            .env("OUTBOARD_RUNTIME_DIR", &folder);
        run(&mut command).ok()
    };
    let printed = user(&["status"]);
    assert!(!printed.contains("nothing is attached"), "{printed}");
    assert!(
        printed.contains("attachment of root") || printed.contains("attachments of root"),
        "{printed}"
    );
    let printed: serde_json::Value = serde_json::from_str(&user(&["status", "--json"])).unwrap();
    assert!(printed["root_attachments"].as_u64() >= Some(1), "{printed}");
    world.run(&["detach", &device]).ok();
    world.assert_clean();
}

/// The binary where every user may run it.
fn tempfile_copy(program: &std::ffi::OsStr) -> Folder {
    let folder = Folder::new();
    std::fs::copy(program, folder.path().join("outboard")).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn attach_warns_of_bytes_that_are_cut_off_the_end_of_an_image() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.filled("odd.img", MIB + 100, 3);
    let said = world.attachment(&image).run();
    assert!(
        said.stderr.contains("the last 100 of its 1048676 bytes"),
        "{said:?}"
    );
    let device = said.ok();
    world.run(&["detach", device.trim_end()]).ok();
    world.assert_clean();
}

#[test]
fn status_shows_no_mount_after_umount() {
    let Some(world) = World::new() else { return };
    let mount = world.at("mnt");
    world.attachment("memory(32M)").ext4().on(&mount).device();
    let shown = || -> serde_json::Value {
        let printed = world.run(&["status", "--json"]).ok();
        serde_json::from_str(&printed).unwrap()
    };
    assert_eq!(shown()["attachments"][0]["mount"]["dir"], mount);
    program("umount", &[&mount]).ok();
    let printed = shown();
    assert!(printed["attachments"][0]["mount"].is_null(), "{printed}");
    world.run(&["detach", "--all"]).ok();
    world.assert_clean();
}

#[test]
fn an_attachment_is_detached_by_its_own_name() {
    let Some(world) = World::new() else { return };
    world
        .attachment("memory(8M)")
        .with(&["--name", "media"])
        .device();
    let refused = world.run(&["detach", "--name", "other"]).complaint(1);
    assert!(refused.contains("other"), "{refused}");
    world.run(&["detach", "--name", "media"]).ok();
    world.assert_clean();
}

// On failure two objects were printed, and none for `--all` where nothing was attached.
#[test]
fn detach_prints_exactly_one_object_for_programs() {
    let Some(world) = World::new() else { return };
    let object = |args: &[&str], code| {
        let said = world.run(args);
        assert_eq!(said.code, Some(code), "{said:?}");
        let printed = format!("{}{}", said.stdout, said.stderr);
        assert_eq!(printed.lines().count(), 1, "{said:?}");
        let value: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert!(value.is_object(), "{printed}");
        value
    };
    let printed = object(&["detach", "--all", "--json"], 0);
    assert_eq!(printed["detached"], serde_json::json!([]));
    let printed = object(&["detach", "/dev/loop9999", "--json"], 1);
    assert!(printed["error"].is_string(), "{printed}");

    let mount = world.at("mnt");
    let device = world.attachment("memory(32M)").ext4().on(&mount).device();
    assert!(world.attach("memory(8M)").starts_with("/dev/"));
    let user = Process::start(Command::new("sleep").arg("600").current_dir(&mount)).unwrap();
    let printed = object(&["detach", &mount, "--json"], 1);
    assert_eq!(printed["device"], device);
    assert!(
        printed["error"].as_str().unwrap().contains("in use"),
        "{printed}"
    );
    let printed = object(&["detach", "--all", "--json"], 1);
    assert_eq!(
        printed["detached"].as_array().map(Vec::len),
        Some(2),
        "{printed}"
    );
    drop(user);
    let printed = object(&["detach", &mount, "--json"], 0);
    assert!(printed["error"].is_null(), "{printed}");
    world.assert_clean();
}
