//! A member that lets requests in one after the other, as a throttled or a remote one does.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block::{BlockDevice, Node, Range, WriteFlags};
use engine::clock;
use futures_util::future::join_all;
use testkit::{block_on, single};

use crate::array::format::{Level, Version};
use crate::array::{
    AddOptions, Array, ArrayOptions, Candidate, ConsistencyChoice, CreateOptions, MemberState,
    NewMember, create, open,
};
use crate::test_runtime::timed;
use crate::{Memory, Rates, Throttle};

const MEMBER: u64 = 8 << 20;

fn new_member(name: &str, disk: Option<Node>) -> NewMember {
    NewMember {
        name: name.to_owned(),
        disk,
        write_mostly: false,
        fail_fast: false,
    }
}

/// A mirror of which one half is there.
async fn degraded(first: Node) -> Arc<Array> {
    let wish = CreateOptions {
        journal: None,
        level: Level::Raid1,
        layout: None,
        chunk: None,
        version: Version::V1_2,
        name: "slow".to_owned(),
        consistency: ConsistencyChoice::Default,
        assume_clean: true,
        size: None,
    };
    let parts = vec![
        new_member("first", Some(first.clone())),
        new_member("second", None),
    ];
    create(parts, Vec::new(), wish).await.unwrap();
    let options = ArrayOptions {
        run: true,
        ..ArrayOptions::default()
    };
    let first = Candidate::local("first", first);
    open(vec![first], options).await.unwrap()
}

/// A disk in memory that moves so many bytes a second.
fn throttled(size: u64, bytes_per_s: u64) -> Node {
    let rates = Rates {
        bytes_per_s: NonZeroU64::new(bytes_per_s),
        ..Rates::default()
    };
    Arc::new(Throttle::new(Arc::new(Memory::new(size)), rates))
}

/// The kernel found this: during checkpoints of a recovery its windows were not polled.
/// One of them had its turn before a throttled member and did not take it, the flush stood behind it, and
/// after half a minute the member was given up.
#[test]
fn windows_continue_while_members_are_updated() {
    let first: Node = Arc::new(Memory::new(MEMBER));
    let second = throttled(MEMBER, 16 << 20);
    let state = timed(async {
        let array = degraded(first).await;
        let added = Candidate::local("second", second);
        array.add(added, AddOptions::default()).await.unwrap();
        let limit = Duration::from_secs(20);
        let synced = clock::timeout(limit, array.synced()).await;
        synced.expect("it does not hang").unwrap();
        let members = array.status().members;
        let member = members.iter().find(|member| member.name == "second");
        let state = member.map(|member| member.state);
        array.stop().await.unwrap();
        state
    });
    assert_eq!(state, Some(MemberState::InSync));
}

/// What users and a recovery moved, bytes a second.
#[derive(Debug)]
struct Moved {
    users: u64,
    recovery: u64,
}

/// Where the recovery of an array is.
fn recovered(array: &Array) -> u64 {
    array.status().sync.expect("it is far from its end").done
}

/// A recovery onto a half of 20 MB/s with so many writers of `len` bytes each that never rest.
fn beside_writers(writers: u64, len: u64, seconds: u64) -> Moved {
    const SIZE: u64 = 1 << 30;
    block_on(async {
        let array = degraded(Arc::new(Memory::new(SIZE))).await;
        let second = Candidate::local("second", throttled(SIZE, 20_000_000));
        array.add(second, AddOptions::default()).await.unwrap();
        let written = AtomicU64::new(0);
        let data = single(vec![7; usize::try_from(len).unwrap()]);
        let write = async |writer| {
            // Far behind what is recovered meanwhile.
            let range = Range::new(SIZE / 2 + writer * len, len);
            loop {
                let data = data.clone();
                array.write(range, data, WriteFlags::empty()).await.unwrap();
                written.fetch_add(len, Ordering::Relaxed);
            }
        };
        let look = || (written.load(Ordering::Relaxed), recovered(&array));
        let measure = async {
            // It begins as if it were alone, and sees users at the end of each window.
            clock::sleep(Duration::from_secs(15)).await;
            let from = look();
            clock::sleep(Duration::from_secs(seconds)).await;
            let to = look();
            Moved {
                users: (to.0 - from.0) / seconds,
                recovery: (to.1 - from.1) / seconds,
            }
        };
        tokio::select! {
            moved = measure => moved,
            _ = join_all((0..writers).map(write)) => unreachable!("they never rest"),
        }
    })
}

/// A load of 4 KiB that took all of a half of 20 MB/s was claimed to leave a recovery a third of a megabyte a
/// second.
#[test]
fn one_writer_who_fills_a_member_leaves_a_recovery_its_smallest_rate() {
    let moved = beside_writers(1, 4096, 8);
    assert!(moved.recovery > (1 << 20) / 10 * 9, "{moved:?}");
    assert!(moved.users > 10_000_000, "{moved:?}");
}

/// One window at a time lay behind all of the users' writes for 0.85 s, and moved 0.3 MiB a second.
#[test]
fn many_writers_who_fill_a_member_leave_a_recovery_its_smallest_rate() {
    for (writers, len) in [(64, 256 << 10), (16, 1 << 20)] {
        let moved = beside_writers(writers, len, 20);
        assert!(moved.recovery > (1 << 20) / 10 * 9, "{moved:?}");
        assert!(moved.users > 18_000_000, "{moved:?}");
    }
}
