//! A client that sends any requests at any rate, and knows what the replies must be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use block::Range;
use nbd_proto::{Command, CommandFlags, Request};
use testkit::pattern;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Semaphore;

use super::super::{Dice, request};
use super::{DEPTH, SLOT_LEN};

/// Requests of one client.
const REQUESTS: u64 = 60;
const COMMANDS: [Command; 8] = [
    Command::Read,
    Command::Read,
    Command::Read,
    Command::Write,
    Command::Write,
    Command::Flush,
    Command::WriteZeroes,
    Command::Cache,
];

/// A piece of the disk with at most one request at a time.
#[derive(Debug)]
struct Slot {
    start: u64,
    content: Vec<u8>,
    busy: bool,
}

#[derive(Debug)]
struct SentRequest {
    slot: usize,
    request: Request,
    /// What a read must return.
    expected: Vec<u8>,
}

/// What both halves of a client know.
#[derive(Debug)]
struct Known {
    slots: Vec<Slot>,
    flying: HashMap<u64, SentRequest>,
}

#[derive(Debug, Clone)]
struct Shared {
    known: Arc<Mutex<Known>>,
    /// Slots that nothing in flight uses.
    places: Arc<Semaphore>,
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a client on the slots from `start` on; the disk is all zeroes there.
pub(super) async fn run(stream: UnixStream, start: u64, seed: u64) {
    let slot = |nth| Slot {
        start: start + nth * SLOT_LEN,
        content: vec![0; small(SLOT_LEN)],
        busy: false,
    };
    let known = Known {
        slots: (0..DEPTH).map(slot).collect(),
        flying: HashMap::new(),
    };
    let shared = Shared {
        known: Arc::new(Mutex::new(known)),
        places: Arc::new(Semaphore::new(small(DEPTH))),
    };
    let (from, to) = stream.into_split();
    let asking = engine::spawn(ask_all(to, shared.clone(), Dice(seed)));
    take_all(from, &shared, Dice(seed + 1)).await;
    drop(asking.await.expect("no panic"));
}

fn small(number: u64) -> usize {
    usize::try_from(number).expect("small")
}

/// Gives its half back, so that the client does not close its side before the last answer.
async fn ask_all(mut to: OwnedWriteHalf, shared: Shared, mut dice: Dice) -> OwnedWriteHalf {
    for cookie in 0..REQUESTS {
        shared.places.acquire().await.expect("open").forget();
        let bytes = shared.known().next_request(cookie, &mut dice);
        // In pieces, with pauses, so that the server sees it in every cutting.
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = [40, 9000, SLOT_LEN, SLOT_LEN][small(dice.below(4))];
            let len = small(1 + dice.below(len)).min(rest.len());
            to.write_all(&rest[..len])
                .await
                .expect("the server listens");
            rest = &rest[len..];
            if dice.below(8) == 0 {
                engine::clock::sleep(Duration::from_micros(dice.below(2000))).await;
            }
        }
    }
    to
}

impl Known {
    /// A request for a slot that is free, and its payload.
    fn next_request(&mut self, cookie: u64, dice: &mut Dice) -> Vec<u8> {
        let free: Vec<_> = (0..self.slots.len())
            .filter(|&n| !self.slots[n].busy)
            .collect();
        let nth = free[small(dice.below(free.len() as u64))];
        let slot = &mut self.slots[nth];
        slot.busy = true;
        let offset = dice.below(SLOT_LEN);
        let longest = [100, 20_000, SLOT_LEN][small(dice.below(3))];
        let len = 1 + dice.below(longest);
        let len = len.min(SLOT_LEN - offset);
        let here = small(offset)..small(offset + len);
        let range = Range::new(slot.start + offset, len);
        let command = COMMANDS[small(dice.below(COMMANDS.len() as u64))];
        let mut request = request(command, range.offset, range.len);
        request.cookie = cookie;
        let (mut expected, mut payload) = (Vec::new(), Vec::new());
        match command {
            Command::Read => expected = slot.content[here].to_vec(),
            Command::Write => {
                payload = pattern(u8::try_from(dice.below(256)).expect("a byte"), range);
                slot.content[here].copy_from_slice(&payload);
            }
            Command::WriteZeroes => slot.content[here].fill(0),
            Command::Flush => (request.offset, request.len) = (0, 0),
            _ => {}
        }
        if dice.below(3) == 0 {
            request.flags = CommandFlags::FUA;
        }
        let asked = SentRequest {
            slot: nth,
            request,
            expected,
        };
        self.flying.insert(cookie, asked);
        [&request.encode()[..], &payload].concat()
    }
}

/// Takes the answers, with pauses, and compares them.
async fn take_all(mut from: OwnedReadHalf, shared: &Shared, mut dice: Dice) {
    for _ in 0..REQUESTS {
        if dice.below(10) == 0 {
            engine::clock::sleep(Duration::from_micros(dice.below(5000))).await;
        }
        let mut head = [0; 16];
        from.read_exact(&mut head).await.expect("an answer");
        let cookie = u64::from_be_bytes(head[8..].try_into().expect("eight bytes"));
        let asked = shared.known().flying.remove(&cookie);
        let asked = asked.expect("a request in flight");
        assert_eq!(
            head[..8],
            [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0],
            "{:?}",
            asked.request
        );
        let mut data = vec![0; asked.expected.len()];
        from.read_exact(&mut data).await.expect("its data");
        assert!(data == asked.expected, "{:?}", asked.request);
        shared.known().slots[asked.slot].busy = false;
        shared.places.add_permits(1);
    }
}
