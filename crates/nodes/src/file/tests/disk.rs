//! Tests of requests on regular files, on both engines.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use block::{BlockDevice, Errno, ExtentKind, IoFuture, Range, TryIo, WriteFlags};
use futures_util::FutureExt;
use proptest::prelude::*;
use testkit::{OpSpace, check_against_model, check_in_batches, ops, pattern, single};

use super::{DIRECT, WRITABLE, image, read, write};
use crate::file::open::TryReadMode;
use crate::test_runtime::{on_each_backend, timed};
use crate::{File, FileOptions, OpenError};

const SIZE: u64 = 128 * 1024;

/// Where each byte can be requested, the last ones are no whole sector.
const fn size(has_rest: bool) -> u64 {
    if has_rest { SIZE + 77 } else { SIZE }
}

fn space(block_size: u32) -> OpSpace {
    OpSpace {
        size: size(block_size == 1),
        block_size,
        len_max: 20_000,
    }
}

fn check_model(folder: &Path, options: FileOptions, list: &[testkit::Op], width: usize) {
    on_each_backend(async || {
        let path = image(folder, size(!options.direct));
        let disk = match File::open(path, options).await {
            Err(OpenError::NoDirect { .. }) => return,
            opened => opened.unwrap(),
        };
        check_against_model(&disk, list).await.unwrap();
        check_in_batches(&disk, list, width).await.unwrap();
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_file_passes_the_model(list in ops(space(1), 0..40), width in 2_usize..9) {
        let folder = tempfile::tempdir().unwrap();
        check_model(folder.path(), WRITABLE, &list, width);
    }

    #[test]
    fn a_direct_file_passes_the_model(list in ops(space(4096), 0..40), width in 2_usize..9) {
        let folder = tempfile::tempdir().unwrap();
        check_model(folder.path(), DIRECT, &list, width);
    }

    #[test]
    fn a_file_in_memory_passes_the_model(list in ops(space(1), 0..40), width in 2_usize..9) {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        check_model(folder.path(), WRITABLE, &list, width);
    }
}

#[test]
fn cached_data_is_read_and_written_in_line() {
    for place in ["/tmp", "/dev/shm"] {
        let folder = tempfile::tempdir_in(place).unwrap();
        let disk = timed(File::open(image(folder.path(), SIZE), WRITABLE)).unwrap();
        if disk.opened.try_read == TryReadMode::Never {
            eprintln!("skipped: the filesystem of {place} does not report what is cached");
            continue;
        }
        let range = Range::new(4096, 8192);
        assert_eq!(disk.try_write(range, &pattern(1, range)), TryIo::Done);
        let mut found = vec![0; 8192];
        assert_eq!(disk.try_read(range, &mut found), TryIo::Done, "{place}");
        assert_eq!(found, pattern(1, range));
    }
}

#[test]
fn holes_are_reported_and_trims_make_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), SIZE);
    on_each_backend(async || {
        let disk = File::open(&path, WRITABLE).await.unwrap();
        let whole = Range::new(0, SIZE);
        write(&disk, whole, 1).await.unwrap();
        disk.flush().await.unwrap();
        let allocated = std::fs::metadata(&path).unwrap().blocks();
        let hole = Range::new(32_768, 65_536);
        disk.trim(hole).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().blocks(), allocated - 128);
        let extents = disk.extents(whole).await.unwrap();
        let message: Vec<_> = extents.iter().map(|e| (e.range.offset, e.kind)).collect();
        let kinds = [
            (0, ExtentKind::Data),
            (32_768, ExtentKind::Hole),
            (98_304, ExtentKind::Data),
        ];
        assert_eq!(message, kinds);
        disk.write_zeroes(whole, WriteFlags::empty()).await.unwrap();
        assert_eq!(disk.extents(whole).await.unwrap()[0].kind, ExtentKind::Hole);
    });
}

#[test]
fn zeroing_without_holes_keeps_the_space() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), SIZE);
    on_each_backend(async || {
        let disk = File::open(&path, WRITABLE).await.unwrap();
        let whole = Range::new(0, SIZE);
        write(&disk, whole, 1).await.unwrap();
        let flags = WriteFlags::NO_HOLE | WriteFlags::FUA;
        disk.write_zeroes(Range::new(100, SIZE - 300), flags)
            .await
            .unwrap();
        assert!(std::fs::metadata(&path).unwrap().blocks() >= SIZE / 512);
        let found = read(&disk, whole).await;
        assert_eq!(found[..100], pattern(1, Range::new(0, 100)));
        assert!(found[100..found.len() - 200].iter().all(|&byte| byte == 0));
    });
}

#[test]
fn a_filesystem_that_cannot_zero_is_written_to_unless_it_must_be_fast() {
    // tmpfs punches and does not know ZERO_RANGE.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = image(folder.path(), SIZE);
    on_each_backend(async || {
        let disk = File::open(&path, WRITABLE).await.unwrap();
        let range = Range::new(1000, 100_000);
        write(&disk, range, 1).await.unwrap();
        let fast = WriteFlags::NO_HOLE | WriteFlags::FAST_ZERO;
        for _ in 0..2 {
            let error = disk.write_zeroes(range, fast).await.unwrap_err();
            assert_eq!(error.errno, Errno::NotSupported);
        }
        assert_eq!(read(&disk, range).await, pattern(1, range));
        disk.write_zeroes(range, WriteFlags::NO_HOLE).await.unwrap();
        assert_eq!(read(&disk, range).await, vec![0; 100_000]);
        disk.write_zeroes(range, WriteFlags::FAST_ZERO)
            .await
            .unwrap();
    });
}

#[test]
fn a_truncated_file_says_where_it_ends_and_grows_where_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), SIZE);
    on_each_backend(async || {
        let disk = File::open(&path, WRITABLE).await.unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(10_000).unwrap();
        let behind = Range::new(8192, 4096);
        let error = disk.read(behind).await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        let message = error.to_string();
        assert!(
            message.contains("the file ends at 10000: it was truncated while in use"),
            "{message}"
        );
        assert_eq!(disk.try_read(behind, &mut [0; 4096]), TryIo::WouldBlock);
        let extents = disk.extents(Range::new(0, SIZE)).await.unwrap();
        assert_eq!(extents.last().unwrap().range.end(), SIZE);
        assert_eq!(extents.last().unwrap().kind, ExtentKind::Data);
        write(&disk, Range::new(SIZE - 4096, 4096), 1)
            .await
            .unwrap();
        assert_eq!(read(&disk, behind).await, vec![0; 4096]);
    });
}

#[test]
fn a_file_region_holds_what_a_read_gives() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), SIZE);
    on_each_backend(async || {
        let disk = File::open(&path, WRITABLE).await.unwrap();
        let range = Range::new(12_345, 6_789);
        write(&disk, range, 7).await.unwrap();
        let region = disk.file_region(range).unwrap();
        let mut found = vec![0; range.len_usize()];
        let count = rustix::io::pread(&region.file, &mut found, region.offset).unwrap();
        assert_eq!(count, found.len());
        assert_eq!(found, pattern(7, range));
    });
}

#[test]
fn a_direct_write_takes_memory_at_any_address_and_in_any_slices() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), SIZE);
    on_each_backend(async || {
        let disk = match File::open(&path, DIRECT).await {
            Err(OpenError::NoDirect { .. }) => return,
            opened => opened.unwrap(),
        };
        let range = Range::new(4096, 12_288);
        let whole = bytes::Bytes::from([vec![0], pattern(9, range)].concat()).slice(1..);
        let data = [whole.slice(..1), whole.slice(1..5000), whole.slice(5000..)];
        let data = data.into_iter().collect();
        disk.write(range, data, WriteFlags::FUA).await.unwrap();
        assert_eq!(read(&disk, range).await, pattern(9, range));
        disk.write_zeroes(range, WriteFlags::NO_HOLE).await.unwrap();
        assert_eq!(read(&disk, range).await, vec![0; 12_288]);
    });
}

/// Polls `future` up to `times` times and drops it.
async fn start_and_drop(mut future: IoFuture<'_, ()>, times: u8) {
    for _ in 0..times {
        if let Some(result) = (&mut future).now_or_never() {
            return result.unwrap();
        }
        engine::clock::sleep(Duration::ZERO).await;
    }
}

/// Each request is dropped after 0 to 3 polls; when `settle` has resolved, none may land.
#[test]
fn after_settle_no_dropped_write_lands() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), SIZE);
    on_each_backend(async || {
        let disk = File::open(&path, WRITABLE).await.unwrap();
        let range = Range::new(0, SIZE);
        for round in 0..80_u8 {
            let old = single(pattern(round, range));
            let flags = [WriteFlags::empty(), WriteFlags::FUA][usize::from(round / 4 % 2)];
            let zero_flags = flags | WriteFlags::NO_HOLE;
            start_and_drop(disk.write(range, old, flags), round % 4).await;
            start_and_drop(disk.write_zeroes(range, zero_flags), round % 4).await;
            start_and_drop(disk.flush(), round % 4).await;
            disk.settle().await.unwrap();
            assert_eq!(disk.in_flight.count(), 0);
            write(&disk, range, 200).await.unwrap();
            engine::clock::sleep(Duration::from_millis(1)).await;
            assert_eq!(
                read(&disk, range).await,
                pattern(200, range),
                "round {round}"
            );
        }
    });
}

#[test]
fn many_flushes_and_durable_writes_at_once_all_resolve() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), SIZE);
    on_each_backend(async || {
        let disk = File::open(&path, WRITABLE).await.unwrap();
        let requests = (0..64_u8).map(|n| {
            let range = Range::new(u64::from(n) * 2048, 2048);
            let data = single(pattern(n, range));
            let disk = &disk;
            async move {
                disk.write(range, data, WriteFlags::FUA).await?;
                disk.flush().await
            }
        });
        for result in futures_util::future::join_all(requests).await {
            result.unwrap();
        }
    });
}

#[test]
fn empty_requests_do_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), SIZE);
    on_each_backend(async || {
        let disk = File::open(&path, WRITABLE).await.unwrap();
        let nothing = Range::new(SIZE, 0);
        assert_eq!(read(&disk, nothing).await, []);
        write(&disk, nothing, 1).await.unwrap();
        disk.write(nothing, single(Vec::new()), WriteFlags::FUA)
            .await
            .unwrap();
        disk.trim(nothing).await.unwrap();
        disk.write_zeroes(nothing, WriteFlags::empty())
            .await
            .unwrap();
        assert!(disk.extents(nothing).await.unwrap().is_empty());
    });
}
