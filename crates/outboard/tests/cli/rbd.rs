//! Images of a real Ceph cluster: copied, served, attached, inspected, in a mirror and below an overlay; Ceph's own `rbd` judges what is
//! in them.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use testkit::ceph::{CephCluster, POOL};
use testkit::proc::Process;
use testkit::requires;

use super::{LIMIT, outboard};

const MIB: usize = 1 << 20;

/// A cluster, and the folder that has it and all files.
struct Place {
    cluster: CephCluster,
    folder: tempfile::TempDir,
    /// Of each command.
    environment: Vec<(&'static str, String)>,
}

impl Place {
    fn new(programs: &[&str]) -> Option<Self> {
        let programs = programs.iter().map(|name| requires::command(name));
        let needs: Vec<_> = programs.chain([requires::ceph()]).collect();
        if !requires::all(&needs) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let cluster = CephCluster::start(folder.path());
        let conf = cluster.conf().display().to_string();
        Some(Self {
            cluster,
            folder,
            environment: vec![("CEPH_CONF", conf)],
        })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = outboard(self.path(), arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
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
        let (is_done, printed) = self.try_program(name, arguments);
        assert!(is_done, "{name} {arguments:?}: {printed}");
    }

    fn try_program(&self, name: &str, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(name);
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        printed(
            command
                .env("PATH", path)
                .args(arguments)
                .current_dir(self.path()),
        )
    }

    /// A file of so many bytes, all zero.
    fn empty(&self, name: &str, size: u64) {
        let made =
            std::fs::File::create(self.path().join(name)).and_then(|file| file.set_len(size));
        made.expect("a file");
    }

    /// That no client has the image open any more.
    fn assert_free(&self, image: &str) {
        let status = self.cluster.rbd(&["status", &format!("{POOL}/{image}")]);
        assert!(status.contains("Watchers: none"), "{status}");
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

/// Ends a server in order.
fn stop(server: &mut Process) {
    server.signal(Signal::TERM).expect("it runs");
    let ended = server.wait(LIMIT).expect("it ends");
    assert!(ended.success(), "{}", server.stderr());
}

/// What a member of an array has behind its metadata: where that is, its superblock (version 1.2) says.
fn data_of(member: &[u8]) -> &[u8] {
    let superblock = &member[4096..];
    assert_eq!(superblock[..4], 0xa92b_4efc_u32.to_le_bytes());
    let sectors = superblock[128..136].try_into().expect("8 bytes");
    let offset = usize::try_from(u64::from_le_bytes(sectors) * 512);
    &member[offset.expect("a small member")..]
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

    stop(&mut server);
    // Its lock is free, and what it wrote is there.
    place.assert_free("one");
    let mut expected = content;
    expected[5 * MIB..5 * MIB + (64 << 10)].fill(9);
    expected[8 * MIB..12 * MIB].fill(0);
    assert!(place.exported("one") == expected, "Ceph reads other bytes");
    place.done(&["copy", "a.img", "rbd:disks/one"]);
}

#[cfg(feature = "bucket")]
#[test]
fn an_image_and_its_snapshot_are_copied_to_an_s3_store_and_back() {
    use testkit::s3::{BUCKET, S3Make, S3Server};
    if !requires::all(&[S3Make::Versity.is_there()]) {
        return;
    }
    let Some(mut place) = Place::new(&[]) else {
        return;
    };
    let store = S3Server::start(S3Make::Versity, place.path());
    let environment = super::bucket::s3_environment(store.port());
    place.environment.extend(environment);
    let content = content();
    std::fs::write(place.path().join("a.img"), &content).expect("it is written");
    place.cluster.create("one", 24 << 20);
    place.cluster.create("two", 24 << 20);
    place.done(&["copy", "a.img", "rbd:disks/one"]);
    let snapshot = format!("{POOL}/one@then");
    let create = ["snap", "create", "--no-progress", &snapshot];
    place.cluster.rbd(&create);
    std::fs::write(place.path().join("small"), [7; MIB]).expect("it is written");
    place.done(&["copy", "small", "rbd:disks/one", "--force"]);

    let [now, then] = ["now", "then"].map(|name| format!("s3://{BUCKET}/lab/{name}"));
    for (volume, image) in [(&now, "rbd:disks/one"), (&then, "rbd:disks/one@then")] {
        place.done(&["bucket", "create", volume, "24M"]);
        place.done(&["copy", image, volume]);
    }
    place.done(&["copy", &then, "rbd:disks/two"]);
    assert!(place.exported("two") == content, "Ceph reads other bytes");
    place.done(&["copy", &now, "rbd:disks/two", "--force"]);
    let two = place.exported("two");
    assert!(two[..MIB] == [7; MIB] && two[MIB..] == content[MIB..]);
}

#[test]
fn an_image_is_attached_and_mounted_and_is_free_once_it_was_detached() {
    let needs = [requires::root(), requires::fuse(), requires::loop_device()];
    if !requires::all(&needs) {
        return;
    }
    let Some(place) = Place::new(&["mkfs.ext4", "e2fsck"]) else {
        return;
    };
    place.cluster.create("one", 64 << 20);
    let attachment = Attachment::new(&place);
    attachment.mount(&["--mkfs", "ext4"]);
    let content = content();
    let file = attachment.mount.join("file");
    let written = std::fs::File::create(&file).and_then(|mut file| {
        std::io::Write::write_all(&mut file, &content)?;
        file.sync_all()
    });
    written.expect("it is written");
    // It has the lock of the image.
    let second = place.fails(&["serve", "rbd:disks/one", "--listen", "unix:other"]);
    let owner = place.cluster.watcher("one");
    let expected = format!("is in use: the client at {owner} has it open for writing");
    assert!(second.contains(&expected), "{second}");
    let status = place.done(&["status"]);
    assert!(status.contains("rbd:disks/one"), "{status}");
    attachment.detach();
    place.assert_free("one");
    // What Ceph reads is a whole filesystem.
    place.exported("one");
    place.program("e2fsck", &["-f", "-n", "exported"]);

    attachment.mount(&["--read-only"]);
    assert!(std::fs::read(&file).expect("a file") == content);
    attachment.detach();
}

/// The image `one`, attached without the kernel's nbd and mounted; detached at the end.
struct Attachment<'a> {
    place: &'a Place,
    mount: std::path::PathBuf,
}

impl<'a> Attachment<'a> {
    fn new(place: &'a Place) -> Self {
        let mount = place.path().join("mnt");
        Self { place, mount }
    }

    fn mount(&self, options: &[&str]) {
        let mount = self.mount.display().to_string();
        let attach = [
            "attach",
            "rbd:disks/one",
            "--via",
            "fuse",
            "--mount",
            &mount,
        ];
        self.place.done(&[&attach[..], options].concat());
    }

    fn detach(&self) {
        self.place
            .done(&["detach", &self.mount.display().to_string()]);
    }
}

impl Drop for Attachment<'_> {
    fn drop(&mut self) {
        drop(self.place.run(&["detach", "--all", "--force"]));
    }
}

/// Written, ended, assembled, killed and resynced: both members are the same, and have what was flushed.
#[test]
fn a_file_and_an_image_are_a_mirror() {
    let Some(place) = Place::new(&["nbdcopy", "qemu-io"]) else {
        return;
    };
    let mut expected = content()[..16 * MIB].to_vec();
    std::fs::write(place.path().join("content"), &expected).expect("it is written");
    place.empty("a.img", 24 << 20);
    place.cluster.create("one", 24 << 20);
    let create = ["array", "create", "--level", "1", "--name", "media"];
    let members = ["--assume-clean", "a.img", "rbd:disks/one"];
    place.done(&[&create[..], &members].concat());
    let disk = "array(a.img, rbd:disks/one)";
    let assert_alike = |expected: &[u8]| {
        let (file, image) = (place.file("a.img"), place.exported("one"));
        let (file, image) = (data_of(&file), data_of(&image));
        assert!(file[..16 * MIB] == *expected, "the file has other bytes");
        assert!(image[..16 * MIB] == *expected, "the image has other bytes");
        assert!(file == image, "the members differ");
    };

    let (mut server, uri) = place.serve(disk);
    place.program("nbdcopy", &["--flush", "content", &uri]);
    stop(&mut server);
    place.assert_free("one");
    assert_alike(&expected);
    let report = place.done(&["array", "status", "a.img", "rbd:disks/one", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(
        (&report["clean"], &report["working"]),
        (&true.into(), &2.into())
    );

    let (mut server, uri) = place.serve(disk);
    place.program(
        "qemu-io",
        &["-f", "raw", "-c", "write -f -P 9 5M 64k", &uri],
    );
    server.signal(Signal::KILL).expect("it runs");
    server.wait(LIMIT).expect("it was killed");
    std::fs::remove_file(place.path().join("socket")).expect("it stayed");
    // The lock of the image stays with the dead server until the cluster has noticed.
    let (mut server, uri) = place.serve(disk);
    place.done(&["array", "wait", "media"]);
    place.program("qemu-io", &["-f", "raw", "-c", "read -P 9 5M 64k", &uri]);
    stop(&mut server);
    expected[5 * MIB..5 * MIB + (64 << 10)].fill(9);
    assert_alike(&expected);
}

/// The client that locked this one out may run the array now: the file alone must not diverge from it.
#[test]
fn a_mirror_stops_when_it_is_locked_out_of_its_image() {
    let Some(place) = Place::new(&["qemu-io"]) else {
        return;
    };
    place.empty("a.img", 24 << 20);
    place.cluster.create("one", 24 << 20);
    let create = ["array", "create", "--level", "1", "--name", "media"];
    let members = ["--assume-clean", "a.img", "rbd:disks/one"];
    place.done(&[&create[..], &members].concat());
    let (mut server, uri) = place.serve("array(a.img, rbd:disks/one)");
    let write = |fill: &str| {
        let command = format!("write -f -P {fill} 5M 64k");
        place.try_program("qemu-io", &["-f", "raw", "-c", &command, &uri])
    };
    assert!(write("9").0);
    let watcher = place.cluster.watcher("one");
    place.cluster.ceph(&["osd", "blocklist", "add", &watcher]);
    // The OSD learns of the block list a moment after the monitor.
    assert!((0..1000).any(|_| !write("9").0), "it is never locked out");
    for _ in 0..2 {
        let (is_written, printed) = write("8");
        assert!(!is_written, "{printed}");
    }
    let status = place.done(&["array", "status", "media"]);
    assert!(status.contains("locked this client out"), "{status}");
    server.signal(Signal::KILL).expect("it runs");
    server.wait(LIMIT).expect("it was killed");
    let file = place.file("a.img");
    let written = &data_of(&file)[5 * MIB..5 * MIB + (64 << 10)];
    assert!(
        written.iter().all(|byte| *byte == 9),
        "a write after the lock was lost"
    );
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
