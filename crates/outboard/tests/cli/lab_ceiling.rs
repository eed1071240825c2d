//! A result above what a target can carry: `lab run` of a tool that the page cache answers.

use std::fs;

use serde_json::Value;
use testkit::requires;

use super::answer;

/// A disk of 6 MiB/s behind a server, with a tool that writes to the page cache, and reads that go past it.
const PLAN: &str = r#"
name = "above-the-wire"
summary = "dbench on a slow wire."

[data]
size = "16M"
layout_ms = 20000

[budget]
blocks_min = 1
blocks_max = 1
time_ms = 20000
limit_ms = 60000
precision = 0.5

[[target]]
name = "slow-wire"
title = "A slow wire"
kind = "served"
disk = "throttle({a}, bytes=6M/s, burst=64K)"
images = [{ name = "a", size = "96M" }]
filesystem = "ext4"
transport = "tcp"

[[workload]]
name = "dbench"
title = "dbench, 2 clients"
tool = "dbench"
clients = 2
runtime_ms = 3000

[[workload]]
name = "read"
title = "Sequential read"
pattern = "sequential"
direction = "read"
block_size = "128K"
depth = 4
jobs = 1
runtime_ms = 1000
"#;

#[test]
fn a_tool_that_is_faster_than_the_throttle_of_its_disk_has_no_valid_result() {
    let machine = [requires::root(), requires::fuse(), requires::loop_device()];
    let programs = ["fio", "dbench", "mkfs.ext4"].map(requires::command);
    if !requires::all(&[&programs[..], &machine[..]].concat()) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("base")).expect("a folder");
    fs::write(folder.path().join("p.toml"), PLAN).expect("a plan");
    let printed = answer(folder.path(), &["lab", "run", "p.toml", "base"]);
    assert!(printed.contains("the throttle of its disk"), "{printed}");
    let exported = answer(folder.path(), &["lab", "export"]);
    let exported: Value = serde_json::from_str(&exported).expect("JSON");
    // What goes past the page cache is as fast as the throttle, and valid.
    let invalid = |workload: u64| {
        let cells = exported["run"]["cells"].as_array().into_iter().flatten();
        let of_workload = cells.filter(move |cell| cell["workload"] == workload);
        let findings =
            of_workload.flat_map(|cell| cell["findings"].as_array().into_iter().flatten());
        let above = findings.filter(|one| one["check"] == "ceiling" && one["level"] == "invalid");
        above.map(ToString::to_string).collect::<Vec<_>>()
    };
    let found = invalid(0);
    assert!(
        found.len() == 1 && found[0].contains("the throttle of its disk"),
        "{exported:#}"
    );
    assert_eq!(invalid(1), Vec::<String>::new());
}
