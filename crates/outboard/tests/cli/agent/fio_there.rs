//! Runs with the load on the agent's machine: real agents, real fio, over loopback.

use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::requires;

use super::{Agent, folder, plan, report, run_with};
use crate::{answer, failure, outboard, within_a_minute};

/// The lab's test plan over four blocks of a second each.
fn plan_of_four_blocks(folder: &Path) {
    let text = crate::lab::plan_of(4).replace("runtime_ms = 300", "runtime_ms = 1000");
    std::fs::write(folder.join("p.toml"), text).expect("a plan");
}

/// Two directories of the agent's machine. Next to the test's program: /tmp may be a tmpfs, which has no direct I/O.
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

/// Bytes that a process has read from disks (proc_pid_io(5)).
fn read_bytes(pid: u32) -> u64 {
    let counts = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let mut lines = counts.lines();
    let read = lines.find_map(|line| line.strip_prefix("read_bytes: "));
    read.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
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

/// The agent may fail in the middle of a run: the measurements so far are kept, and its files are removed.
#[test]
fn an_agent_that_ends_takes_its_fio_and_its_files_along_and_stops_the_run() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = folder();
    let text = crate::lab::plan();
    let text = text.replace("runtime_ms = 300", "runtime_ms = 60000\ntime_based = true");
    std::fs::write(folder.path().join("p.toml"), text).expect("a plan");
    let (_all, card, _) = directories();
    let mut agent = Agent::start(folder.path(), &["--token-file", "token", "--allow-fio"]);
    let place = format!("127.0.0.1:{}", agent.port);
    let log = folder.path().join("run.log");
    let messages = || std::fs::read_to_string(&log).expect("a log");
    let mut child = outboard(folder.path(), &run_there(&place, &card))
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(&log).expect("a new file"))
        .spawn()
        .expect("the binary runs");
    // A job measures there, below fio's server, which is one below the agent: nothing else reads the 16 MiB several times.
    let id = agent.server.child.id();
    let measures = || {
        let all = lab::doctor::cpu::read(&[id]);
        let job = all.keys().any(|(pid, _)| read_bytes(*pid) > 64 << 20);
        let ended = child.try_wait().expect("it is ours");
        assert_eq!(ended, None, "it ended before it measured: {}", messages());
        job.then_some(())
    };
    within_a_minute(measures);
    agent.server.signal(rustix::process::Signal::TERM);
    assert!(agent.server.ended().success());
    assert_eq!(entries(&card), Vec::<PathBuf>::new());
    assert!(!child.wait().expect("it ends").success(), "{}", messages());
    assert!(messages().contains("failed"), "{}", messages());
}

/// A run that was interrupted resumes with the remaining blocks, also if the agent was restarted in between and
/// listens elsewhere.
#[test]
fn a_run_there_that_was_stopped_goes_on_there() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = folder();
    plan_of_four_blocks(folder.path());
    let (_all, card, _) = directories();
    let start = || Agent::start(folder.path(), &["--token-file", "token", "--allow-fio"]);
    let agent = start();
    let place = format!("127.0.0.1:{}", agent.port);
    let store = ["--store", "lab.sqlite"];
    let child = outboard(
        folder.path(),
        &[&run_there(&place, &card)[..], &store].concat(),
    )
    .stdout(std::process::Stdio::null())
    .stderr(std::process::Stdio::piped())
    .spawn()
    .expect("the binary runs");
    let record = || {
        let path = folder.path().join("lab.sqlite");
        let store = lab::Store::open(&path).expect("the store");
        let record = store.latest().and_then(|run| store.load(run));
        let raw = store.latest().and_then(|run| store.raw(run));
        record.ok().zip(raw.ok())
    };
    within_a_minute(|| {
        let is_there = folder.path().join("lab.sqlite").exists();
        let kept = is_there.then(record).flatten();
        kept.filter(|(run, _)| !run.cells.is_empty())
    });
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let hint = "`outboard lab run --resume=1 --store lab.sqlite` goes on with it, with --fio-on and its --agent";
    assert!(
        said.contains("whole blocks were kept as run 1") && said.contains(hint),
        "{said}"
    );
    within_a_minute(|| entries(&card).is_empty().then_some(()));
    let (kept, _) = record().expect("a run");
    assert!((1..4).contains(&kept.cells.len()), "{}", kept.cells.len());

    // Not here: there is no such directory on this machine as far as the run knows.
    let resume = ["lab", "run", "--resume=1", "--store", "lab.sqlite"];
    let (_, told) = failure(folder.path(), &resume);
    assert!(
        told.contains("say which agent is to run fio there"),
        "{told}"
    );
    drop(agent);
    let agent = start();
    let place = format!("127.0.0.1:{}", agent.port);
    let there = ["--fio-on", &place, "--agent", &place];
    let token = ["--agent-token-file", "token"];
    answer(folder.path(), &[&resume[..], &there, &token].concat());
    let (record, raw) = record().expect("a run");
    assert_eq!(record.status, lab::store::Status::AllBlocks);
    let blocks: Vec<u32> = record.cells.iter().map(|cell| cell.block).collect();
    assert_eq!(blocks, [0, 1, 2, 3]);
    assert_eq!(record.cells[..kept.cells.len()], kept.cells);
    assert!(raw.iter().all(|text| text.contains("\"client_stats\"")));
    within_a_minute(|| entries(&card).is_empty().then_some(()));
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
