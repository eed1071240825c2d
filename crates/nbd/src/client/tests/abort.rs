//! A disk that others went on without: what its client still had to send would be older than what
//! the server has by the time it gets it, so that it must never be sent.

use std::io;
use std::time::Duration;

use block::{BlockDevice, Errno, Range, WriteFlags};
use testkit::single;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::fake::{Act, Fake};
use super::{connect, in_engine, poll_once, short_limits, until};
use crate::client::stream::Stream;
use crate::client::{Address, Client, ClientConfig, limits};

const MIB: u64 = 1 << 20;

fn write(client: &Client, block: u64) -> block::IoFuture<'_, ()> {
    let range = Range::new(block % 256 * 4096, 4096);
    client.write(range, single(vec![7; 4096]), WriteFlags::empty())
}

/// Time in which a client that is not aborted would have done something.
async fn a_while() {
    engine::clock::sleep(Duration::from_millis(300)).await;
}

#[test]
fn what_waits_for_a_server_that_hangs_is_never_sent() {
    in_engine(|| async {
        let fake = Fake::scripted(MIB, |_, _| Act::Silence);
        let config = ClientConfig {
            in_flight_max: 2,
            ..short_limits()
        };
        let client = connect(&fake, config).await;
        // More than the session takes up, more than waits in its inbox.
        let count = limits::INBOX_MAX as u64 + 100;
        let mut writes: Vec<_> = (0..count).map(|block| write(&client, block)).collect();
        for write in &mut writes {
            assert!(poll_once(write).await.is_pending());
        }
        until("the first ones are there", || fake.world().log.len() == 2).await;
        client.abort().await;
        fake.world().script = Box::new(|_, _| Act::Serve);
        for write in writes {
            assert_eq!(write.await.unwrap_err().errno, Errno::ShuttingDown);
        }
        a_while().await;
        let world = fake.world();
        assert_eq!((world.log.len(), world.connections), (2, 1));
    });
}

#[test]
fn what_was_acknowledged_and_not_flushed_is_not_written_again() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, short_limits()).await;
        write(&client, 0).await.unwrap();
        assert!(client.health().unflushed > 0);
        fake.lose_power().await;
        until("the loss is seen", || client.health().gone_for.is_some()).await;
        client.abort().await;
        fake.listen();
        a_while().await;
        assert_eq!(fake.world().connections, 1, "it does not come back");
        assert_eq!(fake.world().live[0], 0);
        let error = client.flush().await.unwrap_err();
        assert_eq!(error.errno, Errno::ShuttingDown);
    });
}

#[test]
fn a_client_can_be_aborted_twice_and_after_it_was_closed() {
    in_engine(|| async {
        let fake = Fake::start(MIB);
        let client = connect(&fake, short_limits()).await;
        client.settle().await.unwrap();
        client.abort().await;
        client.abort().await;
        client.settle().await.unwrap();
        let client = connect(&fake, short_limits()).await;
        client.close().await;
        client.abort().await;
        assert!(!client.health().connected);
    });
}

/// Sends until the socket takes no more; how many bytes it took.
fn fill(stream: &Stream) -> usize {
    let bytes = [7; 64 << 10];
    let mut sent = 0;
    loop {
        match stream.try_write_vectored(&[io::IoSlice::new(&bytes)]) {
            Ok(count) => sent += count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return sent,
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn what_a_socket_has_not_sent_when_it_is_reset_is_never_sent() {
    in_engine(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::Tcp {
            host: "127.0.0.1".to_owned(),
            port: listener.local_addr().unwrap().port(),
        };
        let stream = Stream::connect(&address, Duration::from_secs(1))
            .await
            .unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let sent = fill(&stream);
        stream.reset();
        let mut received = Vec::new();
        let ended = server.read_to_end(&mut received).await;
        let error = ended.expect_err("it was cut off");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(received.len() < sent, "{} of {sent}", received.len());
    });
}
