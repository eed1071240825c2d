//! Tests of the control socket: requests, access, and limits.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use proptest::prelude::*;

use super::client::{ControlError, request};
use super::place::ControlSocket;
use super::server::{AnswerFuture, ControlHandler, start};
use super::*;

/// Answers resize requests, and refuses all others.
struct Echo;

impl ControlHandler for Echo {
    fn handle(self: Arc<Self>, request: ControlRequest) -> AnswerFuture {
        Box::pin(async move {
            match request {
                ControlRequest::Resize { export } if export == "a" => {
                    Ok(ControlAnswer::Resized { from: 1, to: 2 })
                }
                other => Err(format!("unexpected {other:?}")),
            }
        })
    }
}

/// Runs `client` on a thread of its own, with a server on a socket.
fn with_server(client: impl FnOnce(&std::path::Path) + Send + 'static) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run/x.sock");
    let config = engine::Config {
        cores: 1,
        ..engine::Config::default()
    };
    let socket = ControlSocket::open(&path).expect("a socket");
    engine::run(&config, |_| async move {
        start(&socket, Arc::new(Echo)).expect("it starts");
        let path = socket.path().to_owned();
        engine::blocking(move || client(&path)).await;
        drop(socket);
    })
    .expect("the engine starts");
    assert!(!path.exists(), "its file is gone");
}

#[test]
fn a_request_is_answered_and_a_refusal_returned() {
    with_server(|path| {
        let export = "a".to_owned();
        let answer = request(path, ControlRequest::Resize { export }).expect("an answer");
        assert_eq!(answer, ControlAnswer::Resized { from: 1, to: 2 });
        let refused = request(path, ControlRequest::Reload).expect_err("a refusal");
        assert!(matches!(&refused, ControlError::Refused(why) if why == "unexpected Reload"));
    });
}

#[test]
fn the_socket_is_its_owners_alone_and_a_live_one_is_not_replaced() {
    with_server(|path| {
        let mode = std::fs::metadata(path)
            .expect("a socket")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = ControlSocket::open(path).expect_err("somebody answers");
        assert_eq!(second.kind(), std::io::ErrorKind::AddrInUse);
    });
}

#[test]
fn a_stale_socket_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    assert!(matches!(
        request(&path, ControlRequest::Status),
        Err(ControlError::NotListening(_))
    ));
    ControlSocket::open(&path).expect("replaced");
}

#[test]
fn only_sockets_of_processes_that_are_gone_are_swept() {
    let folder = tempfile::tempdir().expect("a folder");
    // No process has so large a number: pid_max is below 2^22.
    let gone = folder.path().join("serve-99999999.sock");
    let here = folder
        .path()
        .join(format!("serve-{}.sock", std::process::id()));
    let named = folder.path().join("media.sock");
    for path in [&gone, &here, &named] {
        drop(std::os::unix::net::UnixListener::bind(path).expect("a socket"));
        place::sweep(path);
    }
    assert!(!gone.exists() && here.exists() && named.exists());
}

#[test]
fn a_request_without_end_is_cut_off_and_the_server_lives() {
    with_server(|path| {
        let mut stream = UnixStream::connect(path).expect("it listens");
        let endless = vec![b'x'; ASK_MAX + 1];
        // The server may hang up before it took all.
        drop(stream.write_all(&endless));
        let mut told = String::new();
        drop(stream.read_to_string(&mut told));
        assert!(told.is_empty() || told.contains("at most"), "{told}");
        let export = "a".to_owned();
        request(path, ControlRequest::Resize { export }).expect("an answer");
    });
}

#[test]
fn another_version_is_refused_and_changes_nothing() {
    let told = parse_request(b"{\"version\":2,\"ask\":\"dance\"}").expect_err("another version");
    assert!(
        told.contains("version 2") && told.contains("version 1"),
        "{told}"
    );
    assert_eq!(
        parse_request(b"{\"version\":1,\"ask\":\"status\"}\n"),
        Ok(ControlRequest::Status)
    );
    assert!(parse_request(b"{\"version\":1,\"ask\":\"dance\"}").is_err());
    assert!(parse_request(b"{\"ask\":\"status\"}").is_err());
}

proptest! {
    #[test]
    fn no_request_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(parse_request(&bytes));
    }
}
