//! Encrypted and compressed volumes by the commands: the session of the guide, in a folder.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{Place, is_image, overwrite, write_image};

/// The files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("it").path());
    let below = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    };
    entries.flat_map(below).collect()
}

/// Whether any file of a volume has a part of the image.
fn has_clear_text(folder: &Path) -> bool {
    let clear: Vec<u8> = (0..16_u32).flat_map(u32::to_le_bytes).collect();
    files(folder).iter().any(|path| {
        let bytes = std::fs::read(path).expect("a file");
        bytes.windows(clear.len()).any(|piece| piece == clear)
    })
}

fn stored(place: &Place<'_>, arguments: &[&str]) -> u64 {
    let status = place.json(&[&["--json", "bucket", "status"], arguments].concat());
    status["data_bytes"].as_u64().expect("a number")
}

/// An encrypted volume.
struct Secret<'a> {
    place: Place<'a>,
    uri: String,
}

const KEY: [&str; 2] = ["--key", "volume.key"];

impl Secret<'_> {
    /// It as a disk, by a key.
    fn disk(&self, key: &str) -> String {
        format!("bucket({}, key={key})", self.uri)
    }

    /// A command on it with its key.
    fn done(&self, command: &str, more: &[&str]) -> String {
        let arguments = [&["bucket", command, &self.uri], more, &KEY];
        self.place.done(&arguments.concat())
    }

    fn fails(&self, command: &str, more: &[&str], with: &str) {
        let arguments = [&["bucket", command, &self.uri], more];
        self.place.fails(&arguments.concat(), with);
    }
}

fn set_mode(path: &Path, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("it is ours");
}

#[test]
fn a_volume_is_encrypted_from_its_creation_to_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let place = Place::in_folder(folder);
    let uri = format!("{}/lab/secret", place.prefix);
    let secret = Secret { place, uri };
    let place = &secret.place;
    write_image(folder);
    let made = place.done(&["bucket", "key", "create", "volume.key"]);
    assert!(made.starts_with("volume.key: a key; a volume"), "{made}");
    let again = ["bucket", "key", "create", "volume.key"];
    place.fails(&again, "cannot make the key volume.key: File exists");
    place.done(&["bucket", "key", "create", "other.key"]);
    let made = secret.done("create", &["8M", "--compress", "lz4"]);
    let text = ": a volume of 8M, compressed with lz4, encrypted with aes-256-gcm: it is lost without its key";
    assert!(made.contains(text), "{made}");
    let disk = secret.disk("volume.key");
    place.done(&["copy", "image", &disk, "--force"]);
    place.done(&["copy", &disk, "copy"]);
    assert!(is_image(folder, "copy"));
    wrong_keys(&secret);

    let status = secret.done("status", &[]);
    let has = |name: &str, value: &str| {
        let mut lines = status.lines().map(|line| line.split_whitespace());
        lines.any(|line| line.eq([name, value]))
    };
    assert!(has("compression", "lz4"), "{status}");
    assert!(has("encryption", "aes-256-gcm"), "{status}");
    let status = secret.done("status", &["--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("it is JSON");
    assert_eq!(status["compression"], "lz4");
    assert_eq!(status["encryption"], "aes-256-gcm");

    secret.done("grow", &["16M"]);
    clone_of_a_snapshot(&secret);
    let check = secret.done("check", &["--data"]);
    assert!(check.contains("and its snapshot: no problem"), "{check}");
    assert!(!has_clear_text(&folder.join("lab")));

    let change = ["bucket", "key", "change", &secret.uri, "--new-key"];
    let to = |new, old| [&change[..], &[new, "--key", old]].concat();
    place.fails(&to("other.key", "other.key"), "the key is not that of");
    place.done(&to("other.key", "volume.key"));
    secret.fails("status", &KEY, "the key is not that of");
    place.done(&to("volume.key", "other.key"));
    let first = ["bucket", "snapshot", "delete", &secret.uri, "first"];
    place.done(&first);
    secret.done("delete", &["--force"]);
}

/// Without the key, with another one, and with files that are none.
fn wrong_keys(secret: &Secret<'_>) {
    let (place, uri) = (&secret.place, &secret.uri);
    let no_key = format!("{uri} is encrypted, and no key was given");
    place.fails(&["copy", uri, "none"], &no_key);
    secret.fails("status", &[], &no_key);
    secret.fails("status", &[], "write --key FILE, or bucket(URI, key=FILE)");
    secret.fails("delete", &["--force"], &no_key);
    let (wrong, other) = ("the key is not that of", ["--key", "other.key"]);
    secret.fails("grow", &["16M", other[0], other[1]], wrong);
    place.fails(&["copy", &secret.disk("other.key"), "none"], wrong);
    let path = place.folder.join("other.key");
    set_mode(&path, 0o644);
    let open = "cannot use the key in other.key: others of this machine can read it";
    secret.fails("status", &other, open);
    set_mode(&path, 0o600);
    std::fs::write(place.folder.join("no.key"), "no key").expect("it is written");
    set_mode(&place.folder.join("no.key"), 0o600);
    let none = "cannot use the key in no.key: it is not one line";
    secret.fails("status", &["--key", "no.key"], none);
}

/// Its data is written again behind the snapshot.
fn clone_of_a_snapshot(secret: &Secret<'_>) {
    let place = &secret.place;
    let first = ["bucket", "snapshot", "create", &secret.uri, "first"];
    place.done(&[&first[..], &KEY].concat());
    let clone = Secret {
        place: Place::in_folder(place.folder),
        uri: format!("{}/lab/clone", place.prefix),
    };
    let first = format!("{}@first", secret.uri);
    let make = ["bucket", "clone", &first, &clone.uri];
    place.fails(&make, "is encrypted, and no key was given");
    place.done(&[&make[..], &KEY].concat());
    let range = block::Range::new(3 << 20, 3 << 20);
    overwrite(place, &secret.disk("volume.key"), range);
    place.done(&["copy", &clone.disk("volume.key"), "copy", "--force"]);
    assert!(is_image(place.folder, "copy"), "it is another disk");
    clone.done("delete", &["--force"]);
}

#[test]
fn a_volume_that_is_compressed_takes_less_and_one_that_is_not_has_what_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, place) = (folder.path(), Place::in_folder(folder.path()));
    let [plain, packed] = ["plain", "packed"].map(|name| format!("{}/lab/{name}", place.prefix));
    let line = "Nov 28 20:15:07 box1 outboard[4117]: export root: client 192.0.2.7 connected\n";
    let text = line.repeat((4 << 20) / line.len());
    std::fs::write(folder.join("text"), text).expect("it is written");
    place.done(&["bucket", "create", &plain, "8M"]);
    place.done(&["bucket", "create", &packed, "8M", "--compress", "lz4"]);
    place.fails(
        &["bucket", "create", &packed, "8M", "--compress", "zip"],
        "\"zip\" is no compression: there is lz4",
    );
    for volume in [&plain, &packed] {
        place.done(&["copy", "text", volume, "--force"]);
    }
    let (plain_bytes, bytes) = (stored(&place, &[&plain]), stored(&place, &[&packed]));
    assert!(bytes * 4 < plain_bytes, "{bytes} of {plain_bytes}");
    write_image(folder);
    place.done(&["copy", "image", &plain, "--force"]);
    assert!(
        has_clear_text(&folder.join("lab/plain")),
        "the search of the other test finds nothing"
    );
    place.done(&["bucket", "key", "create", "volume.key"]);
    let refused = format!("{plain} is not encrypted, and a key was given");
    place.fails(
        &["bucket", "status", &plain, "--key", "volume.key"],
        &refused,
    );
}
