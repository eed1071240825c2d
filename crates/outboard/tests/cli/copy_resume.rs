//! `copy --resume`: what was durable is not copied again after an interruption of any kind; and what is refused.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::requires;

use super::{Server, answer, failure, outboard, peer, run, scrape, within_a_minute};

const MIB: u64 = 1 << 20;
/// Size of the source.
const SIZE: u64 = 12 * MIB;
/// It is read so slowly that a copy takes several seconds.
const SLOW: &str = "throttle(a.img, bytes=2M/s)";
const SLOWER: &str = "throttle(a.img, bytes=1M/s)";
const STATE: &str = "b.img.outboard-copy";

/// A folder with an image of data, a hole of 3 MiB, and 1 MiB of zeroes that are written.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let image = fs::File::create(folder.path().join("a.img")).expect("a new file");
    image.set_len(SIZE).expect("a size");
    for (at, len) in [(0, 5), (8, 4)] {
        let range = block::Range::new(at * MIB, len * MIB);
        let data = testkit::pattern(7, range);
        image.write_all_at(&data, range.offset).expect("data");
    }
    let zeroes = vec![0; 1 << 20];
    image.write_all_at(&zeroes, 9 * MIB).expect("zeroes");
    folder
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).expect("a file")
}

/// Where a state says that the copy is.
fn position(state: &Path) -> Option<u64> {
    let text = fs::read_to_string(state).ok()?;
    let json: Value = serde_json::from_str(text.lines().nth(1)?).ok()?;
    json["position"].as_u64()
}

fn start(folder: &Path, arguments: &[&str]) -> Server {
    let log = fs::File::create(folder.join("log")).expect("a new file");
    Server::start_with(&mut outboard(folder, arguments), log.into())
}

/// Starts a copy and ends it with `signal` when its state says more than `past`. Where the state is then.
fn cut(folder: &Path, arguments: &[&str], state: &str, past: u64, signal: Signal) -> u64 {
    let path = folder.join(state);
    let mut copying = start(folder, arguments);
    within_a_minute(|| position(&path).filter(|&at| at > past));
    copying.signal(signal);
    assert!(!copying.ended().success());
    position(&path).expect("a state")
}

/// The sum of the samples of the server's metric `name` with `label` among their labels.
fn metric(address: &str, name: &str, label: &str) -> f64 {
    let text = scrape(address);
    let samples = text
        .lines()
        .filter(|line| line.starts_with(name) && line.contains(label));
    let values = samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

#[test]
fn a_copy_that_is_killed_again_and_again_reads_nothing_twice() {
    let folder = folder();
    let at = folder.path();
    let metrics = free_address();
    let arguments = ["serve", SLOWER, "--listen", "unix:s", "--metrics", &metrics];
    let (_server, _) = Server::start(outboard(at, &arguments));
    let copy = [
        "copy",
        "nbd+unix:///?socket=s",
        "b.img",
        "--resume",
        "--json",
    ];
    let mut reached = 0;
    for _ in 0..3 {
        // On a busy machine a copy gets far before it is known to be durable.
        if reached <= SIZE / 2 {
            reached = cut(at, &copy, STATE, reached, Signal::KILL);
        }
    }
    // Requests of the last one are carried out at the speed of the source, whether it waits for it or not.
    within_a_minute(|| (metric(&metrics, "outboard_connections ", "") == 0.0).then_some(()));
    let before = metric(&metrics, "outboard_request_bytes_total", "read");
    assert!(before > 0.0);
    let done: Value = serde_json::from_str(&answer(at, &copy)).expect("JSON");
    assert_eq!(done["resumed"], reached);
    let rest = SIZE - reached;
    let sum = |keys: [&str; 3]| {
        keys.map(|key| done[key].as_u64().expect("a number"))
            .iter()
            .sum::<u64>()
    };
    assert_eq!(sum(["written", "zeroed", "kept"]), rest);
    // Besides the rest, only samples of what was copied before were read, and where a disk says what is on it.
    let samples = 19.0 * 65_536.0;
    let again = metric(&metrics, "outboard_request_bytes_total", "read") - before;
    assert!(again <= rest as f64 + samples, "{again} bytes for {rest}");
    assert!(read(at, "b.img") == read(at, "a.img"));
    assert_eq!(states(at), [""; 0], "no state is left");
}

/// An address for metrics that no other test uses.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

/// Files that belong to a state.
fn states(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.contains("outboard-copy") || name.starts_with("state"))
        .collect();
    names.sort();
    names
}

#[test]
fn an_export_that_held_something_is_completed_and_compared() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("b.img"), vec![9; 14 << 20]).expect("a file");
    let arguments = ["serve", "b.img", "--listen", "unix:s"];
    let (_server, _) = Server::start(outboard(at, &arguments));
    let copy = [
        "copy",
        SLOW,
        "nbd+unix:///?socket=s",
        "--resume=state",
        "--verify",
    ];
    let mut reached = 0;
    // The last time while both are compared: all is copied.
    for past in [0, 0, SIZE - 1] {
        reached = cut(at, &copy, "state", past.max(reached), Signal::KILL);
    }
    assert_eq!(reached, SIZE);
    let copy = [&["copy", "a.img"], &copy[2..]].concat();
    let line = answer(at, &copy);
    assert!(
        line.contains(", resumed at 12.00 MiB: 0 B of data"),
        "{line}"
    );
    assert!(line.contains("both read back and found equal"), "{line}");
    let mut expected = read(at, "a.img");
    expected.resize(14 << 20, 9);
    assert!(read(at, "b.img") == expected);
    assert_eq!(states(at), [""; 0]);
}

#[test]
fn without_the_option_a_file_can_be_resumed_after_some_seconds() {
    let folder = folder();
    let at = folder.path();
    let reached = cut(at, &["copy", SLOWER, "b.img"], STATE, 0, Signal::INT);
    let log = fs::read_to_string(at.join("log")).expect("messages");
    let hint = "of 12.00 MiB are durable there, and the same command with --resume continues";
    assert!(log.contains("interrupted: b.img is incomplete: "), "{log}");
    assert!(log.contains(hint), "{log}");
    let (partial, state) = (read(at, "b.img"), read(at, STATE));
    let (_, line) = failure(at, &["copy", "a.img", "b.img"]);
    assert!(
        line.ends_with(
            "a copy to it was interrupted: --resume continues it, --force writes over it"
        ),
        "{line}"
    );
    let bitmap = ["copy", "nbd://127.0.0.1:1/x", "b.img", "--bitmap", "b"];
    let (_, line) = failure(at, &bitmap);
    assert!(
        line.contains("b.img is incomplete: b.img.outboard-copy is there"),
        "{line}"
    );
    assert!(read(at, "b.img") == partial && read(at, STATE) == state);
    let done = answer(
        at,
        &["copy", "a.img", "b.img", "--resume", "--json", "--verify"],
    );
    let done: Value = serde_json::from_str(&done).expect("JSON");
    assert_eq!(done["resumed"], reached);
    assert!(read(at, "b.img") == read(at, "a.img"));
    assert_eq!(states(at), [""; 0]);
}

/// What was written since the last checkpoint is flushed when the source fails, and kept.
#[test]
fn a_copy_that_fails_can_be_resumed_where_it_failed() {
    let folder = folder();
    let at = folder.path();
    let failing = "fault(a.img, on=read, at=8M+4K)";
    let copy = ["copy", failing, "b.img", "--resume", "--requests=1"];
    let (status, line) = failure(at, &copy);
    assert_eq!(status, Some(1));
    let message = "injected fault); b.img is incomplete: 8.00 MiB of 12.00 MiB are durable there, and the same command with --resume continues";
    assert!(line.ends_with(message), "{line}");
    assert_eq!(position(&at.join(STATE)), Some(8 * MIB));
    let line = answer(at, &["copy", "a.img", "b.img", "--resume"]);
    assert!(
        line.contains(", resumed at 8.00 MiB: 3.00 MiB of data, 1.00 MiB of zeroes"),
        "{line}"
    );
    assert!(read(at, "b.img") == read(at, "a.img"));
    assert_eq!(states(at), [""; 0]);
}

/// A state that outlived the beginning of another copy would have the next one skip what is not there.
#[test]
fn a_copy_from_the_beginning_removes_the_state_of_the_one_before() {
    let folder = folder();
    let at = folder.path();
    cut(
        at,
        &["copy", SLOW, "b.img", "--resume"],
        STATE,
        MIB,
        Signal::KILL,
    );
    let mut copying = start(at, &["copy", SLOWER, "b.img", "--force"]);
    // It was emptied, and holds less than before.
    within_a_minute(|| {
        let found = fs::metadata(at.join("b.img")).expect("a file");
        let used = found.blocks() * 512;
        (found.len() == SIZE && (1..MIB).contains(&used)).then_some(())
    });
    assert!(!at.join(STATE).exists());
    copying.signal(Signal::KILL);
    copying.ended();
    let (_, line) = failure(at, &["copy", SLOW, "b.img", "--resume"]);
    let hint = "b.img.outboard-copy of an interrupted copy is missing; --force writes over it";
    assert!(line.ends_with(hint), "{line}");
    answer(at, &["copy", "a.img", "b.img", "--force"]);
    assert!(read(at, "b.img") == read(at, "a.img"));
    assert_eq!(states(at), [""; 0]);
}

/// The target loses what was not flushed whenever the drive is pulled, and held something else before.
#[test]
fn a_copy_to_a_drive_that_loses_its_cache_is_whole_once_it_ends() {
    let folder = folder();
    let at = folder.path();
    let garbage: Vec<u8> = (0..SIZE).map(|byte| (byte % 250) as u8).collect();
    fs::write(at.join("b.img"), garbage).expect("a file");
    let target = "fault(b.img, cache=3M, pulled-while=pulled)";
    let copy = ["copy", SLOW, target, "--resume=state", "--force"];
    let seed = std::process::id();
    let mut rng = numbers(u64::from(seed));
    let (mut resumed, mut rounds) = (0, 0);
    // On a busy machine a copy may not have come far enough to be resumed: the drive is pulled later then.
    while rounds < 4 || (resumed == 0 && rounds < 12) {
        let later = if resumed == 0 { 500 * rounds } else { 0 };
        rounds += 1;
        let mut copying = start(at, &copy);
        std::thread::sleep(Duration::from_millis(500 + later + rng() % 1500));
        fs::write(at.join("pulled"), "").expect("a file");
        let status = copying.ended();
        fs::remove_file(at.join("pulled")).expect("it is there");
        if status.success() {
            break;
        }
        let reached = position(&at.join("state")).expect("a state");
        assert!(reached >= resumed, "the position fell");
        resumed = reached;
        let log = fs::read_to_string(at.join("log")).expect("messages");
        assert!(log.contains("with --resume=state continues"), "{log}");
        let landed = read(at, "b.img");
        let durable = usize::try_from(reached).expect("it fits");
        assert!(
            landed[..durable] == read(at, "a.img")[..durable],
            "seed {seed}"
        );
    }
    assert!(resumed > 0);
    if at.join("state").exists() {
        answer(at, &copy);
    }
    assert!(read(at, "b.img") == read(at, "a.img"), "seed {seed}");
    assert_eq!(states(at), [""; 0]);
}

/// Numbers that follow from a seed.
fn numbers(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed >> 33
    }
}

/// A change of a folder with an interrupted copy, and what `--resume` says to it.
type Refusal = (fn(&Path), &'static str);

fn replace_line(at: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(at.join(STATE)).expect("a state");
    assert!(text.contains(from), "{text}");
    fs::write(at.join(STATE), text.replacen(from, to, 1)).expect("a file");
}

fn open(at: &Path, name: &str) -> fs::File {
    let file = fs::OpenOptions::new().write(true).open(at.join(name));
    file.expect("a file")
}

fn copy_file(at: &Path, name: &str) {
    let path = at.join(name);
    fs::copy(&path, at.join("other")).expect("a copy");
    fs::rename(at.join("other"), path).expect("it is moved");
}

const REFUSALS: [Refusal; 10] = [
    (
        |at| {
            open(at, "a.img")
                .write_all_at(b"x", 0)
                .expect("it is written");
        },
        "a.img was modified after its copy began",
    ),
    (
        |at| {
            open(at, "a.img").set_len(SIZE + 512).expect("it grows");
        },
        "a.img has 12583424 bytes, and had 12582912 when its copy was interrupted",
    ),
    (
        |at| copy_file(at, "a.img"),
        "is not the source of the interrupted copy",
    ),
    (
        |at| copy_file(at, "b.img"),
        "b.img is not the target of the interrupted copy",
    ),
    (
        |at| {
            open(at, "b.img").set_len(MIB).expect("it is truncated");
        },
        "b.img has 1048576 bytes, and had 12582912 when its copy was interrupted",
    ),
    (
        |at| {
            open(at, "b.img")
                .write_all_at(b"y", 77)
                .expect("it is written");
        },
        "at byte 77, which was copied before the interruption",
    ),
    (
        |at| fs::remove_file(at.join("b.img")).expect("it is there"),
        "b.img does not exist, and b.img.outboard-copy is of a copy to it",
    ),
    (
        |at| replace_line(at, "\"position\":", "\"position\":1"),
        "b.img.outboard-copy is damaged; nothing was changed; to copy from the beginning, leave --resume out and add --force",
    ),
    (
        |at| replace_line(at, "outboard-copy 1", "outboard-copy 2"),
        "b.img.outboard-copy has version 2, and only 1 is known here",
    ),
    (
        |at| fs::write(at.join(STATE), "mine").expect("a file"),
        "b.img.outboard-copy is not the state of a copy",
    ),
];

/// Each file of a folder with its bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = paths
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(path).expect("a file")))
        .collect();
    files.sort();
    files
}

#[test]
fn what_does_not_belong_to_the_interrupted_copy_is_refused_and_nothing_is_changed() {
    let interrupted = folder();
    let kept = interrupted.path();
    let copy = ["copy", SLOW, "b.img", "--resume"];
    cut(kept, &copy, STATE, MIB, Signal::KILL);
    let content = ["a.img", "b.img"].map(|name| read(kept, name));
    let modified = fs::metadata(kept.join("a.img")).and_then(|found| found.modified());
    let modified = modified.expect("a time");
    for (change, message) in REFUSALS {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        // Copies would be other disks.
        for name in ["a.img", "b.img"] {
            fs::hard_link(kept.join(name), at.join(name)).expect("a link");
        }
        fs::copy(kept.join(STATE), at.join(STATE)).expect("a copy");
        change(at);
        let before = files(at);
        let (status, line) = failure(at, &["copy", "a.img", "b.img", "--resume"]);
        assert_eq!(status, Some(1), "{line}");
        assert!(line.contains(message), "{message}: {line}");
        assert!(files(at) == before, "{message}: something was changed");
        for (name, bytes) in ["a.img", "b.img"].iter().zip(&content) {
            fs::write(kept.join(name), bytes).expect("a file");
        }
        let image = fs::OpenOptions::new().write(true).open(kept.join("a.img"));
        let restored = image.and_then(|image| image.set_modified(modified));
        restored.expect("a time");
    }
    let done = answer(kept, &["copy", "a.img", "b.img", "--resume", "--verify"]);
    assert!(done.contains(", resumed at "), "{done}");
}

#[test]
fn a_place_for_the_state_that_makes_no_sense_is_refused() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("b.img"), [0; 4096]).expect("a file");
    fs::write(at.join("mine"), "mine").expect("a file");
    let before = files(at);
    let blocks = "blocks(b.img, size=512)";
    let cases: [(&[&str], i32, &str); 7] = [
        (
            &["c.img", "--resume=state"],
            2,
            "the state of a copy to a file is c.img.outboard-copy; write --resume alone",
        ),
        (
            &[blocks, "--resume"],
            2,
            "nothing says where the state is; name a file for it: --resume=FILE",
        ),
        (
            &["memory(16M)", "--resume=state"],
            2,
            "ends with this process; leave --resume out",
        ),
        (
            &[blocks, "--resume=mine"],
            1,
            "mine is not the state of a copy; nothing was changed; name another file",
        ),
        (
            &[blocks, "--resume=/dev/null"],
            1,
            "/dev/null is not the state of a copy",
        ),
        (
            &[blocks, "--resume=no/state"],
            1,
            "cannot write no/state: No such file or directory",
        ),
        (&[blocks, "--resume=state", "--force"], 1, "is too small"),
    ];
    for (arguments, status, message) in cases {
        let arguments = [&["copy", "a.img"], arguments].concat();
        let (found, line) = failure(at, &arguments);
        assert!(line.contains(message), "{arguments:?}: {line}");
        assert_eq!(found, Some(status), "{line}");
        assert!(files(at) == before, "{arguments:?}");
    }
    let both = run(at, &["copy", "a.img", "c.img", "--resume", "--bitmap", "x"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn a_target_that_cannot_be_flushed_is_refused() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let folder = folder();
    let at = folder.path();
    let plugin = [
        "-f",
        "-U",
        "s",
        "eval",
        "get_size=echo 16M",
        "pwrite=cat >/dev/null",
        "pread=exit 1",
    ];
    let _peer = peer(at, "nbdkit", &plugin);
    let copy = ["copy", "a.img", "nbd+unix:///?socket=s", "--resume=state"];
    let (_, line) = failure(at, &copy);
    assert!(
        line.contains("cannot be flushed: what is durable there is not known"),
        "{line}"
    );
    assert_eq!(states(at), [""; 0]);
}
