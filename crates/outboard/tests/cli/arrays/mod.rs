//! `outboard array …`, and arrays that are served: the binary on files, and mdadm as the judge of them.

mod bad_input;
mod create;
mod events;
mod export;
mod level;
mod lifecycle;
mod members;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use testkit::requires;

use super::{Server, answer, outboard, within_a_minute};

/// Size of a member, bytes: small enough to be copied in a moment, large enough for a bitmap.
const MEMBER: u64 = 16 << 20;

/// A folder with empty images of these names.
fn images(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in names {
        image(folder.path(), name, MEMBER);
    }
    folder
}

fn image(folder: &Path, name: &str, size: u64) {
    let made = std::fs::File::create(folder.join(name)).and_then(|file| file.set_len(size));
    made.expect("an image");
}

fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).expect("an image")
}

/// Makes the mirror `media` of these images.
fn mirror(folder: &Path, members: &[&str]) {
    let create = ["array", "create", "--level", "1", "--name", "media"];
    answer(folder, &[&create[..], members].concat());
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let told = answer(folder, &[arguments, &["--json"]].concat());
    serde_json::from_str(&told).expect("JSON")
}

/// How an array is.
fn status(folder: &Path, array: &[&str]) -> Value {
    json(folder, &[&["array", "status"], array].concat())
}

/// The state of the member of this name.
fn state_of(report: &Value, member: &str) -> String {
    let members = report["members"].as_array().expect("members");
    let is_meant = |one: &&Value| {
        one["name"]
            .as_str()
            .is_some_and(|name| name.ends_with(member))
    };
    let found = members.iter().find(is_meant);
    let found = found.unwrap_or_else(|| panic!("no member {member} in {report}"));
    found["state"].as_str().expect("a state").to_owned()
}

/// A server of the mirror of these images as the export `films`, and its URI.
fn serving(folder: &Path, members: &[&str], more: &[&str]) -> (Server, String) {
    let disk = format!("films=array({})", members.join(", "));
    let serve = ["serve", "--listen", "127.0.0.1:0", &disk];
    let (server, line) = Server::start(outboard(folder, &[&serve[..], more].concat()));
    let uri = line.split_whitespace().next().expect("a URI").to_owned();
    (server, uri)
}

fn has_mdadm() -> bool {
    requires::all(&[requires::command("mdadm")])
}

/// What mdadm says of a member.
fn examine(folder: &Path, member: &str) -> String {
    let mut command = Command::new("mdadm");
    command
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .current_dir(folder);
    let output = command
        .args(["--examine", member])
        .output()
        .expect("it runs");
    let Output { stdout, stderr, .. } = output;
    String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned()
}

/// A value of mdadm's: what stands behind `key :`.
fn value<'a>(examined: &'a str, key: &str) -> &'a str {
    let mut lines = examined.lines().filter_map(|line| line.split_once(" : "));
    let found = lines.find(|(found, _)| found.trim() == key);
    found
        .unwrap_or_else(|| panic!("no {key} in {examined}"))
        .1
        .trim()
}

/// Asserts that mdadm accepts both superblocks, that they are of one clean array, and that they agree.
fn assert_clean(folder: &Path, members: &[&str]) {
    if !has_mdadm() {
        return;
    }
    let examined: Vec<String> = members
        .iter()
        .map(|member| examine(folder, member))
        .collect();
    for (one, member) in examined.iter().zip(members) {
        assert_eq!(value(one, "State"), "clean", "{member}: {one}");
        assert!(
            value(one, "Checksum").contains("correct"),
            "{member}: {one}"
        );
        assert_eq!(
            value(one, "Events"),
            value(&examined[0], "Events"),
            "{member}"
        );
        assert_eq!(
            value(one, "Array UUID"),
            value(&examined[0], "Array UUID"),
            "{member}"
        );
    }
}
