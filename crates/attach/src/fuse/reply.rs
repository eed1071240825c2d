//! FUSE answers: struct -> bytes. Pure.
//!
//! An answer is one write to `/dev/fuse`: `len u32 | error i32 | unique u64`, then the body. Bodies
//! have a fixed length a kind; each function here says which structure of
//! `include/uapi/linux/fuse.h` it builds.

use super::proto::WRITE_HEAD_LEN;

/// Bytes before the body of an answer.
pub(crate) const OUT_HEADER_LEN: usize = 16;

/// Protocol version spoken: 7.31 has `max_pages` and all that is used here.
pub(crate) const MAJOR: u32 = 7;
const MINOR: u32 = 31;

/// Largest read or write of one request.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// The same in pages of 4096 bytes.
const REQUEST_PAGES_MAX: u16 = 256;
/// Requests the kernel may have waiting here; a loop device has up to 128 under way.
const BACKGROUND_MAX: u16 = 512;
/// Where the kernel begins to call the device congested.
const CONGESTED_AT: u16 = 384;
/// What a read of `/dev/fuse` must have room for.
pub(crate) const READ_BUFFER_LEN: usize = (REQUEST_BYTES_MAX as usize) + WRITE_HEAD_LEN + 4096;

const INIT_ASYNC_READ: u32 = 1;
const INIT_BIG_WRITES: u32 = 1 << 5;
const INIT_ASYNC_DIO: u32 = 1 << 15;
const INIT_MAX_PAGES: u32 = 1 << 22;

const FOPEN_DIRECT_IO: u32 = 1;
const FOPEN_NOFLUSH: u32 = 1 << 5;
const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// Attributes and names never change while the filesystem lives.
const VALID_SECONDS: u64 = 1 << 30;

/// The inode of the directory.
pub(crate) const ROOT: u64 = 1;
/// The inode of the disk.
pub(crate) const DISK: u64 = 2;

const MODE_DIRECTORY: u32 = 0o040_500;
const MODE_FILE: u32 = 0o100_600;

/// `struct fuse_out_header` for a body of `body_len` bytes; `error` is a positive errno or 0.
pub(crate) fn header(unique: u64, error: i32, body_len: usize) -> [u8; OUT_HEADER_LEN] {
    let len = u32::try_from(OUT_HEADER_LEN + body_len).expect("an answer is a few MiB at most");
    let mut out = [0; OUT_HEADER_LEN];
    out[..4].copy_from_slice(&len.to_le_bytes());
    out[4..8].copy_from_slice(&(-error).to_le_bytes());
    out[8..].copy_from_slice(&unique.to_le_bytes());
    out
}

/// What the file is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileShape {
    /// Size, bytes.
    pub(crate) size: u64,
    /// Unit of discards, bytes.
    pub(crate) block_size: u32,
}

/// `struct fuse_init_out`. `offered` are the kernel's abilities, `max_readahead` its limit.
pub(crate) fn init(offered: u32, max_readahead: u32) -> Vec<u8> {
    let wanted = INIT_ASYNC_READ | INIT_BIG_WRITES | INIT_ASYNC_DIO | INIT_MAX_PAGES;
    let mut out = Vec::with_capacity(64);
    for number in [MAJOR, MINOR, max_readahead, wanted & offered] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&BACKGROUND_MAX.to_le_bytes());
    out.extend_from_slice(&CONGESTED_AT.to_le_bytes());
    out.extend_from_slice(&REQUEST_BYTES_MAX.to_le_bytes());
    out.extend_from_slice(&1u32.to_le_bytes());
    out.extend_from_slice(&REQUEST_PAGES_MAX.to_le_bytes());
    out.resize(64, 0);
    out
}

/// `struct fuse_init_out` that makes the kernel retry with the version implemented here.
pub(crate) fn init_version() -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.extend_from_slice(&MAJOR.to_le_bytes());
    out.extend_from_slice(&MINOR.to_le_bytes());
    out.resize(64, 0);
    out
}

/// `struct fuse_attr`, 88 bytes.
fn push_attr(out: &mut Vec<u8>, node: u64, shape: FileShape) {
    let (mode, links, size) = match node {
        ROOT => (MODE_DIRECTORY, 2, 0),
        _ => (MODE_FILE, 1, shape.size),
    };
    for number in [node, size, size / 512, 0, 0, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for number in [0, 0, 0, mode, links, 0, 0, 0, shape.block_size, 0] {
        out.extend_from_slice(&u32::to_le_bytes(number));
    }
}

/// `struct fuse_attr_out`.
pub(crate) fn attr(node: u64, shape: FileShape) -> Vec<u8> {
    let mut out = Vec::with_capacity(104);
    out.extend_from_slice(&VALID_SECONDS.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    push_attr(&mut out, node, shape);
    out
}

/// `struct fuse_entry_out` for the disk.
pub(crate) fn entry(shape: FileShape) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    for number in [DISK, 0, VALID_SECONDS, VALID_SECONDS, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    push_attr(&mut out, DISK, shape);
    out
}

/// `struct fuse_open_out`: no page cache, parallel writes, no request on close.
pub(crate) fn open() -> Vec<u8> {
    let flags = FOPEN_DIRECT_IO | FOPEN_NOFLUSH | FOPEN_PARALLEL_DIRECT_WRITES;
    let mut out = vec![0; 8];
    out.extend_from_slice(&flags.to_le_bytes());
    out.resize(16, 0);
    out
}

/// `struct fuse_write_out`.
pub(crate) fn written(len: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&len.to_le_bytes());
    out
}

/// `struct fuse_statfs_out`.
pub(crate) fn statfs(shape: FileShape) -> Vec<u8> {
    let blocks = shape.size / u64::from(shape.block_size.max(1));
    let mut out = Vec::with_capacity(80);
    for number in [blocks, 0, 0, 1, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for number in [shape.block_size, 255, shape.block_size, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.resize(80, 0);
    out
}
