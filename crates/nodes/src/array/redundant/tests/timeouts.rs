//! How long members are waited for.

use std::sync::Arc;
use std::time::Duration;

use block::{IoFuture, Range, WriteFlags};
use engine::clock;
use testkit::{HeldDisk, MemDisk, block_on, single};
use tokio::sync::broadcast;

use super::super::members::{SlotId, Target, is_timeout};
use crate::array::format::Version;
use crate::array::format::tests::mirror;
use crate::array::member::Member;
use crate::array::member_guard::ArrayFence;

const TIMEOUT: Duration = Duration::from_millis(200);
/// Far beyond it.
const LONG: Duration = Duration::from_millis(500);

/// A member of another machine, and the disk that holds its requests.
fn remote() -> (Arc<HeldDisk>, Target) {
    let superblock = mirror(Version::V1_2, 0);
    let end = superblock.data.offset + superblock.data.len;
    let held = HeldDisk::new(Arc::new(MemDisk::new(end)));
    let member = Member {
        name: "nbd://backup/a".to_owned(),
        disk: held.clone(),
        remote: true,
        reopen: None,
        at: 4096,
        superblock,
        bytes: Vec::new(),
        bitmap: None,
        bad: Vec::new(),
    };
    let events = broadcast::Sender::new(1);
    let fence = ArrayFence::new("media", events, Arc::default());
    (held, Target::new(SlotId(0), &member, TIMEOUT, fence, None))
}

/// Lets a request wait while `others` say what others meet.
async fn waiting<'a, T>(
    mut request: IoFuture<'a, T>,
    held: &HeldDisk,
    others: bool,
) -> IoFuture<'a, T> {
    let first = std::future::poll_fn(|cx| std::task::Poll::Ready(request.as_mut().poll(cx))).await;
    assert!(first.is_pending());
    held.hold(others);
    request
}

#[test]
fn a_slow_flush_of_a_member_that_answers_is_waited_for() {
    block_on(async {
        let (held, target) = remote();
        let flush = waiting(Box::pin(target.flush()), &held, false).await;
        let release = async {
            clock::sleep(LONG).await;
            held.release_all().await;
        };
        let (flushed, ()) = tokio::join!(flush, release);
        flushed.unwrap();
    });
}

#[test]
fn a_flush_of_a_member_that_answers_nothing_fails_in_time() {
    block_on(async {
        let (held, target) = remote();
        let begin = clock::now();
        let flush = waiting(Box::pin(target.flush()), &held, true).await;
        let error = flush.await.unwrap_err();
        let took = clock::now().duration_since(begin);
        assert!(is_timeout(&error), "{error}");
        assert_eq!(took, TIMEOUT);
    });
}

#[test]
fn a_slow_flush_is_not_waited_for_for_ever() {
    block_on(async {
        let (held, target) = remote();
        let flush = waiting(Box::pin(target.flush()), &held, false).await;
        assert!(is_timeout(&flush.await.unwrap_err()));
    });
}

#[test]
fn who_is_alone_is_waited_for() {
    block_on(async {
        let (held, target) = remote();
        let range = Range::new(0, 4096);
        let write = || target.write(range, single(vec![1; 4096]), WriteFlags::empty());
        let error = waiting(Box::pin(write()), &held, true).await.await;
        assert!(is_timeout(&error.unwrap_err()));
        target.set_alone(true);
        let release = async {
            clock::sleep(LONG).await;
            held.hold(false);
            held.release_all().await;
        };
        let both = async { (write().await, target.flush().await) };
        let ((written, flushed), ()) = tokio::join!(both, release);
        written.unwrap();
        flushed.unwrap();
    });
}

/// A request to it began while it was alone, and was waited for without limit although another member had come meanwhile: a flush hung
/// for ever on a disk that had hung, and with it its caller.
#[test]
fn who_is_alone_no_longer_is_not_waited_for_any_more() {
    block_on(async {
        for flushes in [true, false] {
            let (held, target) = remote();
            target.set_alone(true);
            let range = Range::new(0, 4096);
            let asked: IoFuture<'_, ()> = match flushes {
                true => Box::pin(target.flush()),
                false => Box::pin(target.write(range, single(vec![1; 4096]), WriteFlags::empty())),
            };
            let asked = waiting(asked, &held, true).await;
            let comes = async {
                clock::sleep(LONG).await;
                target.set_alone(false);
            };
            let both = async { tokio::join!(asked, comes).0 };
            let error = clock::timeout(20 * TIMEOUT, both).await;
            assert!(is_timeout(&error.expect("it ends").unwrap_err()));
        }
    });
}
