//! `serve`: what it says, where it listens, how it ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::sockets::{size_of_export, start_a_read, start_a_write};
use super::{Server, answer, failure, outboard, within_a_minute};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn port_of(uri: &str) -> u16 {
    let behind = uri
        .strip_prefix("nbd://127.0.0.1:")
        .expect("a URI of the loopback");
    let (port, _) = behind.split_once('/').expect("an export");
    port.parse().expect("a port")
}

pub(super) fn connect(uri: &str) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port_of(uri))).expect("it listens");
    let limit = Some(Duration::from_secs(10));
    stream.set_read_timeout(limit).expect("a time limit");
    stream
}

/// A server of `disks` on a free port, and its first URI.
fn serving(folder: &Path, arguments: &[&str]) -> (Server, String) {
    let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
    all.extend(arguments);
    Server::start(outboard(folder, &all))
}

#[test]
fn it_says_the_uri_of_every_export_and_serves_it() {
    let folder = folder();
    std::fs::File::create(folder.path().join("b.img"))
        .and_then(|file| file.set_len(1 << 20))
        .expect("an image");
    let (_server, line) = serving(folder.path(), &["a=memory(64K)", "b=b.img", "c=null(1.5G)"]);
    let uris: Vec<&str> = line.split_whitespace().collect();
    let [a, b, c] = uris.as_slice() else {
        panic!("{line}")
    };
    for (uri, name, size) in [(a, "a", 64 << 10), (b, "b", 1 << 20), (c, "c", 3 << 29)] {
        assert!(uri.ends_with(&format!("/{name}")), "{uri}");
        assert_eq!(size_of_export(connect(uri), name), Some(size), "{uri}");
    }
    assert_eq!(
        size_of_export(connect(a), ""),
        Some(64 << 10),
        "the first is the default"
    );
    assert_eq!(size_of_export(connect(a), "none"), None);
}

#[test]
fn places_and_uris_are_printed_as_json() {
    let folder = folder();
    let (_server, line) = serving(folder.path(), &["a=memory(64K)", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let uri = told["exports"][0]["uri"].as_str().expect("a URI");
    assert_eq!(told["exports"][0]["name"], "a");
    assert_eq!(told["port"], port_of(uri));
}

#[test]
fn a_signal_ends_it_with_success_and_leaves_no_file() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let folder = folder();
        let arguments = ["memory(64K)", "--listen", "unix:s", "--port-file", "p"];
        let (mut server, line) = serving(folder.path(), &arguments);
        let second = server.line();
        assert!(second.starts_with("nbd+unix:///?socket="), "{second}");
        let port = std::fs::read_to_string(folder.path().join("p")).expect("the port file");
        assert_eq!(port, format!("{}\n", port_of(&line)));
        let socket = UnixStream::connect(folder.path().join("s")).expect("it listens");
        assert_eq!(size_of_export(socket, ""), Some(64 << 10));
        server.signal(signal);
        assert_eq!(server.ended().code(), Some(0));
        let left = std::fs::read_dir(folder.path())
            .expect("the folder")
            .count();
        assert_eq!(left, 0, "{signal:?} leaves nothing");
    }
}

#[test]
fn a_second_signal_does_not_wait_for_a_client_that_hangs() {
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let folder = folder();
        let (mut server, line) = serving(folder.path(), &["null(64M)", "--port-file", "p"]);
        let client = start_a_read(connect(&line));
        server.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(300));
        assert!(
            server.child.try_wait().expect("it is ours").is_none(),
            "it waits for the client"
        );
        server.signal(signal);
        assert_eq!(server.ended().code(), Some(status));
        assert!(!folder.path().join("p").exists());
        drop(client);
    }
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let folder = folder();
    let path = folder.path().join("s");
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "the file of a socket outlives it");
    let (_first, _) = Server::start(outboard(
        folder.path(),
        &["serve", "memory(1M)", "--listen", "unix:s"],
    ));
    let (status, told) = failure(
        folder.path(),
        &["serve", "memory(1M)", "--listen", "unix:s"],
    );
    assert_eq!(status, Some(1));
    assert!(told.contains("another server answers there"), "{told}");
    let socket = UnixStream::connect(&path).expect("the first still listens");
    assert_eq!(size_of_export(socket, ""), Some(1 << 20));
}

#[test]
fn a_port_that_is_taken_is_one_clear_line() {
    let folder = folder();
    let (_first, line) = serving(folder.path(), &["memory(1M)"]);
    let place = format!("127.0.0.1:{}", port_of(&line));
    let (status, told) = failure(folder.path(), &["serve", "memory(1M)", "--listen", &place]);
    assert_eq!(status, Some(1));
    assert!(
        told.starts_with(&format!("outboard: cannot listen on {place}: ")),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn a_disk_that_cannot_be_opened_is_one_clear_line() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("dir")).expect("a folder");
    for (disk, what) in [("none.img", "does not exist"), ("dir", "directory")] {
        let (status, told) = failure(folder.path(), &["serve", disk]);
        assert_eq!(status, Some(1), "{disk}: {told}");
        assert!(told.contains(what) && told.contains(disk), "{disk}: {told}");
        assert_eq!(told.lines().count(), 1, "{disk}: {told}");
    }
}

#[test]
fn one_file_is_not_written_by_two_disks() {
    let folder = folder();
    std::fs::write(folder.path().join("a.img"), [0; 4096]).expect("a file");
    std::os::unix::fs::symlink("a.img", folder.path().join("link")).expect("a link");
    let (status, told) = failure(folder.path(), &["serve", "a=file(a.img)", "b=file(link)"]);
    assert_eq!(status, Some(1));
    assert!(told.contains("would be written by two disks"), "{told}");
    assert!(
        told.ends_with("\n  a=file(a.img)\n         ^^^^^\n  b=file(link)\n         ^^^^"),
        "{told}"
    );
    let both_read = ["a=a.img", "b=link", "--read-only"];
    let (_server, line) = serving(folder.path(), &both_read);
    assert_eq!(line.split_whitespace().count(), 2);
}

#[test]
fn a_read_only_server_leaves_the_file_as_it_is() {
    let folder = folder();
    std::fs::write(folder.path().join("a.img"), [7; 4096]).expect("a file");
    let (_server, line) = serving(folder.path(), &["a.img", "--read-only"]);
    let mut client = start_a_write(connect(&line));
    client.write_all(&[0; 4096]).expect("the rest of the write");
    let mut reply = [0; 16];
    client.read_exact(&mut reply).expect("a reply");
    assert_eq!(
        reply[..8],
        [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 1],
        "refused with EPERM"
    );
    let kept = std::fs::read(folder.path().join("a.img")).expect("the file");
    assert_eq!(kept, [7; 4096]);
}

#[test]
fn one_client_is_served_on_standard_input_and_its_end_is_the_servers() {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let mut command = outboard(Path::new("."), &["serve", "memory(64K)", "--stdin"]);
    let mut server = Server::start_quiet(command.stdin(Stdio::from(OwnedFd::from(theirs))));
    drop(command);
    assert_eq!(size_of_export(ours, ""), Some(64 << 10));
    assert_eq!(server.ended().code(), Some(0));
    assert_eq!(server.line(), "", "standard output may be the same socket");
    let (status, told) = failure(Path::new("."), &["serve", "memory(64K)", "--stdin"]);
    assert_eq!(status, Some(1));
    assert!(told.contains("the standard input is no socket"), "{told}");
}

#[test]
fn sockets_that_are_handed_over_are_served() {
    let folder = folder();
    let unix = UnixListener::bind(folder.path().join("s")).expect("a socket");
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve 'memory(64K)'";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_outboard")]);
    command.stdin(Stdio::from(OwnedFd::from(unix)));
    let mut server = Server::start_quiet(&mut command);
    drop(command);
    let socket = UnixStream::connect(folder.path().join("s")).expect("it listens");
    assert_eq!(size_of_export(socket, ""), Some(64 << 10));
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    // The addresses were the first bytes of the copy in `nbdcopy [ outboard serve x ] -`.
    assert_eq!(server.line(), "", "standard output is the other program's");
    assert!(
        folder.path().join("s").exists(),
        "the file belongs to who made it"
    );
}

// The shipped configuration and the shipped socket unit name the same address: the server tried to open it again.
#[test]
fn an_address_of_the_configuration_that_is_handed_over_is_not_opened_again() {
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = tcp.local_addr().expect("it is bound").to_string();
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 \
                  exec \"$0\" serve 'memory(64K)' --listen \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_outboard"), &address]);
    command.stdin(Stdio::from(OwnedFd::from(tcp)));
    let mut server = Server::start_quiet(&mut command);
    drop(command);
    let socket = TcpStream::connect(&address).expect("it listens");
    assert_eq!(size_of_export(socket, ""), Some(64 << 10));
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
    assert_eq!(server.line(), "");
}

#[test]
fn it_stops_when_its_parent_ends() {
    let folder = folder();
    let script = "\"$0\" serve 'memory(64K)' --listen 127.0.0.1:0 --exit-with-parent & read end";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_outboard")]);
    command.current_dir(folder.path());
    let mut parent = Server::start_quiet(command.stdin(Stdio::piped()));
    let line = parent.line();
    assert_eq!(size_of_export(connect(&line), ""), Some(64 << 10));
    drop(parent.child.stdin.take());
    parent.ended();
    let port = port_of(&line);
    within_a_minute(|| {
        TcpStream::connect(("127.0.0.1", port))
            .is_err()
            .then_some(())
    });
}

#[test]
fn a_signal_ends_it_while_a_disk_is_still_being_opened() {
    let folder = folder();
    // A server that takes the connection and never says a word.
    let silent = UnixListener::bind(folder.path().join("s")).expect("a socket");
    let disk = "nbd+unix:///x?socket=s";
    let mut command = outboard(folder.path(), &["serve", disk, "--listen", "127.0.0.1:0"]);
    let mut server = Server::start_quiet(command.stdin(Stdio::null()));
    let (_connection, _) = silent.accept().expect("a connection");
    server.signal(Signal::INT);
    assert_eq!(server.ended().code(), Some(1));
}

#[test]
fn under_nohup_it_outlives_its_terminal() {
    let folder = folder();
    let script = "trap '' HUP; exec \"$0\" serve 'memory(64K)' --listen 127.0.0.1:0";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_outboard")]);
    command.current_dir(folder.path());
    let mut server = Server::start_quiet(command.stdin(Stdio::null()));
    let line = server.line();
    server.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(size_of_export(connect(&line), ""), Some(64 << 10));
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(0));
}

/// `--cores 99` used 64 of them without a word.
#[test]
fn more_cores_than_are_used_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, told) = failure(folder.path(), &["serve", "memory(1M)", "--cores", "99"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("99") && told.contains("at most 64"), "{told}");
}

#[test]
fn an_export_without_a_byte_is_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("empty.img"), "").expect("a new file");
    let serve = ["serve", "x=empty.img", "--listen", "unix:s"];
    let log = folder.path().join("log");
    let (_server, _) = Server::start_logged(outboard(folder.path(), &serve), &log);
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(
        log.contains("export \"x\" has no bytes") && log.contains("empty.img"),
        "{log}"
    );
}

/// A reload that a new revocation list was for reported that nothing is different, though the list was in force.
#[test]
fn a_reload_reports_other_certificates() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    for pki in ["pki", "later"] {
        answer(path, &["tls", "init", pki]);
    }
    let config = "listen = [\"127.0.0.1:0\"]\n[tls]\ndirectory = \"pki\"\n\
                  [[export]]\nname = \"a\"\ndisk = \"memory(1M)\"\n";
    std::fs::write(path.join("c.toml"), config).expect("a file");
    let (_server, _) = Server::start(outboard(path, &["serve", "--config", "c.toml"]));
    assert_eq!(answer(path, &["reload"]), "nothing is different\n");
    for file in std::fs::read_dir(path.join("later")).expect("a folder") {
        let file = file.expect("an entry");
        if file.path().is_file() {
            let copied = std::fs::copy(file.path(), path.join("pki").join(file.file_name()));
            copied.expect("a copy");
        }
    }
    let different = "other certificates or revocation list\n";
    assert_eq!(answer(path, &["reload"]), different);
    assert_eq!(answer(path, &["reload"]), "nothing is different\n");
}

/// The URI named this machine by its own name, even if the certificate did not have it, and the client's error quoted
/// the names as code: `DnsName("store.test")`.
#[test]
fn under_tls_the_uri_has_a_name_of_the_certificate_and_refusals_list_the_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    answer(path, &["tls", "init", "pki", "--name", "store.test"]);
    let serve = [
        "serve",
        "x=memory(1M)",
        "--tls",
        "pki",
        "--listen",
        "0.0.0.0:0",
    ];
    let (_server, line) = Server::start(outboard(path, &serve));
    let uri = line.split_whitespace().next().expect("a URI");
    assert!(uri.starts_with("nbds://store.test:"), "{uri}");
    let near = uri.replace("store.test", "127.0.0.1");
    let listed = answer(path, &["ls", &format!("{near}?tls-certificates=pki")]);
    assert!(listed.contains('x'), "{listed}");
    let elsewhere = format!("{near}?tls-certificates=pki&tls-hostname=elsewhere.test");
    let (_, told) = failure(path, &["ls", &elsewhere]);
    assert!(
        told.contains("not for elsewhere.test, but for store.test, localhost, 127.0.0.1, ::1"),
        "{told}"
    );
}
