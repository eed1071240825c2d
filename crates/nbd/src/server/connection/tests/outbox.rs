//! What is put into the outbox leaves it, in order, however the socket takes it.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};

use block::{FileRegion, IoBufs};
use bytes::Bytes;
use proptest::prelude::*;

use super::super::outbox::{Batch, Outbox, Sent};
use super::on_engine;
use crate::server::budget::Budget;
use crate::server::socket::Socket;

const FILE_LEN: usize = 2 << 20;
const BATCH_LEN: usize = 64 << 10;
/// Socket memory, bytes: the least that the kernel gives.
const SOCKET_LEN: usize = 4096;

static FILE: LazyLock<(Vec<u8>, Arc<OwnedFd>)> = LazyLock::new(|| {
    let content = testkit::pattern(5, block::Range::new(0, FILE_LEN as u64));
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&content).expect("written");
    (content, Arc::new(file.into()))
});

#[derive(Debug, Clone)]
enum Act {
    /// A small reply.
    Push(usize),
    /// What a disk read, in pieces.
    Read(Vec<usize>),
    /// A piece of a file.
    File {
        offset: usize,
        len: usize,
    },
    Send,
    /// The client takes so much.
    Take(usize),
    NewTurn,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let file = |len: std::ops::Range<usize>| {
        (0..FILE_LEN / 2, len).prop_map(|(offset, len)| Act::File { offset, len })
    };
    let act = prop_oneof![
        4 => (1usize..6000).prop_map(Act::Push),
        3 => prop::collection::vec(0usize..30_000, 0..5).prop_map(Act::Read),
        2 => file(1..200_000),
        1 => file(512 << 10..1 << 20),
        4 => Just(Act::Send),
        4 => (1usize..300_000).prop_map(Act::Take),
        2 => Just(Act::NewTurn),
    ];
    prop::collection::vec(act, 1..40)
}

/// Both ends of a connection, and all that was sent over it.
struct World {
    socket: Socket,
    client: UnixStream,
    outbox: Outbox,
    budget: Budget,
    expected: Vec<u8>,
    taken: Vec<u8>,
    seed: u8,
}

impl World {
    fn new() -> Self {
        let (ours, client) = UnixStream::pair().expect("a pair");
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, SOCKET_LEN).expect("an option");
        client.set_nonblocking(true).expect("a socket");
        let budget = Budget::new(1 << 30);
        Self {
            socket: Socket::from_fd(ours.into()).expect("a socket"),
            client,
            outbox: Outbox::new(budget.clone()),
            budget,
            expected: Vec::new(),
            taken: Vec::new(),
            seed: 0,
        }
    }

    /// So many bytes that differ from those before.
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.seed = self.seed.wrapping_add(1);
        let range = block::Range::new(self.expected.len() as u64, len as u64);
        let bytes = testkit::pattern(self.seed, range);
        self.expected.extend_from_slice(&bytes);
        bytes
    }

    fn act(&mut self, act: &Act, batch: &mut Batch<'_>) -> io::Result<()> {
        match act {
            Act::Push(len) => {
                if !batch.fits(*len) {
                    self.outbox.send(&self.socket, batch)?;
                }
                let bytes = self.bytes(*len);
                batch.push(&bytes);
            }
            Act::Read(lens) => {
                let pieces: IoBufs = lens.iter().map(|&len| self.bytes(len).into()).collect();
                let charge = self.budget.take(pieces.iter().map(Bytes::len).sum());
                self.outbox.push_read(batch, pieces, charge);
            }
            Act::File { offset, len } => {
                self.expected.extend_from_slice(&FILE.0[*offset..][..*len]);
                let region = FileRegion {
                    file: FILE.1.clone(),
                    offset: *offset as u64,
                };
                self.outbox.push_file(batch, &[(region, *len)]);
            }
            Act::Send => {
                self.outbox.send(&self.socket, batch)?;
                assert!(batch.is_empty(), "what is not sent is queued");
            }
            Act::Take(len) => self.take(*len),
            Act::NewTurn => self.outbox.begin_turn(),
        }
        Ok(())
    }

    fn take(&mut self, len: usize) {
        let mut buffer = vec![0; len];
        if let Ok(count) = self.client.read(&mut buffer) {
            self.taken.extend_from_slice(&buffer[..count]);
        }
    }

    /// Sends the rest and takes all.
    async fn finish(&mut self, batch: &mut Batch<'_>) -> io::Result<()> {
        loop {
            self.outbox.begin_turn();
            let sent = self.outbox.send(&self.socket, batch)?;
            self.take(1 << 20);
            if sent == Sent::All && self.taken.len() == self.expected.len() {
                return Ok(());
            }
            // Lets the runtime hear of the socket.
            tokio::task::yield_now().await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_leave_in_order_and_give_their_memory_back(acts in acts()) {
        on_engine(|| async move {
            let mut world = World::new();
            let mut memory = vec![0; BATCH_LEN];
            let mut batch = Batch::new(&mut memory);
            for act in &acts {
                world.act(act, &mut batch).expect("an open socket");
                tokio::task::yield_now().await;
            }
            let finish = world.finish(&mut batch);
            let finish = engine::clock::timeout(std::time::Duration::from_secs(20), finish).await;
            finish.expect("all of it leaves").expect("an open socket");
            assert!(world.taken == world.expected);
            assert_eq!(world.outbox.sent(), world.expected.len() as u64);
            assert!(world.outbox.is_empty());
            assert_eq!(world.outbox.memory(), 0);
            // So much is granted only when nothing is charged.
            assert!(world.budget.try_take(usize::MAX).is_some());
        });
    }
}
