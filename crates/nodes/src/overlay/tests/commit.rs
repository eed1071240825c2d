//! Commits: what is in the base afterwards, and at every moment before.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use block::{BlockDevice, Node, Range, WriteFlags};
use testkit::{CrashDisk, MemDisk, block_on};

use super::super::{Committing, Overlay, OverlayError, OverlayOptions};
use super::{SIZE, SMALL, base_of, over, read_all, store_of, store_size, write};

/// A store with changes over two tables, zeroes among them, and what base and store read as.
async fn changed() -> (Vec<u8>, Vec<u8>) {
    let store = Arc::new(store_of(SMALL, store_size(SIZE, SMALL)));
    let disk = over(base_of(SIZE), store.clone()).await.unwrap();
    for n in [3, 4, 5, 90, 91, 40, 127] {
        write(&disk, Range::new(n * 512 + 10, 500), 1)
            .await
            .unwrap();
    }
    write(&disk, Range::new(10_000, 18_000), 2).await.unwrap();
    let zeroes = Range::new(50_000, 4000);
    disk.write_zeroes(zeroes, WriteFlags::empty())
        .await
        .unwrap();
    disk.flush().await.unwrap();
    let content = read_all(&disk).await;
    (store.snapshot(), content)
}

async fn commit(base: &Node, store: Node) -> Result<u64, OverlayError> {
    Overlay::commit_disk(base, store, &Committing::default()).await
}

#[test]
fn a_commit_moves_all_changes_and_empties_the_store() {
    block_on(async {
        let (store, content) = changed().await;
        let memory = base_of(SIZE);
        let base: Node = memory.clone();
        let store = Arc::new(MemDisk::from_bytes(store));
        let progress = Committing::default();
        let moved = Overlay::commit_disk(&base, store.clone(), &progress);
        let moved = moved.await.unwrap();
        assert_eq!((progress.done(), progress.total()), (moved, moved));
        assert_eq!(memory.snapshot(), content);
        // It is a store still, empty, and used on.
        let disk = over(base.clone(), store.clone()).await.unwrap();
        assert_eq!(disk.usage().changed, 0);
        assert_eq!(read_all(&disk).await, content);
        write(&disk, Range::new(0, 9000), 9).await.unwrap();
        disk.flush().await.unwrap();
        let content = read_all(&disk).await;
        drop(disk);
        commit(&base, store.clone()).await.unwrap();
        assert_eq!(memory.snapshot(), content);
        assert_eq!(
            commit(&base, store).await.unwrap(),
            0,
            "nothing is left to do"
        );
    });
}

/// Cut at every poll: base and store, opened as an overlay, read as before; and a restarted commit
/// comes to its end.
#[test]
fn a_commit_that_is_cut_anywhere_can_be_restarted() {
    let (image, content) = block_on(changed());
    let mut polls = 0;
    while !block_on(cut_after(polls, &image, &content)) {
        polls += 1;
        assert!(polls < 2000, "the commit never comes to its end");
    }
    assert!(polls > 20, "there was nothing to cut");
}

async fn cut_after(polls: u64, image: &[u8], content: &[u8]) -> bool {
    let base = CrashDisk::from_bytes(super::base_bytes(SIZE)).interleaved(polls);
    let store = CrashDisk::from_bytes(image.to_vec()).interleaved(polls + 1);
    let (base, store) = (Arc::new(base), Arc::new(store));
    let done = {
        let below: Node = base.clone();
        let mut committing = pin!(commit(&below, store.clone()));
        let mut done = false;
        for _ in 0..polls {
            let poll = poll_fn(|context| Poll::Ready(committing.as_mut().poll(context)));
            if let Poll::Ready(result) = poll.await {
                result.unwrap();
                done = true;
                break;
            }
        }
        done
    };
    for seed in 0..6 {
        let base: Arc<MemDisk> = Arc::new(MemDisk::from_bytes(base.crash(seed)));
        let store = Arc::new(MemDisk::from_bytes(store.crash(seed ^ polls)));
        let disk = over(base.clone(), store.clone()).await.unwrap();
        assert_eq!(
            read_all(&disk).await,
            content,
            "cut after {polls} polls, seed {seed}"
        );
        drop(disk);
        let below: Node = base.clone();
        commit(&below, store).await.unwrap();
        assert_eq!(base.snapshot(), content, "begun again after {polls} polls");
    }
    done
}

#[test]
fn what_does_not_fit_is_not_committed() {
    block_on(async {
        let (image, _) = changed().await;
        let store = Arc::new(MemDisk::from_bytes(image.clone()));
        let smaller = base_of(SIZE - 512);
        let base: Node = smaller.clone();
        let error = commit(&base, store.clone()).await.unwrap_err();
        assert!(matches!(error, OverlayError::Format { .. }), "{error}");
        assert_eq!(smaller.snapshot(), super::base_bytes(SIZE - 512));
        let fixed =
            MemDisk::from_bytes(super::base_bytes(SIZE)).with_geometry(|g| g.read_only = true);
        let base: Node = Arc::new(fixed);
        let error = commit(&base, store.clone()).await.unwrap_err();
        assert!(matches!(error, OverlayError::ReadOnlyBase), "{error}");
        assert_eq!(store.snapshot(), image);
        let empty: Node = Arc::new(MemDisk::new(store_size(SIZE, 4096)));
        let base: Node = base_of(SIZE);
        let error = commit(&base, empty).await.unwrap_err();
        assert!(matches!(error, OverlayError::Empty { .. }), "{error}");
    });
}

#[test]
fn a_commit_of_files_refuses_what_is_in_use_and_gives_the_space_back() {
    use std::os::unix::fs::MetadataExt;
    crate::test_runtime::on_each_backend(async || {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        let memory = base_of(1 << 20);
        let base: Node = memory.clone();
        let disk = Overlay::open(base.clone(), &top, OverlayOptions::default())
            .await
            .unwrap();
        write(&disk, Range::new(0, 1 << 20), 1).await.unwrap();
        disk.flush().await.unwrap();
        let progress = Committing::default();
        let error = Overlay::commit(&base, &top, &progress).await.unwrap_err();
        assert!(
            matches!(error, OverlayError::Open(crate::OpenError::InUse { .. })),
            "{error}"
        );
        let content = read_all(&disk).await;
        drop(disk);
        assert_eq!(
            Overlay::commit(&base, &top, &progress).await.unwrap(),
            1 << 20
        );
        assert_eq!(memory.snapshot(), content);
        let left = std::fs::metadata(&top).unwrap().blocks() * 512;
        assert!(left < 64 * 1024, "{left} bytes are left");
        let missing = folder.path().join("missing");
        let error = Overlay::commit(&base, &missing, &progress)
            .await
            .unwrap_err();
        assert!(matches!(error, OverlayError::NotFound { .. }), "{error}");
        assert!(!missing.exists());
    });
}
