//! A folder of one test, and disk images in it with known bytes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use tempfile::TempDir;
use testkit::first_difference;

/// One mebibyte.
pub const MIB: u64 = 1 << 20;

/// A folder that is gone after the test.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Folder {
    /// A new folder.
    ///
    /// # Panics
    /// If none can be made.
    #[must_use]
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("outboard-test-");
        Self {
            folder: folder.expect("a folder for temporary files"),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The path of something in it, as text.
    ///
    /// # Panics
    /// If the folder's name is no UTF-8.
    #[must_use]
    pub fn at(&self, name: &str) -> String {
        let path = self.path().join(name);
        path.to_str().expect("a name in UTF-8").to_owned()
    }

    /// An image of `size` bytes without data.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn empty(&self, name: &str, size: u64) -> String {
        let path = self.at(name);
        let file = fs::File::create(&path).expect("a new file");
        file.set_len(size).expect("a file of that size");
        path
    }

    /// An image of `size` bytes of [`pattern`].
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn filled(&self, name: &str, size: u64, seed: u64) -> String {
        let path = self.at(name);
        fs::write(&path, pattern(size, seed)).expect("a file of that size");
        path
    }

    /// The names in it, sorted.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).expect("a folder to read");
        let mut names: Vec<String> = entries
            .map(|entry| {
                let name = entry.expect("an entry").file_name();
                name.to_string_lossy().into_owned()
            })
            .collect();
        names.sort();
        names
    }
}

/// Bytes that repeat nowhere near, determined by their seed.
#[must_use]
pub fn pattern(size: u64, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
    bytes
}

/// Some bytes of a file.
///
/// # Panics
/// If they are not there.
#[must_use]
#[track_caller]
pub fn bytes_at(path: impl AsRef<Path>, offset: u64, len: usize) -> Vec<u8> {
    let file = OpenOptions::new().read(true).open(&path);
    let file = file.unwrap_or_else(|e| panic!("{}: {e}", path.as_ref().display()));
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset)
        .unwrap_or_else(|e| panic!("{} at {offset}: {e}", path.as_ref().display()));
    bytes
}

/// Whether two files hold the same bytes; a test says it with more words than "not equal".
///
/// # Panics
/// If they differ or cannot be read.
#[track_caller]
pub fn assert_same(one: impl AsRef<Path>, other: impl AsRef<Path>) {
    let read = |path: &Path| fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (left, right) = (read(one.as_ref()), read(other.as_ref()));
    assert_eq!(left.len(), right.len(), "the sizes differ");
    let differ = first_difference(&left, &right);
    assert_eq!(differ, None, "the first byte that differs");
}
