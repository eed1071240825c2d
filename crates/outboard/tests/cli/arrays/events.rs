//! Array events: the program that runs at them, and the metrics.

use super::super::{answer, metrics_address, scrape};
use super::{images, mirror, serving, within_a_minute};

#[test]
fn a_program_is_run_for_each_event_with_mdadms_names() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = images(&["a.img", "b.img", "c.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    let program = path.join("told.sh");
    let script = "#!/bin/sh\nprintf '%s\\n' \"$*\" >> \"$(dirname \"$0\")/told\"\n";
    std::fs::write(&program, script).expect("a script");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let program = program.to_str().expect("text").to_owned();
    let (_server, _) = serving(path, &["a.img", "b.img"], &["--on-event", &program]);
    answer(path, &["array", "wait", "media"]);
    answer(path, &["array", "fail", "media", "--member", "b.img"]);
    answer(
        path,
        &["array", "add", "media", "--disk", "c.img", "--wait"],
    );
    let c = path.join("c.img");
    let last = format!("SpareActive media {}", c.display());
    let told = within_a_minute(|| {
        let told = std::fs::read_to_string(path.join("told")).unwrap_or_default();
        let done = told.contains(&last) && told.matches("RebuildFinished").count() >= 2;
        done.then_some(told)
    });
    let lines: Vec<&str> = told.lines().collect();
    let place = |wanted: &str| {
        let found = lines.iter().rposition(|line| *line == wanted);
        found.unwrap_or_else(|| panic!("no {wanted} in {lines:?}"))
    };
    assert!(place("Fail media b.img") < place("DegradedArray media"));
    assert!(place("DegradedArray media") < place("RebuildStarted media"));
    assert!(place("RebuildStarted media") < place(&last));
}

#[test]
fn metrics_have_the_state_of_an_array() {
    let folder = images(&["a.img", "b.img"]);
    let path = folder.path();
    mirror(path, &["a.img", "b.img"]);
    let (_server, _) = serving(path, &["a.img", "b.img"], &["--metrics", "127.0.0.1:0"]);
    answer(path, &["array", "wait", "media"]);
    answer(path, &["array", "fail", "media", "--member", "b.img"]);
    let servers = super::json(path, &["status"])["servers"].clone();
    let text = scrape(metrics_address(&servers[0]));
    let value = |name: &str, more: &str| {
        let is_meant = |line: &&str| line.starts_with(name) && line.contains(more);
        let line = text.lines().find(is_meant);
        let line = line.unwrap_or_else(|| panic!("no {name} {more} in {text}"));
        line.rsplit(' ').next().expect("a value").to_owned()
    };
    assert_eq!(value("outboard_array_degraded{", "export=\"films\""), "1");
    assert_eq!(value("outboard_array_members{", "state=\"in_sync\""), "1");
    assert_eq!(value("outboard_array_members{", "state=\"failed\""), "1");
}
