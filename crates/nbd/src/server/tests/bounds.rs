//! The bounds: memory that must be waited for, time that may pass, turns that must be shared.

use std::sync::Arc;
use std::time::Duration;

use block::Range;
use nbd_proto::Command;
use testkit::{HeldDisk, MemDisk, pattern};

use super::{Limits, Raw, request, serving};

const SIZE: u64 = 4 << 20;
const PAYLOAD: u64 = 512 << 10;
/// Far beyond what anything here takes.
const LONG: Duration = Duration::from_secs(10);

fn patterned() -> Arc<MemDisk> {
    Arc::new(MemDisk::from_bytes(pattern(1, Range::new(0, SIZE))))
}

/// A connection waits for memory, is woken because some was freed, and finds that another one took
/// it first. It then remembered to wait again, but went to sleep without beginning to: nothing ever
/// woke it, and its client waited for ever.
#[test]
fn a_request_that_lost_the_race_for_memory_waits_again_and_is_served() {
    let disk = HeldDisk::new(patterned());
    let limits = Limits {
        in_flight_bytes_total_max: 512 << 10,
        payload_max: 512 << 10,
        ..Limits::default()
    };
    serving(disk.clone(), limits, |address| async move {
        disk.hold(true);
        let read = request(Command::Read, 0, PAYLOAD);
        let mut raws = Vec::new();
        for _ in 0..6 {
            let mut raw = Raw::simple(address).await;
            raw.say(&read.encode()).await;
            raws.push(raw);
        }
        let answers: Vec<_> = raws
            .into_iter()
            .map(|mut raw| engine::spawn(async move { raw.simple_reply(&read).await }))
            .collect();
        for nth in 0..answers.len() {
            let arrived = engine::clock::timeout(LONG, disk.arrival()).await;
            assert!(arrived.is_ok(), "request {nth} never reached the disk");
            assert_eq!(disk.held().len(), 1, "memory for one");
            disk.release_oldest().await;
        }
        for answer in answers {
            assert_eq!(answer.await.expect("no panic").0, 0);
        }
        disk.hold(false);
    });
}
