//! Tests of one connection's parts, without a server around them.

mod busy_wait;
mod cut;
mod inbound;
mod long;
mod outbox;
mod receive;
mod regions;
mod replies;
mod sparse;
mod stall;
mod status;
mod turns;

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use block::Node;
use nbd_proto::{Command, CommandFlags, Framing, Request};

use super::request_context::RequestContext;
use super::{Connection, ConnectionSetup};
use crate::server::budget::Budget;
use crate::server::limits::Limits;
use crate::server::plan::{self, ConnectionTerms};
use crate::server::socket::Socket;
use crate::server::stats::Meter;
use crate::server::writers::WriteGate;

/// Runs `body` on an engine of one core.
fn on_engine<T, F: Future<Output = T>>(body: impl FnOnce() -> F) -> T {
    let config = engine::Config {
        cores: 1,
        ..engine::Config::default()
    };
    engine::run(&config, |_| body()).expect("the engine starts")
}

/// A socket as the server sees it, and the client's end of it, which blocks.
fn pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let theirs = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
    let (ours, _) = listener.accept().expect("connected");
    let ours = Socket::from_fd(OwnedFd::from(ours)).expect("a socket");
    (ours, theirs)
}

/// A connection to `disk` that has received these bytes behind its handshake.
fn connection(socket: Socket, disk: Node, limits: Limits, received: Vec<u8>) -> Connection {
    Connection::new(ConnectionSetup {
        is_of_standby: false,
        name: "disk".to_owned(),
        leaving: engine::InFlight::new(),
        terms: ConnectionTerms {
            flags: plan::transmission_flags(disk.geometry()),
            framing: Framing::Simple,
            contexts: Vec::new(),
            payload_max: limits.payload_max,
        },
        budget: Budget::new(limits.in_flight_bytes_total_max),
        limits: Arc::new(limits),
        meter: Meter::new(Arc::default(), engine::clock::now()),
        gate: WriteGate::open(),
        socket,
        disk,
        received,
    })
}

fn request(command: Command, offset: u64, len: u64) -> Request {
    Request {
        cookie: 0,
        command,
        flags: CommandFlags::empty(),
        offset,
        len,
    }
}

/// A write, as it is kept while its payload arrives.
fn context() -> RequestContext {
    RequestContext::new(&request(Command::Write, 0, 0), 0)
}
