//! Images of a real Ceph cluster: copied, served, inspected and below an overlay; Ceph's own `rbd` judges what is in them.

use std::path::Path;
use std::process::{Command, Stdio};

use testkit::ceph::{self, CephCluster, POOL};
use testkit::proc::Process;
use testkit::requires;

use super::{LIMIT, outboard};

const MIB: usize = 1 << 20;

/// A cluster, and the folder that has it and all files.
struct Place {
    cluster: CephCluster,
    folder: tempfile::TempDir,
}

impl Place {
    fn new(programs: &[&str]) -> Option<Self> {
        let programs = programs.iter().map(|name| requires::command(name));
        let needs: Vec<_> = programs.chain([ceph::is_there()]).collect();
        if !requires::all(&needs) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let cluster = CephCluster::start(folder.path());
        Some(Self { cluster, folder })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = outboard(self.path(), arguments);
        command.env("CEPH_CONF", self.cluster.conf());
        command
    }

    /// The status, and all that it printed.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        printed(&mut self.command(arguments))
    }

    fn done(&self, arguments: &[&str]) -> String {
        let (is_done, printed) = self.run(arguments);
        assert!(is_done, "{arguments:?}: {printed}");
        printed
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let (is_done, printed) = self.run(arguments);
        assert!(!is_done, "{arguments:?}: {printed}");
        printed
    }

    /// A program of others, which must end well.
    fn program(&self, name: &str, arguments: &[&str]) {
        let mut command = Command::new(name);
        let (is_done, printed) = printed(command.args(arguments).current_dir(self.path()));
        assert!(is_done, "{name} {arguments:?}: {printed}");
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).expect("a file")
    }

    /// What Ceph's own program reads of an image.
    fn exported(&self, image: &str) -> Vec<u8> {
        let to = self.path().join("exported").display().to_string();
        drop(std::fs::remove_file(&to));
        let image = format!("{POOL}/{image}");
        self.cluster.rbd(&["export", "--no-progress", &image, &to]);
        self.file("exported")
    }

    /// A server of a disk, and where it listens.
    fn serve(&self, disk: &str) -> (Process, String) {
        let socket = self.path().join("socket");
        let listen = format!("unix:{}", socket.display());
        let mut command = self.command(&["serve", disk, "--listen", &listen]);
        let mut server = Process::start(&mut command).expect("it starts");
        server.wait_for_socket(&socket, LIMIT).expect("it serves");
        (server, format!("nbd+unix:///?socket={}", socket.display()))
    }
}

fn printed(command: &mut Command) -> (bool, String) {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    (output.status.success(), printed)
}

/// 24 MiB with holes.
fn content() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..6 << 20_u32).flat_map(u32::to_le_bytes).collect();
    bytes[3 * MIB..13 * MIB].fill(0);
    bytes
}

#[test]
fn an_image_is_copied_there_and_back_and_is_an_overlays_base() {
    let Some(place) = Place::new(&[]) else {
        return;
    };
    let content = content();
    std::fs::write(place.path().join("a.img"), &content).expect("it is written");
    place.cluster.create("one", 24 << 20);
    place.done(&["copy", "a.img", "rbd:disks/one"]);
    assert!(place.exported("one") == content, "Ceph reads other bytes");
    let conf = place.cluster.conf().display().to_string();
    let named = format!("rbd(disks/one, conf={conf}, id=admin, cluster=ceph, read-only=true)");
    let back = outboard(place.path(), &["copy", &named, "b.img"]).output();
    assert!(back.expect("it runs").status.success());
    assert!(place.file("b.img") == content, "other bytes came back");
    let graph = place.done(&["inspect", "--graph", "rbd:disks/one"]);
    assert!(graph.contains("rbd disks/one  24.00 MiB"), "{graph}");

    // On the way through a volume on an object store.
    #[cfg(feature = "bucket")]
    {
        let volume = format!("file://{}/volume", place.path().display());
        place.done(&["bucket", "create", &volume, "24M"]);
        place.done(&["copy", "rbd:disks/one", &volume]);
        place.cluster.create("two", 24 << 20);
        place.done(&["copy", &volume, "rbd:disks/two"]);
        assert!(place.exported("two") == content, "Ceph reads other bytes");
    }

    let snapshot = format!("{POOL}/one@then");
    place
        .cluster
        .rbd(&["snap", "create", "--no-progress", &snapshot]);
    std::fs::write(place.path().join("small"), [7; MIB]).expect("it is written");
    place.done(&["copy", "small", "overlay(rbd:disks/one@then, top)"]);
    place.done(&["copy", "overlay(rbd:disks/one@then, top)", "c.img"]);
    let over = place.file("c.img");
    assert!(over[..MIB] == [7; MIB] && over[MIB..] == content[MIB..]);
    assert!(
        place.exported("one@then") == content,
        "the base was written"
    );
    let refused = place.fails(&["copy", "small", "rbd:disks/one@then"]);
    assert!(refused.contains("read-only"), "{refused}");
}

#[test]
fn an_image_that_is_served_has_one_writer() {
    let Some(place) = Place::new(&["nbdcopy", "qemu-io", "nbdinfo"]) else {
        return;
    };
    let content = content();
    std::fs::write(place.path().join("a.img"), &content).expect("it is written");
    place.cluster.create("one", 24 << 20);
    let (mut server, uri) = place.serve("rbd:disks/one");
    place.program("nbdcopy", &["--flush", "a.img", &uri]);
    let write = [
        "-f",
        "raw",
        "-c",
        "write -f -P 9 5M 64k",
        "-c",
        "discard 8M 4M",
        &uri,
    ];
    place.program("qemu-io", &write);
    let read = [
        "-f",
        "raw",
        "-c",
        "read -P 9 5M 64k",
        "-c",
        "read -P 0 8M 4M",
        &uri,
    ];
    place.program("qemu-io", &read);
    place.program("nbdinfo", &["--map", &uri]);

    let second = place.fails(&["serve", "rbd:disks/one", "--listen", "unix:other"]);
    let owner = place.cluster.watcher("one");
    let expected = format!("is in use: the client at {owner} has it open for writing");
    assert!(second.contains(&expected), "{second}");
    assert!(second.contains("read-only=true"), "{second}");

    server
        .signal(rustix::process::Signal::TERM)
        .expect("it runs");
    assert!(
        server.wait(LIMIT).expect("it ends").success(),
        "{}",
        server.stderr()
    );
    // Its lock is free, and what it wrote is there.
    let status = place.cluster.rbd(&["status", "disks/one"]);
    assert!(status.contains("Watchers: none"), "{status}");
    let mut expected = content;
    expected[5 * MIB..5 * MIB + (64 << 10)].fill(9);
    expected[8 * MIB..12 * MIB].fill(0);
    assert!(place.exported("one") == expected, "Ceph reads other bytes");
    place.done(&["copy", "a.img", "rbd:disks/one"]);
}

#[test]
fn without_cephs_library_an_image_is_refused_with_the_package() {
    let folder = tempfile::tempdir().expect("a folder");
    // What the loader finds first is no library.
    std::fs::write(folder.path().join("librados.so.2"), "").expect("it is written");
    let mut command = outboard(folder.path(), &["inspect", "rbd:disks/one"]);
    let (is_done, printed) = printed(command.env("LD_LIBRARY_PATH", folder.path()));
    assert!(!is_done, "{printed}");
    for part in [
        "cannot be loaded",
        "librados.so.2",
        "install the package librbd1",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}
