//! Runs of the lab with an agent: what is kept of its machine, and what becomes of a run that loses it.

use serde_json::Value;
use testkit::requires;

use super::{Agent, folder, plan, report, run_with};
use crate::{answer, failure, outboard, within_a_minute};

#[test]
fn a_run_keeps_what_the_agents_machine_did() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = folder();
    plan(folder.path(), 3000);
    answer(folder.path(), &["tls", "init", "pki"]);
    let mut may = vec!["--tls", "pki", "--token-file", "token"];
    let drops = requires::root().is_ok();
    if drops {
        may.push("--allow-drop-caches");
    }
    let agent = Agent::start(folder.path(), &may);
    let (place, port) = (format!("localhost:{}", agent.port), agent.port.to_string());
    let mut run = run_with(&place, ".");
    // As if the directory were a mount of a server on the agent's machine.
    run.extend(["--json", "--peer", "127.0.0.1", "--agent-tls", "pki"]);
    run.extend(["--agent-server-port", &port]);
    let told: Value = serde_json::from_str(&answer(folder.path(), &run)).expect("JSON");
    let record = &told["run"];
    let kept = &record["manifest"]["agents"][0];
    assert_eq!(kept["address"], place);
    let hostname = &record["manifest"]["machine"]["hostname"];
    assert_eq!(&kept["machine"]["hostname"], hostname);
    let error = kept["clock_error"].as_u64().expect("nanoseconds");
    assert!(error > 0 && error < 1_000_000_000, "{error}");
    let samples = record["samples"].as_array().expect("samples");
    let of_agent = |sensor: &str| {
        let mut found = samples.iter();
        found.any(|sample| sample["machine"] == 1 && sample["sensor"] == sensor)
    };
    for sensor in ["cpu", "process", "net", "offset"] {
        assert!(of_agent(sensor), "{sensor}");
    }
    let evidence = &record["cells"][0]["evidence"];
    let there = &evidence["agents"][0];
    assert_eq!(there["machine"], 1);
    assert!(!there["cores"].as_array().expect("cores").is_empty());
    assert!(there["server_cpu"].is_u64(), "{evidence}");
    assert_eq!(evidence["dropped_there"].is_object(), drops, "{evidence}");
    let remarks = record["findings"].to_string();
    assert!(remarks.contains("runs on this machine"), "{remarks}");
    let page = report(folder.path(), &[]);
    assert!(
        page.contains(&format!("agent at {place}")),
        "the agent is in it"
    );
}

#[test]
fn a_run_outlives_its_agent() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = folder();
    plan(folder.path(), 5000);
    let agent = Agent::start(folder.path(), &["--token-file", "token"]);
    let place = format!("127.0.0.1:{}", agent.port);
    let run = [&run_with(&place, ".")[..], &["--json"]].concat();
    let child = outboard(folder.path(), &run)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // It follows the agent from before it starts fio on, which is a child of the process that measures.
    let below = |id: &str| {
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let ids = children.split_whitespace().map(str::to_owned);
        ids.collect::<Vec<_>>()
    };
    let own = folder.path().to_string_lossy().into_owned();
    let children = || {
        let measuring = below(&child.id().to_string()).into_iter();
        let mut jobs = measuring.flat_map(|id| below(&id));
        let job = jobs.find_map(|id| std::fs::read(format!("/proc/{id}/cmdline")).ok())?;
        String::from_utf8_lossy(&job).contains(&own).then_some(())
    };
    within_a_minute(children);
    drop(agent);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let said = told["run"]["cells"][0]["findings"].to_string();
    assert!(
        said.contains(&format!("the agent {place} was lost")),
        "{said}"
    );
}

#[test]
fn an_agent_that_cannot_be_had_stops_a_run_before_it_begins() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = folder();
    plan(folder.path(), 300);
    std::fs::write(folder.path().join("token"), "x".repeat(20)).expect("a file");
    let agent = Agent::start(folder.path(), &[]);
    let place = format!("127.0.0.1:{}", agent.port);
    let (status, told) = failure(folder.path(), &run_with(&place, "."));
    assert_eq!(status, Some(1));
    assert!(
        told.contains(&place) && told.contains("knows another token"),
        "{told}"
    );
    drop(agent);
    let (_, told) = failure(folder.path(), &run_with(&place, "."));
    assert!(told.contains(&place) && told.contains("refused"), "{told}");
    let (status, told) = failure(
        folder.path(),
        &["lab", "run", "p.toml", ".", "--agent", "nas"],
    );
    assert_eq!(status, Some(2));
    assert!(told.contains("--agent-token-file"), "{told}");
}
