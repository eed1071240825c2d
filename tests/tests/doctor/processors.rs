//! Cores that are wanted by more than one, and encryption.

use std::path::Path;
use std::process::Command;

use outboard_tests::image::Folder;
use outboard_tests::said::{self, run};
use testkit::proc::Process;
use testkit::requires;

use super::network::{Network, can_make_networks};
use super::servers::start;
use super::{alone, around, doctor, names, names_for, runs_long_tests};
use outboard_tests::server::LIMIT;

/// Another process that keeps a core busy, and leaves little of it to processes with a lower priority.
pub(super) fn hog(core: &str) -> Process {
    let mut command = Command::new("taskset");
    command.args(["-c", core, "sh", "-c", "while :; do :; done"]);
    Process::start(&mut command).expect("a process")
}

/// `command` on one core, with less right to it than others.
pub(super) fn pinned(core: &str, command: &Command) -> Command {
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", core, "nice", "-n", "10"]);
    around(pinned, command)
}

fn can_pin() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if cores < 2 {
        eprintln!("skipped: this machine has one core");
        return false;
    }
    requires::all(&[requires::command("taskset"), requires::command("nice")])
}

/// A server of memory on a socket in `folder`.
fn server(folder: &Folder, pin: impl Fn(&Command) -> Command) -> (Process, String) {
    let mut plain = said::outboard(&["serve", "m=memory(64M)", "--listen"]);
    plain.arg(format!("unix:{}", folder.at("socket")));
    start(folder, pin(&plain), "m")
}

#[test]
fn a_server_with_a_core_that_another_process_keeps_busy_is_named() {
    if !can_pin() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let (_server, uri) = server(&folder, |command| pinned("1", command));
    let _hog = hog("1");
    let told = names(&["server"], |seconds| doctor(&folder, seconds, &[&uri]));
    let evidence = told["verdict"]["evidence"].to_string();
    assert!(evidence.contains("other programs"), "{evidence}");
    let advice = told["verdict"]["advice"].to_string();
    assert!(
        advice.contains("Move what else runs on the core"),
        "{advice}"
    );
}

/// The agent sees the server's threads wait, and reads the pressure on that machine.
#[test]
fn a_starved_server_elsewhere_is_named_with_the_pressure_that_its_agent_reads() {
    if !runs_long_tests() || !can_pin() || !can_make_networks() {
        return;
    }
    if !Path::new("/proc/pressure/cpu").exists() {
        eprintln!("skipped: this kernel accounts no pressure");
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let network = Network::new();
    let pin = |serve: Command| pinned("1", &serve);
    let (_server, address) = network.serve_as(&folder, &["m=memory(64M)"], pin);
    let _hog = hog("1");
    network.set_rate(1000);
    let (_agent, agent) = network.agent(&folder, &[]);
    let (uri, token) = (format!("nbd://{address}/m"), folder.at("token"));
    // Small requests take a processor before they fill the wire.
    let options = ["--block-size", "16K", "--random", "--agent", &agent];
    let command = |seconds: u32| {
        let mut command = doctor(&folder, seconds * 2, &[&uri, "--agent-insecure"]);
        command.args(options).args(["--agent-token-file", &token]);
        command
    };
    let found = names_for(&["server"], "/proc/pressure/cpu", command);
    let cause = found["verdict"]["cause"]["kind"].as_str();
    assert_eq!(cause, Some("starved"), "{found:#}");
    let evidence = found["verdict"]["evidence"].to_string();
    assert!(evidence.contains("other programs"), "{evidence}");
}

#[test]
fn a_client_with_a_core_that_another_process_keeps_busy_is_named() {
    if !runs_long_tests() {
        return;
    }
    if !can_pin() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let plain = |command: &Command| {
        let mut same = Command::new("taskset");
        same.args(["-c", "0"]);
        around(same, command)
    };
    let (_server, uri) = server(&folder, plain);
    let _hog = hog("1");
    let told = names(&["client"], |seconds| {
        pinned("1", &doctor(&folder, seconds, &[&uri]))
    });
    let evidence = told["verdict"]["evidence"].to_string();
    assert!(evidence.contains("other programs"), "{evidence}");
}

#[test]
fn encryption_that_takes_most_of_the_time_is_named() {
    if !runs_long_tests() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let certificates = folder.at("certificates");
    run(&mut said::outboard(&["tls", "init", &certificates])).ok();
    let port_file = folder.path().join("port");
    let mut command = said::outboard(&["serve", "m=null(4G)", "--listen", "127.0.0.1:0"]);
    command
        .args(["--tls", &certificates, "--port-file"])
        .arg(&port_file);
    let mut server = Process::start(&mut command).unwrap();
    let port = server.wait_for_file(&port_file, LIMIT).unwrap();
    let uri = format!("nbds://127.0.0.1:{port}/m?tls-certificates={certificates}");
    // With instructions for it, encryption may be less than half of what the processor of this end does.
    let found = names_for(&["cipher", "client"], "of it encryption", |seconds| {
        doctor(&folder, seconds, &[&uri, "--block-size", "1M"])
    });
    let tried = found["examination"]["substitutions"].to_string();
    assert!(tried.contains("in the clear"), "{tried}");
}
