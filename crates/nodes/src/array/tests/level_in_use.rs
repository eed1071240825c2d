//! Arrays that get another level while they are open, where no request may be under way: what users read and write meanwhile, what any
//! cut of the power leaves, and what keeps the level as it is.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use block::{BlockDevice, IoBufs, IoFuture, Node, Range, TryIo, WriteFlags};
use testkit::{block_on, pattern, single};
use tokio::sync::Notify;

use super::super::format::Level;
use super::super::redundant::tests::kit::{DISK, MEMBER, RING, Recipe, options};
use super::super::{Array, ArrayOptions, is_changed_in_use, open};
use super::level::{Case, case, elsewhere, failing, hold_first, images, unused};
use super::open::candidates;
use super::reshape::write;
use crate::test_runtime::{is_ready, timed};
use crate::{File, FileOptions};

/// Blocks that one user writes and reads.
const BLOCK: u64 = 4096;

/// Arrays that get another level while they are open, but not between requests.
fn cases() -> Vec<Case> {
    let all = [unused(), elsewhere()].concat().into_iter();
    let is_held = |case: &Case| !is_changed_in_use(case.recipe.level, case.to);
    let mut cases: Vec<Case> = all.filter(is_held).collect();
    for recipe in [
        Recipe::mirror(2).without_bitmap(),
        Recipe::parity(Level::Raid5, 2, 2).without_bitmap(),
    ] {
        let to = match recipe.level {
            Level::Raid1 => Level::Raid5,
            _ => Level::Raid1,
        };
        cases.push(Case { recipe, to });
    }
    cases
}

/// The members that an array has once it has its level.
fn left(case: &Case, disks: &[Node]) -> Vec<Node> {
    let mut left = disks.to_vec();
    if case.to == Level::Raid0 {
        left.truncate(usize::try_from(case.parts()).unwrap());
    }
    left
}

#[test]
fn an_open_array_gets_another_level_and_holds_what_it_did() {
    for case in cases() {
        block_on(async {
            let disks = case.made().await;
            let array = open(candidates(&disks), options()).await.unwrap();
            let geometry = array.geometry().clone();
            array.change_level(case.to).await.unwrap();
            assert_eq!(array.status().level, case.to, "{case:?}");
            assert_eq!(*array.geometry(), geometry, "{case:?}");
            case.check(&array, "at once").await;
            write(&array, Range::new(0, case.size()), 1).await;
            array.stop().await.unwrap();
            let left = left(&case, &disks);
            let array = open(candidates(&left), options()).await.unwrap();
            assert!(array.status().clean, "{case:?}");
            case.is_whole(&array).await;
        });
    }
}

/// Writes and reads its blocks, on the fast path where that does not block, until it did so often.
async fn use_blocks(array: Arc<Array>, user: u64, users: u64, times: u8) {
    let blocks = array.geometry().size / BLOCK;
    for time in 0..times {
        for block in (0..blocks).filter(|block| block % users == user) {
            let range = Range::new(block * BLOCK, BLOCK);
            let data = pattern(time, range);
            let is_fast = block % 3 != 0 && array.try_write(range, &data) == TryIo::Done;
            if !is_fast {
                let flags = match block % 5 {
                    0 => WriteFlags::FUA,
                    _ => WriteFlags::empty(),
                };
                array
                    .write(range, single(data.clone()), flags)
                    .await
                    .unwrap();
            }
            tokio::task::yield_now().await;
            let mut found = vec![0; data.len()];
            if array.try_read(range, &mut found) == TryIo::WouldBlock {
                found = array.read(range).await.unwrap().concat();
            }
            assert!(found == data, "user {user}, {time}, block {block}");
            if block % 7 == 0 {
                array.flush().await.unwrap();
            }
        }
    }
}

#[test]
fn users_write_and_read_while_an_array_gets_another_level() {
    for case in cases() {
        block_on(async {
            let disks = case.made().await;
            let array = open(candidates(&disks), options()).await.unwrap();
            let changing = async {
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                array.change_level(case.to).await.unwrap();
            };
            let users = (0..3).map(|user| use_blocks(array.clone(), user, 3, 6));
            let users = futures_util::future::join_all(users);
            tokio::join!(changing, users);
            write(&array, Range::new(0, case.size()), 1).await;
            array.stop().await.unwrap();
            let left = left(&case, &disks);
            let array = open(candidates(&left), options()).await.unwrap();
            case.is_whole(&array).await;
        });
    }
}

/// The power of some disks: it is cut in the midst of so many writes.
#[derive(Debug)]
struct Cut {
    left: AtomicU32,
    out: Notify,
}

/// A disk that answers nothing once the power is cut.
#[derive(Debug)]
struct CutDisk {
    child: Node,
    cut: Arc<Cut>,
}

impl Cut {
    fn after(writes: u32) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicU32::new(writes),
            out: Notify::new(),
        })
    }

    fn is_out(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    async fn wait(&self) {
        let mut out = pin!(self.out.notified());
        out.as_mut().enable();
        if !self.is_out() {
            out.await;
        }
    }

    /// One write more.
    async fn step(&self) {
        if self.left.load(Ordering::Relaxed) > 0 && self.left.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        self.out.notify_waiters();
        pending::<()>().await;
    }

    fn disks(self: &Arc<Self>, disks: &[Node]) -> Vec<Node> {
        let disk = |child: &Node| {
            Arc::new(CutDisk {
                child: child.clone(),
                cut: self.clone(),
            }) as Node
        };
        disks.iter().map(disk).collect()
    }
}

impl BlockDevice for CutDisk {
    testkit::forward!(child: geometry, read, flush, extents, identity, settle, try_read);

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.cut.step().await;
            self.child.write(range, data, flags).await
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.cut.step().await;
            self.child.write_zeroes(range, flags).await
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.cut.step().await;
            self.child.trim(range).await
        })
    }
}

#[test]
fn a_cut_at_any_write_of_an_open_array_leaves_one_of_both_levels() {
    for case in cases() {
        block_on(async {
            let mut writes = 1;
            loop {
                let disks = case.made().await;
                let cut = Cut::after(writes);
                let array = open(candidates(&cut.disks(&disks)), options())
                    .await
                    .unwrap();
                // It is dirty when the change begins.
                let first = Range::new(0, 512);
                let change = async {
                    write(&array, first, 1).await;
                    array.change_level(case.to).await.unwrap();
                };
                tokio::select! {
                    biased;
                    () = cut.wait() => {}
                    () = change => {}
                }
                let what = format!("{case:?}, cut in write {writes}");
                let disks = match array.status().level {
                    level if level == case.to && !cut.is_out() => left(&case, &disks),
                    _ => disks,
                };
                drop(array);
                let array = open(candidates(&disks), options()).await;
                let array = array.unwrap_or_else(|error| panic!("{what}: {error}"));
                case.check(&array, &what).await;
                array.work().await;
                if array.status().level != case.to {
                    assert_eq!(array.status().level, case.recipe.level, "{what}");
                    array.change_level(case.to).await.unwrap();
                }
                case.check(&array, &what).await;
                case.is_whole(&array).await;
                if !cut.is_out() {
                    assert!(writes > 3, "{what}: it was cut nowhere");
                    return;
                }
                writes += 1;
            }
        });
    }
}

#[test]
fn parity_is_moved_to_the_last_member_before_an_array_becomes_a_stripe() {
    for recipe in [
        Recipe::parity(Level::Raid5, 2, 3),
        Recipe::parity(Level::Raid5, 0, 4).with_ppl(RING),
    ] {
        block_on(async {
            let to = Level::Raid0;
            let case = Case { recipe, to };
            let disks = case.made().await;
            let array = open(candidates(&disks), options()).await.unwrap();
            array.change_level(to).await.unwrap();
            assert_eq!(array.status().level, Level::Raid5, "{case:?}");
            let users = (0..3).map(|user| use_blocks(array.clone(), user, 3, 4));
            let users = futures_util::future::join_all(users);
            tokio::join!(array.work(), users);
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            assert_eq!(array.status().level, to, "{case:?}");
            write(&array, Range::new(0, case.size()), 1).await;
            array.stop().await.unwrap();
            let array = open(candidates(&left(&case, &disks)), options()).await;
            case.check(&array.unwrap(), "afterwards").await;
        });
    }
}

#[test]
fn an_array_with_a_request_that_does_not_end_keeps_its_level() {
    block_on(async {
        let case = case(Level::Raid1, 0, 2, Level::Raid5);
        let mut disks = case.made().await;
        let held = hold_first(&mut disks);
        let array = open(candidates(&disks), options()).await.unwrap();
        write(&array, Range::new(0, 512), 1).await;
        held.hold(true);
        let first = Range::new(0, MEMBER / 2);
        let mut writing = pin!(array.write(first, single(pattern(1, first)), WriteFlags::empty()));
        assert!(!is_ready(writing.as_mut()).await);
        let refused = array.change_level(case.to).await.unwrap_err().to_string();
        assert!(refused.contains("have not ended for 20 s"), "{refused}");
        assert_eq!(array.status().level, Level::Raid1);
        held.hold(false);
        held.release_all().await;
        writing.await.unwrap();
        array.change_level(case.to).await.unwrap();
        case.check(&array, "afterwards").await;
        case.is_whole(&array).await;
    });
}

#[test]
fn requests_wait_while_the_level_changes_and_end_by_the_new_one() {
    block_on(async {
        let case = case(Level::Raid5, 2, 2, Level::Raid1);
        let mut disks = case.made().await;
        let held = hold_first(&mut disks);
        let array = open(candidates(&disks), options()).await.unwrap();
        held.hold(true);
        let mut changing = pin!(array.change_level(case.to));
        assert!(!is_ready(changing.as_mut()).await);
        held.arrival().await;
        let range = Range::new(0, 512);
        let mut found = vec![0; 512];
        assert_eq!(array.try_read(range, &mut found), TryIo::WouldBlock);
        assert_eq!(array.try_write(range, &found), TryIo::WouldBlock);
        assert!(array.file_region_start(range).is_none());
        let mut reading = pin!(array.read(range));
        assert!(!is_ready(reading.as_mut()).await);
        assert!(
            held.held()
                .iter()
                .all(|request| request.range != Some(range))
        );
        held.hold(false);
        let release = async {
            while array.status().level != case.to || !held.held().is_empty() {
                held.release_all().await;
                tokio::task::yield_now().await;
            }
        };
        let (changed, ()) = tokio::join!(changing, release);
        changed.unwrap();
        assert!(reading.await.unwrap().concat() == pattern(1, range));
        case.is_whole(&array).await;
    });
}

/// What a client still sends from the file of a member may lie elsewhere after a reshape that follows.
#[test]
fn a_region_of_a_file_that_is_out_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    timed(async {
        let mut disks = Vec::new();
        for part in 0..2 {
            let path = folder.path().join(part.to_string());
            std::fs::File::create(&path).unwrap().set_len(DISK).unwrap();
            let file = File::open(&path, FileOptions::default()).await.unwrap();
            disks.push(Arc::new(file) as Node);
        }
        let recipe = Recipe::mirror(2);
        recipe.make(&disks).await;
        let array = open(candidates(&disks), options()).await.unwrap();
        write(&array, Range::new(0, MEMBER), 1).await;
        let (region, len) = array.file_region_start(Range::new(0, MEMBER)).unwrap();
        assert_eq!(len, MEMBER);
        let mut changing = pin!(array.change_level(Level::Raid5));
        for _ in 0..5 {
            assert!(!is_ready(changing.as_mut()).await);
            engine::clock::sleep(Duration::from_millis(10)).await;
        }
        assert!(array.file_region_start(Range::new(0, MEMBER)).is_none());
        // Requests go on meanwhile.
        write(&array, Range::new(0, 4096), 1).await;
        drop(region);
        changing.await.unwrap();
        let found = array.read(Range::new(0, MEMBER)).await.unwrap().concat();
        assert!(found == pattern(1, Range::new(0, MEMBER)));
        assert!(array.file_region_start(Range::new(0, 4096)).is_some());
    });
}

#[test]
fn an_open_array_that_lacks_a_member_keeps_its_level_unless_that_has_parity_alone() {
    block_on(async {
        for (case, member) in [
            (case(Level::Raid5, 5, 3, Level::Raid0), "a"),
            (case(Level::Raid1, 0, 2, Level::Raid5), "b"),
        ] {
            let disks = case.made().await;
            let array = open(candidates(&disks), options()).await.unwrap();
            array.fail(member).await.unwrap();
            let refused = array.change_level(case.to).await.unwrap_err().to_string();
            assert!(refused.contains("of its"), "{refused}");
            case.check(&array, "still").await;
        }
        let case = case(Level::Raid5, 5, 3, Level::Raid0);
        let disks = case.made().await;
        let array = open(candidates(&disks), options()).await.unwrap();
        array.fail("c").await.unwrap();
        array.change_level(case.to).await.unwrap();
        case.check(&array, "a stripe").await;
        let read_only = ArrayOptions {
            read_only: true,
            ..options()
        };
        array.stop().await.unwrap();
        let array = open(candidates(&disks[..2]), read_only).await.unwrap();
        let refused = array.change_level(Level::Raid5).await.unwrap_err();
        assert!(refused.to_string().contains("stays as it is"), "{refused}");
    });
}

/// A member that cannot be written while superblocks are: those of the others have the level of before again.
#[test]
fn an_open_array_of_which_a_superblock_cannot_be_written_goes_on_with_its_level() {
    for case in [
        case(Level::Raid0, 0, 3, Level::Raid5),
        case(Level::Raid5, 5, 3, Level::Raid0),
    ] {
        block_on(async {
            let disks = case.made().await;
            let before = images(&disks).await;
            let cut = failing(&disks, 1);
            let array = open(candidates(&cut), options()).await.unwrap();
            let refused = array.change_level(case.to).await.unwrap_err().to_string();
            assert!(refused.contains('b'), "{case:?}: {refused}");
            let status = array.status();
            assert_eq!(status.level, case.recipe.level, "{case:?}");
            case.check(&array, "still").await;
            if case.to == Level::Raid5 {
                assert!(images(&disks).await == before, "{case:?}");
            } else {
                // It has failed, and others know.
                assert_eq!(status.working, 2, "{case:?}");
                write(&array, Range::new(0, case.size()), 1).await;
                array.stop().await.unwrap();
                let array = open(candidates(&disks), options()).await.unwrap();
                assert_eq!(array.status().working, 2, "{case:?}");
                case.check(&array, "opened again").await;
            }
        });
    }
}
