//! Dirty bitmaps and the allocation depth of qemu-nbd: what `inspect` shows of them, and incremental copies.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use testkit::proc::Process;
use testkit::requires;

use super::{answer, failure, peer};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SIZE: u64 = 16 * MIB;

fn can_run() -> bool {
    requires::all(&["qemu-nbd", "qemu-img", "qemu-io"].map(requires::command))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(folder).output();
    let output = output.expect("it runs");
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
}

/// Runs commands of qemu-io on an image.
fn write(folder: &Path, image: &str, commands: &[String]) {
    let options = commands.iter().flat_map(|command| ["-c", command]);
    let arguments: Vec<&str> = ["-f", "qcow2"].into_iter().chain(options).collect();
    run(folder, "qemu-io", &[&arguments[..], &[image]].concat());
}

/// `top` over `base`: 1 MiB of data in the base, 512 KiB above it of which a half is above data of the base.
fn chain(folder: &Path) {
    let qemu_img = |arguments: &[&str]| run(folder, "qemu-img", arguments);
    qemu_img(&["create", "-q", "-f", "qcow2", "base", "16M"]);
    write(folder, "base", &["write -q -P 1 1M 1M".to_owned()]);
    qemu_img(&[
        "create", "-q", "-f", "qcow2", "-b", "base", "-F", "qcow2", "top",
    ]);
    let data = ["write -q -P 2 1M 256k", "write -q -P 3 8M 256k"];
    write(folder, "top", &data.map(str::to_owned));
}

/// Serves `top` with these bitmaps, and its URI.
fn serve(folder: &Path, bitmaps: &[&str]) -> (Process, String) {
    let socket = format!("{}/s", folder.display());
    let mut arguments = vec!["-k", &socket, "-f", "qcow2", "-t", "-r", "-e", "8", "-A"];
    arguments.extend(bitmaps.iter().flat_map(|name| ["-B", name]));
    arguments.push("top");
    let server = peer(folder, "qemu-nbd", &arguments);
    (server, format!("nbd+unix:///?socket={socket}"))
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

/// `inspect` had the names of the contexts, and nothing of what is in them.
#[test]
fn inspect_shows_how_much_is_dirty_and_how_deep_it_lies() {
    if !can_run() {
        return;
    }
    let folder = folder();
    let folder = folder.path();
    chain(folder);
    for name in ["nightly", "two words"] {
        run(folder, "qemu-img", &["bitmap", "--add", "top", name]);
        write(folder, "top", &["write -q -P 4 12M 64k".to_owned()]);
    }
    write(folder, "top", &["write -q -P 4 4M 128k".to_owned()]);
    run(
        folder,
        "qemu-img",
        &["bitmap", "--clear", "top", "two words"],
    );
    let (_server, uri) = serve(folder, &["nightly", "two words"]);
    let found = json(&answer(folder, &["inspect", &uri, "--json"]));
    let export = &found["export"];
    let mut bitmaps = export["dirty_bitmaps"].as_array().expect("a list").clone();
    bitmaps.sort_by_key(|bitmap| bitmap["name"].to_string());
    let expected = serde_json::json!([
        {"name": "nightly", "dirty": 192 * KIB},
        {"name": "two words", "dirty": 0},
    ]);
    assert_eq!(serde_json::Value::from(bitmaps), expected);
    let here = 512 * KIB + 192 * KIB;
    let expected = serde_json::json!({"depths": [
        {"depth": 0, "bytes": SIZE - here - 768 * KIB},
        {"depth": 1, "bytes": here},
        {"depth": 2, "bytes": 768 * KIB},
    ]});
    assert_eq!(export["allocation_depth"], expected);
    let text = answer(folder, &["inspect", &uri]);
    for line in [
        "bitmap       `nightly`: 192.00 KiB dirty",
        "bitmap       `two words`: 0 B dirty",
        "depth        0: 14.56 MiB not allocated",
        "depth        1: 704.00 KiB in the image itself",
        "depth        2: 768.00 KiB in its backing file",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// Writes, zeroes and discards at places that look random.
fn changes() -> Vec<String> {
    let mut state: u64 = 88_172_645_463_325_252;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let commands = (0..60).map(|nth| {
        let (at, len) = (next(SIZE / 512 - 200) * 512, (next(200) + 1) * 512);
        match nth % 6 {
            4 => format!("write -q -z {at} {len}"),
            5 => format!("discard -q {at} {len}"),
            _ => format!("write -q -P {} {at} {len}", nth + 10),
        }
    });
    commands.collect()
}

#[test]
fn an_incremental_copy_brings_what_was_written_since_and_touches_nothing_else() {
    if !can_run() {
        return;
    }
    for granularity in ["4096", "65536"] {
        let folder = folder();
        let folder = folder.path();
        chain(folder);
        let (server, uri) = serve(folder, &[]);
        answer(folder, &["copy", &uri, "backup"]);
        drop(server);
        run(
            folder,
            "qemu-img",
            &["convert", "-O", "raw", "top", "judge"],
        );
        assert!(fs::read(folder.join("backup")).ok() == fs::read(folder.join("judge")).ok());
        fs::remove_file(folder.join("s")).unwrap_or_default();

        let add = ["bitmap", "--add", "-g", granularity, "top", "nightly"];
        run(folder, "qemu-img", &add);
        write(folder, "top", &changes());
        // The first bytes are clean: what stands there in the target is not the copy's to change.
        let target = fs::OpenOptions::new()
            .write(true)
            .open(folder.join("backup"));
        let target = target.expect("the backup");
        target.write_all_at(b"mine", 0).expect("a mark");
        run(
            folder,
            "qemu-img",
            &["convert", "-O", "raw", "top", "judge"],
        );
        let mut expected = fs::read(folder.join("judge")).expect("the judge's copy");
        expected[..4].copy_from_slice(b"mine");

        let (_server, uri) = serve(folder, &["nightly"]);
        let copy = ["copy", &uri, "backup", "--bitmap", "nightly", "--verify"];
        let text = answer(folder, &copy);
        assert!(text.contains(" dirty of 16.00 MiB in "), "{text}");
        assert!(fs::read(folder.join("backup")).ok() == Some(expected.clone()));

        let by_context = ["--bitmap", "qemu:dirty-bitmap:nightly", "--json"];
        let again = [&["copy", &uri, "backup"], &by_context[..]].concat();
        let done = json(&answer(folder, &again));
        let number = |key: &str| done[key].as_u64().expect("a number");
        assert_eq!(done["bitmap"], "qemu:dirty-bitmap:nightly");
        assert_eq!(number("size"), SIZE);
        assert!(number("dirty") < SIZE / 2, "{done}");
        assert!(number("read") <= number("dirty"), "{done}");
        let moved = number("written") + number("zeroed") + number("kept");
        assert_eq!(moved, number("dirty"));
        assert!(fs::read(folder.join("backup")).ok() == Some(expected));
        let inspected = json(&answer(folder, &["inspect", &uri, "--json"]));
        assert_eq!(
            inspected["export"]["dirty_bitmaps"][0]["dirty"],
            number("dirty")
        );
    }
}

#[test]
fn an_incremental_copy_without_its_bitmap_or_its_target_is_refused() {
    if !can_run() {
        return;
    }
    let folder = folder();
    let folder = folder.path();
    chain(folder);
    run(folder, "qemu-img", &["bitmap", "--add", "top", "nightly"]);
    fs::write(folder.join("small"), vec![7; 4096]).expect("a file");
    fs::write(folder.join("large"), vec![7; 17 << 20]).expect("a file");
    fs::write(folder.join("other"), vec![7; 16 << 20]).expect("a file");
    let (_server, uri) = serve(folder, &["nightly"]);
    let cases = [
        (
            [&uri, "new", "nightly"],
            1,
            "new does not exist, and a bitmap has only what was changed; make a full copy first: outboard copy nbd+unix",
        ),
        (
            [&uri, "large", "nightly"],
            1,
            "large is no earlier copy of nbd+unix",
        ),
        ([&uri, "small", "nightly"], 1, "it has 4096 bytes, nbd+unix"),
        (
            [&uri, "other", "weekly"],
            1,
            "has no dirty bitmap `weekly`; it has `nightly`",
        ),
        (
            ["other", "small", "nightly"],
            2,
            "other is no export of a server, and has no bitmap",
        ),
    ];
    for ([source, target, name], status, message) in cases {
        let (code, text) = failure(folder, &["copy", source, target, "--bitmap", name]);
        assert_eq!(code, Some(status), "{text}");
        assert!(text.contains(message), "{message}: {text}");
    }
    assert!(!folder.join("new").exists());
    assert!(fs::read(folder.join("large")).ok() == Some(vec![7; 17 << 20]));
    assert!(fs::read(folder.join("small")).ok() == Some(vec![7; 4096]));
    assert!(fs::read(folder.join("other")).ok() == Some(vec![7; 16 << 20]));
    let (code, _) = failure(
        folder,
        &["copy", &uri, "other", "--bitmap", "nightly", "--force"],
    );
    assert_eq!(code, Some(2));
}
