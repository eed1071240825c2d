//! Stores that are opened: made by others, damaged, of other bases.

use std::sync::Arc;

use block::Range;
use testkit::{MemDisk, block_on, pattern};

use super::super::format::put;
use super::super::map::Exception;
use super::super::{FormatError, Overlay, OverlayError, OverlayOptions};
use super::{BASE, SIZE, SMALL, base_of, layout, options, over, read, store_of, store_size};

/// A store of small chunks with these exceptions, each with data of its own.
fn store_with(exceptions: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = store_of(SMALL, store_size(SIZE, SMALL)).snapshot();
    let sector = |chunk: u64| {
        let start = Range::new(0, chunk * 512).len_usize();
        start..start + 512
    };
    for (index, &(old, new)) in exceptions.iter().enumerate() {
        let table = sector(layout(SMALL).table(index as u64 / 32));
        put(&mut bytes[table], index % 32, Exception::new(old, new));
        if let Some(place) = bytes.get_mut(sector(new)) {
            place.copy_from_slice(&pattern(1, Range::new(old * 512, 512)));
        }
    }
    bytes
}

async fn refusal(bytes: Vec<u8>) -> FormatError {
    let store = Arc::new(MemDisk::from_bytes(bytes.clone()));
    let error = over(base_of(SIZE), store.clone()).await.unwrap_err();
    assert_eq!(store.snapshot(), bytes, "what is refused is not touched");
    match error {
        OverlayError::Format { store, source } if store == "of the overlay" => source,
        other => panic!("{other}"),
    }
}

/// The kernel hands out chunks in its own order, with gaps where a write came to nothing.
#[test]
fn a_store_in_any_order_and_with_gaps_is_read_and_written_on() {
    block_on(async {
        let bytes = store_with(&[(100, 9), (3, 2), (4, 35), (5, 4)]);
        let store = Arc::new(MemDisk::from_bytes(bytes));
        let disk = over(base_of(SIZE), store.clone()).await.unwrap();
        assert_eq!(disk.usage().changed, 4);
        assert_eq!(disk.usage().used, 36 * 512);
        for chunk in [100, 3, 4, 5] {
            let range = Range::new(chunk * 512, 512);
            assert_eq!(read(&disk, range).await, pattern(1, range), "chunk {chunk}");
        }
        let range = Range::new(2 * 512, 512);
        assert_eq!(read(&disk, range).await, pattern(BASE, range));
        // All the rest fits, in the gaps and behind.
        super::write(&disk, Range::new(0, SIZE), 2).await.unwrap();
        disk.flush_and_reopen(store).await;
    });
}

impl Overlay {
    async fn flush_and_reopen(&self, store: Arc<MemDisk>) {
        use block::BlockDevice;
        self.flush().await.unwrap();
        let again = Arc::new(MemDisk::from_bytes(store.snapshot()));
        let again = over(base_of(SIZE), again).await.unwrap();
        assert_eq!(super::read_all(&again).await, super::read_all(self).await);
    }
}

#[test]
fn damaged_stores_are_refused_by_name_and_left_alone() {
    block_on(async {
        let last = SIZE / 512;
        let cases = [
            (
                store_with(&[(last, 2)]),
                "BeyondBase { chunk: 128, end: 128 }",
            ),
            (store_with(&[(1, 2), (1, 3)]), "Twice(1)"),
            (store_with(&[(1, 2), (5, 2)]), "Shared(2)"),
            (store_with(&[(1, 4000)]), "Astray"),
            (store_with(&[(1, 34)]), "Astray"),
        ];
        for (bytes, expected) in cases {
            let told = format!("{:?}", refusal(bytes).await);
            assert!(told.starts_with(expected), "{told}, not {expected}");
        }
        let mut invalid = store_with(&[(1, 2)]);
        invalid[4] = 0;
        assert_eq!(refusal(invalid).await, FormatError::Invalid);
        let mut other = vec![0; 8192];
        other[8000] = 1;
        assert_eq!(refusal(other).await, FormatError::NotAStore);
    });
}

#[test]
fn a_store_that_was_cut_off_behind_a_full_table_is_refused() {
    block_on(async {
        let full: Vec<(u64, u64)> = (0..32).map(|n| (n, n + 2)).collect();
        let mut bytes = store_with(&full);
        bytes.truncate(34 * 512);
        assert_eq!(refusal(bytes).await, FormatError::CutOff(1, 34));
    });
}

#[test]
fn what_cannot_be_is_not_made() {
    block_on(async {
        let refused = async |chunk, size, options: OverlayOptions| {
            let base = Arc::new(MemDisk::new(SIZE).with_geometry(|g| g.block_size = 8192));
            let store = Arc::new(MemDisk::new(size));
            let options = OverlayOptions { chunk, ..options };
            let error = Overlay::over(base, store.clone(), options)
                .await
                .unwrap_err();
            assert!(store.snapshot().iter().all(|&byte| byte == 0), "{error}");
            error
        };
        let all = OverlayOptions::default();
        for chunk in [0, 512, 2048, 12_288, 1 << 20] {
            let error = refused(chunk, 1 << 20, all).await;
            assert!(
                matches!(error, OverlayError::Chunk(told) if told == chunk),
                "{error}"
            );
        }
        let error = refused(4096, 1 << 20, all).await;
        assert!(matches!(error, OverlayError::Blocks { .. }), "{error}");
        let error = refused(8192, 16_384, all).await;
        assert!(
            matches!(error, OverlayError::TooSmall { needed: 24_576, .. }),
            "{error}"
        );
        for options in [
            OverlayOptions {
                read_only: true,
                ..all
            },
            OverlayOptions {
                create: false,
                ..all
            },
        ] {
            let error = refused(8192, 1 << 20, options).await;
            assert!(matches!(error, OverlayError::Empty { .. }), "{error}");
        }
    });
}

#[test]
fn every_chunk_that_a_store_may_have_is_made_and_opened() {
    block_on(async {
        for shift in 12..=19 {
            let chunk = 1 << shift;
            let size = 3 * u64::from(chunk) + 1024;
            let store = Arc::new(MemDisk::new(store_size(size, chunk)));
            let disk = Overlay::over(base_of(size), store.clone(), options(chunk));
            let disk = disk.await.unwrap();
            let range = Range::new(100, size - 200);
            super::write(&disk, range, 4).await.unwrap();
            block::BlockDevice::flush(&disk).await.unwrap();
            // Other options do not change what is there.
            let again = Arc::new(MemDisk::from_bytes(store.snapshot()));
            let again = Overlay::over(base_of(size), again, options(8192))
                .await
                .unwrap();
            assert_eq!(again.usage().chunk, chunk);
            assert_eq!(read(&again, range).await, pattern(4, range));
        }
    });
}
