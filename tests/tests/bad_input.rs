//! What a user can get wrong: one clear line each, the right exit status, nothing left behind.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use outboard_tests::image::{Folder, MIB};
use outboard_tests::said::{self, program, run};
use outboard_tests::server::Server;
use testkit::requires;

/// What `serve` complains of; exit status 1.
#[track_caller]
fn serve_complains(args: &[&str]) -> String {
    let mut command = said::outboard(&["serve", "--listen=127.0.0.1:0"]);
    run(command.args(args)).complaint(1)
}

#[track_caller]
fn assert_says(line: &str, parts: &[&str]) {
    for part in parts {
        assert!(line.contains(part), "`{part}` is not in `{line}`");
    }
}

#[test]
fn a_file_that_is_not_there() {
    let folder = Folder::new();
    let path = folder.at("missing.img");
    let line = serve_complains(&[&path]);
    assert_says(&line, &[&path, "does not exist"]);
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn a_folder_where_a_disk_should_be() {
    let folder = Folder::new();
    let path = folder.at("");
    let line = serve_complains(&[&path]);
    assert_says(&line, &[&path, "directory"]);
}

#[test]
fn a_file_that_may_not_be_read() {
    let needs = [requires::root(), requires::command("setpriv")];
    if !requires::all(&needs) {
        return;
    }
    let folder = Folder::new();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.empty("secret.img", MIB);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    // A user without rights need not be able to reach the build folder: it gets a copy.
    let binary = folder.at("outboard");
    std::fs::copy(testkit::proc::outboard().unwrap(), &binary).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", &binary])
        .args(["serve", "--listen=127.0.0.1:0", &path]);
    let line = run(&mut command).complaint(1);
    assert_says(&line, &[&path, "may not be opened"]);
}

#[test]
fn the_end_of_a_file_that_is_no_whole_sector_is_said_to_be_left_out() {
    if !requires::all(&[requires::command("nbdinfo")]) {
        return;
    }
    let folder = Folder::new();
    let path = folder.filled("odd.img", 1000, 1);
    let disk = format!("linear({path})");
    let mut server = Server::start(&[&disk]);
    let said = server.process().stderr();
    assert_says(&said, &[&path, "488", "1000"]);
    let size = program("nbdinfo", &["--size", &server.uri("")]).ok();
    assert_eq!(size.trim(), "512");
    drop(server);
    // The file by itself has all of them.
    let server = Server::start(&[&path]);
    let size = program("nbdinfo", &["--size", &server.uri("")]).ok();
    assert_eq!(size.trim(), "1000");
}

#[test]
fn a_port_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    let folder = Folder::new();
    let port_file = folder.at("port");
    let args = ["serve", "memory(1M)", &listen, "--port-file", &port_file];
    let line = run(&mut said::outboard(&args)).complaint(1);
    let port = taken.local_addr().unwrap().port().to_string();
    assert_says(&line, &[&port, "in use"]);
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn a_unix_socket_that_another_server_listens_on() {
    let folder = Folder::new();
    let socket = folder.at("socket");
    let taken = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let listen = format!("--listen=unix:{socket}");
    let line = run(&mut said::outboard(&["serve", "memory(1M)", &listen])).complaint(1);
    assert_says(&line, &[&socket, "another server"]);
    drop(taken);
    assert_eq!(folder.names(), ["socket"], "what is not ours stays");
}

#[test]
fn a_file_that_is_served_already_for_writing() {
    let folder = Folder::new();
    let path = folder.empty("a.img", MIB);
    let _server = Server::start(&[&path]);
    let line = serve_complains(&[&path]);
    assert_says(&line, &[&path, "already open", "process"]);
}

#[test]
fn a_file_that_is_named_twice() {
    let folder = Folder::new();
    let path = folder.empty("a.img", MIB);
    let line = serve_complains(&[&format!("a={path}"), &format!("b={path}")]);
    assert_says(&line, &[&path]);
}

#[test]
fn a_name_that_is_given_twice() {
    let mut command = said::outboard(&[
        "serve",
        "--listen=127.0.0.1:0",
        "a=memory(1M)",
        "a=memory(2M)",
    ]);
    let said = run(&mut command);
    assert!(said.code == Some(1) || said.code == Some(2), "{said:?}");
    assert!(said.stderr.contains('a'), "{said:?}");
    assert_eq!(said.stdout, "", "nothing was served");
}

#[test]
fn an_expression_that_makes_no_sense_is_shown_with_its_place() {
    let said = run(&mut said::outboard(&["serve", "memroy(1M)"]));
    assert_eq!(said.code, Some(2), "{said:?}");
    assert_says(&said.stderr, &["memroy", "memory", "^"]);
}

#[test]
fn a_disk_of_another_server_that_is_gone() {
    let server = Server::start(&["memory(1M)"]);
    let uri = server.uri("");
    drop(server);
    let line = serve_complains(&[&uri]);
    assert_says(&line, &["127.0.0.1", "refused"]);
}

#[test]
fn an_export_that_the_other_server_does_not_have() {
    let server = Server::start(&["known=memory(1M)"]);
    let line = serve_complains(&[&server.uri("unknown")]);
    assert_says(&line, &["unknown"]);
}

#[test]
fn standard_input_that_is_no_socket() {
    let line = run(&mut said::outboard(&["serve", "--stdin", "memory(1M)"])).complaint(1);
    assert_says(&line, &["no socket"]);
}

#[test]
fn a_port_file_that_cannot_be_written() {
    let args = [
        "serve",
        "memory(1M)",
        "--listen=127.0.0.1:0",
        "--port-file=/nonexistent/port",
    ];
    let line = run(&mut said::outboard(&args)).complaint(1);
    assert_says(&line, &["/nonexistent/port", "No such file"]);
}

#[test]
fn an_image_that_exists_is_not_made_again() {
    let folder = Folder::new();
    let path = folder.filled("a.img", MIB, 1);
    let before = std::fs::read(&path).unwrap();
    let line = run(&mut said::outboard(&["disk", "create", &path, "2M"])).complaint(1);
    assert_says(&line, &[&path, "exists"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn an_image_in_a_folder_that_is_not_there() {
    let args = ["disk", "create", "/nonexistent/a.img", "2M"];
    let line = run(&mut said::outboard(&args)).complaint(1);
    assert_says(&line, &["/nonexistent/a.img", "No such file"]);
    assert!(!Path::new("/nonexistent").exists());
}
