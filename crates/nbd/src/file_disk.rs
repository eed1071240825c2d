//! Disks in files, for tests that open them outside of an engine.

use std::path::Path;

use futures_util::FutureExt as _;
use nodes::{File, FileOptions, OpenError};

/// Opens a file that no other process has locked: there is no lock to wait for.
pub(crate) fn open(path: &Path, options: FileOptions) -> Result<File, OpenError> {
    let opened = File::open(path, options).now_or_never();
    opened.expect("an open that waits for no lock")
}
