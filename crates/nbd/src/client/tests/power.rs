//! A server that loses power, on a disk that keeps any part of what was not flushed.
//!
//! The header of `unflushed.rs` says why this matters. There the server loses everything that was
//! not flushed; here each sector is lost or not as the disk pleases, with requests in flight, over
//! and over. What was written is there for the next reader, and what a flush covered is there
//! after the next cut.

use block::{BlockDevice, IoFuture, Range};
use testkit::{Model, Op, OpSpace, gather, pattern, single};

use super::basics::random_ops;
use super::fake::Fake;
use super::{connect, in_engine, poll_once, short_limits};
use crate::client::{Client, ClientConfig};

const SIZE: u64 = 64 << 10;
const RUNS: usize = 12;
const OPS: usize = 40;

fn request<'a>(client: &'a Client, op: &Op) -> Option<IoFuture<'a, ()>> {
    Some(match *op {
        Op::Write {
            range, fill, flags, ..
        } => client.write(range, single(pattern(fill, range)), flags),
        Op::WriteZeroes { range, flags } => client.write_zeroes(range, flags),
        Op::Trim { range } => client.trim(range),
        Op::Flush => client.flush(),
        Op::Read { .. } => return None,
    })
}

async fn holds(client: &Client, model: &Model, when: &str) {
    let whole = Range::new(0, SIZE);
    let read = gather(&client.read(whole).await.unwrap());
    assert!(model.agrees(whole, &read), "{when}");
}

/// One world: these requests, with a power cut while every fourth is in flight.
async fn survives_cuts(seed: u64, ops: &[Op], connections: usize) {
    let fake = Fake::start(SIZE);
    fake.world().lose_sectors();
    let config = ClientConfig {
        connections,
        ..short_limits()
    };
    let client = connect(&fake, config).await;
    let mut model = Model::new(SIZE);
    for (nth, op) in ops.iter().enumerate() {
        let Some(mut request) = request(&client, op) else {
            continue;
        };
        if nth % 4 == 3 {
            assert!(poll_once(&mut request).await.is_pending());
            if nth % 8 == 3 {
                // Sent, perhaps carried out, perhaps answered.
                engine::clock::sleep(std::time::Duration::from_millis(2)).await;
            }
            fake.cut_power(seed * 1000 + nth as u64).await;
            fake.listen();
        }
        request.await.unwrap();
        model.apply(op);
        if nth % 4 == 3 {
            holds(&client, &model, &format!("world {seed}, cut {nth}")).await;
        }
    }
    client.flush().await.unwrap();
    fake.cut_power(seed).await;
    let left = fake.world().live.clone();
    let whole = Range::new(0, SIZE);
    assert!(model.agrees(whole, &left), "world {seed}: flushed and lost");
    assert!(client.health().reconnects > 0);
}

#[test]
fn whatever_a_power_cut_leaves_nothing_acknowledged_is_lost() {
    let space = OpSpace {
        size: SIZE,
        block_size: 512,
        len_max: 8 << 10,
    };
    let ops = random_ops(space, RUNS * OPS);
    for (nth, ops) in ops.chunks(OPS).enumerate() {
        let seed = 1 + nth as u64;
        in_engine(|| survives_cuts(seed, ops, 1 + nth % 3));
    }
}
