//! Collections between any two requests of another command, of a reader and of a writer, and collections that end at any of their own
//! requests.
//!
//! Before some request of the program under test everything is overwritten by the server of the volume, and two collections delete all that
//! nothing refers to then, without a pause: what is read must be what was there before, or what is there since, and a snapshot the one
//! or the other for good.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice as _;
use object_store::memory::InMemory;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::collection::{
    LARGE, assert_nothing_waits, collect_at, collect_at_once, objects, overwrite, remove_expiring,
    unreferenced,
};
use super::snapshots::{assert_clean, name, names, open_snapshot, snapshot};
use super::unstable_store::{Faults, RequestCut, UnstableStore};
use super::volume::{
    SIZE, access, create_on, new_volume, open, open_for_reading, run, stable, tags, write,
};
use crate::admin::delete_snapshot_on;
use crate::collection_plan::AGE;
use crate::store::StoreAccess;
use crate::volume::BucketVolume;

/// Requests of a program, at least and at most.
const REQUESTS: std::ops::Range<u64> = 3..400;
/// Of so many requests one is tried in a short run.
const STEP: usize = 7;
/// When a command is killed that is not answered any more.
const COMMAND_LIMIT: Duration = Duration::from_secs(600);

/// Plays a world for each request of a program, or for some of them unless the environment names a count; `world` returns whether the program
/// came as far as that request.
fn at_each_request(world: impl AsyncFn(u64) -> ControlFlow<()>) {
    let step = match testkit::WorldSeeds::from_env().count {
        Some(_) => 1,
        None => STEP,
    };
    let reaches = |after: &u64| run(Box::pin(world(*after))).is_continue();
    let tried = (0..REQUESTS.end).step_by(step);
    let count = tried.take_while(reaches).count() * step;
    assert!(
        REQUESTS.contains(&(count as u64)),
        "a program of {count} requests"
    );
}

/// A store, and what others do before a request of its user.
struct Overtaken {
    store: Arc<UnstableStore>,
    ended: oneshot::Receiver<()>,
}

impl Overtaken {
    fn new(
        inner: &Arc<InMemory>,
        after: u64,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
        let (sender, ended) = oneshot::channel();
        store.before_request(after, async move {
            work.await;
            sender.send(()).expect("the world waits for it");
        });
        Self { store, ended }
    }

    fn access(&self) -> StoreAccess {
        access(self.store.clone())
    }

    /// Waits for the end of what others do, if the request was reached.
    async fn end(self) -> ControlFlow<()> {
        if self.store.is_waiting() {
            return ControlFlow::Break(());
        }
        self.ended.await.expect("it was not interrupted");
        ControlFlow::Continue(())
    }
}

/// Whether the blocks are all of one of these tags.
fn is_one_of(found: &[u32], expected: &[u32]) -> bool {
    expected.contains(&found[0]) && found.iter().all(|tag| *tag == found[0])
}

async fn assert_snapshot(inner: &Arc<InMemory>, text: &str, expected: &[u32]) {
    let snapshot = open_snapshot(inner, text).await.unwrap();
    let found = tags(&snapshot, 0, LARGE).await;
    assert!(is_one_of(&found, expected), "{text}: {found:?}");
    snapshot.close().await.unwrap();
}

/// A served volume whose blocks have tag 2, and 1 in its snapshot `old`. An object of tag 9 is unused, and recorded as that.
async fn served() -> (Arc<InMemory>, BucketVolume) {
    let (inner, volume) = new_volume().await;
    overwrite(&volume, 9).await;
    overwrite(&volume, 1).await;
    snapshot(&stable(&inner), "old").await.unwrap();
    overwrite(&volume, 2).await;
    let collected = collect_at(&stable(&inner), Duration::ZERO, false).await;
    assert_eq!(collected.unwrap().waiting, 1);
    (inner, volume)
}

/// What is done before a request.
async fn overtake(inner: Arc<InMemory>, volume: BucketVolume) {
    overwrite(&volume, 3).await;
    collect_at_once(&inner).await;
}

async fn assert_in_order(inner: &Arc<InMemory>, volume: BucketVolume, tag: u32) {
    volume.close().await.unwrap();
    remove_expiring(inner).await;
    collect_at_once(inner).await;
    let left = objects(inner).await;
    assert_eq!(unreferenced(inner).await, 0, "{left:?}");
    let again = open(stable(inner)).await.unwrap();
    let found = tags(&again, 0, LARGE + 1).await;
    assert!(is_one_of(&found[..100], &[tag]), "{found:?}");
    assert_eq!(found[100], 0);
    again.close().await.unwrap();
    assert_nothing_waits(inner).await;
}

async fn read(after: u64) -> ControlFlow<()> {
    let (inner, volume) = served().await;
    let overtaken = Overtaken::new(&inner, after, overtake(inner.clone(), volume.clone()));
    let reader = open_for_reading(overtaken.access()).await.unwrap();
    let found = tags(&reader, 0, LARGE).await;
    assert!(is_one_of(&found, &[2, 3]), "{found:?}");
    reader.close().await.unwrap();
    overtaken.end().await?;
    assert_snapshot(&inner, "old", &[1]).await;
    Box::pin(assert_in_order(&inner, volume, 3)).await;
    ControlFlow::Continue(())
}

#[test]
fn a_reader_that_is_overtaken_at_any_request_reads_what_was_there_or_is() {
    at_each_request(read);
}

async fn create(after: u64) -> ControlFlow<()> {
    let (inner, volume) = served().await;
    let overtaken = Overtaken::new(&inner, after, overtake(inner.clone(), volume.clone()));
    snapshot(&overtaken.access(), "new").await.unwrap();
    overtaken.end().await?;
    overwrite(&volume, 4).await;
    collect_at_once(&inner).await;
    assert_eq!(names(&inner).await, ["old", "new"]);
    assert_snapshot(&inner, "old", &[1]).await;
    assert_snapshot(&inner, "new", &[2, 3]).await;
    Box::pin(assert_in_order(&inner, volume, 4)).await;
    ControlFlow::Continue(())
}

#[test]
fn a_snapshot_that_is_overtaken_at_any_request_keeps_its_data() {
    at_each_request(create);
}

async fn delete(after: u64) -> ControlFlow<()> {
    let (inner, volume) = served().await;
    let (others, server) = (inner.clone(), volume.clone());
    let overtaken = Overtaken::new(&inner, after, async move {
        overtake(others.clone(), server).await;
        if !names(&others).await.is_empty() {
            assert_snapshot(&others, "old", &[1]).await;
        }
    });
    let deleted = delete_snapshot_on(&overtaken.access(), &name("old")).await;
    deleted.unwrap();
    overtaken.end().await?;
    Box::pin(assert_in_order(&inner, volume, 3)).await;
    ControlFlow::Continue(())
}

#[test]
fn a_snapshot_has_its_data_until_it_is_deleted() {
    at_each_request(delete);
}

async fn check(after: u64) -> ControlFlow<()> {
    let (inner, volume) = served().await;
    let overtaken = Overtaken::new(&inner, after, overtake(inner.clone(), volume.clone()));
    let what = crate::admin::CheckOptions { data: true };
    let report = crate::admin::check_on(&overtaken.access(), what).await;
    let report = report.unwrap();
    assert_eq!(report.problem_count, 0, "{:?}", report.problems);
    overtaken.end().await?;
    ControlFlow::Continue(())
}

#[test]
fn a_check_that_is_overtaken_at_any_request_finds_no_problem() {
    at_each_request(check);
}

async fn take_over(after: u64) -> ControlFlow<()> {
    let (inner, first) = served().await;
    let others = inner.clone();
    let overtaken = Overtaken::new(&inner, after, async move {
        // It may have lost the volume.
        if write(&first, 0, LARGE, 3).await.is_ok() {
            drop(first.flush().await);
        }
        collect_at_once(&others).await;
    });
    let second = open(overtaken.access()).await.unwrap();
    let found = tags(&second, 0, LARGE).await;
    assert!(is_one_of(&found, &[2, 3]), "{found:?}");
    overwrite(&second, 4).await;
    write(&second, 50, LARGE, 5).await.unwrap();
    second.flush().await.unwrap();
    let found = tags(&second, 0, LARGE).await;
    assert!(is_one_of(&found[..50], &[4]) && is_one_of(&found[50..], &[5]));
    write(&second, LARGE, 50, 0).await.unwrap();
    overwrite(&second, 6).await;
    assert!(is_one_of(&tags(&second, 0, LARGE).await, &[6]));
    overtaken.end().await?;
    assert_snapshot(&inner, "old", &[1]).await;
    Box::pin(assert_in_order(&inner, second, 6)).await;
    ControlFlow::Continue(())
}

/// The second one is the writer that is overtaken, from its first request to its last flush.
#[test]
fn a_writer_that_is_overtaken_at_any_request_finds_its_own_data() {
    at_each_request(take_over);
}

async fn collect(after: u64) -> ControlFlow<()> {
    let (inner, volume) = served().await;
    let (others, server) = (inner.clone(), volume.clone());
    let overtaken = Overtaken::new(&inner, after, async move {
        overwrite(&server, 3).await;
        snapshot(&stable(&others), "new").await.unwrap();
        overtake(others, server).await;
    });
    collect_at(&overtaken.access(), AGE, false).await.unwrap();
    overtaken.end().await?;
    collect_at_once(&inner).await;
    assert_snapshot(&inner, "old", &[1]).await;
    assert_snapshot(&inner, "new", &[3]).await;
    Box::pin(assert_in_order(&inner, volume, 3)).await;
    ControlFlow::Continue(())
}

#[test]
fn a_collection_that_is_overtaken_at_any_request_deletes_nothing_of_a_snapshot() {
    at_each_request(collect);
}

async fn interrupt(cut: RequestCut) -> ControlFlow<()> {
    let (inner, volume) = served().await;
    // One object is recorded, and one is not.
    overwrite(&volume, 3).await;
    let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
    store.cut_at(cut);
    let access = access(store.clone());
    let collected = timeout(COMMAND_LIMIT, collect_at(&access, AGE, false)).await;
    let is_done = matches!(collected, Ok(Ok(_)));
    assert!(is_done || store.is_cut(), "a store that works");
    assert_snapshot(&inner, "old", &[1]).await;
    assert_clean(&inner).await;
    Box::pin(assert_in_order(&inner, volume, 3)).await;
    match store.is_cut() {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    }
}

#[test]
fn a_collection_that_ends_at_any_request_is_continued_by_the_next_one() {
    for is_carried_out in [false, true] {
        at_each_request(async |after| {
            let cut = RequestCut {
                after,
                is_carried_out,
            };
            Box::pin(interrupt(cut)).await
        });
    }
}

async fn volume_of_its_own(after: u64) -> ControlFlow<()> {
    let inner = Arc::new(InMemory::new());
    create_on(stable(&inner), SIZE).await.unwrap();
    let others = inner.clone();
    let overtaken = Overtaken::new(&inner, after, async move {
        collect_at_once(&others).await;
    });
    let volume = open(overtaken.access()).await.unwrap();
    for tag in 1..5 {
        // Large changes go into objects, small ones into the index.
        write(&volume, 0, LARGE, tag).await.unwrap();
        volume.flush().await.unwrap();
        write(&volume, 20, 50, 10 * tag).await.unwrap();
        volume.flush().await.unwrap();
        let found = tags(&volume, 0, LARGE).await;
        assert!(is_one_of(&found[..20], &[tag]), "{found:?}");
        assert!(is_one_of(&found[20..70], &[10 * tag]), "{found:?}");
        assert!(is_one_of(&found[70..], &[tag]), "{found:?}");
    }
    overwrite(&volume, 7).await;
    volume.close().await.unwrap();
    overtaken.end().await?;
    let again = open(stable(&inner)).await.unwrap();
    Box::pin(assert_in_order(&inner, again, 7)).await;
    ControlFlow::Continue(())
}

/// All commits of a volume, with collections between the requests of any one of them.
#[test]
fn commits_with_a_collection_at_any_request_lose_nothing() {
    at_each_request(volume_of_its_own);
}
