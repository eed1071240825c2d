//! `export add` and `export remove`: exports of a running server without a configuration, next to one, and while clients
//! work.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::requires;

use super::serve::connect;
use super::sockets::{NbdSession, size_of_export};
use super::{Server, answer, failure, outboard, within_a_minute};

const MIB: u64 = 1 << 20;
/// What the server of a cached disk may be read for at an open: the sample of 32 blocks, and what identifies the disk.
const OPEN_MAX: u64 = 32 * 4096 + (128 << 10);
/// What a test reads of a cached disk, bytes.
const READ: u32 = 4 << 20;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn image(folder: &Path, name: &str, size: u64) {
    let made = std::fs::File::create(folder.join(name)).and_then(|file| file.set_len(size));
    made.expect("an image");
}

/// A server, and its first URI.
fn serving(folder: &Path, arguments: &[&str]) -> (Server, String) {
    let all = [&["serve", "--listen", "127.0.0.1:0"][..], arguments].concat();
    let (server, line) = Server::start(outboard(folder, &all));
    let uri = line.split_whitespace().next().expect("a URI");
    (server, uri.to_owned())
}

/// A server of `c.toml`, which has these exports, and its first URI.
fn configured(folder: &Path, exports: &[(&str, &str)]) -> (Server, String) {
    configure(folder, exports);
    let (server, line) = Server::start(outboard(folder, &["serve", "--config", "c.toml"]));
    let uri = line.split_whitespace().next().expect("a URI");
    (server, uri.to_owned())
}

fn configure(folder: &Path, exports: &[(&str, &str)]) {
    let mut text = "listen = [\"127.0.0.1:0\"]\n".to_owned();
    for (name, disk) in exports {
        text.push_str(&format!("[[export]]\nname = \"{name}\"\n{disk}\n"));
    }
    std::fs::write(folder.join("c.toml"), text).expect("a file");
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let printed = answer(folder, &[arguments, &["--json"]].concat());
    serde_json::from_str(&printed).expect("JSON")
}

/// The names of the exports that the only server has.
fn names(folder: &Path) -> Vec<String> {
    let list = json(folder, &["export", "list"]);
    let exports = list.as_array().expect("a list").iter();
    exports
        .map(|export| export["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn exports_come_and_go_while_a_client_of_another_one_works() {
    let folder = folder();
    let path = folder.path();
    let elsewhere = path.join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    image(&elsewhere, "b.img", 2 * MIB);
    let (_server, uri) = serving(path, &["a=memory(1M)"]);
    let mut worker = NbdSession::open(connect(&uri), "a").expect("served");
    worker.write(&[7; 4096]).expect("it is written");
    let worker = std::thread::Builder::new().spawn(move || {
        for _ in 0..3000 {
            assert_eq!(worker.read(4096).expect("it goes on"), [7; 4096]);
        }
        worker
    });

    // The server runs in another directory than the command.
    let mut add = outboard(path, &["export", "add", "b=b.img"]);
    let added = add.current_dir(&elsewhere).output().expect("it runs");
    let printed = String::from_utf8_lossy(&added.stdout);
    assert_eq!(
        printed, "export \"b\" is served until it is removed or the server ends\n",
        "{added:?}"
    );
    assert_eq!(names(path), ["a", "b"]);
    let mut client = NbdSession::open(connect(&uri), "b").expect("served");
    client.write(&[9; 4096]).expect("it is written");
    if requires::all(&[requires::command("nbdinfo")]) {
        let mut list = Command::new("nbdinfo");
        let listed = list
            .args(["--list", "--json", &uri])
            .output()
            .expect("it is installed");
        let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
        assert_eq!(listed["exports"][1]["export-name"], "b", "{listed}");
        assert_eq!(listed["exports"][1]["export-size"], 2 * MIB, "{listed}");
    }
    let server = &json(path, &["status"])["servers"][0];
    let file = elsewhere.join("b.img");
    assert_eq!(server["disks"]["b"], file.to_str().expect("text"));

    let printed = answer(path, &["export", "remove", "b"]);
    assert_eq!(printed, "export \"b\" is not served any more\n");
    assert!(client.read(512).is_none(), "its client is disconnected");
    assert_eq!(size_of_export(connect(&uri), "b"), None);
    let bytes = std::fs::read(&file).expect("an image");
    assert_eq!(bytes[..4096], [9; 4096], "what was written is there");
    let mut worker = worker.expect("a thread").join().expect("it went on");
    assert!(worker.read(512).is_some());

    // The file is free again, and so is the name.
    let printed = json(path, &["export", "add", "b=elsewhere/b.img", "--read-only"]);
    assert_eq!(printed["added"], json!(["b"]), "{printed}");
    let list = json(path, &["export", "list"]);
    assert_eq!(list[1]["read_only"], true, "{list}");
    let printed = json(path, &["export", "remove", "b"]);
    assert_eq!(printed["removed"], json!(["b"]), "{printed}");
    answer(
        path,
        &["export", "add", "b=elsewhere/b.img", "--writers", "many"],
    );
    let list = json(path, &["export", "list"]);
    assert_eq!(list[1]["writers"]["policy"], "many", "{list}");
}

#[test]
fn what_is_refused_says_why_and_changes_nothing() {
    let folder = folder();
    let path = folder.path();
    image(path, "a.img", MIB);
    image(path, "b.img", MIB);
    let (_server, uri) = serving(path, &["a=a.img"]);
    let mut client = NbdSession::open(connect(&uri), "a").expect("served");
    let long = format!("{}=b.img", "n".repeat(4097));
    let record = ["--single-writer", "--writer-file", "w"];
    answer(
        path,
        &[&["export", "add", "w=memory(1M)"][..], &record].concat(),
    );
    for (status, arguments, word) in [
        (
            1,
            &["add", "a=b.img"][..],
            "there is an export \"a\" already",
        ),
        (
            1,
            &["add", "b=a.img"],
            "a.img would be written by two disks",
        ),
        (1, &["add", "b=a.img"], "it is in use by export \"a\""),
        (1, &["add", "b=linear(b.img, a.img)"], "a.img would be"),
        (1, &["add", "b=none.img"], "none.img does not exist"),
        (1, &["add", "b=nbd://127.0.0.1:1/x"], "127.0.0.1:1"),
        (1, &["add", &long], "4096 bytes"),
        (2, &["add", "b.img"], "write NAME=DISK"),
        (2, &["add", "''=b.img"], "write NAME=DISK"),
        (2, &["add", "b=lineer(b.img)"], "lineer"),
        (
            2,
            &["add", "b=null(1M)", "--read-only"],
            "cannot be read-only",
        ),
        (
            2,
            &["add", "b=memory(1M)", "--single-writer"],
            "--writer-file",
        ),
        (2, &["add", "b=b.img", "--writers", "two"], "1 or many"),
        (1, &["remove", "b"], "there is no export \"b\""),
    ] {
        let (code, printed) = failure(path, &[&["export"], arguments].concat());
        assert_eq!(code, Some(status), "{arguments:?}: {printed}");
        assert!(printed.contains(word), "{arguments:?}: {printed}");
        assert_eq!(names(path), ["a", "w"], "{arguments:?}");
    }
    let again = [&["export", "add", "b=memory(1M)"][..], &record].concat();
    let (_, printed) = failure(path, &again);
    assert!(
        printed.contains("the same writer file as \"w\""),
        "{printed}"
    );
    assert!(client.read(512).is_some(), "its client did not notice");
    // A server may be without exports for a while. Bytes that nothing writes may be read twice.
    answer(path, &["export", "remove", "w"]);
    answer(path, &["export", "remove", "a"]);
    answer(path, &["export", "add", "a=a.img", "--read-only"]);
    answer(path, &["export", "add", "b=file(a.img, read-only=true)"]);
}

#[test]
fn a_file_that_the_server_may_not_open_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a server for another user");
        return;
    }
    let folder = folder();
    let path = folder.path();
    let text = "listen = [\"127.0.0.1:0\"]\nuser = \"daemon\"\n[[export]]\nname = \"a\"\ndisk = \"memory(1M)\"\n";
    std::fs::write(path.join("c.toml"), text).expect("a file");
    let (_server, _) = Server::start(outboard(path, &["serve", "--config", "c.toml"]));
    image(path, "b.img", MIB);
    let (status, printed) = failure(path, &["export", "add", "b=b.img"]);
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.contains("b.img may not be opened"), "{printed}");
}

/// A reload that forgot them would disconnect the clients of all exports that were added since the start.
#[test]
fn a_reload_keeps_what_was_added_until_the_configuration_names_it() {
    let folder = folder();
    let path = folder.path();
    image(path, "b.img", MIB);
    let a = ("a", "disk = \"memory(1M)\"");
    let (_server, uri) = configured(path, &[a]);
    answer(path, &["export", "add", "b=b.img"]);
    let mut client = NbdSession::open(connect(&uri), "b").expect("served");
    assert_eq!(answer(path, &["reload"]), "nothing is different\n");
    let c = ("c", "disk = \"memory(64K)\"");
    configure(path, &[a, c]);
    assert_eq!(answer(path, &["reload"]), "added c\n");
    assert_eq!(names(path), ["a", "c", "b"]);
    assert!(client.read(512).is_some());

    // The same disk: its clients do not notice that the configuration has it from here on.
    let file = path.join("b.img");
    let same = format!("disk = \"{}\"", file.display());
    configure(path, &[a, c, ("b", &same)]);
    assert_eq!(answer(path, &["reload"]), "updated b\n");
    assert!(client.read(512).is_some());
    configure(path, &[a]);
    let printed = json(path, &["reload"]);
    assert_eq!(printed["removed"], json!(["c", "b"]), "{printed}");
    assert!(client.read(512).is_none());

    // Another one takes its place, as at any reload.
    answer(path, &["export", "add", "b=b.img"]);
    configure(path, &[a, ("b", "disk = \"memory(64K)\"")]);
    assert_eq!(answer(path, &["reload"]), "replaced b\n");
    assert_eq!(size_of_export(connect(&uri), "b"), Some(64 << 10));

    // What the configuration has is there again after a reload, though a command removed it.
    answer(path, &["export", "remove", "a"]);
    assert_eq!(names(path), ["b"]);
    assert_eq!(answer(path, &["reload"]), "added a\n");
    assert_eq!(names(path), ["a", "b"]);
}

#[test]
fn a_configuration_with_the_writer_file_of_an_added_export_is_refused() {
    let folder = folder();
    let path = folder.path();
    image(path, "b.img", MIB);
    let a = ("a", "disk = \"memory(1M)\"");
    let (_server, _) = configured(path, &[a]);
    answer(path, &["export", "add", "b=b.img", "--single-writer"]);
    let record = path.join("b.img.writer");
    let c = format!(
        "disk = \"memory(1M)\"\nsingle_writer = true\nwriter_file = \"{}\"",
        record.display()
    );
    configure(path, &[a, ("c", &c)]);
    let (_, printed) = failure(path, &["reload"]);
    assert!(
        printed.contains("nothing was changed")
            && printed.contains("the same writer file as \"c\""),
        "{printed}"
    );
    assert_eq!(names(path), ["a", "b"]);
}

/// A client that is disconnected in the middle of a write would not know what of it is there.
#[test]
fn a_request_in_flight_is_finished_before_its_export_ends() {
    let folder = folder();
    let path = folder.path();
    let (_server, uri) = serving(path, &["x=memory(1M)"]);
    answer(path, &["export", "add", "a=delay(memory(1M), write=2s)"]);
    let mut client = NbdSession::open(connect(&uri), "a").expect("served");
    let writer = std::thread::Builder::new().spawn(move || {
        let written = client.write(&[7; 4096]);
        (written, client.read(512))
    });
    within_a_minute(|| {
        let list = json(path, &["export", "list"]);
        let mut commands = list[1]["figures"]["commands"].as_array()?.iter();
        let write = commands.find(|one| one["command"] == "write")?;
        (write["in_flight"] == 1).then_some(())
    });
    answer(path, &["export", "remove", "a"]);
    let (written, read) = writer.expect("a thread").join().expect("it ends");
    assert!(written.is_some(), "the write is acknowledged");
    assert!(read.is_none(), "then it is disconnected");
}

/// Both exports have the same physical volume open, and share what is open of it.
#[test]
fn volumes_of_one_group_come_and_go_one_by_one() {
    let folder = folder();
    let path = folder.path();
    image(path, "pv.img", 64 * MIB);
    let disk = |name: &str| format!("{name}=volume(pv.img, name=vg0/{name})");
    let create = ["volume", "create", "--size", "8M"];
    let new = ["vg0/one", "--disks", "pv.img"];
    answer(path, &[&create[..], &new].concat());
    answer(path, &[&create[..], &["vg0/two", "pv.img"]].concat());
    let (_server, uri) = serving(path, &["x=memory(1M)"]);
    answer(path, &["export", "add", &disk("one")]);
    answer(path, &["export", "add", &disk("two")]);
    let mut one = NbdSession::open(connect(&uri), "one").expect("served");
    let mut two = NbdSession::open(connect(&uri), "two").expect("served");
    one.write(&[1; 4096]).expect("it is written");
    two.write(&[2; 4096]).expect("it is written");
    let (_, printed) = failure(path, &["export", "add", "three=pv.img"]);
    assert!(printed.contains("pv.img would be written"), "{printed}");

    answer(path, &["export", "remove", "one"]);
    assert!(one.read(512).is_none());
    assert_eq!(two.read(4096).expect("it goes on"), [2; 4096]);
    answer(path, &["export", "add", &disk("one")]);
    let mut one = NbdSession::open(connect(&uri), "one").expect("served");
    assert_eq!(one.read(4096).expect("it is there"), [1; 4096]);
    for name in ["one", "two"] {
        answer(path, &["export", "remove", name]);
    }
    // The group is closed with its last volume.
    answer(path, &["export", "add", "three=pv.img"]);
}

/// Bytes that the server `origin` has read for its clients.
fn origin_reads(folder: &Path) -> u64 {
    let list = json(folder, &["export", "list", "--server", "origin"]);
    let commands = list[0]["figures"]["commands"].as_array().cloned();
    let mut commands = commands.unwrap_or_default().into_iter();
    let read = commands.find(|one| one["command"] == "read");
    read.map_or(0, |read| read["bytes"].as_u64().expect("bytes"))
}

/// A disk of another server, with a cache in front of it, that was written and read; whether a region that was written
/// is used again by the next open depends on whether the cache was closed.
struct CachedExport {
    folder: tempfile::TempDir,
    _origin: Server,
    disk: String,
}

impl CachedExport {
    fn new() -> Self {
        let folder = folder();
        image(folder.path(), "root.img", 16 * MIB);
        Self::of(folder)
    }

    /// That of `root.img` in this folder.
    fn of(folder: tempfile::TempDir) -> Self {
        let (origin, uri) = serving(
            folder.path(),
            &["root=root.img", "--control", "run/origin.sock"],
        );
        let file = folder.path().join("f.cache");
        Self {
            _origin: origin,
            disk: format!("cache({uri}, {})", file.display()),
            folder,
        }
    }

    /// Writes and reads the export `root` of the server behind `stream`.
    fn work<S: Read + Write>(stream: S) -> NbdSession<S> {
        let mut client = NbdSession::open(stream, "root").expect("served");
        client.write(&[5; 8192]).expect("it is written");
        assert_eq!(client.read(READ).expect("it is read")[..8192], [5; 8192]);
        client
    }

    /// Asserts that what the export `root` behind `stream` has was not read from the origin since it had read `before` bytes.
    fn assert_warm(&self, stream: impl Read + Write, before: u64) {
        let mut client = NbdSession::open(stream, "root").expect("served");
        assert_eq!(client.read(READ).expect("it is read")[..8192], [5; 8192]);
        let read = origin_reads(self.folder.path()) - before;
        assert!(read <= OPEN_MAX, "{read} bytes were read again");
    }
}

/// A cache that is only dropped keeps its marks, and the next open uses nothing of what was written.
#[test]
fn the_cache_of_an_export_that_was_removed_is_used_by_the_next_one() {
    let cached = CachedExport::new();
    let path = cached.folder.path();
    let server = ["--server", "edge"];
    let (_server, uri) = serving(path, &["a=memory(1M)", "--control", "run/edge.sock"]);
    let add = format!("root={}", cached.disk);
    let add = [&["export", "add", add.as_str()][..], &server].concat();
    answer(path, &add);
    let mut client = CachedExport::work(connect(&uri));
    let before = origin_reads(path);
    assert!(before >= u64::from(READ) - 8192, "{before}");
    answer(path, &[&["export", "remove", "root"][..], &server].concat());
    assert!(client.read(512).is_none());
    answer(path, &add);
    cached.assert_warm(connect(&uri), before);
}

#[test]
fn the_cache_of_an_export_that_a_reload_removed_is_used_by_the_next_one() {
    let cached = CachedExport::new();
    let path = cached.folder.path();
    let disk = format!("disk = \"{}\"", cached.disk);
    let (a, root) = (("a", "disk = \"memory(1M)\""), ("root", disk.as_str()));
    let (_server, uri) = configured(path, &[a, root]);
    let _client = CachedExport::work(connect(&uri));
    let before = origin_reads(path);
    let servers = json(path, &["status"])["servers"].clone();
    let servers = servers.as_array().expect("servers").iter();
    let mut names = servers.filter_map(|server| server["name"].as_str());
    let name = names.find(|name| *name != "origin").expect("another one");
    for exports in [&[a][..], &[a, root]] {
        configure(path, exports);
        answer(path, &["reload", "--server", name]);
    }
    cached.assert_warm(connect(&uri), before);
}

/// Such a server ends with its client, and its disks with the server.
#[test]
fn the_cache_of_a_server_on_its_standard_input_is_used_by_the_next_one() {
    let cached = CachedExport::new();
    let path = cached.folder.path();
    let export = format!("root={}", cached.disk);
    let start = || {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let mut command = outboard(path, &["serve", &export, "--stdin"]);
        let server = Server::start_quiet(command.stdin(Stdio::from(OwnedFd::from(theirs))));
        (ours, server)
    };
    let (stream, mut server) = start();
    drop(CachedExport::work(stream));
    assert!(server.ended().success());
    let before = origin_reads(path);
    let (stream, _server) = start();
    cached.assert_warm(stream, before);
}

/// An array that is marked clean writes to its members, so their caches are closed behind that.
#[test]
fn the_cache_of_a_member_is_closed_behind_its_array() {
    let folder = folder();
    image(folder.path(), "root.img", 16 * MIB);
    image(folder.path(), "b.img", 16 * MIB);
    let create = ["array", "create", "--level", "1", "--name", "media"];
    let members = ["root.img", "b.img"];
    answer(folder.path(), &[&create[..], &members].concat());
    let cached = CachedExport::of(folder);
    let path = cached.folder.path();
    let server = ["--server", "edge"];
    let (_server, uri) = serving(path, &["a=memory(1M)", "--control", "run/edge.sock"]);
    let raw = format!("root={}", cached.disk);
    let array = format!("films=array({}, b.img)", cached.disk);
    let change = |arguments: &[&str]| answer(path, &[&["export"], arguments, &server].concat());
    let read = || {
        let mut client = NbdSession::open(connect(&uri), "root").expect("served");
        client.read(READ).expect("it is read");
    };
    change(&["add", &raw]);
    read();
    change(&["remove", "root"]);
    change(&["add", &array]);
    answer(path, &["array", "wait", "media"]);
    let mut client = NbdSession::open(connect(&uri), "films").expect("served");
    client.write(&[7; 4096]).expect("it is written");
    change(&["remove", "films"]);
    let before = origin_reads(path);
    change(&["add", &raw]);
    read();
    // Superblocks were written in pieces of blocks, which are read again.
    let again = origin_reads(path) - before;
    assert!(
        again <= OPEN_MAX + (256 << 10),
        "{again} bytes were read again"
    );
}
