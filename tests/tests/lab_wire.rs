//! The lab against a wire with a known rate: a network namespace of its own, the loopback in it held to
//! 160 Mb/s. The interface itself claims no speed, so the lab knows only what it carried.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outboard_tests::attachment::World;
use outboard_tests::said;
use serde_json::Value;
use testkit::requires;

/// Bits per second that the wire carries, with all headers.
const WIRE: f64 = 160e6;

/// Of a run over it.
const LIMIT: Duration = Duration::from_secs(180);

const PLAN: &str = r#"
name = "wire"
summary = "What a slow wire gives."
[data]
size = "16M"
layout_ms = 20000
[budget]
blocks_min = 1
blocks_max = 1
time_ms = 60000
limit_ms = 60000
precision = 0.03
[[workload]]
name = "read"
title = "Read"
pattern = "sequential"
direction = "read"
block_size = "128K"
depth = 4
jobs = 1
runtime_ms = 1500
[[workload]]
name = "buffered"
title = "Read through the page cache"
pattern = "sequential"
direction = "read"
block_size = "128K"
depth = 1
jobs = 1
runtime_ms = 1500
buffered = true
[[workload]]
name = "write"
title = "Write"
pattern = "sequential"
direction = "write"
block_size = "128K"
depth = 4
jobs = 1
runtime_ms = 1500
"#;

/// Server, attachment and lab, all in one network namespace; $0 is our binary, $1 the folder.
const SCRIPT: &str = r#"
set -e
cd "$1"
ip link set lo up mtu 1500
tc qdisc add dev lo root tbf rate 160mbit burst 32kb latency 200ms
"$0" serve 'disk=memory(128M)' --listen 127.0.0.1:0 --port-file port > serve.log 2>&1 &
server=$!
trap 'kill $server; wait $server || true' EXIT
n=0
while [ ! -s port ]; do n=$((n+1)); [ $n -lt 400 ]; sleep 0.05; done
"$0" attach "nbd://127.0.0.1:$(cat port)/disk" --via fuse --mkfs ext4 --mount mnt > device
ended=0
"$0" --json lab run p.toml mnt --store lab.sqlite > out.json || ended=$?
"$0" detach --all > detached
exit $ended
"#;

fn measured(world: &World, folder: &Path) -> Value {
    std::fs::create_dir_all(folder.join("mnt")).expect("a folder to mount on");
    std::fs::write(folder.join("p.toml"), PLAN).expect("a plan");
    let like = world.outboard(&[]);
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", SCRIPT]);
    command.arg(like.get_program()).arg(folder);
    for (key, value) in like.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    said::run_within(&mut command, LIMIT).ok();
    let text = std::fs::read_to_string(folder.join("out.json")).expect("the output of the run");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_run_against_a_rate_limited_wire_never_shows_more_than_the_wire() {
    let needs = [
        requires::command("unshare"),
        requires::command("tc"),
        requires::command("ip"),
        requires::command("fio"),
    ];
    if !requires::all(&needs) {
        return;
    }
    let Some(world) = World::new() else { return };
    let folder = PathBuf::from(world.at("wire"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let told = measured(&world, &folder);
    world.assert_clean();
    let rows = told["summary"]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 3);
    for row in rows {
        let valid = row["validity"]["validity"] != "invalid";
        let rate = row["rate"]["median"].as_f64().unwrap_or(0.0);
        assert!(
            !valid || rate <= WIRE / 8.0,
            "{}: {rate} bytes/s over a wire of {} bytes/s: {}",
            row["title"],
            WIRE / 8.0,
            row["validity"]
        );
    }
    // The direct tests are neither marked nor empty: it was the wire that was measured.
    for direct in [&rows[0], &rows[2]] {
        assert_ne!(direct["validity"]["validity"], "invalid", "{direct}");
        let rate = direct["rate"]["median"].as_f64().expect("a rate");
        assert!(rate > WIRE / 8.0 / 10.0, "{rate}");
    }
    for cell in told["run"]["cells"].as_array().expect("measurements") {
        let carried = &cell["evidence"]["carried"];
        assert_eq!(carried["interface"], "lo", "{cell}");
        assert!(carried["bytes"].as_u64() > Some(1 << 20), "{carried}");
    }
}
