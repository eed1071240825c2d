//! Files of data that nothing on the way can shorten.

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{Advice, SeekFrom, fadvise, seek};

/// Bytes of one write, and so of one folio of the page cache.
///
/// A file that was written or read ahead in large pieces lies in large folios, and ext4 then walks
/// 512 buffer heads for each 4 KiB write into one: on Linux 6.18 that is 40 us a write for every
/// server equally, which hides the servers behind the filesystem. A disk image in use is written in
/// small pieces.
const PIECE: usize = 4 << 10;

/// Writes `size` pseudo-random bytes, determined by `seed`, and waits until they are on the disk.
pub(crate) fn fill(path: &Path, size: u64, seed: u64) -> Result<()> {
    let what = || format!("cannot write {}", path.display());
    let mut file = std::fs::File::create(path).with_context(what)?;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut block = vec![0_u8; 1 << 20];
    let mut left = size;
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let count = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
        for piece in block[..count].chunks(PIECE) {
            file.write_all(piece).with_context(what)?;
        }
        left -= count as u64;
    }
    file.sync_all().with_context(what)
}

/// Makes a new file of `size` that holds nothing; what one there held is gone.
pub(crate) fn hollow(path: &Path, size: u64) -> Result<()> {
    let what = || format!("cannot make {}", path.display());
    let file = std::fs::File::create(path).with_context(what)?;
    file.set_len(size).with_context(what)
}

/// Writes a page of data at every other page from `start` to `end`: between holes the map of a file is a long one.
pub(crate) fn fragment(file: &std::fs::File, start: u64, end: u64) -> Result<()> {
    let page = [b'd'; PIECE];
    for offset in (start..end).step_by(2 * PIECE) {
        file.write_all_at(&page, offset)?;
    }
    Ok(())
}

/// Reads all the data of a file, so that it is in the page cache: page by page, so that what was not there
/// comes in small folios too.
pub(crate) fn warm(path: &Path) -> Result<()> {
    let what = || format!("cannot read {}", path.display());
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).open(path).with_context(what)?;
    fadvise(&file, 0, None, Advice::Random).with_context(what)?;
    let mut page = [0; PIECE];
    let mut end = 0;
    // Behind the last data there is none to be found.
    while let Ok(start) = seek(&file, SeekFrom::Data(end)) {
        end = seek(&file, SeekFrom::Hole(start)).with_context(what)?;
        for at in (start..end).step_by(PIECE) {
            file.read_at(&mut page, at).with_context(what)?;
        }
    }
    Ok(())
}
