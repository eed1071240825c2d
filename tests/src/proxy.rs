//! A TCP proxy between a client and a server, with directions that can be cut as a network is: nothing goes through any more,
//! and neither side is notified.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is looked whether a direction is open again.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes that are handed on at once.
const PIECE: usize = 64 << 10;

/// Which directions let nothing through.
#[derive(Debug, Default)]
struct Cut {
    to_server: AtomicBool,
    to_client: AtomicBool,
    /// Everything has ended.
    over: AtomicBool,
}

/// A proxy before a server; it lets nothing through once it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    cut: Arc<Cut>,
}

impl Proxy {
    /// Listens for clients of the server on `port` of this machine.
    ///
    /// # Panics
    /// If it cannot.
    #[must_use]
    #[track_caller]
    pub fn start(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let cut = Arc::new(Cut::default());
        let shared = cut.clone();
        begin(move || accept(&listener, port, &shared));
        Self { port: own, cut }
    }

    /// Where it listens.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("nbd://127.0.0.1:{}", self.port)
    }

    /// Cuts the way to the server, the one back, both, or none.
    pub fn cut(&self, to_server: bool, to_client: bool) {
        self.cut.to_server.store(to_server, Ordering::SeqCst);
        self.cut.to_client.store(to_client, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut.over.store(true, Ordering::SeqCst);
        // The accepting thread looks at it then.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

/// Runs concurrently with the test, and ends with it at the latest.
fn begin(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name("proxy".to_owned());
    drop(thread.spawn(work).expect("a thread"));
}

fn accept(listener: &TcpListener, port: u16, cut: &Arc<Cut>) {
    for client in listener.incoming() {
        if cut.over.load(Ordering::SeqCst) {
            return;
        }
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        let (Ok(client), Ok(server)) = (client, server) else {
            continue;
        };
        let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else {
            continue;
        };
        let (one, other) = (cut.clone(), cut.clone());
        begin(move || pump(from_client, server, &one, |cut| &cut.to_server));
        begin(move || pump(from_server, client, &other, |cut| &cut.to_client));
    }
}

/// Hands on what comes, while that way is open. What came before a cut is held, as by a network that is there again.
fn pump(mut from: TcpStream, mut to: TcpStream, cut: &Cut, way: fn(&Cut) -> &AtomicBool) {
    let mut piece = vec![0; PIECE];
    loop {
        let len = match from.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(len) => len,
        };
        while way(cut).load(Ordering::SeqCst) && !cut.over.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK);
        }
        if cut.over.load(Ordering::SeqCst) || to.write_all(&piece[..len]).is_err() {
            break;
        }
    }
    // A peer that has disconnected already needs no shutdown.
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}
