//! Listeners: what may be at their address before, what is left behind, what is handed over.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use testkit::MemDisk;

use super::super::listener::is_clients_fault;
use super::super::socket::Socket;
use super::{Limits, Listener, RawClient, ServeError, Server, export, serving};

/// A path for a socket, and the folder that goes with it.
fn socket_path() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    (folder, path)
}

fn seqpacket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .expect("a socket")
}

#[test]
fn a_socket_of_a_server_that_is_gone_is_replaced() {
    let (_folder, path) = socket_path();
    drop(UnixListener::bind(&path).expect("bound"));
    assert!(path.exists(), "what a server that was killed leaves");
    let _listener = Listener::unix(&path).expect("replaced");
    UnixStream::connect(&path).expect("listening");
}

/// Each saw the old socket dead, one removed it and made its own, and the other removed that: two
/// servers ran, and one could not be reached.
#[test]
fn of_servers_that_start_at_once_one_gets_the_path_and_answers() {
    let (_folder, path) = socket_path();
    for _ in 0..20 {
        drop(UnixListener::bind(&path).expect("bound"));
        let start = Arc::new(std::sync::Barrier::new(4));
        let servers: Vec<_> = (0..4)
            .map(|_| {
                let (path, start) = (path.clone(), start.clone());
                let listen = move || {
                    start.wait();
                    Listener::unix(&path)
                };
                engine::thread("server", listen).expect("a thread")
            })
            .collect();
        let servers = servers.into_iter().map(|s| s.join().expect("no panic"));
        let (winners, others): (Vec<_>, Vec<_>) = servers.partition(Result::is_ok);
        assert_eq!(winners.len(), 1, "{winners:?} {others:?}");
        let refused = |e: &Result<Listener, ServeError>| matches!(e, Err(ServeError::PathInUse(_)));
        assert!(others.iter().all(refused), "{others:?}");
        UnixStream::connect(&path).expect("the one that got it answers");
        drop(winners);
        assert!(!path.exists());
    }
}

#[test]
fn a_socket_of_a_server_that_answers_is_left_to_it() {
    let (_folder, path) = socket_path();
    let other = UnixListener::bind(&path).expect("bound");
    let error = Listener::unix(&path).expect_err("in use");
    assert!(matches!(error, ServeError::PathInUse(_)), "{error}");
    UnixStream::connect(&path).expect("still there");
    drop(other);
}

/// No client can connect to a server too busy to accept: the probe waited for as long as it was busy.
#[test]
fn a_socket_of_a_busy_server_is_left_to_it_without_waiting() {
    let (_folder, path) = socket_path();
    let other = shortest_queue(&path);
    // One fits the queue besides the one that the listener requested.
    let _waiting = [nonblocking_connect(&path), nonblocking_connect(&path)];
    let (tell, told) = std::sync::mpsc::channel();
    let asked = path.clone();
    let ask = move || {
        tell.send(Listener::unix(&asked).map(drop))
            .expect("listening")
    };
    drop(engine::thread("asks", ask).expect("a thread"));
    let answer = told.recv_timeout(Duration::from_secs(10));
    drop(other);
    assert!(
        matches!(answer, Ok(Err(ServeError::PathInUse(_)))),
        "{answer:?}"
    );
}

/// A stream socket with the shortest queue.
fn shortest_queue(path: &std::path::Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .expect("a socket");
    let address = SocketAddrUnix::new(path).expect("a short path");
    rustix::net::bind(&fd, &address).expect("bound");
    rustix::net::listen(&fd, 0).expect("listening");
    fd
}

fn nonblocking_connect(path: &std::path::Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .expect("a socket");
    let address = SocketAddrUnix::new(path).expect("a short path");
    // Refused when the queue is full, which is what is wanted.
    drop(rustix::net::connect(&fd, &address).map_err(io::Error::from));
    fd
}

/// A socket that could not be connected to was taken for dead: serving on `/dev/log` would have removed
/// the system's log socket, which is of another kind.
#[test]
fn a_socket_of_another_kind_is_left_alone() {
    let (_folder, path) = socket_path();
    let log = UnixDatagram::bind(&path).expect("bound");
    assert!(Listener::unix(&path).is_err());
    let client = UnixDatagram::unbound().expect("a socket");
    client.send_to(b"still here", &path).expect("sent");
    log.recv(&mut [0; 16]).expect("received");
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let (_folder, path) = socket_path();
    std::fs::write(&path, b"a disk, perhaps").expect("written");
    let error = Listener::unix(&path).expect_err("no socket");
    assert!(matches!(error, ServeError::NoSocket(_)), "{error}");
    assert_eq!(std::fs::read(&path).expect("there"), b"a disk, perhaps");
}

#[test]
fn a_sockets_file_goes_with_its_listener_unless_it_is_anothers_by_then() {
    let (_folder, path) = socket_path();
    drop(Listener::unix(&path).expect("bound"));
    assert!(!path.exists());
    let first = Listener::unix(&path).expect("bound");
    std::fs::remove_file(&path).expect("removed");
    let second = Listener::unix(&path).expect("bound");
    drop(first);
    assert!(path.exists(), "it is the second one's");
    drop(second);
    assert!(!path.exists());
}

#[test]
fn a_sockets_file_has_the_permissions_that_were_requested() {
    let (_folder, path) = socket_path();
    for mode in [0o600, 0o666] {
        let _listener = Listener::unix_with_mode(&path, Some(mode)).expect("bound");
        let found = std::fs::metadata(&path).expect("there").permissions();
        assert_eq!(found.mode() & 0o7777, mode);
        UnixStream::connect(&path).expect("listening");
    }
}

#[test]
fn what_is_handed_over_must_be_a_listening_stream_socket() {
    let (_folder, path) = socket_path();
    let packets = seqpacket();
    let address = SocketAddrUnix::new(&path).expect("a short path");
    rustix::net::bind(&packets, &address).expect("bound");
    rustix::net::listen(&packets, 1).expect("listening");
    let (connected, _peer) = UnixStream::pair().expect("a pair");
    let file = tempfile::tempfile().expect("a file");
    let wrong: [OwnedFd; 3] = [packets, connected.into(), file.into()];
    for fd in wrong {
        let error = Listener::from_fd(fd).expect_err("refused");
        assert!(matches!(error, ServeError::Descriptor(_)), "{error}");
    }
    let listening = UnixListener::bind(path.with_extension("2")).expect("bound");
    Listener::from_fd(listening.into()).expect("taken");
}

/// `outboard serve --stdin` on a terminal made the terminal non-blocking for the shell before it
/// found that it is no socket; on a listening socket it ended as if a client had left.
#[test]
fn what_is_handed_over_as_a_client_must_be_a_connected_stream_socket() {
    let (file, _path) = tempfile::NamedTempFile::new().expect("a file").into_parts();
    let same = file.try_clone().expect("shared");
    let (_folder, path) = socket_path();
    let listening = UnixListener::bind(&path).expect("bound");
    let (datagrams, _peer) = UnixDatagram::pair().expect("a pair");
    let wrong: [OwnedFd; 4] = [file.into(), listening.into(), datagrams.into(), seqpacket()];
    engine::run(&engine::Config::default(), |handle| async move {
        for fd in wrong {
            let disk = Arc::new(MemDisk::new(4096));
            let server = Server::new(vec![export(disk)], Limits::default()).expect("one export");
            let stop = std::future::pending();
            let error = server.serve_connection(&handle, fd, stop).await;
            let error = error.expect_err("refused");
            assert!(matches!(error, ServeError::Descriptor(_)), "{error}");
        }
    })
    .expect("the engine starts");
    let flags = rustix::fs::fcntl_getfl(same.as_fd()).expect("flags");
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
}

/// A client on a machine that lost its power sends nothing any more. Its connection stayed for ever.
#[test]
fn a_silent_peer_gets_keepalive_probes_and_one_of_this_machine_is_not_paced() {
    use rustix::net::sockopt;
    engine::run(&engine::Config::default(), |_| async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let _client = std::net::TcpStream::connect(address).expect("listening");
        let (stream, _) = listener.accept().expect("connected");
        let socket = Socket::from_fd(stream.into()).expect("a socket");
        assert!(sockopt::socket_keepalive(&socket).expect("an option"));
        let idle = sockopt::tcp_keepidle(&socket).expect("an option");
        let every = sockopt::tcp_keepintvl(&socket).expect("an option");
        let times = sockopt::tcp_keepcnt(&socket).expect("an option");
        let noticed = idle + every * times;
        assert!(noticed <= Duration::from_secs(25), "{noticed:?}");
        let unacknowledged = sockopt::tcp_user_timeout(&socket).expect("an option");
        assert_eq!(unacknowledged, 60_000);
        assert_eq!(sockopt::tcp_congestion(&socket).expect("an option"), "reno");
    })
    .expect("the engine starts");
}

#[test]
fn only_want_of_descriptors_or_memory_makes_accepting_pause() {
    use rustix::io::Errno;
    let fault = |errno: Errno| is_clients_fault(&errno.into());
    assert!(
        [
            Errno::CONNABORTED,
            Errno::PERM,
            Errno::PROTO,
            Errno::NETDOWN
        ]
        .map(fault)
            == [true; 4]
    );
    assert!([Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].map(fault) == [false; 4]);
    assert!(!fault(Errno::INVAL));
}

/// Without a descriptor for the next client the server waits, and takes it when there is one.
#[test]
fn clients_that_come_while_descriptors_are_short_are_served_later() {
    const CHILD: &str = "OUTBOARD_TEST_CHILD";
    if std::env::var_os(CHILD).is_none() {
        // Descriptors are the whole process's: this takes one of its own.
        let name = "server::tests::listeners::\
                    clients_that_come_while_descriptors_are_short_are_served_later";
        let mut child = std::process::Command::new(std::env::current_exe().expect("a binary"));
        child.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
        let output = child.output().expect("started");
        assert!(output.status.success(), "{output:?}");
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.contains("1 passed"), "{output}");
        return;
    }
    let mut limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limits.current = Some(64);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limits).expect("lowered");
    let disk = Arc::new(MemDisk::new(4096));
    serving(disk, Limits::default(), |address| async move {
        let mut early = RawClient::simple(address).await;
        let mut hogs = Vec::new();
        while let Ok(hog) = rustix::io::dup(io::stdin()) {
            hogs.push(hog);
        }
        hogs.pop();
        let mut late = RawClient::connect(address).await;
        engine::clock::sleep(Duration::from_millis(300)).await;
        early.assert_in_step().await;
        drop(hogs);
        late.choose().await;
        late.assert_in_step().await;
    });
}

#[test]
fn a_client_that_is_refused_sees_the_end_at_once() {
    let limits = Limits {
        connections_max: 1,
        ..Limits::default()
    };
    serving(Arc::new(MemDisk::new(4096)), limits, |address| async move {
        let mut only = RawClient::simple(address).await;
        for _ in 0..20 {
            let mut refused = std::net::TcpStream::connect(address).expect("listening");
            let ended = engine::blocking(move || refused.read(&mut [0; 32])).await;
            assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        }
        only.assert_in_step().await;
        drop(only);
        // The place is free again.
        let again = async { while RawClient::connect(address).await.is_closed_at_once().await {} };
        let again = engine::clock::timeout(Duration::from_secs(10), again).await;
        assert!(again.is_ok());
    });
}
