//! What a service manager gets from a server (sd_notify(3)): its state, and reports for the watchdog.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::{Server, outboard};

const CONFIGURATION: &str =
    "listen = [\"127.0.0.1:0\"]\n[[export]]\nname = \"a\"\ndisk = \"memory(1M)\"\n";

/// The socket of a manager, and a server that gets more variables.
fn managed(variables: &[(&str, &str)]) -> (TempDir, UnixDatagram, Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("n");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    let limit = manager.set_read_timeout(Some(Duration::from_mins(1)));
    limit.expect("a limit");
    std::fs::write(folder.path().join("c.toml"), CONFIGURATION).expect("a file");
    let mut command = outboard(folder.path(), &["serve", "--config", "c.toml"]);
    command.env("NOTIFY_SOCKET", &socket);
    command.envs(variables.iter().copied());
    let (server, _) = Server::start(command);
    (folder, manager, server)
}

fn next(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    let len = manager.recv(&mut bytes).expect("a notification arrives");
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

#[test]
fn it_is_notified_of_start_reload_and_stop() {
    let (_folder, manager, mut server) = managed(&[]);
    assert_eq!(next(&manager), "READY=1");
    server.signal(Signal::HUP);
    assert!(next(&manager).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(next(&manager), "READY=1");
    server.signal(Signal::TERM);
    assert_eq!(next(&manager), "STOPPING=1");
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn its_watchdog_gets_reports() {
    let (_folder, manager, _server) = managed(&[("WATCHDOG_USEC", "20000")]);
    let received: Vec<String> = (0..4).map(|_| next(&manager)).collect();
    assert_eq!(
        received,
        ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]
    );
}
