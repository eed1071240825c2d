//! Cores that are wanted by more than one, and encryption.

use std::path::Path;
use std::process::Command;

use outboard_tests::image::Folder;
use outboard_tests::said::{self, run};
use testkit::proc::Process;
use testkit::requires;

use super::network::{Network, can_make_networks};
use super::{alone, doctor, names, names_for, runs_long_tests};
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
    pinned.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => pinned.env(name, value),
            None => pinned.env_remove(name),
        };
    }
    pinned
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
    let socket = folder.path().join("socket");
    let plain = said::outboard(&["serve", "m=memory(64M)"]);
    let mut command = pin(&plain);
    command
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()));
    let mut process = Process::start(&mut command).expect("a server");
    process.wait_for_socket(&socket, LIMIT).expect("it listens");
    (
        process,
        format!("nbd+unix:///m?socket={}", socket.display()),
    )
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
    let port_file = folder.path().join("port");
    let mut serve = said::outboard(&["serve", "m=memory(64M)", "--insecure", "--listen"]);
    serve
        .arg(format!("{}.2:0", network.subnet))
        .arg("--port-file")
        .arg(&port_file);
    let pinned = pinned("1", &serve);
    let words = std::iter::once(pinned.get_program()).chain(pinned.get_args());
    let mut server = Process::start(network.inside(&[]).args(words)).expect("a server");
    let port = server.wait_for_file(&port_file, LIMIT).expect("it listens");
    let _hog = hog("1");
    let (_agent, agent) = network.agent(&folder, &[]);
    let (uri, token) = (
        format!("nbd://{}.2:{port}/m", network.subnet),
        folder.at("token"),
    );
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
        same.args(["-c", "0"])
            .arg(command.get_program())
            .args(command.get_args());
        same
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
    let told = names(&["cipher"], |seconds| {
        doctor(&folder, seconds, &[&uri, "--block-size", "1M"])
    });
    let tried = told["examination"]["substitutions"].to_string();
    assert!(tried.contains("in the clear"), "{tried}");
}
