//! Commits under a steady load.
//!
//! A checkpoint, and a sweep of the bitmap, waited until nothing was pending at all, instead of for their own changes.
//! Under a steady load the next writer's bit is always pending when a commit ends, so that a requested one went
//! on for as long as the load: a resync was not written down meanwhile, and no absent member was probed.

use std::time::Duration;
use testkit::block_on;

use block::{IoError, Node, Range};
use engine::clock;
use futures_util::future::join_all;

use super::disks;
use super::kit::{BIT, MEMBER, Recipe, write};
use crate::array::redundant::RedundantArray;
use crate::{Delay, DelayTimes};

/// What each request to a member takes.
const REQUEST: Duration = Duration::from_millis(10);
/// A commit flushes, writes the bitmap and then the superblock, and begins behind the one that is under way.
const TWO_COMMITS: Duration = Duration::from_millis(60);

/// Writes one chunk after the other, the next one while the commit for the one before is under way.
async fn load(mirror: &RedundantArray) {
    let chunk = u64::from(BIT);
    let writes = (1..MEMBER / chunk).map(|n| async move {
        clock::sleep(REQUEST * u32::try_from(n).unwrap()).await;
        write(mirror, Range::new(n * chunk, chunk), 1)
            .await
            .unwrap();
    });
    join_all(writes).await;
}

/// How long `request` takes under a load, which goes on for longer.
fn time_under_load(request: impl AsyncFn(&RedundantArray) -> Result<(), IoError>) -> Duration {
    block_on(async {
        let delay = |disk| std::sync::Arc::new(Delay::new(disk, DelayTimes::all(REQUEST))) as Node;
        let below: Vec<Node> = disks(2).into_iter().map(delay).collect();
        let mirror = Recipe::mirror(2).open(&below).await;
        write(&mirror, Range::new(0, 4096), 1).await.unwrap();
        let begin = clock::now();
        let since = || clock::now().duration_since(begin);
        let timed = async {
            clock::sleep(2 * REQUEST).await;
            let asked = since();
            request(&mirror).await.unwrap();
            since() - asked
        };
        let (took, load) = tokio::join!(timed, async {
            load(&mirror).await;
            since()
        });
        assert!(load > 2 * TWO_COMMITS, "{load:?}: that is no steady load");
        took
    })
}

#[test]
fn a_checkpoint_waits_for_its_own_change_only() {
    let took = time_under_load(async |mirror| mirror.checkpoint().await);
    assert!(took <= TWO_COMMITS, "{took:?}");
}

#[test]
fn a_new_member_is_recorded_in_two_commits() {
    let took = time_under_load(async |mirror| {
        mirror.lock().state.change(false);
        mirror.commit_pending().await
    });
    assert!(took <= TWO_COMMITS, "{took:?}");
}

#[test]
fn a_sweep_waits_for_the_bits_that_it_cleared_only() {
    let took = time_under_load(async |mirror| {
        let mut longest = Duration::ZERO;
        for _ in 0..3 {
            let begin = clock::now();
            mirror.sweep().await?;
            longest = longest.max(clock::now().duration_since(begin));
        }
        assert!(longest <= TWO_COMMITS, "{longest:?}");
        Ok(())
    });
    assert!(took <= 3 * TWO_COMMITS, "{took:?}");
}
