//! Tests of `file`: its pure parts, opening, requests on regular files, real devices.

mod devices;
mod disk;
mod identity;
mod open;
mod pure;
mod refresh_size;

use std::path::{Path, PathBuf};

use block::{BlockDevice, IoError, Range, WriteFlags};
use testkit::{gather, pattern, single};

use super::{File, FileOptions};

const WRITABLE: FileOptions = FileOptions {
    read_only: false,
    direct: false,
};
const READ_ONLY: FileOptions = FileOptions {
    read_only: true,
    direct: false,
};
const DIRECT: FileOptions = FileOptions {
    read_only: false,
    direct: true,
};

/// A sparse file of `size` bytes in `folder`.
fn image(folder: &Path, size: u64) -> PathBuf {
    let path = folder.join("image");
    std::fs::File::create(&path).unwrap().set_len(size).unwrap();
    path
}

async fn write(disk: &File, range: Range, fill: u8) -> Result<(), IoError> {
    let data = single(pattern(fill, range));
    disk.write(range, data, WriteFlags::empty()).await
}

async fn read(disk: &File, range: Range) -> Vec<u8> {
    gather(&disk.read(range).await.unwrap())
}
