//! How `serve` starts, says where it is, and stops.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use outboard_tests::image::{Folder, MIB, bytes_at};
use outboard_tests::said::{self, program};
use outboard_tests::server::{LIMIT, Server, kill};
use outboard_tests::server_fixture;
use rustix::process::{Pid, Signal, kill_process};
use testkit::proc::Process;
use testkit::requires;

#[test]
fn sigterm_and_sigint_end_an_idle_server_with_status_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::start(&["memory(1M)"]);
        assert_eq!(server.stop(signal), Some(0));
    }
}

#[test]
fn a_client_that_keeps_silent_does_not_keep_a_server_from_stopping() {
    let server = Server::start(&["memory(1M)"]);
    let mut silent = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let mut greeting = [0; 18];
    silent.read_exact(&mut greeting).unwrap();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    // It hears of it: what it reads next is the end.
    silent.set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(silent.read(&mut greeting).unwrap_or(0), 0);
}

#[test]
fn a_stop_under_load_flushes_what_was_acknowledged() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let (image, server) = server_fixture::empty(64 * MIB);
    let mut fio = Command::new("fio");
    fio.args([
        "--name=load",
        "--ioengine=nbd",
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=32",
    ])
    .args(["--time_based", "--runtime=30", "--buffer_pattern=0x5a"])
    .arg(format!("--uri={}", server.uri("")));
    let mut load = Process::start(&mut fio).unwrap();
    let written = load.wait_until("data in the image", LIMIT, |_| {
        let bytes = bytes_at(&image, 0, 64 << 20);
        bytes.contains(&0x5a).then_some(())
    });
    written.unwrap();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    let ended = load.wait(LIMIT).unwrap();
    assert_ne!(ended.code(), Some(0), "fio saw its server go");
}

#[test]
fn a_port_that_is_named_is_taken_again_at_once_after_a_kill() {
    let server = Server::start(&["memory(1M)"]);
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    let port = server.kill();
    let again = Server::start_on(port, &["memory(1M)"]);
    assert_eq!(again.port(), port);
}

#[test]
fn the_socket_file_of_a_killed_server_does_not_keep_the_next_one_from_starting() {
    let folder = Folder::new();
    let socket = folder.at("socket");
    let listen = format!("--listen=unix:{socket}");
    for _ in 0..2 {
        let mut command = said::outboard(&["serve", "memory(1M)", &listen]);
        let mut server = Process::start(&mut command).unwrap();
        server.wait_for_socket(socket.as_ref(), LIMIT).unwrap();
        kill(&mut server);
    }
}

#[test]
fn json_says_where_every_export_is() {
    let mut command = said::outboard(&["--json", "serve", "a=memory(1M)", "--listen=127.0.0.1:0"]);
    let mut server = Process::start(&mut command).unwrap();
    let line = server.wait_for_line("exports", LIMIT).unwrap();
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    let uri = told["exports"][0]["uri"].as_str().unwrap().to_owned();
    assert_eq!(uri, format!("nbd://127.0.0.1:{}/a", told["port"]));
    if requires::all(&[requires::command("nbdinfo")]) {
        assert_eq!(program("nbdinfo", &["--size", &uri]).ok().trim(), "1048576");
    }
}

#[test]
fn a_server_with_exit_with_parent_ends_with_the_process_that_started_it() {
    let folder = Folder::new();
    let port_file = folder.at("port");
    let id_file = folder.at("id");
    let outboard = said::outboard(&[]);
    let script = format!(
        "{} serve 'memory(1M)' --exit-with-parent --listen 127.0.0.1:0 --port-file {port_file} & echo $! >{id_file}; sleep 60",
        outboard.get_program().to_string_lossy()
    );
    let mut parent = Process::start(Command::new("sh").args(["-c", &script])).unwrap();
    parent.wait_for_file(port_file.as_ref(), LIMIT).unwrap();
    let id = parent.wait_for_file(id_file.as_ref(), LIMIT).unwrap();
    parent.signal(Signal::KILL).unwrap();
    parent.wait(LIMIT).unwrap();
    let id: i32 = id.parse().unwrap();
    let ended = wait_until(|| !std::path::Path::new(&format!("/proc/{id}/exe")).exists());
    if !ended {
        kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
    }
    assert!(ended, "the server outlived its parent");
    assert_eq!(folder.names(), ["id"], "the port file is gone");
}

#[test]
fn a_server_on_its_standard_input_ends_with_its_client() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = said::outboard(&["serve", "--stdin", "memory(1M)"]);
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
    let mut server = Process::start_with(&mut command).unwrap();
    drop(command);
    let mut client = ours;
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    // Flags, then the option to abort, which is answered before the end.
    client.write_all(&[0, 0, 0, 3]).unwrap();
    client.write_all(b"IHAVEOPT\0\0\0\x02\0\0\0\0").unwrap();
    drop(client);
    assert_eq!(server.wait(LIMIT).unwrap().code(), Some(0));
}

/// Whether something came true in time.
fn wait_until(look: impl Fn() -> bool) -> bool {
    for _ in 0..1000 {
        if look() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}
