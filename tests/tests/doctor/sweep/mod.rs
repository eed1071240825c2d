//! A table of real rigged systems, the truth of each next to the doctor's verdict: `cargo xtask soak doctor` runs it.
//!
//! # Invariants
//!
//! * Every system is held by a limiter of a few 10 MB/s, so that no core is needed for it.
//! * No verdict is wrong: a single part that is not the truth, or with a cause that is not, and more than two parts.
//! * At most one in ten is undecided: the truth is one of two parts that are named.
//! * Where nothing of the server's machine is seen, an undecided verdict says so and prints the command that separates the
//!   parts.
//!
//! # What it does not do
//!
//! It is left out of `cargo xtask test`: it takes half an hour.

mod start;
mod systems;

use outboard_tests::image::Folder;
use serde_json::Value;
use testkit::requires;

use self::start::start;
use self::systems::RiggedSystem;
use super::network::{Network, can_make_networks};
use super::{alone, diagnoses, doctor, limiter};

/// Set by `cargo xtask soak doctor`, which runs the table by itself: it prints a line for each system as it ends.
const TABLE: &str = "OUTBOARD_DOCTOR_TABLE";
/// Only systems with this in their titles are examined.
const SYSTEMS: &str = "OUTBOARD_DOCTOR_SYSTEMS";

/// For each verdict.
const SECONDS: u32 = 20;
/// For each verdict where nothing of the server's machine is seen: as long as the doctor takes by default. There pairs of
/// measurements decide, which scatter where they are short.
const SECONDS_UNSEEN: u32 = 60;
/// The least number of systems that the table has, and that are graded.
const SYSTEMS_MIN: usize = 60;
/// The least number of them that are written.
const WRITTEN_MIN: usize = 8;

/// Whether a system that cannot be started is a failure.
fn requires_all() -> bool {
    std::env::var_os(requires::REQUIRE_ALL).is_some_and(|value| value == "1")
}

fn grade(diagnosed: &Value, truth: (&str, &str)) -> &'static str {
    let named = limiter(diagnosed);
    let cause = diagnosed["verdict"]["cause"]["kind"].as_str();
    match named.as_slice() {
        [only] if only == truth.0 && (truth.1.is_empty() || Some(truth.1) == cause) => "right",
        [one, other] if one == truth.0 || other == truth.0 => "undecided",
        _ => "WRONG",
    }
}

/// Whether an undecided verdict prints how an agent on the server's machine separates what is named.
fn prints_command(diagnosed: &Value) -> bool {
    let advice = diagnosed["verdict"]["advice"].as_str().unwrap_or_default();
    let has = |text: &str| advice.contains(text);
    has("cannot be separated from here") && has("outboard agent --listen") && has(" --agent ")
}

/// What was measured, a line each: why the verdict is not right.
fn figures(examination: &Value) -> String {
    let list = |key: &str| examination[key].as_array().cloned().unwrap_or_default();
    let lines = ["bounds", "substitutions", "signs", "unmeasured"]
        .into_iter()
        .flat_map(|key| {
            list(key)
                .into_iter()
                .map(move |one| format!("    {key}: {one}"))
        });
    let times = ["rate", "best", "connect", "greeting"];
    let times = times.map(|key| format!("    {key}: {}", examination[key]));
    lines.chain(times).collect::<Vec<_>>().join("\n")
}

/// Sets up a system and examines it: its grade, with a line of the table. None where this machine lacks something for it.
fn graded(system: &RiggedSystem, network: &Network) -> Option<&'static str> {
    let folder = Folder::new();
    let Some(server) = start(system, &folder, network) else {
        eprintln!("| {} | | | | skipped |", system.title());
        return None;
    };
    let holds_near_end = system.is_far && !system.is_read();
    if holds_near_end {
        network.hold_near_end(100);
    }
    let agent = system
        .with_agent
        .then(|| network.agent(&folder, &["--allow-iperf3"]));
    let seconds = match system.is_unseen() {
        true => SECONDS_UNSEEN,
        false => SECONDS,
    };
    let mut command = doctor(&folder, seconds, &[&server.target]);
    command.args(system.options);
    server
        .runtime()
        .map(|folder| command.env("OUTBOARD_RUNTIME_DIR", folder));
    if let Some((_, address)) = &agent {
        command.args(["--agent", address, "--agent-insecure"]);
        command.args(["--agent-token-file", &folder.at("token")]);
    }
    if system.has_link_speed {
        command = network.with_link_speed(&folder, &command);
    }
    let diagnosed = diagnoses(&mut command)[system.answer].clone();
    let grade = match grade(&diagnosed, system.truth) {
        "undecided" if system.is_unseen() && !prints_command(&diagnosed) => "WRONG",
        grade => grade,
    };
    let rate = diagnosed["examination"]["rate"]
        .as_f64()
        .unwrap_or_default()
        / 1e6;
    let named = limiter(&diagnosed).join(", ");
    let why = diagnosed["verdict"]["cause"]["kind"].as_str();
    let why = why.unwrap_or_default();
    let (part, cause) = system.truth;
    eprintln!(
        "| {} | {rate:.1} | {part} {cause} | {named} {why} | {grade} |",
        system.title()
    );
    if grade != "right" {
        eprintln!("{}", figures(&diagnosed["examination"]));
    }
    server.end();
    if holds_near_end {
        network.free_near_end();
    }
    Some(grade)
}

#[test]
fn a_wrong_cause_and_more_than_two_parts_are_wrong() {
    let diagnosed = |limiter: &[&str], cause: &str| {
        let verdict = serde_json::json!({ "limiter": limiter, "cause": { "kind": cause } });
        serde_json::json!({ "verdict": verdict })
    };
    let truth = ("server", "quota");
    for (limiter, cause, expected) in [
        (&["server"][..], "quota", "right"),
        (&["server"], "crowded", "WRONG"),
        (&["wire"], "quota", "WRONG"),
        (&["wire", "server"], "", "undecided"),
        (&["wire", "disk"], "", "WRONG"),
        (&["wire", "server", "disk"], "", "WRONG"),
        (&[], "", "WRONG"),
    ] {
        assert_eq!(
            grade(&diagnosed(limiter, cause), truth),
            expected,
            "{limiter:?} {cause}"
        );
    }
}

#[test]
fn the_table_has_systems_of_each_kind_under_titles_of_their_own() {
    let mut titles: Vec<String> = systems::all().iter().map(|one| one.title()).collect();
    assert!(titles.len() >= SYSTEMS_MIN, "{}", titles.len());
    let written = systems::all();
    let written = written.iter().filter(|one| !one.is_read());
    assert!(written.count() >= WRITTEN_MIN);
    titles.sort_unstable();
    titles.dedup();
    assert_eq!(titles.len(), systems::all().len());
}

#[test]
fn every_rigged_system_gets_the_right_verdict() {
    if std::env::var_os(TABLE).is_none() {
        return;
    }
    let needs = ["nbdkit", "qemu-nbd", "nbd-server"].map(requires::command);
    if !can_make_networks() || !requires::all(&needs) {
        return;
    }
    let _alone = alone();
    let network = Network::new();
    let mut grades: Vec<&str> = Vec::new();
    let wanted = std::env::var(SYSTEMS).unwrap_or_default();
    for system in systems::all()
        .into_iter()
        .filter(|system| system.title().contains(&wanted))
    {
        match graded(&system, &network) {
            Some(grade) => grades.push(grade),
            None => assert!(!requires_all(), "{} was not graded", system.title()),
        }
    }
    let count = |wanted: &str| grades.iter().filter(|grade| **grade == wanted).count();
    eprintln!(
        "{} systems: {} right, {} undecided",
        grades.len(),
        count("right"),
        count("undecided")
    );
    assert_eq!(count("WRONG"), 0);
    // A machine that lacks something grades what it can, unless it should have everything.
    let wanted_min = match (wanted.is_empty(), requires_all()) {
        (true, true) => SYSTEMS_MIN,
        _ => 1,
    };
    assert!(grades.len() >= wanted_min, "{} graded", grades.len());
    let undecided = count("undecided");
    // Of a few systems that were chosen, one may be.
    assert!(undecided * 10 <= grades.len() || (!wanted.is_empty() && undecided <= 1));
}
