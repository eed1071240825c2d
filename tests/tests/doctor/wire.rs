//! A wire that carries less than everything else, and a disk that carries a little less than the wire.

use outboard_tests::attachment::World;
use outboard_tests::image::Folder;
use serde_json::Value;
use testkit::requires;

use super::network::{Network, WIRE, can_make_networks};
use super::{
    AnswerGrade, SECONDS, alone, diagnoses_until, doctor, doctor_in, names, names_for,
    runs_long_tests,
};

#[test]
fn a_slow_wire_is_named_and_distinguished_from_a_slow_server() {
    if !can_make_networks() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let network = Network::new();
    let (_server, address) = network.serve(&folder, &["m=memory(64M)", "n=null(1G)"]);
    let uri = format!("nbd://{address}/m");
    let (_agent, agent) = network.agent(&folder, &[]);
    let token = folder.at("token");
    // An export without data behind the same wire is no faster.
    let is_no_faster = "it is not the disk";
    let told = names_for(&["wire"], is_no_faster, |seconds| {
        let mut command = doctor(
            &folder,
            seconds,
            &[&uri, "--agent", &agent, "--agent-insecure"],
        );
        command.args(["--agent-token-file", &token]);
        command
    });
    // The agent there sees the server, which is hardly busy.
    let bounds = told["examination"]["bounds"].to_string();
    assert!(bounds.contains("the server on"), "{bounds}");
    let rate = told["examination"]["rate"].as_f64().unwrap();
    assert!(rate < WIRE * 1.1, "{rate} is more than the wire carries");
    let evidence = told["verdict"]["evidence"].to_string();
    let waits = "Packets wait in front of the wire";
    assert!(evidence.contains(waits), "{evidence}");
    // It was not measured by itself, and that is reported.
    assert_eq!(told["examination"]["wire"], Value::Null);
    let unknown = told["verdict"]["unknown"].to_string();
    assert!(unknown.contains("wire: by itself, both ways"), "{unknown}");
}

/// The near end is held to half of the far one's rate, so that the two directions can be distinguished.
#[test]
fn the_wire_is_measured_by_itself_both_ways() {
    if !runs_long_tests() {
        return;
    }
    if !can_make_networks() || !requires::all(&[requires::command("iperf3")]) {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let network = Network::new();
    network.hold_near_end(50);
    let (_server, address) = network.serve(&folder, &["m=memory(64M)", "n=null(1G)"]);
    let uri = format!("nbd://{address}/m");
    let (_agent, agent) = network.agent(&folder, &["--allow-iperf3"]);
    let token = folder.at("token");
    let told = names(&["wire"], |seconds| {
        // iperf3 takes whole seconds.
        let args = [&uri, "--agent", &agent, "--agent-insecure"];
        let mut command = doctor(&folder, seconds * 3, &args);
        command.args(["--agent-token-file", &token]);
        command
    });
    let wire = &told["examination"]["wire"];
    let rate = |way: &str| wire[way].as_f64().unwrap_or_else(|| panic!("{told:#}"));
    // TCP leaves at least 90 % of such a rate to its bytes, and never has more; a burst comes on top.
    let (down, up) = (rate("down"), rate("up"));
    assert!((WIRE * 0.8..WIRE * 1.05).contains(&down), "{down}");
    assert!((WIRE * 0.4..WIRE * 0.525).contains(&up), "{up}");
    let bounds = told["examination"]["bounds"].to_string();
    assert!(
        bounds.contains("iperf3 from the server to here"),
        "{bounds}"
    );
    let evidence = told["verdict"]["evidence"].to_string();
    assert!(evidence.contains("iperf3"), "{evidence}");
    // Such a link claims to be a hundred times as fast, which is reported with the rest.
    let against = told["verdict"]["contradictions"].to_string();
    assert!(against.contains("says it is a link of"), "{against}");
}

/// The disk carries 0.75 of the wire: near enough to the wire's end that its bound alone would be named.
#[test]
fn a_disk_that_is_a_little_slower_than_the_wire_is_named() {
    if !runs_long_tests() {
        return;
    }
    if !can_make_networks() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let network = Network::new();
    let disks = ["d=throttle(memory(64M), read-bytes=9M/s)", "n=null(1G)"];
    let (_server, address) = network.serve(&folder, &disks);
    let uri = format!("nbd://{address}/d");
    let (_agent, agent) = network.agent(&folder, &[]);
    let token = folder.at("token");
    let told = names(&["disk"], |seconds| {
        let args = [&uri, "--agent", &agent, "--agent-insecure"];
        let mut command = doctor(&folder, seconds * 2, &args);
        command.args(["--agent-token-file", &token]);
        command
    });
    let evidence = told["verdict"]["evidence"].to_string();
    assert!(evidence.contains("times as fast"), "{evidence}");
    let next = told["verdict"]["next"]["rate"]
        .as_f64()
        .expect("a next bottleneck");
    assert!((WIRE * 0.85..WIRE * 1.1).contains(&next), "{next}");
}

/// The link reports a hundred times what the queue behind it lets through, so iperf3 is what knows.
#[test]
fn a_wire_is_named_for_writes_to_what_is_mounted() {
    if !runs_long_tests() {
        return;
    }
    let Some(world) = World::new() else {
        return;
    };
    let needs = [requires::command("iperf3"), requires::command("fio")];
    if !can_make_networks() || !requires::all(&needs) {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let network = Network::new();
    network.hold_near_end(100);
    let (_server, address) = network.serve(&folder, &["m=delay(memory(192M), flush=40ms)"]);
    let (_agent, agent) = network.agent(&folder, &["--allow-iperf3"]);
    let token = folder.at("token");
    let point = world.mount_point();
    let uri = format!("nbd://{address}/m");
    world.attachment(&uri).on(&point).ext4().device();
    let right = |all: &Value| AnswerGrade::of_parts(&all[1], &["wire"]);
    let found = diagnoses_until((24, 24 << 3), right, |seconds| {
        let args = [&point, "--write", "--agent", &agent, "--agent-insecure"];
        let mut command = doctor_in(&world, &folder, seconds, &args);
        command.args(["--agent-token-file", &token]);
        command
    });
    let all = found.unwrap_or_else(|wrong| panic!("{wrong:#?}"));
    let writes = &all[1];
    let evidence = writes["verdict"]["evidence"].to_string();
    assert!(evidence.contains("to the server"), "{evidence}");
    // A slow flush is reported apart from the writes that it does not slow down.
    let flush = writes["examination"]["flush"]["flush"].as_u64();
    assert!(flush.is_some_and(|nanos| nanos >= 20_000_000), "{flush:?}");
    world.run(&["detach", &point]).ok();
    world.assert_clean();
}

/// The link reports what it carries, and nothing else on the way is known: no agent, no iperf3.
#[test]
fn a_link_of_known_speed_is_named_for_reads_and_writes_of_what_is_mounted() {
    if !runs_long_tests() {
        return;
    }
    let Some(world) = World::new() else {
        return;
    };
    let needs = [requires::command("unshare"), requires::command("fio")];
    if !can_make_networks() || !requires::all(&needs) {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let network = Network::new();
    network.hold_near_end(100);
    let (_server, address) = network.serve(&folder, &["m=memory(192M)"]);
    let point = world.mount_point();
    world
        .attachment(&format!("nbd://{address}/m"))
        .on(&point)
        .ext4()
        .device();
    let of_one = |one: &Value| AnswerGrade::of_parts(one, &["wire"]);
    let right = |all: &Value| of_one(&all[0]).max(of_one(&all[1]));
    let found = diagnoses_until((SECONDS * 2, SECONDS << 4), right, |seconds| {
        let command = doctor_in(&world, &folder, seconds, &[&point, "--write"]);
        network.with_link_speed(&folder, &command)
    });
    world.run(&["detach", &point]).ok();
    let all = found.unwrap_or_else(|wrong| panic!("{wrong:#?}"));
    for at in 0..2 {
        let bounds = all[at]["examination"]["bounds"].to_string();
        assert!(bounds.contains(&network.link), "{bounds}");
    }
    world.assert_clean();
}
