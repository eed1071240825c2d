//! What is advised, applied for real: what was predicted is reached, and the next bottleneck, where one is named, is the one
//! that is met then. Each system is limited by rates and times that were built in, so that no processor is needed for it.

use std::process::Command;

use outboard_tests::image::Folder;
use outboard_tests::said;
use outboard_tests::server::{By, Server};
use serde_json::Value;
use testkit::requires;

use super::competition::assert_predicted;
use super::network::{Network, can_make_networks};
use super::servers::{QuotaGroup, start};
use super::{AnswerGrade, alone, doctor, names, runs_long_tests};

/// `before` names `part` as the next bottleneck. Once the advice is applied, the rate is what it predicts, within 15 %, and
/// `part` is the one that is met.
#[track_caller]
fn assert_met(before: &Value, part: &str, applied: impl FnMut(u32) -> Command) {
    assert_eq!(before["verdict"]["next"]["part"], part, "{before:#}");
    let is_met = |after: &Value| AnswerGrade::of_parts(after, &[part]);
    assert_predicted(before, is_met, applied);
}

/// The number of requests that are advised to be in flight.
#[track_caller]
fn advised_depth(verdict: &Value) -> u32 {
    let advice = verdict["verdict"]["advice"].as_str().unwrap_or_default();
    let depth = advice.split_once("about ").and_then(|(_, rest)| {
        let (depth, _) = rest.split_once(' ')?;
        depth.parse().ok()
    });
    depth.unwrap_or_else(|| panic!("no depth is advised: {advice}"))
}

/// Each request takes 25 ms, and as many as one likes run at once, up to 14 MB/s of the disk.
#[test]
fn as_many_requests_as_advised_reach_the_next_bottleneck() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let disk = "d=delay(throttle(memory(64M), read-bytes=14000000/s), read=25ms)";
    let server = Server::start(&[disk]);
    let uri = server.uri_by(By::Unix, "d");
    let before = names(&["queue"], |seconds| {
        doctor(&folder, seconds, &[&uri, "--depth", "1"])
    });
    let depth = advised_depth(&before).to_string();
    assert_met(&before, "disk", |seconds| {
        doctor(&folder, seconds, &[&uri, "--depth", &depth])
    });
}

/// The server may have a hundredth of a core, and its disk carries 12 MB/s.
#[test]
fn a_quota_that_is_raised_gives_way_to_the_next_bottleneck() {
    if !runs_long_tests() || !requires::all(&[requires::root()]) {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let Some(group) = QuotaGroup::new(1) else {
        return;
    };
    let disk = "d=throttle(memory(64M), read-bytes=12000000/s)";
    let mut serve = said::outboard(&["serve", disk, "n=null(1G)", "--listen"]);
    serve.arg(format!("unix:{}", folder.at("socket")));
    let (server, uri) = start(&folder, group.inside(&serve), "d");
    let command = |seconds| {
        // One request alone waits for the quota, too, so that fewer at once seem to carry less than the disk.
        let args = [&uri, "--block-size", "16K", "--random", "--depth", "64"];
        doctor(&folder, seconds, &args)
    };
    let before = names(&["server"], command);
    assert_eq!(before["verdict"]["cause"]["kind"], "quota", "{before:#}");
    assert!(group.set(100));
    assert_met(&before, "disk", command);
    drop(server);
}

/// The wire carries 100 Mb/s, and the disk 20 MB/s; that is known, because the server's process can be looked at.
#[test]
fn a_wire_that_is_widened_gives_way_to_the_next_bottleneck() {
    if !runs_long_tests() || !can_make_networks() || !requires::all(&[requires::command("iperf3")])
    {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let network = Network::new();
    let disks = [
        "d=throttle(memory(64M), read-bytes=20000000/s)",
        "n=null(1G)",
    ];
    let (server, address) = network.serve(&folder, &disks);
    let (_agent, agent) = network.agent(&folder, &["--allow-iperf3"]);
    let (uri, token) = (format!("nbd://{address}/d"), folder.at("token"));
    let process = server.id().to_string();
    let command = |seconds: u32| {
        let args = [&uri, "--agent", &agent, "--agent-insecure"];
        let mut command = doctor(&folder, seconds * 2, &args);
        command.args(["--agent-token-file", &token, "--server-pid", &process]);
        command
    };
    let before = names(&["wire"], command);
    network.set_rate(1000);
    assert_met(&before, "disk", command);
}
