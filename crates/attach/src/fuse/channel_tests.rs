//! Tests of the server against a double of `/dev/fuse`: a socket that keeps the bounds of messages.
//!
//! A request that could not be decoded was logged and never answered, and so was one whose reply the kernel
//! did not take: the kernel's request waited for ever, with the process that had made it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};
use testkit::MemDisk;

use super::plan::errno;
use super::{FuseError, FuseService, serve};
use crate::faults::Faults;

/// The kernel's end and the server's.
fn channel() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// A request of this kind, its header complete.
fn request(opcode: u32, unique: u64, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(40 + body.len()).unwrap();
    let mut out = len.to_le_bytes().to_vec();
    out.extend_from_slice(&opcode.to_le_bytes());
    out.extend_from_slice(&unique.to_le_bytes());
    out.extend_from_slice(&2u64.to_le_bytes());
    out.extend_from_slice(&[0; 16]);
    out.extend_from_slice(body);
    out
}

/// Serves a disk in memory until the server ends by itself.
fn run(kernel: &OwnedFd, ours: OwnedFd, after: impl FnOnce(&OwnedFd)) -> Result<(), FuseError> {
    let config = engine::Config {
        backend: engine::BackendChoice::Threads,
        cores: 1,
    };
    after(kernel);
    let service = FuseService {
        channel: Arc::new(ours),
        disk: Arc::new(MemDisk::new(1 << 20)),
        name: "outboard-1".to_owned(),
        faults: Arc::new(Faults::default()),
    };
    engine::run(&config, |_| serve(service)).unwrap()
}

fn send(kernel: &OwnedFd, message: &[u8]) {
    rustix::net::send(kernel, message, SendFlags::empty()).unwrap();
}

/// The error and the number of the next reply.
fn reply(kernel: &OwnedFd) -> (i32, u64) {
    let mut bytes = [0; 256];
    let (len, _) = rustix::net::recv(kernel, &mut bytes, RecvFlags::empty()).unwrap();
    assert!(len >= 16);
    let error = i32::from_le_bytes(bytes[4..8].try_into().unwrap());
    (error, u64::from_le_bytes(bytes[8..16].try_into().unwrap()))
}

const GETATTR: u32 = 3;
const WRITE: u32 = 16;
const FSYNC: u32 = 20;

#[test]
fn a_request_that_cannot_be_decoded_fails_and_the_next_one_is_served() {
    let (kernel, ours) = channel();
    let ended = run(&kernel, ours, |kernel| {
        send(kernel, &request(WRITE, 7, b"too short"));
        send(kernel, &request(WRITE, 8, b"longer than it says")[..40]);
        send(kernel, &request(GETATTR, 9, &[0; 16]));
        rustix::net::shutdown(kernel, Shutdown::Write).unwrap();
    });
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(reply(&kernel), (-errno::EIO, 7));
    assert_eq!(reply(&kernel), (-errno::EIO, 8));
    assert_eq!(reply(&kernel), (0, 9));
}

#[test]
fn a_message_without_a_header_ends_the_server_which_aborts_the_connection() {
    let (kernel, ours) = channel();
    let ended = run(&kernel, ours, |kernel| send(kernel, b"fuse"));
    assert!(matches!(ended, Err(FuseError::Request(_))), "{ended:?}");
}

#[test]
fn a_reply_that_is_not_taken_ends_the_server_which_aborts_the_connection() {
    for message in [request(FSYNC, 9, &[0; 16]), request(WRITE, 7, b"too short")] {
        let (kernel, ours) = channel();
        let ended = run(&kernel, ours, |kernel| {
            send(kernel, &message);
            rustix::net::shutdown(kernel, Shutdown::Read).unwrap();
        });
        assert!(matches!(ended, Err(FuseError::Reply(_))), "{ended:?}");
    }
}
