//! Servers that die under an attachment: it waits, it reconnects, and nothing acknowledged is lost.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB};
use outboard_tests::said::{LIMIT, program};
use outboard_tests::server::Server;
use rustix::process::Signal;
use testkit::proc::Process;

/// Writes files one after the other, each with fsync; a line for each that was acknowledged.
const WRITER: &str = "
    n=0
    while [ ! -e $0/stop ]; do
        n=$((n + 1))
        head -c 100000 /dev/urandom >$0/piece
        dd if=$0/piece of=$1/$n bs=100000 conv=fsync 2>/dev/null || exit 1
        echo \"$(sha256sum <$0/piece | cut -d' ' -f1)  $n\" >>$0/acknowledged
    done
";

/// How long the writer may stand still.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

fn acknowledged(folder: &Folder) -> usize {
    std::fs::read_to_string(folder.at("acknowledged")).map_or(0, |text| text.lines().count())
}

#[track_caller]
fn wait_for_more(writer: &mut Process, folder: &Folder, more: usize) {
    let wanted = acknowledged(folder) + more;
    let progress = writer.wait_until("progress of the writer", PROGRESS_TIMEOUT, |_| {
        (acknowledged(folder) >= wanted).then_some(())
    });
    progress.unwrap_or_else(|e| panic!("{e}"));
}

/// A disk in the memory of a server, attached.
#[track_caller]
fn attached_memory(world: &World) -> (Server, String) {
    let server = Server::start(&["memory(8M)"]);
    let device = world.attach(&server.uri(""));
    (server, device)
}

/// A read of the device that the page cache cannot answer.
fn reader(device: &str) -> Command {
    let from = format!("if={device}");
    let mut command = Command::new("dd");
    command.args([&from, "of=/dev/null", "bs=4k", "count=1", "iflag=direct"]);
    command
}

#[test]
fn a_mount_outlives_a_server_that_is_killed_and_started_again_and_again() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.empty("a.img", 256 * MIB);
    let mut server = Server::start(&[&image]);
    let mount = world.at("mnt");
    let uri = server.uri("");
    world.attachment(&uri).ext4().on(&mount).device();
    let here = folder.path().to_str().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", WRITER, here, &mount]);
    let mut writer = Process::start(&mut command).unwrap();
    for round in 0..4_u64 {
        wait_for_more(&mut writer, &folder, 10);
        let port = server.kill();
        std::thread::sleep(Duration::from_millis(200 * round));
        server = Server::start_on(port, &[&image]);
    }
    wait_for_more(&mut writer, &folder, 10);
    std::fs::write(folder.at("stop"), b"").unwrap();
    assert_eq!(writer.wait(LIMIT).unwrap().code(), Some(0));
    world.run(&["detach", &mount]).ok();
    world.assert_clean();

    world.attachment(&uri).on(&mount).device();
    let mut check = Command::new("sha256sum");
    check
        .args(["--check", "--quiet", &folder.at("acknowledged")])
        .current_dir(&mount);
    outboard_tests::said::run(&mut check).ok();
    world.run(&["detach", &mount]).ok();
    world.assert_clean();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    program("e2fsck", &["-fn", &image]).ok();
}

#[test]
fn detach_without_a_server_removes_everything_and_reports_possible_data_loss() {
    let Some(world) = World::new() else { return };
    let folder = Folder::new();
    let image = folder.empty("a.img", 64 * MIB);
    let server = Server::start(&[&image]);
    let mount = world.at("mnt");
    world.attachment(&server.uri("")).ext4().on(&mount).device();
    std::fs::write(format!("{mount}/unsaved"), vec![b'u'; 1 << 20]).unwrap();
    server.kill();
    let said = world.run(&["detach", &mount, "--timeout", "2"]);
    assert_ne!(said.code, Some(0), "data may be lost: {said:?}");
    assert!(
        said.stderr.contains("lost") || said.stderr.contains("flush"),
        "{said:?}"
    );
    world.assert_clean();
    assert!(!Path::new(&mount).exists());
}

#[test]
fn a_server_that_comes_back_with_another_size_is_not_taken_for_the_old_one() {
    let Some(world) = World::new() else { return };
    let (server, device) = attached_memory(&world);
    let port = server.kill();
    let other = Server::start_on(port, &["memory(4M)"]);
    let mut read = reader(&device);
    let mut read = Process::start(&mut read).unwrap();
    // It fails or it waits; what it must not do is read from the wrong disk.
    let answered = read.wait(Duration::from_secs(3));
    let is_read = answered.is_ok_and(|status| status.success());
    assert!(!is_read, "it read from another disk");
    let printed = world.run(&["status"]).ok();
    let is_reported = printed.contains("reconnecting") || printed.contains("changed");
    assert!(is_reported, "{printed}");
    drop(other);
    // Whether a flush counts as failed is not the matter here.
    let said = world.run(&["detach", &device, "--timeout", "2"]);
    assert!(said.code.is_some(), "{said:?}");
    read.wait(LIMIT).unwrap();
    world.assert_clean();
}

#[test]
fn an_attachment_whose_own_process_was_killed_can_be_detached() {
    let Some(world) = World::new() else { return };
    let (_server, device) = attached_memory(&world);
    let owners = world.processes();
    assert_eq!(owners.len(), 1, "{owners:?}");
    program("kill", &["-9", &owners[0].to_string()]).ok();
    drop(world.run(&["detach", &device, "--timeout", "2"]));
    world.assert_clean();
}

#[test]
fn requests_fail_when_the_server_was_away_for_longer_than_the_timeout() {
    let Some(world) = World::new() else { return };
    // A disk in memory would be another one after the restart.
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    std::fs::File::create(&image)
        .unwrap()
        .set_len(8 << 20)
        .unwrap();
    let image = image.to_str().unwrap();
    let server = Server::start(&[image]);
    let uri = server.uri("");
    let device = world.attachment(&uri).with(&["--timeout", "2"]).device();
    let port = server.kill();
    let mut waits = Process::start(&mut reader(&device)).unwrap();
    let status = waits.wait(LIMIT).unwrap();
    assert!(!status.success(), "it failed, and did not wait for ever");
    let mut server = Server::start_on(port, &[image]);
    let reads = server.process().wait_until(
        "a read from the server that is back",
        PROGRESS_TIMEOUT,
        |_| {
            reader(&device)
                .output()
                .is_ok_and(|output| output.status.success())
                .then_some(())
        },
    );
    reads.unwrap_or_else(|e| panic!("{e}"));
    world.run(&["detach", &device]).ok();
    world.assert_clean();
    drop(server);
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let Some(world) = World::new() else { return };
    let server = Server::start(&["memory(8M)"]);
    let uri = server.uri("");
    let port = server.kill();
    let attachment = world.attachment(&uri).with(&["--wait", "60"]);
    let mut attach = Process::start(&mut attachment.command()).unwrap();
    assert!(
        attach.wait(Duration::from_secs(1)).is_err(),
        "it does not give up"
    );
    let server = Server::start_on(port, &["memory(8M)"]);
    assert_eq!(attach.wait(PROGRESS_TIMEOUT).unwrap().code(), Some(0));
    world.run(&["detach", "--all"]).ok();
    world.assert_clean();
    drop(server);
}
