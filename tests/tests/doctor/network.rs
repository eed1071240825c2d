//! A wire of a known rate: a network namespace behind a queue.
//!
//! # Invariants
//!
//! * What leaves the far end is held to 100 Mb/s, or to what [`Network::set_rate`] says.
//! * The other direction is free, unless [`Network::hold_near_end`] holds it too.
//! * The namespace and its link are removed when it is dropped.

use std::process::Command;

use outboard_tests::image::Folder;
use outboard_tests::said;
use outboard_tests::server::LIMIT;
use testkit::proc::Process;
use testkit::requires;

use super::around;

/// What the wire carries, bytes a second.
pub(super) const WIRE: f64 = 12.5e6;

/// Another network on this machine; gone when dropped.
pub(super) struct Network {
    name: String,
    pub(super) link: String,
    pub(super) subnet: String,
}

impl Network {
    pub(super) fn new() -> Self {
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

    /// Lets the wire carry so many Mb/s from the far end from now on.
    pub(super) fn set_rate(&self, mbit: u32) {
        let (name, link) = (&self.name, &self.link);
        let change = format!(
            "ip netns exec {name} tc qdisc change dev {link}f root tbf rate {mbit}mbit burst 512kb latency 50ms"
        );
        let done = step_of(&change).status();
        assert!(done.is_ok_and(|done| done.success()), "{change}");
    }

    /// Holds what leaves the near end to so many Mb/s, too.
    pub(super) fn hold_near_end(&self, mbit: u32) {
        let slower = format!(
            "tc qdisc add dev {} root tbf rate {mbit}mbit burst 64kb latency 50ms",
            self.link
        );
        assert!(step_of(&slower).status().is_ok_and(|done| done.success()));
    }

    /// Lets what leaves the near end go as fast as it can again.
    pub(super) fn free_near_end(&self) {
        let free = format!("tc qdisc del dev {} root", self.link);
        assert!(step_of(&free).status().is_ok_and(|done| done.success()));
    }

    /// `command` where the near end says that it is a link of 100 Mb/s, as a card for such a wire does: a virtual one says
    /// that it carries 10 Gb/s.
    pub(super) fn with_link_speed(&self, folder: &Folder, command: &Command) -> Command {
        let speed = folder.at("speed");
        std::fs::write(&speed, "100\n").expect("a file that is written");
        let script = format!(
            "mount --bind {speed} /sys/class/net/{}/speed && exec \"$@\"",
            self.link
        );
        let mut inside = Command::new("unshare");
        inside.args(["--mount", "sh", "-c", &script, "sh"]);
        around(inside, command)
    }

    /// `words` as a command on the other side.
    pub(super) fn inside(&self, words: &[&str]) -> Command {
        let mut command = step_of(&format!("ip netns exec {}", self.name));
        command.args(words);
        command
    }

    /// A server of `disks` on the other side, and its address.
    pub(super) fn serve(&self, folder: &Folder, disks: &[&str]) -> (Process, String) {
        self.serve_as(folder, disks, |serve| serve)
    }

    /// [`Network::serve`], where `wrap` makes the command that runs the server.
    pub(super) fn serve_as(
        &self,
        folder: &Folder,
        disks: &[&str],
        wrap: impl FnOnce(Command) -> Command,
    ) -> (Process, String) {
        let port_file = folder.path().join("port");
        let mut serve = said::outboard(&["serve"]);
        serve.args(disks).args(["--insecure", "--listen"]);
        serve
            .arg(format!("{}.2:0", self.subnet))
            .arg("--port-file")
            .arg(&port_file);
        let mut command = around(self.inside(&[]), &wrap(serve));
        let mut server = Process::start(&mut command).expect("a server");
        let port = server.wait_for_file(&port_file, LIMIT).expect("it listens");
        (server, format!("{}.2:{port}", self.subnet))
    }

    /// An agent on the other side that may do this, and its address.
    pub(super) fn agent(&self, folder: &Folder, may: &[&str]) -> (Process, String) {
        let port_file = folder.path().join("agent-port");
        let mut agent = said::outboard(&["agent", "--insecure", "--listen"]);
        agent.arg(format!("{}.2:0", self.subnet));
        agent
            .args(["--token-file", &folder.at("token"), "--port-file"])
            .arg(&port_file)
            .args(may);
        let mut command = around(self.inside(&[]), &agent);
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
pub(super) fn can_make_networks() -> bool {
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
