//! `netboot` with dnsmasq, on the loopback of a network of its own: the folder, what machines fetch, and both servers' ends.
//!
//! A machine that boots from it is in `cargo xtask netboot`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use testkit::requires::{self, Missing};

use super::{Server, answer, failure, outboard, within_a_minute};

/// `netboot` on the loopback, and more words.
fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [
        &[
            "netboot",
            "served",
            "--root",
            "golden.img",
            "--interface",
            "lo",
        ],
        more,
    ]
    .concat()
}

/// A card's boot partition.
fn card(folder: &Path) {
    let card = folder.join("card");
    fs::create_dir_all(card.join("overlays")).expect("a folder");
    let files = [
        ("cmdline.txt", "console=tty1 root=PARTUUID=1-02 rootwait\n"),
        ("config.txt", "arm_64bit=1\n"),
        ("kernel8.img", "a kernel"),
        ("overlays/a.dtbo", "an overlay"),
    ];
    for (name, text) in files {
        fs::write(card.join(name), text).expect("a file");
    }
}

#[test]
fn a_card_is_written_for_the_network_and_what_was_edited_stays() {
    if !requires::all(&[requires::command("ip")]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (here, served) = (folder.path(), folder.path().join("served"));
    card(here);
    let read = |name: &str| fs::read_to_string(served.join(name)).expect("it is written");
    let words = words(&["--pi-boot", "card", "--write-only"]);
    let shown = served.display();
    assert_eq!(
        answer(here, &words),
        format!(
            "{shown}: outboard.toml, dnsmasq.conf, tftp/cmdline.txt, tftp/config.txt written\n"
        )
    );
    assert_eq!(
        read("tftp/cmdline.txt"),
        "console=tty1 rootwait outboard=nbd://127.0.0.1/root ip=dhcp rw\n"
    );
    assert!(read("tftp/config.txt").ends_with("arm_64bit=1\n\n[all]\nauto_initramfs=1\n"));
    assert_eq!(read("tftp/kernel8.img"), "a kernel");
    assert_eq!(read("tftp/overlays/a.dtbo"), "an overlay");
    assert_eq!(answer(here, &words), format!("{shown}: unchanged\n"));
    fs::write(served.join("tftp/cmdline.txt"), "mine\n").expect("a file");
    fs::remove_file(served.join("dnsmasq.conf")).expect("it is there");
    let text = format!(
        "{shown}: dnsmasq.conf written\n{shown}: tftp/cmdline.txt was edited and stays as it is\n"
    );
    assert_eq!(answer(here, &words), text);
    assert_eq!(read("tftp/cmdline.txt"), "mine\n");
}

#[test]
fn what_does_not_fit_is_named_before_anything_is_written() {
    if !requires::all(&[requires::command("ip")]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let (code, message) = failure(here, &words(&["--dhcp-range", "10.0.0.1,10.0.0.9"]));
    let range = "--dhcp-range is not in 127.0.0.0/8, the network of this machine";
    assert_eq!((code, message), (Some(2), format!("outboard: {range}")));
    let none = [
        "netboot",
        "served",
        "--root",
        "a.img",
        "--interface",
        "none0",
    ];
    let (code, message) = failure(here, &none);
    assert_eq!(code, Some(1));
    let begin = "outboard: cannot find the address of none0: ";
    assert!(message.starts_with(begin), "{message}");
    assert!(!here.join("served").exists());
    let (code, message) = failure(here, &words(&["--pi-boot", "card"]));
    assert_eq!(code, Some(1));
    let begin = "outboard: card is no boot partition of a Raspberry Pi: cmdline.txt: ";
    assert!(message.starts_with(begin), "{message}");
}

/// A filesystem with two kernels.
fn golden(folder: &Path) {
    let boot = folder.join("tree/boot");
    fs::create_dir_all(&boot).expect("a folder");
    for (name, text) in [
        ("vmlinuz-6.9.0-1-amd64", "the old kernel"),
        ("initrd.img-6.9.0-1-amd64", "the old initramfs"),
        ("vmlinuz-6.10.0-1-amd64", "the kernel"),
        ("initrd.img-6.10.0-1-amd64", "the initramfs"),
    ] {
        fs::write(boot.join(name), text).expect("a file");
    }
    let image = folder.join("golden.img");
    let file = fs::File::create(&image).expect("a file");
    file.set_len(8 << 20).expect("room");
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-d"]).arg(folder.join("tree"));
    let made = mkfs.arg(&image).status().expect("it runs");
    assert!(made.success());
}

/// The command in a network of its own, which is its process's.
fn alone(folder: &Path) -> Command {
    let command = outboard(folder, &words(&[]));
    let mut alone = Command::new("unshare");
    alone.args(["--net", "sh", "-c", "ip link set lo up; exec \"$@\"", "sh"]);
    alone.arg(command.get_program()).args(command.get_args());
    alone.current_dir(folder);
    alone.env("OUTBOARD_RUNTIME_DIR", folder.join("run"));
    alone.env("NOTIFY_SOCKET", folder.join("notify"));
    alone
}

fn start(folder: &Path) -> Server {
    let log = folder.join("log");
    let (mut server, mut line) = Server::start_logged(alone(folder), &log);
    while !line.is_empty() && line != "nbd://127.0.0.1/root" {
        line = server.line();
    }
    assert!(
        !line.is_empty(),
        "{}",
        fs::read_to_string(log).unwrap_or_default()
    );
    server
}

fn dnsmasq(folder: &Path) -> Pid {
    let number = fs::read_to_string(folder.join("served/dnsmasq.pid")).expect("it runs");
    let number = number.trim().parse().expect("a number");
    Pid::from_raw(number).expect("no process has the id 0")
}

fn wait_for_end(process: Pid) {
    within_a_minute(|| {
        rustix::process::test_kill_process(process)
            .is_err()
            .then_some(())
    });
}

#[test]
fn machines_fetch_the_kernel_of_the_image_and_both_servers_end_together() {
    let ipxe = Path::new("/usr/lib/ipxe/undionly.kpxe");
    let ipxe = match ipxe.exists() {
        true => Ok(()),
        false => Err(Missing::new("no iPXE", "install the package ipxe")),
    };
    let programs = [
        "ip",
        "dnsmasq",
        "debugfs",
        "mkfs.ext4",
        "curl",
        "unshare",
        "nsenter",
    ];
    let mut needs = vec![requires::root(), ipxe];
    needs.extend(programs.map(requires::command));
    if !requires::all(&needs) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    golden(here);
    let permit = |mode| fs::set_permissions(here, fs::Permissions::from_mode(mode));
    permit(0o700).expect("it is ours");
    let refused = alone(here).output().expect("it runs");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    let shown = here.join("served/tftp").display().to_string();
    let cause = format!("outboard: dnsmasq did not start: TFTP directory {shown} inaccessible: ");
    assert!(message.contains(&cause), "{message}");
    permit(0o755).expect("it is ours");
    let manager = UnixDatagram::bind(here.join("notify")).expect("a socket");
    let limit = manager.set_read_timeout(Some(super::LIMIT));
    limit.expect("a limit");
    let mut server = start(here);
    let mut state = [0; 64];
    let len = manager.recv(&mut state).expect("a notification");
    assert_eq!(state[..len], *b"READY=1");
    let network = format!("--net=/proc/{}/ns/net", server.child.id());
    for (name, text) in [("vmlinuz", "the kernel"), ("initrd.img", "the initramfs")] {
        let mut fetch = Command::new("nsenter");
        let uri = format!("tftp://127.0.0.1/{name}");
        fetch.args([&network, "curl", "--silent", "--show-error", &uri]);
        let fetched = fetch.output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&fetched.stdout), text);
    }
    let log = || fs::read_to_string(here.join("log")).expect("a log");
    within_a_minute(|| log().contains("127.0.0.1 fetched vmlinuz").then_some(()));
    // The end of dnsmasq is the end of all.
    kill_process(dnsmasq(here), Signal::KILL).expect("it runs");
    assert_eq!(server.ended().code(), Some(1));
    assert!(log().contains("outboard: dnsmasq ended: "), "{}", log());
    // One that a killed command left is ended by the next.
    let mut server = start(here);
    let left = dnsmasq(here);
    server.signal(Signal::KILL);
    server.ended();
    rustix::process::test_kill_process(left).expect("it still runs");
    let mut server = start(here);
    wait_for_end(left);
    let own = dnsmasq(here);
    // As a service manager does: to all processes, in any order.
    kill_process(own, Signal::TERM).expect("it runs");
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0), "{}", log());
    wait_for_end(own);
}
