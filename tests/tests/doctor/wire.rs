//! A wire that carries less than everything else: a network namespace behind a queue of a known rate.

use std::process::Command;

use outboard_tests::image::Folder;
use outboard_tests::said;
use outboard_tests::server::LIMIT;
use testkit::proc::Process;
use testkit::requires;

use super::{alone, doctor, names, names_for};

/// What the wire carries, bytes a second.
const WIRE: f64 = 12.5e6;

/// Another network on this machine; gone when dropped.
struct Network {
    name: String,
    link: String,
    subnet: String,
}

impl Network {
    fn new() -> Self {
        let id = std::process::id();
        let network = Self {
            name: format!("obdoctor{id}"),
            link: format!("obd{id}"),
            subnet: format!("10.213.{}", id % 250),
        };
        let Self { name, link, subnet } = &network;
        let far = format!("{link}f");
        let inside = |words: &str| format!("ip netns exec {name} {words}");
        for step in [
            format!("ip netns add {name}"),
            format!("ip link add {link} type veth peer name {far}"),
            format!("ip link set {far} netns {name}"),
            format!("ip addr add {subnet}.1/24 dev {link}"),
            format!("ip link set {link} up"),
            inside(&format!("ip addr add {subnet}.2/24 dev {far}")),
            inside(&format!("ip link set {far} up")),
            // What is read leaves through the far end.
            inside(&format!(
                "tc qdisc add dev {far} root tbf rate 100mbit burst 64kb latency 50ms"
            )),
        ] {
            let done = step_of(&step).status();
            assert!(done.is_ok_and(|done| done.success()), "{step}");
        }
        network
    }
}

impl Network {
    /// An agent on the other side that may do this, and its address.
    fn agent(&self, folder: &Folder, may: &[&str]) -> (Process, String) {
        let port_file = folder.path().join("agent-port");
        let mut command = step_of(&format!("ip netns exec {}", self.name));
        command
            .arg(said::outboard(&[]).get_program())
            .args(["agent", "--insecure", "--listen"]);
        command.arg(format!("{}.2:0", self.subnet));
        command
            .args(["--token-file", &folder.at("token"), "--port-file"])
            .arg(&port_file)
            .args(may);
        let mut agent = Process::start(&mut command).expect("an agent");
        let port = agent.wait_for_file(&port_file, LIMIT).expect("it listens");
        (agent, format!("{}.2:{port}", self.subnet))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for step in [
            format!("ip link del {}", self.link),
            format!("ip netns del {}", self.name),
        ] {
            drop(step_of(&step).status());
        }
    }
}

fn step_of(step: &str) -> Command {
    let mut words = step.split(' ');
    let mut command = Command::new(words.next().expect("a command has a word"));
    command.args(words);
    command
}

/// Whether networks can be made and held to a rate here.
fn can_make_networks() -> bool {
    let needs = [
        requires::root(),
        requires::command("ip"),
        requires::command("tc"),
    ];
    if !requires::all(&needs) {
        return false;
    }
    let name = format!("obtry{}", std::process::id());
    let made = step_of(&format!("ip netns add {name}")).output();
    let works = made.is_ok_and(|made| made.status.success());
    if !works {
        eprintln!("skipped: no network namespaces here");
    }
    drop(step_of(&format!("ip netns del {name}")).output());
    works
}

/// A server on the other side, and its export.
fn server(network: &Network, folder: &Folder) -> (Process, String) {
    let port_file = folder.path().join("port");
    let mut command = step_of(&format!("ip netns exec {}", network.name));
    command.arg(said::outboard(&[]).get_program());
    command.args([
        "serve",
        "m=memory(64M)",
        "n=null(1G)",
        "--insecure",
        "--listen",
    ]);
    command
        .arg(format!("{}.2:0", network.subnet))
        .arg("--port-file")
        .arg(&port_file);
    let mut server = Process::start(&mut command).expect("a server");
    let port = server.wait_for_file(&port_file, LIMIT).expect("it listens");
    let uri = format!("nbd://{}.2:{port}/m", network.subnet);
    (server, uri)
}

#[test]
fn a_slow_wire_is_named_and_distinguished_from_a_slow_server() {
    if !can_make_networks() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let network = Network::new();
    let (_server, uri) = server(&network, &folder);
    let (_agent, agent) = network.agent(&folder, &[]);
    let token = folder.at("token");
    let waits = "Packets wait in front of the wire";
    let told = names_for(&["wire"], waits, |seconds| {
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
    // An export without data behind the same wire is no faster.
    assert!(evidence.contains("it is not the disk"), "{evidence}");
    // It was not measured by itself, and that is reported.
    assert_eq!(told["examination"]["wire"], serde_json::Value::Null);
    let unknown = told["verdict"]["unknown"].to_string();
    assert!(unknown.contains("wire: by itself, both ways"), "{unknown}");
}

/// The near end is held to half of the far one's rate, so that the two directions can be distinguished.
#[test]
fn the_wire_is_measured_by_itself_both_ways() {
    if !can_make_networks() || !requires::all(&[requires::command("iperf3")]) {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let network = Network::new();
    let slower = format!(
        "tc qdisc add dev {} root tbf rate 50mbit burst 64kb latency 50ms",
        network.link
    );
    assert!(step_of(&slower).status().is_ok_and(|done| done.success()));
    let (_server, uri) = server(&network, &folder);
    let (_agent, agent) = network.agent(&folder, &["--allow-iperf3"]);
    let token = folder.at("token");
    let told = names(&["wire"], |seconds| {
        // iperf3 takes whole seconds.
        let args = [&uri, "--agent", &agent, "--agent-insecure"];
        let mut command = doctor(&folder, seconds * 4, &args);
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
