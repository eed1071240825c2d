//! Volumes on object stores: in a folder, and on an S3 server of another make (versitygw).

mod kills;

use std::path::Path;
use std::process::{Command, Stdio};

use testkit::s3::{BUCKET, KEY, S3Make, S3Server, SECRET};
use testkit::{proc::Process, requires};

use super::{LIMIT, outboard};

/// Where volumes are made, and how it is reached.
struct Place<'a> {
    folder: &'a Path,
    /// What the URIs of volumes begin with.
    prefix: String,
    environment: Vec<(&'static str, String)>,
}

impl<'a> Place<'a> {
    /// The bucket of an S3 server on a port of this machine.
    fn s3(folder: &'a Path, port: u16) -> Self {
        let environment = [
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
        ];
        Self {
            folder,
            prefix: format!("s3://{BUCKET}"),
            environment: environment.into(),
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
        let arguments = ["serve", volume, "--listen", &listen];
        let mut server = Process::start(&mut self.command(&arguments)).expect("it starts");
        server.wait_for_socket(&socket, LIMIT).expect("it serves");
        (server, format!("nbd+unix:///?socket={}", socket.display()))
    }
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
    let status = place.done(&["--json", "bucket", "status", volume]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("it is JSON");
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
    place.fails(
        &["bucket", "delete", volume, "--force"],
        "it has snapshots: first",
    );
    place.done(&["bucket", "snapshot", "delete", volume, "first"]);
    place.fails(&["copy", &snapshot, "gone"], &missing);
}

#[test]
fn a_volume_in_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place {
        folder: folder.path(),
        prefix: format!("file://{}", folder.path().display()),
        environment: Vec::new(),
    };
    life_of_a_volume(&place);
    assert!(!folder.path().join("lab/root").exists(), "nothing is left");
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
