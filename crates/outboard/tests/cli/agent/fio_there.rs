//! Runs whose load the agent's machine makes: real agents, real fio, over loopback.

use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::requires;

use super::{Agent, folder, plan, report, run_with};
use crate::{answer, failure, outboard, within_a_minute};

/// Two directories of the agent's machine. Beside the test's program: /tmp may be memory, which has no
/// direct I/O.
fn directories() -> (tempfile::TempDir, String, String) {
    let beside = Path::new(env!("CARGO_BIN_EXE_outboard")).parent();
    let all = tempfile::tempdir_in(beside.expect("a folder")).expect("a folder");
    let names = ["card", "over nbd"].map(|name| {
        let path = all.path().join(name);
        std::fs::create_dir(&path).expect("a folder");
        path.to_string_lossy().into_owned()
    });
    let [card, nbd] = names;
    (all, card, nbd)
}

fn entries(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a folder").flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The arguments of a run there.
fn run_there<'a>(place: &'a str, directory: &'a str) -> Vec<&'a str> {
    [&run_with(place, directory)[..], &["--fio-on", place]].concat()
}

#[test]
fn fio_of_the_agents_machine_makes_the_load_on_directories_there() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = folder();
    plan(folder.path(), 300);
    let (_all, card, nbd) = directories();
    let agent = Agent::start(folder.path(), &["--token-file", "token", "--allow-fio"]);
    let place = format!("127.0.0.1:{}", agent.port);
    let mut run = run_there(&place, &nbd);
    run.extend(["--against", &card, "--json", "--store", "lab.sqlite"]);
    let told: Value = serde_json::from_str(&answer(folder.path(), &run)).expect("JSON");
    let record = &told["run"];
    // The machine is named with each target, with what is there.
    for (index, directory) in [&nbd, &card].into_iter().enumerate() {
        let target = &record["manifest"]["targets"][index];
        assert_eq!(target["place"]["there"]["machine"], place, "{target}");
        assert_eq!(target["label"], format!("{place}:{directory}"));
        assert_ne!(target["filesystem"], "none", "{target}");
        assert_eq!(target["ceilings"], serde_json::json!([]));
    }
    let findings = record["findings"].to_string();
    assert!(
        findings.contains(&format!("the machine of the agent {place}")),
        "{findings}"
    );
    assert!(findings.contains("was not dropped"), "{findings}");
    // Every figure came back from there: fio says so in what is kept.
    let cells = record["cells"].as_array().expect("cells");
    assert!(cells.len() >= 2);
    for cell in cells {
        let bytes = cell["outcome"]["fio"]["bytes"].as_u64().expect("bytes");
        assert!(bytes >= 1 << 20, "{cell}");
    }
    let store = lab::Store::open(&folder.path().join("lab.sqlite")).expect("the store");
    let raw = store
        .raw(store.latest().expect("a run"))
        .expect("what fio wrote");
    assert_eq!(raw.len(), cells.len());
    for text in &raw {
        assert!(
            text.contains("\"client_stats\"") && text.contains("127.0.0.1"),
            "{text}"
        );
    }
    // The folders there went with the run.
    for directory in [&card, &nbd] {
        within_a_minute(|| entries(directory).is_empty().then_some(()));
    }
    let page = report(folder.path(), &["--store", "lab.sqlite"]);
    assert!(page.contains(&place) && page.contains("over nbd"));
}

/// Whoever makes the load may go away in the middle: what was measured is kept, and nothing is left there.
#[test]
fn an_agent_that_ends_takes_its_fio_and_its_files_along_and_stops_the_run() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = folder();
    plan(folder.path(), 20_000);
    let (_all, card, _) = directories();
    let mut agent = Agent::start(folder.path(), &["--token-file", "token", "--allow-fio"]);
    let place = format!("127.0.0.1:{}", agent.port);
    let child = outboard(folder.path(), &run_there(&place, &card))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // A job runs there: a process below fio's server, which is one below the agent.
    let id = agent.server.child.id();
    let measures = || {
        let all = lab::doctor::cpu::read(&[id]);
        let has_read = |pid: u32| {
            let counts = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            let read = counts
                .lines()
                .find_map(|line| line.strip_prefix("read_bytes: "));
            let bytes = read.and_then(|bytes| bytes.parse::<u64>().ok());
            bytes.is_some_and(|bytes| bytes > 1 << 20)
        };
        let job = all.keys().any(|(pid, _)| *pid != id && has_read(*pid));
        (job && !entries(&card).is_empty()).then_some(())
    };
    within_a_minute(measures);
    agent.server.signal(rustix::process::Signal::TERM);
    assert!(agent.server.ended().success());
    assert_eq!(entries(&card), Vec::<PathBuf>::new());
    let output = child.wait_with_output().expect("it ends");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("failed"), "{said}");
}

#[test]
fn what_cannot_run_there_is_said_before_anything_is_made() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = folder();
    plan(folder.path(), 300);
    let (_all, card, _) = directories();
    let agent = Agent::start(folder.path(), &["--token-file", "token"]);
    let place = format!("127.0.0.1:{}", agent.port);
    let (status, told) = failure(folder.path(), &run_there(&place, &card));
    assert_eq!(status, Some(1));
    assert!(told.contains("--allow-fio"), "{told}");
    drop(agent);
    let agent = Agent::start(folder.path(), &["--token-file", "token", "--allow-fio"]);
    let place = format!("127.0.0.1:{}", agent.port);
    let nowhere = format!("{card}/nowhere");
    for (directory, words) in [
        (nowhere.as_str(), "cannot work in"),
        ("card", "cannot be sent"),
        ("/tmp/$HOME", "cannot be sent"),
    ] {
        let (_, told) = failure(folder.path(), &run_there(&place, directory));
        assert!(told.contains(words), "{told}");
    }
    let mut tool = run_there(&place, &card);
    tool[2] = "network";
    let (_, told) = failure(folder.path(), &tool);
    assert!(
        told.contains("only fio") || told.contains("builds its targets"),
        "{told}"
    );
    let mut other = run_with(&place, &card);
    other.extend(["--fio-on", "127.0.0.1:1"]);
    let (status, told) = failure(folder.path(), &other);
    assert_eq!(status, Some(2));
    assert!(told.contains("none of the agents"), "{told}");
    assert_eq!(entries(&card), Vec::<PathBuf>::new());
}
