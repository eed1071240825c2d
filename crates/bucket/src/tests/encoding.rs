//! How the volumes of a test are encoded: those of a seeded world by its seed, all others as they are.

use std::cell::RefCell;

use crate::format::Compression;
use crate::seal::VolumeKey;

/// How volumes are encoded.
#[derive(Debug, Clone, Default)]
pub(super) struct TestEncoding {
    pub(super) compression: Option<Compression>,
    pub(super) key: Option<VolumeKey>,
}

impl TestEncoding {
    /// One of all four.
    pub(super) fn of_seed(seed: u64) -> Self {
        Self {
            compression: (seed & 1 != 0).then_some(Compression::Lz4),
            key: (seed & 2 != 0).then(VolumeKey::random),
        }
    }

    /// Encrypted, and not compressed.
    pub(super) fn sealed() -> Self {
        Self::of_seed(2)
    }
}

thread_local! {
    static ENCODING: RefCell<TestEncoding> = RefCell::default();
}

/// That of the volumes which this thread makes now.
pub(super) fn now() -> TestEncoding {
    ENCODING.with_borrow(TestEncoding::clone)
}

/// Does `test` with volumes that are encoded so.
pub(super) fn with<T>(encoding: TestEncoding, test: impl FnOnce() -> T) -> T {
    /// Also if it panics.
    struct Restored(TestEncoding);
    impl Drop for Restored {
        fn drop(&mut self) {
            ENCODING.set(std::mem::take(&mut self.0));
        }
    }
    let _restored = Restored(ENCODING.replace(encoding));
    test()
}
