//! Rows that are read while their array is being stopped.

use block::{Node, Operation, Range};
use futures_util::future::{Either, join3, select};
use testkit::{HeldDisk, block_on, pattern};

use super::disks;
use super::kit::{Recipe, open, read, write};
use crate::array::format::Level;

const CHUNK: u64 = 4096;
const FIRST: Range = Range::new(0, CHUNK);

#[test]
fn what_is_computed_while_the_array_stops_is_of_one_state_of_its_row() {
    block_on(async {
        let below = disks(4);
        Recipe::parity(Level::Raid5, 2, 4).make(&below).await;
        let held = HeldDisk::new(below[1].clone());
        held.hold(false);
        // Part 0 is missing.
        let disks = vec![held.clone() as Node, below[2].clone(), below[3].clone()];
        let array = open(&disks).await;
        write(&array, Range::new(0, 3 * CHUNK), 1).await.unwrap();
        held.hold(true);
        let writing = async { write(&array, Range::new(CHUNK, CHUNK), 2).await.unwrap() };
        let stopping = async {
            // Parity is new, and the data are not.
            while held.held().first().map(|first| first.operation) != Some(Operation::Write) {
                held.release_oldest().await;
                tokio::task::yield_now().await;
            }
            array.stop().await.unwrap();
        };
        let reading = async {
            while !array.lock().state.stopped {
                tokio::task::yield_now().await;
            }
            read(&array, FIRST).await
        };
        let releasing = async {
            while !array.lock().state.stopped {
                tokio::task::yield_now().await;
            }
            for _ in 0..100 {
                let reads = held.held().into_iter();
                for read in reads.filter(|one| one.operation == Operation::Read) {
                    held.release(read.id).await;
                }
                tokio::task::yield_now().await;
            }
            loop {
                held.release_all().await;
                tokio::task::yield_now().await;
            }
        };
        let all = std::pin::pin!(join3(writing, stopping, reading));
        let releasing = std::pin::pin!(releasing);
        match select(all, releasing).await {
            Either::Left((((), (), data), _)) => assert_eq!(data, pattern(1, FIRST)),
            Either::Right(_) => unreachable!("it never ends"),
        }
    });
}
