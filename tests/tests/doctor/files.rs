//! Directories: a slow protocol, a cache, an attachment.

use std::path::Path;
use std::process::Command;

use outboard_tests::attachment::World;
use outboard_tests::image::Folder;
use outboard_tests::said::run;
use outboard_tests::server::{By, LIMIT, Server};
use testkit::proc::Process;
use testkit::requires;

use super::{alone, doctor, doctor_in, limiter, names, runs_long_tests};

/// Data that no filesystem keeps as a hole.
pub(super) fn fill(path: &Path, mib: usize) {
    let mut state = 1u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let bytes: Vec<u8> = words.take(mib << 17).flatten().collect();
    std::fs::write(path, bytes).expect("a file that is written");
}

/// An SSH server on a port of its own with a mount of it; both gone when dropped.
struct Ssh {
    _server: Process,
    mount: String,
}

impl Ssh {
    fn new(folder: &Folder) -> Self {
        let at = |name: &str| folder.at(name);
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]);
            run(&mut keygen).ok();
        }
        // sshd cannot find a free port by itself: one is found and released.
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = free.local_addr().expect("its address").port();
        drop(free);
        let settings = [
            format!("Port {port}"),
            "ListenAddress 127.0.0.1".into(),
            format!("HostKey {}", at("host")),
            format!("AuthorizedKeysFile {}", at("user.pub")),
            "StrictModes no".into(),
            "UsePAM no".into(),
            "PidFile none".into(),
            "PermitRootLogin yes".into(),
            "Subsystem sftp internal-sftp".into(),
        ];
        std::fs::write(at("config"), settings.join("\n") + "\n").expect("a file that is written");
        std::fs::create_dir_all("/run/sshd").expect("a folder for sshd");
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f", &at("config")]);
        let mut server = Process::start(&mut sshd).expect("an SSH server");
        let listens = |_: &Process| {
            let connected = std::net::TcpStream::connect(("127.0.0.1", port));
            connected.ok()
        };
        drop(
            server
                .wait_until("SSH server", LIMIT, listens)
                .expect("it listens"),
        );
        let mount = at("mount");
        std::fs::create_dir(&mount).expect("a folder to mount on");
        let mut sshfs = Command::new("sshfs");
        sshfs.args(["-p", &port.to_string(), "-o"]).arg(format!(
            "IdentityFile={},StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null",
            at("user")
        ));
        sshfs
            .arg(format!("root@127.0.0.1:{}", at("data")))
            .arg(&mount);
        run(&mut sshfs).ok();
        Self {
            _server: server,
            mount,
        }
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        let unmounted = Command::new("fusermount3")
            .args(["-u", &self.mount])
            .status();
        drop(unmounted);
    }
}

#[test]
fn a_slow_protocol_is_named_and_not_the_disk_or_the_wire() {
    if !runs_long_tests() {
        return;
    }
    let needs = [
        requires::root(),
        requires::fuse(),
        requires::command("fio"),
        requires::command("sshfs"),
        requires::command("ssh-keygen"),
        requires::command("sshd"),
    ];
    if !requires::all(&needs) {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    fill(&folder.path().join("data/film"), 64);
    let ssh = Ssh::new(&folder);
    let parts = ["client", "cipher", "protocol", "server"];
    let found = names(&parts, |seconds| doctor(&folder, seconds, &[&ssh.mount]));
    let named = limiter(&found);
    assert!(named.len() <= 2, "{found:#}");
    let about = found["examination"]["about"].to_string();
    assert!(about.contains("fuse.sshfs"), "{about}");
    // The file is on this machine, so both the disk and the wire could be measured by themselves.
    let bounds = found["examination"]["bounds"].to_string();
    assert!(
        bounds.contains("\"disk\"") && bounds.contains("\"wire\""),
        "{bounds}"
    );
}

#[test]
fn a_cache_that_hides_it_all_is_said_as_such() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    fill(&data.join("film"), 64);
    let data = data.to_string_lossy().into_owned();
    let told = names(&["cache"], |seconds| {
        doctor(&folder, seconds, &[&data, "--buffered"])
    });
    let sentence = told["verdict"]["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("answers in place of the disk"),
        "{sentence}"
    );
    let evidence = told["verdict"]["evidence"].to_string();
    assert!(
        evidence.contains("page cache") || evidence.contains("memory"),
        "{evidence}"
    );
}

#[test]
fn a_mount_over_nbd_is_followed_to_the_servers_disk() {
    if !runs_long_tests() {
        return;
    }
    let Some(world) = World::new() else {
        return;
    };
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let server = Server::start(&["t=throttle(memory(192M), read-bytes=10M/s)"]);
    let uri = server.uri_by(By::Unix, "t");
    let point = world.mount_point();
    world.attachment(&uri).on(&point).ext4().device();
    fill(&Path::new(&point).join("film"), 32);
    let told = names(&["disk"], |seconds| {
        doctor_in(&world, &folder, seconds, &[&point])
    });
    let about = told["examination"]["about"].to_string();
    assert!(about.contains("attached from nbd+unix"), "{about}");
    let evidence = told["verdict"]["evidence"].to_string();
    assert!(evidence.contains("it is not the client"), "{evidence}");
    world.run(&["detach", &point]).ok();
    world.assert_clean();
}
