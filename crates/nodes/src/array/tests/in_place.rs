//! Arrays without free space before their data that get another chunk or layout, with a backup file: what they hold at every step, after any end, and
//! after a cut at any step of members and file.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{Node, Range};
use futures_util::future::join;
use testkit::{MemDisk, block_on};

use super::super::format::reshape_backup::{ReshapeBackup, SavedRange, backup_uuid};
use super::super::format::{self, Level, Superblock, Version};
use super::super::redundant::tests::kit::{Recipe, options, put};
use super::super::{
    Array, ArrayError, ArrayOptions, BackupFile, BackupFuture, MemberState, NewShape, open,
};
use super::open::candidates;
use super::reshape::{Case, Content, assert_fits, one_step};

/// Bytes of the files.
pub(super) const FILE: u64 = 256 << 10;

/// A backup file in a disk, which is there or not.
#[derive(Debug)]
pub(super) struct TestBackup {
    disk: Node,
    is_there: AtomicBool,
}

impl TestBackup {
    pub(super) fn new(disk: Node, is_there: bool) -> Arc<Self> {
        let is_there = AtomicBool::new(is_there);
        Arc::new(Self { disk, is_there })
    }

    /// One that is not there yet.
    fn none() -> Arc<Self> {
        Self::new(Arc::new(MemDisk::new(FILE)), false)
    }

    /// One that is there.
    pub(super) fn found(disk: Node) -> Arc<dyn BackupFile> {
        Self::new(disk, true)
    }

    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }
}

impl BackupFile for TestBackup {
    fn name(&self) -> &str {
        "rows.bak"
    }

    fn open(&self) -> BackupFuture<'_, Option<Node>> {
        let disk = self.is_there().then(|| self.disk.clone());
        Box::pin(async { Ok(disk) })
    }

    fn create(&self, len: u64) -> BackupFuture<'_, Node> {
        assert!(len <= self.disk.geometry().size, "{len}");
        self.is_there.store(true, Ordering::Relaxed);
        let disk = self.disk.clone();
        Box::pin(async { Ok(disk) })
    }

    fn remove(&self) -> BackupFuture<'_, ()> {
        self.is_there.store(false, Ordering::Relaxed);
        Box::pin(async { Ok(()) })
    }
}

/// Reshapes of arrays with nothing free before their data, and as much data in each row afterwards: they need a backup file.
pub(super) fn backup_cases() -> Vec<Case> {
    let old = Version::V0_90 { big_endian: false };
    let to = |version, recipe: Recipe, layout, chunk| Case {
        recipe: Recipe { version, ..recipe },
        shape: NewShape {
            parts: None,
            layout,
            chunk,
        },
    };
    let raid5 = Recipe::parity(Level::Raid5, 2, 3);
    let raid6 = Recipe::parity(Level::Raid6, 2, 5);
    vec![
        to(Version::V1_0, raid5.clone(), None, Some(8192)),
        to(
            Version::V1_0,
            raid6.clone().without_bitmap(),
            Some(18),
            None,
        ),
        to(Version::V1_0, raid5.clone(), Some(0), Some(16 << 10)),
        to(old, raid5.without_bitmap(), Some(5), None),
        to(old, Recipe::parity(Level::Raid4, 0, 3), None, Some(8192)),
        to(old, raid6, Some(0), Some(8192)),
    ]
}

fn with(backup: Option<Arc<dyn BackupFile>>) -> ArrayOptions {
    ArrayOptions {
        backup,
        ..options()
    }
}

/// An array that is full of a pattern, and its reshape, which has moved nothing; with its file.
async fn begun(case: &Case, disks: &[Node]) -> (Arc<Array>, Arc<TestBackup>) {
    let array = case.full(disks).await;
    let file = TestBackup::none();
    array.reshape(case.shape, Some(file.clone())).await.unwrap();
    assert!(file.is_there());
    (array, file)
}

#[test]
fn an_array_is_read_and_written_at_every_step() {
    for case in backup_cases() {
        block_on(async {
            let disks = case.disks();
            let (array, file) = begun(&case, &disks).await;
            let mut content = Content::of(&case);
            let size = case.sizes()[0];
            let mut step = 0;
            loop {
                let what = format!("{case:?}, step {step}");
                content.check(&array, &what).await;
                for (at, len) in [(step * 5000 % size, 3000), (size - 2048, 512), (0, 1024)] {
                    let range = Range::new(at / 512 * 512, len.min(size - at) / 512 * 512);
                    let fill = u8::try_from(step % 200).unwrap();
                    content.put(&array, range, fill).await;
                }
                if !one_step(&array).await {
                    break;
                }
                step += 1;
            }
            assert!(step > 2, "{case:?} has {step} steps");
            case.has_ended(&array).await;
            assert!(!file.is_there(), "it is removed");
            assert_fits(&array, &format!("{case:?}")).await;
            array.stop().await.unwrap();
            let array = open(candidates(&disks), options()).await.unwrap();
            content.check(&array, &format!("{case:?}, again")).await;
        });
    }
}

#[test]
fn a_reshape_goes_on_with_its_file_where_it_was_after_any_end() {
    for case in backup_cases() {
        block_on(async {
            let disks = case.disks();
            let (mut array, file) = begun(&case, &disks).await;
            let mut content = Content::of(&case);
            let mut step = 0_u8;
            while one_step(&array).await && array.by_hand().array.is_reshaping() {
                step += 1;
                content.put(&array, Range::new(0, 512), step).await;
                let last = Range::new(case.sizes()[0] - 512, 512);
                content.put(&array, last, step).await;
                if step.is_multiple_of(2) {
                    array.stop().await.unwrap();
                }
                drop(array);
                let refused = open(candidates(&disks), options()).await.unwrap_err();
                let next = refused.next().unwrap();
                assert!(next.contains("--continue --backup-file FILE"), "{next}");
                array = open(candidates(&disks), with(Some(file.clone())))
                    .await
                    .unwrap();
                let what = format!("{case:?}, step {step}");
                content.check(&array, &what).await;
            }
            array.by_hand().work().await.unwrap();
            content.check(&array, &format!("{case:?}")).await;
            case.has_ended(&array).await;
            assert_fits(&array, &format!("{case:?}")).await;
        });
    }
}

/// The window that was moved last is locked until the next one is in the file, or a request waits for it; a request may wait for both.
#[test]
fn requests_wait_for_a_window_and_no_longer() {
    for case in backup_cases() {
        block_on(async {
            let disks = case.disks();
            let (array, _) = begun(&case, &disks).await;
            let mut content = Content::of(&case);
            let redundant = &array.by_hand().array;
            let mut fill = 2;
            loop {
                let moved = redundant.move_window(1).await.unwrap().unwrap();
                if !redundant.is_reshaping() {
                    break;
                }
                let is_done = Cell::new(false);
                let both = Range::new(moved.end() - 512, 1024);
                let request = async {
                    content.put(&array, both, fill).await;
                    is_done.set(true);
                };
                // As the worker does: it moves the next one, and is held up then.
                let worker = async {
                    redundant.move_window(1).await.unwrap();
                    while !is_done.get() {
                        redundant.release_window(true).await;
                        tokio::task::yield_now().await;
                    }
                    redundant.release_window(false).await;
                };
                join(request, worker).await;
                content.check(&array, &format!("{case:?}, {moved}")).await;
                fill += 1;
                if !redundant.is_reshaping() {
                    break;
                }
            }
            content.check(&array, &format!("{case:?}")).await;
            assert_fits(&array, &format!("{case:?}")).await;
        });
    }
}

#[test]
fn a_member_that_fails_meanwhile_is_rebuilt_afterwards() {
    for case in backup_cases() {
        block_on(async {
            let disks = case.disks();
            let (array, _) = begun(&case, &disks).await;
            let mut content = Content::of(&case);
            assert!(one_step(&array).await);
            array.fail("b").await.unwrap();
            while one_step(&array).await {
                content.put(&array, Range::new(1024, 8192), 7).await;
                content.check(&array, &format!("{case:?}, degraded")).await;
            }
            case.has_ended(&array).await;
            let failed = array.status().members.into_iter();
            let failed = failed.filter(|one| one.state == MemberState::Failed);
            assert_eq!(failed.count(), 1);
        });
    }
}

async fn superblock_of(disk: &Node, version: Version) -> Superblock {
    let places = format::places(disk.geometry().size).into_iter();
    let mut found = places.filter(|(other, _)| other.is_v1() == version.is_v1());
    let (version, at) = match version {
        Version::V1_0 => found.find(|(other, _)| *other == version),
        _ => found.next(),
    }
    .unwrap();
    let bytes = disk.read(Range::new(at, 4096)).await.unwrap().concat();
    format::decode(version, at, &bytes).unwrap().unwrap()
}

async fn refusal(case: &Case, backup: Option<Arc<dyn BackupFile>>) -> ArrayError {
    let disks = case.disks();
    let array = case.full(&disks).await;
    array.reshape(case.shape, backup).await.unwrap_err()
}

#[test]
fn without_a_file_or_over_something_else_nothing_begins() {
    block_on(async {
        let case = backup_cases().remove(0);
        let refused = refusal(&case, None).await;
        assert!(refused.next().unwrap().contains("--backup-file FILE"));
        for content in [vec![0; 4096], vec![b'm'; 4096], vec![]] {
            let len = content.len() as u64;
            let disk = Arc::new(MemDisk::from_bytes(content.clone()));
            let refused = refusal(&case, Some(TestBackup::found(disk.clone()))).await;
            let why = refused.to_string();
            assert!(why.contains("is no backup of this array"), "{why}, {len}");
            assert!(disk.snapshot() == content, "it stays as it is");
        }
    });
}

#[test]
fn a_file_of_another_array_or_time_is_refused_and_so_is_reading_alone() {
    block_on(async {
        let case = backup_cases().remove(0);
        let disks = case.disks();
        let (array, file) = begun(&case, &disks).await;
        array.stop().await.unwrap();
        drop(array);
        // Another array's file, and one of another time.
        for at in [16, 34] {
            let mut image = file.disk.read(Range::new(0, FILE)).await.unwrap().concat();
            image[at] ^= 1;
            let disk = Arc::new(MemDisk::from_bytes(image));
            let opened = open(candidates(&disks), with(Some(TestBackup::found(disk)))).await;
            let why = opened.unwrap_err().to_string();
            assert!(why.contains("it has one of another"), "{why}");
        }
        let only_read = ArrayOptions {
            read_only: true,
            ..with(Some(file))
        };
        let refused = open(candidates(&disks), only_read).await.unwrap_err();
        assert!(refused.to_string().contains("not read before"), "{refused}");
    });
}

/// Both halves are named, as mdadm leaves a file, of another length than ours, the first of them written over in part. Where mdadm wrote it, nothing is
/// restored.
#[test]
fn both_halves_of_a_file_are_restored_unless_mdadm_wrote_it() {
    for version in [Version::V1_0, Version::V0_90 { big_endian: false }] {
        block_on(async {
            let mut case = backup_cases().remove(0);
            case.recipe.version = version;
            let disks = case.disks();
            let (array, file) = begun(&case, &disks).await;
            let content = Content::of(&case);
            assert!(one_step(&array).await);
            let (position, _) = array.by_hand().array.reshaped_to().unwrap();
            array.stop().await.unwrap();
            drop(array);
            let of = superblock_of(&disks[0], version).await;
            let half = 2 * position;
            let saved = |number: u64| {
                let range = Range::new(position + number * half, half);
                let at = 4096 + number * half;
                SavedRange { range, at }
            };
            let header = ReshapeBackup {
                array: backup_uuid(&of),
                written: of.updated,
                first: saved(0),
                second: Some(saved(1)),
                is_ours: true,
            };
            for SavedRange { range, at } in [saved(0), saved(1)] {
                let (start, end) = (range.offset, range.end());
                let bytes = Range::new(0, start).len_usize()..Range::new(0, end).len_usize();
                put(&file.disk, at, content.bytes()[bytes].to_vec()).await;
            }
            let of_mdadm = ReshapeBackup {
                is_ours: false,
                ..header
            };
            put(&file.disk, 0, of_mdadm.encode()).await;
            let refused = open(candidates(&disks), with(Some(file.clone()))).await;
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("mdadm wrote it"), "{refused}");
            assert!(file.is_there());
            put(&file.disk, 0, header.encode()).await;
            put(&disks[1], position / 2, vec![0xee; 8192]).await;
            let array = open(candidates(&disks), with(Some(file.clone()))).await;
            let array = array.unwrap();
            let reached = array.by_hand().array.reshaped_to().map(|(at, _)| at);
            assert_eq!(reached, Some(position + 2 * half), "{version}");
            content.check(&array, &format!("{version}")).await;
            array.by_hand().work().await.unwrap();
            content.check(&array, &format!("{version}, moved")).await;
            assert_fits(&array, &format!("{version}")).await;
            assert!(!file.is_there());
        });
    }
}

#[test]
fn a_form_that_needs_no_file_makes_none() {
    block_on(async {
        let case = super::reshape::moved_cases().remove(6);
        let disks = case.disks();
        let array = case.full(&disks).await;
        let file = TestBackup::none();
        let shape = NewShape { ..case.shape };
        array.reshape(shape, Some(file.clone())).await.unwrap();
        assert!(!file.is_there());
        array.by_hand().work().await.unwrap();
        case.has_ended(&array).await;
    });
}
