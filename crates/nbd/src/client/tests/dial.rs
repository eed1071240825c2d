//! One connection, from the address to the first request.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use engine::clock;
use nbd_proto::{Command, CommandFlags, HandshakeFailure, Request, SIMPLE_REPLY_LEN, simple_reply};
use rustix::net::sockopt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::fake::Fake;
use super::in_engine;
use crate::client::{Address, ClientError, Target, dial};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn targets_are_written_as_addresses_and_read_back() {
    for text in [
        "nbd://nas.lan/media",
        "nbd://[::1]:99/",
        "nbd+unix:///a%20b?socket=/run/x",
    ] {
        let target: Target = text.parse().unwrap();
        assert_eq!(target.to_string(), text);
    }
    let target: Target = "nbd://nas.lan".parse().unwrap();
    let address = Address::Tcp {
        host: "nas.lan".to_owned(),
        port: 10809,
    };
    assert_eq!(target.address, address);
}

#[test]
fn a_dialed_connection_is_handed_out_blocking_and_in_step() {
    in_engine(|| async {
        let fake = Fake::start(1 << 20);
        let dialed = dial(&fake.target(), false, None, SECOND).await.unwrap();
        assert_eq!(dialed.export().size, 1 << 20);
        assert!(!dialed.structured());
        let mut socket = std::os::unix::net::UnixStream::from(dialed.into_std_fd().unwrap());
        let request = Request {
            cookie: 77,
            command: Command::Flush,
            flags: CommandFlags::empty(),
            offset: 0,
            len: 0,
        };
        // The server shares this thread, so the blocking side has one of its own.
        let reply = engine::blocking(move || {
            socket.write_all(&request.encode()).unwrap();
            let mut reply = [0; SIMPLE_REPLY_LEN];
            socket.read_exact(&mut reply).unwrap();
            reply
        });
        assert_eq!(reply.await, simple_reply(77, None));
    });
}

/// A server on TCP that says `words` and then nothing.
async fn says(words: Vec<u8>) -> Target {
    says_later(words, Duration::ZERO, Vec::new()).await
}

/// A server that says these words, and others after a while.
async fn says_later(words: Vec<u8>, pause: Duration, others: Vec<u8>) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(engine::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&words).await.unwrap();
        if !others.is_empty() {
            clock::sleep(pause).await;
            // The client may have left.
            drop(stream.write_all(&others).await);
        }
        std::future::pending::<()>().await;
    }));
    let address = Address::Tcp {
        host: "localhost".to_owned(),
        port,
    };
    Target::new(address, "disk".to_owned())
}

fn good_session() -> Vec<u8> {
    let mut words = b"NBDMAGICIHAVEOPT".to_vec();
    words.extend([0, 3]);
    for (option, kind, data) in [
        // It knows nothing of disks and writers.
        (9_u32, 1_u32, &[][..]),
        (7, 3, &[0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1]),
        (7, 1, &[]),
    ] {
        words.extend(0x0003_e889_0455_65a9_u64.to_be_bytes());
        words.extend(option.to_be_bytes());
        words.extend(kind.to_be_bytes());
        words.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        words.extend(data);
    }
    words
}

#[test]
fn tcp_is_handed_out_without_delay_and_within_a_machine_unpaced() {
    in_engine(|| async {
        let target = says(good_session()).await;
        let dialed = dial(&target, false, None, SECOND).await.unwrap();
        assert_eq!(dialed.export().size, 1 << 20);
        let socket = dialed.into_std_fd().unwrap();
        assert!(sockopt::tcp_nodelay(socket.as_fd()).unwrap());
        assert_eq!(sockopt::tcp_congestion(&socket).unwrap(), "reno");
        let flags = rustix::fs::fcntl_getfl(&socket).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    });
}

/// TCP probes every machine in time, whichever request the client waits for.
#[test]
fn tcp_probes_a_silent_machine_often_enough_to_detect_its_loss_within_the_limit() {
    in_engine(|| async {
        // Limit; seconds until the first question and between two, and how many.
        for (limit, every, times) in [
            (1, 1, 1),
            (5, 1, 4),
            (15, 3, 4),
            (30, 7, 3),
            (86_400, 60, 127),
        ] {
            let target = says(good_session()).await;
            let limit = Duration::from_secs(limit);
            let dialed = dial(&target, false, None, limit).await.unwrap();
            let socket = dialed.into_std_fd().unwrap();
            let socket = socket.as_fd();
            assert!(sockopt::socket_keepalive(socket).unwrap());
            let every = Duration::from_secs(every);
            assert_eq!(sockopt::tcp_keepidle(socket).unwrap(), every);
            assert_eq!(sockopt::tcp_keepintvl(socket).unwrap(), every);
            assert_eq!(sockopt::tcp_keepcnt(socket).unwrap(), times);
            // It would also end connections to a server that takes nothing while it flushes.
            assert_eq!(sockopt::tcp_user_timeout(socket).unwrap(), 0);
        }
    });
}

#[test]
fn bytes_before_the_first_request_are_refused() {
    in_engine(|| async {
        let mut words = good_session();
        words.extend(b"hello");
        let error = dial(&says(words).await, false, None, SECOND)
            .await
            .unwrap_err();
        assert!(matches!(error, ClientError::Chatter { count: 5, .. }));
    });
}

/// It opens the disk, from a store that is slow.
#[test]
fn a_server_that_sent_its_greeting_may_answer_behind_the_timeout() {
    in_engine(|| async {
        let words = good_session();
        let (greeting, answers) = words.split_at(18);
        let timeout = Duration::from_millis(100);
        let target = says_later(greeting.to_vec(), 3 * timeout, answers.to_vec()).await;
        let dialed = dial(&target, false, None, timeout).await.unwrap();
        assert_eq!(dialed.export().size, 1 << 20);

        let target = says_later(Vec::new(), 3 * timeout, words).await;
        let error = dial(&target, false, None, timeout).await.unwrap_err();
        assert!(matches!(error, ClientError::HandshakeTimeout { after, .. } if after == timeout));
    });
}

#[test]
fn a_silent_server_is_waited_for_until_the_timeout() {
    in_engine(|| async {
        let target = says(Vec::new()).await;
        let error = dial(&target, false, None, Duration::from_millis(100)).await;
        let text = error.unwrap_err().to_string();
        assert!(
            text.ends_with("/disk: no answer to the connection within 0.1 s"),
            "{text}"
        );
    });
}

#[test]
fn errors_name_the_target() {
    in_engine(|| async {
        let fake = Fake::start(1 << 20);
        let mut target = fake.target();
        target.export = "nope".to_owned();
        let error = dial(&target, true, None, SECOND).await.unwrap_err();
        assert!(matches!(
            &error,
            ClientError::Handshake { failure: HandshakeFailure::UnknownExport { name, .. }, .. } if name == "nope"
        ));
        assert!(error.to_string().contains("has no export \"nope\""));

        let http = says(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()).await;
        let error = dial(&http, true, None, SECOND).await.unwrap_err();
        assert!(error.to_string().ends_with("the server does not speak NBD"));

        target.address = Address::Unix("/nonexistent/socket".into());
        let error = dial(&target, true, None, SECOND)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("nbd+unix:///nope?socket=/nonexistent/socket: cannot connect"));
    });
}
