//! An open volume: the contract, what is there after it is opened again, failures, sizes.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice as _, Errno, ExtentKind, Range, TryIo, WriteFlags};
use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use proptest::prelude::*;
use testkit::{Op, OpSpace, check_against_model, check_in_batches, gather, ops, pattern, single};

use super::encoding::{self, TestEncoding};
use super::unstable_store::{Faults, UnstableStore};
use super::{block_of, blocks, tag_of};
use crate::admin::{CreateOptions, CreatedVolume, status_on};
use crate::error::BucketError;
use crate::format::{BLOCK, RUN};
use crate::store::{ConflictFilter, StoreAccess};
use crate::volume::{BucketVolume, VolumeOptions, open_on};

/// Not whole runs.
pub(super) const SIZE: u64 = 5 * RUN + 3 * BLOCK;

/// A store in memory, with requests that do not fail.
pub(super) fn stable(inner: &Arc<InMemory>) -> StoreAccess {
    access(UnstableStore::new(inner.clone(), Faults::default(), 1))
}

pub(super) fn access(store: Arc<UnstableStore>) -> StoreAccess {
    let access = StoreAccess::new(
        "test:volume".to_owned(),
        "test:".to_owned(),
        Arc::new(ConflictFilter(store)),
        "lab/volume".to_owned(),
    );
    access.with_key(encoding::now().key)
}

/// Makes a volume, encoded as those of this test are.
pub(super) async fn create_on(
    access: StoreAccess,
    size: u64,
) -> Result<CreatedVolume, BucketError> {
    let compression = encoding::now().compression;
    crate::admin::create_on(access, CreateOptions { size, compression }).await
}

/// Runs a test on a runtime whose time passes at once.
pub(super) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(test)
}

pub(super) async fn open(access: StoreAccess) -> Result<BucketVolume, BucketError> {
    open_with(access, &VolumeOptions::default()).await
}

pub(super) async fn open_with(
    access: StoreAccess,
    options: &VolumeOptions,
) -> Result<BucketVolume, BucketError> {
    open_on(access, options, tokio::runtime::Handle::current()).await
}

pub(super) async fn open_for_reading(access: StoreAccess) -> Result<BucketVolume, BucketError> {
    let options = VolumeOptions {
        read_only: true,
        ..VolumeOptions::default()
    };
    open_with(access, &options).await
}

/// A store with a volume, open.
pub(super) async fn new_volume() -> (Arc<InMemory>, BucketVolume) {
    let inner = Arc::new(InMemory::new());
    create_on(stable(&inner), SIZE).await.unwrap();
    let volume = open(stable(&inner)).await.unwrap();
    (inner, volume)
}

pub(super) async fn write(
    volume: &BucketVolume,
    first: u64,
    count: u64,
    tag: u32,
) -> Result<(), block::IoError> {
    let data: Vec<u8> = (0..count).flat_map(|_| block_of(tag)).collect();
    let data = single(data);
    volume
        .write(blocks(first, count), data, WriteFlags::empty())
        .await
}

pub(super) async fn tags(volume: &BucketVolume, first: u64, count: u64) -> Vec<u32> {
    let data = gather(&volume.read(blocks(first, count)).await.unwrap());
    data.chunks(4096).map(tag_of).collect()
}

/// A data object of the second writer, which is the first one behind `create`.
pub(super) async fn data_object(inner: &Arc<InMemory>, number: u64) -> Path {
    let id = status_on(&stable(inner)).await.unwrap().id;
    Path::from(format!("lab/volume/data/{id}/00000002-{number:016x}"))
}

pub(super) async fn bytes_of(inner: &InMemory, object: &Path) -> Vec<u8> {
    let found = inner.get(object).await.unwrap();
    found.bytes().await.unwrap().to_vec()
}

fn space() -> OpSpace {
    OpSpace {
        size: SIZE,
        block_size: 4096,
        len_max: 3 * RUN,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_is_the_model(list in ops(space(), 0..40), width in 2_usize..9, encoded in 0..4_u64) {
        encoding::with(TestEncoding::of_seed(encoded), || run(async {
            let (inner, volume) = new_volume().await;
            check_against_model(&volume, &list).await.unwrap();
            check_in_batches(&volume, &list, width).await.unwrap();
            let content = gather(&volume.read(Range::new(0, SIZE)).await.unwrap());
            volume.close().await.unwrap();
            let again = open(stable(&inner)).await.unwrap();
            assert!(gather(&again.read(Range::new(0, SIZE)).await.unwrap()) == content);
            check_against_model(&again, &list).await.unwrap();
            again.close().await.unwrap();
        }));
    }
}

#[test]
fn what_was_flushed_is_there_without_a_close() {
    run(async {
        let inner = Arc::new(InMemory::new());
        create_on(stable(&inner), SIZE).await.unwrap();
        let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
        let volume = open(access(store.clone())).await.unwrap();
        write(&volume, 3, 1, 1).await.unwrap();
        write(&volume, 40, 100, 2).await.unwrap();
        volume.flush().await.unwrap();
        write(&volume, 3, 1, 3).await.unwrap();
        store.cut();
        let volume = open(stable(&inner)).await.unwrap();
        assert_eq!(tags(&volume, 2, 3).await, [0, 1, 0]);
        assert!(tags(&volume, 40, 100).await.iter().all(|tag| *tag == 2));
    });
}

#[test]
fn a_flush_of_a_few_blocks_is_one_request() {
    run(async {
        let (inner, volume) = new_volume().await;
        let count = |inner: Arc<InMemory>| async move {
            use futures_util::StreamExt as _;
            object_store::ObjectStore::list(&*inner, None).count().await
        };
        let before = count(inner.clone()).await;
        write(&volume, 3, 1, 1).await.unwrap();
        volume.flush().await.unwrap();
        assert_eq!(count(inner.clone()).await, before + 1);
        volume.flush().await.unwrap();
        assert_eq!(
            count(inner.clone()).await,
            before + 1,
            "nothing was to be done"
        );
    });
}

/// The index took a conflict of its log for the log of another writer: the flush failed, although there was none.
#[test]
fn a_conflict_of_a_log_is_no_other_writer() {
    run(async {
        let inner = Arc::new(InMemory::new());
        create_on(stable(&inner), SIZE).await.unwrap();
        let conflicts = Faults {
            conflicts: 30,
            ..Faults::default()
        };
        let store = UnstableStore::new(inner.clone(), conflicts, 1);
        let volume = open(access(store)).await.unwrap();
        for tag in 1..=20 {
            write(&volume, 3, 1, tag).await.unwrap();
            volume.flush().await.unwrap();
        }
        volume.close().await.unwrap();
    });
}

#[test]
fn changes_are_committed_after_a_time_without_a_flush() {
    run(async {
        let inner = Arc::new(InMemory::new());
        create_on(stable(&inner), SIZE).await.unwrap();
        let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
        let volume = open(access(store.clone())).await.unwrap();
        write(&volume, 7, 1, 5).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        store.cut();
        let volume = open(stable(&inner)).await.unwrap();
        assert_eq!(tags(&volume, 7, 1).await, [5]);
    });
}

#[test]
fn more_than_memory_holds_is_written_without_a_flush() {
    run(async {
        let inner = Arc::new(InMemory::new());
        let size = 160 << 20;
        create_on(stable(&inner), size).await.unwrap();
        let volume = open(stable(&inner)).await.unwrap();
        let step = Range::new(0, 4 << 20);
        for nth in 0..size / step.len {
            let range = Range::new(nth * step.len, step.len);
            let data = single(pattern(nth.to_le_bytes()[0], range));
            volume
                .write(range, data, WriteFlags::empty())
                .await
                .unwrap();
        }
        for nth in [0, 17, 39] {
            let range = Range::new(nth * step.len, step.len);
            let found = gather(&volume.read(range).await.unwrap());
            assert!(found == pattern(nth.to_le_bytes()[0], range), "{nth}");
        }
        volume.close().await.unwrap();
    });
}

#[test]
fn a_failed_commit_leaves_the_volume_failed() {
    run(async {
        let inner = Arc::new(InMemory::new());
        create_on(stable(&inner), SIZE).await.unwrap();
        let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
        let options = VolumeOptions {
            outage_limit: Duration::from_secs(30),
            ..VolumeOptions::default()
        };
        let volume = open_with(access(store.clone()), &options).await.unwrap();
        write(&volume, 3, 100, 1).await.unwrap();
        let fails = Faults {
            fails: 100,
            ..Faults::default()
        };
        store.set(fails);
        let error = volume.flush().await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        assert!(error.to_string().contains("test:volume"), "{error}");
        store.set(Faults::default());
        assert!(volume.flush().await.is_err(), "it stays failed");
        assert!(write(&volume, 3, 1, 2).await.is_err());
        assert_eq!(
            volume.try_write(blocks(0, 1), &block_of(1)),
            TryIo::WouldBlock
        );
        assert_eq!(tags(&volume, 2, 2).await, [0, 1], "reads go on");
    });
}

#[test]
fn an_outage_stalls_a_flush_and_does_not_fail_it() {
    run(async {
        let inner = Arc::new(InMemory::new());
        create_on(stable(&inner), SIZE).await.unwrap();
        let store = UnstableStore::new(inner.clone(), Faults::default(), 1);
        let volume = open(access(store.clone())).await.unwrap();
        write(&volume, 3, 100, 1).await.unwrap();
        store.set(Faults {
            fails: 100,
            ..Faults::default()
        });
        let end = async {
            tokio::time::sleep(Duration::from_secs(200)).await;
            store.set(Faults::default());
        };
        let (flushed, ()) = tokio::join!(volume.flush(), end);
        flushed.unwrap();
    });
}

#[test]
fn zeroes_of_all_of_it_cost_nothing_where_nothing_is() {
    run(async {
        let inner = Arc::new(InMemory::new());
        let size = 1 << 50;
        create_on(stable(&inner), size).await.unwrap();
        let volume = open(stable(&inner)).await.unwrap();
        let last = size / BLOCK - 1;
        write(&volume, 9, 1, 4).await.unwrap();
        volume.flush().await.unwrap();
        write(&volume, last, 1, 6).await.unwrap();
        let extents = volume.extents(Range::new(0, size)).await.unwrap();
        let data: Vec<Range> = extents
            .iter()
            .filter(|extent| extent.kind == ExtentKind::Data)
            .map(|extent| extent.range)
            .collect();
        assert_eq!(data, [blocks(9, 1), blocks(last, 1)]);
        volume.trim(Range::new(0, size)).await.unwrap();
        assert_eq!(tags(&volume, 9, 1).await, [0]);
        volume.flush().await.unwrap();
        assert_eq!(tags(&volume, last, 1).await, [0]);
        let extents = volume.extents(Range::new(0, size)).await.unwrap();
        assert_eq!(extents.len(), 1);
        assert_eq!(extents[0].kind, ExtentKind::Hole);
    });
}

/// A change that was dropped lands before `settle` returns, or never.
#[test]
fn dropped_zeroes_do_not_land_after_settle() {
    run(async {
        for polls in 0..6 {
            let (_inner, volume) = new_volume().await;
            write(&volume, 0, 160, 1).await.unwrap();
            volume.flush().await.unwrap();
            {
                let mut zeroes = volume.write_zeroes(Range::new(0, SIZE), WriteFlags::empty());
                for _ in 0..polls {
                    let poll = futures_util::poll!(&mut zeroes);
                    if poll.is_ready() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            volume.settle().await.unwrap();
            write(&volume, 0, 160, 2).await.unwrap();
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert!(
                tags(&volume, 0, 160).await.iter().all(|tag| *tag == 2),
                "{polls}"
            );
        }
    });
}

#[test]
fn a_damaged_object_is_an_error_and_no_data() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 128, 1).await.unwrap();
        volume.flush().await.unwrap();
        let path = data_object(&inner, 0).await;
        let mut bytes = bytes_of(&inner, &path).await;
        bytes[4096 * 5 + 77] ^= 1;
        inner.put(&path, bytes.into()).await.unwrap();
        assert_eq!(tags(&volume, 0, 5).await, [1; 5]);
        let error = volume.read(blocks(5, 1)).await.unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
    });
}

#[test]
fn a_store_that_ignores_conditions_is_read_and_never_written() {
    run(async {
        let (inner, volume) = new_volume().await;
        write(&volume, 0, 1, 1).await.unwrap();
        volume.close().await.unwrap();
        let faults = Faults {
            ignores_conditions: true,
            ..Faults::default()
        };
        let store = || access(UnstableStore::new(inner.clone(), faults, 1));
        let error = open(store()).await.unwrap_err();
        assert!(
            matches!(error, BucketError::ConditionalPut { .. }),
            "{error}"
        );
        let reader = open_for_reading(store()).await.unwrap();
        assert_eq!(tags(&reader, 0, 2).await, [1, 0]);
        let error = write(&reader, 0, 1, 2).await.unwrap_err();
        assert_eq!(error.errno, Errno::NotPermitted);
    });
}

#[test]
fn each_operation_once_on_a_partial_run() {
    run(async {
        let (_inner, volume) = new_volume().await;
        let range = Range::new(SIZE - 2 * BLOCK, 2 * BLOCK);
        let list: Vec<Op> = testkit::one_of_each(range, SIZE);
        check_against_model(&volume, &list).await.unwrap();
    });
}
