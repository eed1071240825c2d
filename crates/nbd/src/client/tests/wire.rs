//! [`Wire`]: TCP to a fake server on a machine that can vanish.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use socket2::{SockFilter, SockRef};
use tokio::net::{TcpListener, UnixStream};

use super::fake::Fake;
use crate::client::{Address, Target};

/// `BPF_RET | BPF_K`: so many bytes of a segment are kept.
const RETURN: u16 = 6;

/// Hands everything on between its port and the fake's socket.
pub(super) struct Wire {
    port: u16,
    /// The server's ends of the connections that were made.
    ends: Arc<Mutex<Vec<OwnedFd>>>,
}

impl Wire {
    pub(super) async fn to(fake: &Fake) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let Address::Unix(path) = fake.target().address else {
            panic!("a fake listens on a Unix socket")
        };
        let ends: Arc<Mutex<Vec<OwnedFd>>> = Arc::default();
        let made = Arc::clone(&ends);
        drop(engine::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut server = UnixStream::connect(&path).await.unwrap();
                let end = client.as_fd().try_clone_to_owned().unwrap();
                made.lock().unwrap().push(end);
                drop(engine::spawn(async move {
                    // However it ends, both sides are closed.
                    drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
                }));
            }
        }));
        Self { port, ends }
    }

    pub(super) fn target(&self) -> Target {
        let address = Address::Tcp {
            host: "127.0.0.1".to_owned(),
            port: self.port,
        };
        Target::new(address, String::new())
    }

    /// The machine behind the connections that were made is no more: what arrives for them is dropped
    /// before TCP sees it, so that nothing is acknowledged and no question answered.
    pub(super) fn vanish(&self) {
        let keep_nothing = [SockFilter::new(RETURN, 0, 0, 0)];
        for end in self.ends.lock().unwrap().iter() {
            SockRef::from(end).attach_filter(&keep_nothing).unwrap();
        }
    }
}
