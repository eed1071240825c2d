//! Volumes on object stores: in a folder, and on an S3 server of another make (versitygw).

mod cache;
mod clone_moves;
mod clones;
mod collector;
mod cost;
mod doctor;
mod encryption;
mod journal;
mod kills;
mod lab_plan;
mod standby;

use std::path::Path;
use std::process::{Command, Stdio};

use block::BlockDevice as _;
use testkit::s3::{BUCKET, FaultyProxy, KEY, RequestFaults, S3Make, S3Server, SECRET};
use testkit::{proc::Process, requires};

use super::{LIMIT, metrics_address, outboard, scrape};

/// Where volumes are made, and how it is reached.
struct Place<'a> {
    folder: &'a Path,
    /// What the URIs of volumes begin with.
    prefix: String,
    environment: Vec<(&'static str, String)>,
}

impl<'a> Place<'a> {
    /// The folder itself.
    fn in_folder(folder: &'a Path) -> Self {
        Self {
            folder,
            prefix: format!("file://{}", folder.display()),
            environment: Vec::new(),
        }
    }

    /// The bucket of an S3 server on a port of this machine.
    fn s3(folder: &'a Path, port: u16) -> Self {
        Self {
            folder,
            prefix: format!("s3://{BUCKET}"),
            environment: s3_environment(port).into(),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = outboard(self.folder, arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The status, and all that it printed.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.command(arguments).stdin(Stdio::null()).output();
        let output = output.expect("the binary runs");
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8(printed).expect("messages are UTF-8");
        assert!(!printed.contains(SECRET), "{printed}");
        (output.status.success(), printed)
    }

    fn done(&self, arguments: &[&str]) -> String {
        let (is_done, printed) = self.run(arguments);
        assert!(is_done, "{arguments:?}: {printed}");
        printed
    }

    /// What `arguments` print as JSON. The log of a store that fails requests is not in it.
    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.command(arguments).stdin(Stdio::null()).output();
        let output = output.expect("the binary runs");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {log}");
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    }

    /// The servers that run, as the status has them.
    fn servers(&self) -> Vec<serde_json::Value> {
        let status = self.json(&["status", "--json"]);
        status["servers"].as_array().expect("a list").clone()
    }

    fn fails(&self, arguments: &[&str], with: &str) {
        let (is_done, printed) = self.run(arguments);
        assert!(
            !is_done && printed.contains(with),
            "{arguments:?}: {printed}"
        );
    }

    /// A server of a volume, and where it listens.
    fn serve(&self, volume: &str, name: &str) -> (Process, String) {
        let socket = self.folder.join(name);
        let listen = format!("unix:{}", socket.display());
        let server = self.start_at(&socket, &[volume, "--listen", &listen]);
        (server, format!("nbd+unix:///?socket={}", socket.display()))
    }

    /// A server with these arguments, which listens at `socket`.
    fn start_at(&self, socket: &Path, arguments: &[&str]) -> Process {
        let arguments = [&["serve"][..], arguments].concat();
        let mut server = Process::start(&mut self.command(&arguments)).expect("it starts");
        server.wait_for_socket(socket, LIMIT).expect("it serves");
        server
    }
}

/// How an S3 server on a port of this machine is reached.
pub(super) fn s3_environment(port: u16) -> [(&'static str, String); 4] {
    [
        ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
    ]
}

/// Plays on versitygw behind a proxy that delays requests as a store on the Internet, where it is there.
fn on_slow_s3(play: impl FnOnce(Place<'_>)) {
    on_s3_with(RequestFaults::DELAYS, play);
}

/// Plays on versitygw behind a proxy, where it is there.
fn on_s3_with(faults: RequestFaults, play: impl FnOnce(Place<'_>)) {
    if !requires::all(&[S3Make::Versity.is_there()]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let store = S3Server::start(S3Make::Versity, folder.path());
    let proxy = FaultyProxy::start(store.port(), faults, 1);
    play(Place::s3(folder.path(), proxy.port()));
}

fn write_image(folder: &Path) {
    let bytes: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut bytes = bytes[..7 << 20].to_vec();
    bytes[1 << 20..3 << 20].fill(0);
    std::fs::write(folder.join("image"), bytes).expect("it is written");
}

fn is_image(folder: &Path, name: &str) -> bool {
    let [image, copy] =
        ["image", name].map(|name| std::fs::read(folder.join(name)).expect("a file"));
    copy[..image.len()] == image && copy[image.len()..].iter().all(|byte| *byte == 0)
}

/// What a user does with a volume, from its creation to its end.
fn life_of_a_volume(place: &Place<'_>) {
    let (folder, volume) = (place.folder, format!("{}/lab/root", place.prefix));
    let volume = volume.as_str();
    write_image(folder);
    place.fails(&["bucket", "status", volume], "there is no volume at");
    place.fails(
        &["bucket", "create", volume, "5000"],
        "whole blocks of 4096 bytes",
    );
    place.done(&["bucket", "create", volume, "8M"]);
    place.fails(&["bucket", "create", volume, "8M"], "is not empty");
    place.done(&["copy", "image", volume, "--force"]);
    place.done(&["copy", volume, "copy"]);
    assert!(is_image(folder, "copy"));
    let status = place.json(&["--json", "bucket", "status", volume]);
    assert_eq!(status["size"], 8 << 20);
    assert_eq!(status["allocated"], 5 << 20);
    let check = place.done(&["bucket", "check", volume, "--data"]);
    assert!(check.contains("no problem found in 1280 blocks"), "{check}");
    place.done(&["bucket", "grow", volume, "16M"]);
    place.fails(&["bucket", "grow", volume, "8M"], "never made smaller");

    let (mut first, export) = place.serve(volume, "first");
    place.done(&["copy", &export, "copy", "--force"]);
    assert!(is_image(folder, "copy"));
    snapshots_of_a_volume(place, volume, &export);
    collection_of_a_volume(place, volume);
    let (_second, other) = place.serve(volume, "second");
    place.done(&["copy", "image", &other, "--force"]);
    place.fails(&["copy", "image", &export, "--force"], "");
    first
        .wait_for_line("another server has opened", LIMIT)
        .expect("it is in the log");
    assert!(!first.stderr().contains(SECRET));
    drop(first);

    place.fails(&["bucket", "delete", volume], "--force");
    place.done(&["bucket", "delete", volume, "--force"]);
    place.fails(&["bucket", "status", volume], "there is no volume at");
    place.fails(&["copy", volume, "other"], "there is no volume at");
}

/// Of a volume that is served, and is not disturbed.
fn snapshots_of_a_volume(place: &Place<'_>, volume: &str, export: &str) {
    let folder = place.folder;
    let snapshot = format!("{volume}@first");
    // It read as `VOLUME@first has no snapshot first`.
    let missing = format!("{volume} has no snapshot first");
    place.fails(&["copy", &snapshot, "none"], &missing);
    let made = place.done(&["bucket", "snapshot", "create", volume, "first"]);
    assert!(made.contains("a snapshot of 16M"), "{made}");
    let again = ["bucket", "snapshot", "create", volume, "first"];
    place.fails(&again, "has a snapshot first already");
    std::fs::write(folder.join("sevens"), vec![7; 16 << 20]).expect("it is written");
    place.done(&["copy", "sevens", export, "--force"]);
    place.done(&["copy", &snapshot, "old"]);
    assert!(is_image(folder, "old"));
    place.fails(&["copy", "sevens", &snapshot, "--force"], "read-only");
    place.fails(&["bucket", "grow", &snapshot, "32M"], "is a snapshot");
    let check = place.done(&["bucket", "check", volume, "--data"]);
    assert!(check.contains("and its snapshot: no problem"), "{check}");
    let list = place.done(&["bucket", "snapshot", "list", volume]);
    assert!(list.starts_with("first "), "{list}");
    clone_of_a_snapshot(place, &snapshot);
    place.fails(
        &["bucket", "delete", volume, "--force"],
        "it has snapshots: first",
    );
    place.done(&["bucket", "snapshot", "delete", volume, "first"]);
    place.fails(&["copy", &snapshot, "gone"], &missing);
}

/// Of a volume that is served, and was overwritten.
fn collection_of_a_volume(place: &Place<'_>, volume: &str) {
    let json =
        |arguments: &[&str]| place.json(&[&["--json", "bucket", "gc", volume], arguments].concat());
    let found = json(&[]);
    assert_eq!(
        (&found["dry_run"], &found["deleted"]),
        (&false.into(), &0.into())
    );
    assert!(found["waiting"].as_u64() > Some(0), "{found}");
    assert!(found["waiting_bytes"].as_u64() >= Some(5 << 20), "{found}");
    assert_eq!(found["wait_s"], 900);
    let again = json(&["--dry-run"]);
    assert_eq!(again["waiting"], found["waiting"]);
    assert_eq!(again["objects"][0]["recorded"], true);
    let list = place.done(&["bucket", "gc", volume, "--dry-run"]);
    let begin = format!("{volume}: 0 objects of 0 B would be deleted, ");
    assert!(list.starts_with(&begin), "{list}");
    assert!(list.contains("00000002-0000000000000000  "), "{list}");
    assert!(list.contains("in 15 min"), "{list}");
    let text = place.done(&["bucket", "gc", volume]);
    assert!(
        text.contains("deletes them in 15 minutes or later"),
        "{text}"
    );
    let check = place.done(&["bucket", "check", volume]);
    assert!(
        check.contains("`outboard bucket gc` deletes such"),
        "{check}"
    );
}

/// Writes a part of a volume, and closes it.
fn overwrite(place: &Place<'_>, volume: &str, range: block::Range) {
    let (mut server, uri) = place.serve(volume, "overwriting");
    let write = async {
        let client = standby::connect(&uri).await;
        let data = testkit::single(vec![7; range.len_usize()]);
        let written = client.write(range, data, block::WriteFlags::FUA).await;
        written.expect("it is served");
        client.close().await;
    };
    engine::run(&engine::Config::default(), |_| write).expect("an engine");
    server
        .signal(rustix::process::Signal::TERM)
        .expect("it runs");
    server.wait(LIMIT).expect("it stops");
}

/// The image, of which three of five MiB were overwritten.
#[test]
fn data_is_relocated_by_a_server_or_here_and_its_objects_are_left_to_a_collection() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    let volume = format!("{}/root", place.prefix);
    let volume = volume.as_str();
    write_image(folder.path());
    place.done(&["bucket", "create", volume, "8M"]);
    place.done(&["copy", "image", volume, "--force"]);
    overwrite(&place, volume, block::Range::new(3 << 20, 3 << 20));
    let gc = |more: &[&str]| place.json(&[&["--json", "bucket", "gc", volume], more].concat());
    let dry = gc(&["--relocate", "--dry-run"]);
    assert_eq!(dry["relocation"]["objects"], 1, "{dry}");
    assert_eq!(dry["relocation"]["used_bytes"], 2 << 20, "{dry}");
    let few = gc(&["--relocate=20", "--dry-run"]);
    assert_eq!(few["relocation"]["objects"], 0, "{few}");
    {
        let _server = place.serve(volume, "socket");
        let text = place.done(&["bucket", "gc", volume, "--relocate"]);
        let vacated = "1 objects of 5.00 MiB were vacated: 2.00 MiB of them were used, and were written again";
        assert!(text.contains(vacated), "{text}");
    }
    let done = gc(&["--relocate", "--take-over"]);
    assert_eq!(done["relocation"]["objects"], 0, "{done}");
    assert_eq!(done["waiting_bytes"], 5 << 20, "{done}");
    place.fails(&["bucket", "gc", volume, "--take-over"], "--relocate");
    place.fails(
        &["bucket", "gc", volume, "--relocate=0"],
        "not a number from 1 to 100",
    );
    let check = place.done(&["bucket", "check", volume, "--data"]);
    assert!(check.contains("no problem found in 1280 blocks"), "{check}");
}

/// The record of the first collection is made an older one.
#[test]
fn a_second_collection_deletes_what_the_first_one_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    let volume = format!("{}/root", place.prefix);
    let volume = volume.as_str();
    write_image(folder.path());
    place.fails(&["bucket", "gc", volume], "there is no volume at");
    place.done(&["bucket", "create", volume, "8M"]);
    place.done(&["copy", "image", volume, "--force"]);
    place.done(&["copy", "image", volume, "--force"]);
    let first = place.done(&["bucket", "gc", volume]);
    assert!(first.contains(": 0 objects of 0 B were deleted"), "{first}");
    let records = folder.path().join("root/gc");
    let mut records = std::fs::read_dir(records).expect("it has a record");
    let record = records.next().expect("one").expect("a file").path();
    let json = std::fs::read_to_string(&record).expect("it is text");
    let mut json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let time = json["found"][0]["time"].as_u64().expect("milliseconds");
    json["found"][0]["time"] = (time - 900_000).into();
    std::fs::write(&record, json.to_string()).expect("it is written");
    let dry = place.done(&["bucket", "gc", volume, "--dry-run"]);
    assert!(dry.contains("to be deleted"), "{dry}");
    let second = place.done(&["bucket", "gc", volume]);
    assert!(second.contains("5.00 MiB were deleted"), "{second}");
    assert!(!record.exists(), "nothing waits");
    let check = place.done(&["bucket", "check", volume, "--data"]);
    assert!(check.contains("no problem found in 1280 blocks"), "{check}");
    assert!(!check.contains("outboard bucket gc"), "{check}");
    place.done(&["copy", volume, "copy"]);
    assert!(is_image(folder.path(), "copy"));
    place.done(&["bucket", "delete", volume, "--force"]);
    assert!(!folder.path().join("root").exists(), "nothing is left");
}

/// Of a snapshot with the image.
fn clone_of_a_snapshot(place: &Place<'_>, snapshot: &str) {
    let (folder, clone) = (place.folder, format!("{}/lab/clone", place.prefix));
    let made = place.done(&["bucket", "clone", snapshot, &clone]);
    assert!(made.contains("a clone of"), "{made}");
    place.fails(&["bucket", "clone", snapshot, &clone], "is not empty");
    place.fails(&["bucket", "clone", &clone, "s3://other/a"], "VOLUME@NAME");
    place.fails(
        &["bucket", "clone", snapshot, "s3://other/a"],
        "is not in the store of",
    );
    place.done(&["copy", &clone, "cloned"]);
    assert!(is_image(folder, "cloned"));
    place.done(&["copy", "sevens", &clone, "--force"]);
    place.done(&["copy", snapshot, "old", "--force"]);
    assert!(is_image(folder, "old"));
    let status = place.done(&["bucket", "status", &clone]);
    assert!(status.contains(snapshot), "{status}");
    let check = place.done(&["bucket", "check", &clone, "--data"]);
    assert!(check.contains("no problem found in 4096 blocks"), "{check}");
    let (volume, name) = snapshot.split_once('@').expect("a snapshot");
    let status = place.done(&["bucket", "status", volume]);
    assert!(status.contains(&clone), "{status}");
    place.fails(
        &["bucket", "snapshot", "delete", volume, name],
        &format!("it has clones: {clone}"),
    );
    place.done(&["bucket", "delete", &clone, "--force"]);
    place.fails(&["bucket", "status", &clone], "there is no volume at");
}

#[test]
fn a_server_has_the_requests_of_its_volumes() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    let volume = format!("{}/root", place.prefix);
    write_image(folder.path());
    place.done(&["bucket", "create", &volume, "8M"]);
    let socket = folder.path().join("socket");
    let listen = format!("unix:{}", socket.display());
    let metrics = ["--metrics", "127.0.0.1:0"];
    let arguments = [&[&*volume, "--listen", &listen][..], &metrics].concat();
    let _server = place.start_at(&socket, &arguments);
    let export = format!("nbd+unix:///?socket={}", socket.display());
    place.done(&["copy", "image", &export, "--force"]);
    place.done(&["copy", &export, "copy"]);

    let found = &place.servers()[0];
    let text = scrape(metrics_address(found));
    let value = |name: &str, more: &str| -> u64 {
        let series = format!("outboard_bucket_{name}{{volume=\"{volume}\",use=\"write\"{more}}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        let line = line.unwrap_or_else(|| panic!("no {series} in {text}"));
        line.parse().expect("a number")
    };
    assert!(value("sent_bytes_total", "") >= 5 << 20, "what is not zero");
    assert!(value("received_bytes_total", "") >= 5 << 20, "{text}");
    assert!(value("requests_total", ",operation=\"put\"") > 1, "{text}");
    assert_eq!(value("request_failures_total", ",operation=\"put\""), 0);
    assert_eq!(value("unwritten_bytes", ""), 0, "a copy flushes");
    assert_eq!(value("failed", ""), 0);
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus");
    let rules = std::fs::read_to_string(rules.join("outboard.rules.yml")).expect("rules");
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let names = rules.split(|c| !is_part(c));
    let mut names = names.filter(|name| name.starts_with("outboard_bucket_"));
    assert!(names.clone().count() > 1);
    assert!(names.all(|name| text.contains(&format!("# TYPE {name} "))));
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/running.md");
    let guide = std::fs::read_to_string(guide).expect("a guide");
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut names = types.filter_map(|line| line.split(' ').next());
    assert!(names.all(|name| guide.contains(&format!("`{name}`"))));

    let volumes = &found["bucket_volumes"];
    let (uri, is_writer) = (&volumes[0]["uri"], &volumes[0]["is_writer"]);
    assert_eq!((uri, is_writer), (&volume.as_str().into(), &true.into()));
    let status = place.done(&["status"]);
    let line = format!("volume {volume}: requests ");
    assert!(status.contains(&line), "{status}");
}

#[test]
fn a_volume_in_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    life_of_a_volume(&place);
    for name in ["lab/root", "lab/clone"] {
        assert!(!folder.path().join(name).exists(), "nothing is left");
    }
}

#[test]
fn a_volume_on_an_s3_server() {
    if !requires::all(&[S3Make::Versity.is_there()]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = S3Server::start(S3Make::Versity, folder.path());
    life_of_a_volume(&Place::s3(folder.path(), server.port()));
}
