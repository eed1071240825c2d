//! [`BaseImage`]: which image overlays are over, so that they are never opened over another one.
//!
//! Its number is a digest of its size, of samples of its bytes, and of the times at which the files
//! behind it were last written. So an image that was changed, be it by a byte between two samples,
//! is another one; an image that was moved or copied with its times is the same.
//!
//! # Assumptions
//!
//! A program that changes a file does not set its modification time back. Changes of devices and remote disks show
//! in the samples only.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use block::{IoError, Node, Range};
use futures_util::future::try_join_all;
use ring::digest::{Context, SHA256};
use rustix::fs::{FileType, fstat};

use super::file_name::hex;
use super::record::ImageRecord;

/// A sample's length, bytes: the largest block size that there is.
const SAMPLE: u64 = 64 << 10;
/// Samples of an image, its first and its last bytes among them.
const SAMPLES_MAX: u64 = 33;
/// Bytes of the digest that make the number.
const ID_LEN: usize = 8;

/// An image and what it looked like when it was opened.
#[derive(Debug)]
pub(super) struct BaseImage {
    record: ImageRecord,
    files: Vec<(Arc<OwnedFd>, FileStamp)>,
}

/// The metadata that shows that a file was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    size: i64,
    seconds: i64,
    nanos: i64,
}

impl BaseImage {
    /// Looks at `disk`, which is written as `text`.
    pub(super) async fn of(disk: &Node, text: &str) -> Result<Self, IoError> {
        let size = disk.geometry().size;
        let ranges = samples(size);
        let samples = try_join_all(ranges.iter().map(|range| disk.read(*range))).await?;
        let ends = ranges.first().into_iter().chain(ranges.last());
        let files: Vec<_> = ends.filter_map(|range| file_behind(disk, *range)).collect();
        let mut digest = Context::new(&SHA256);
        digest.update(b"outboard image 1");
        digest.update(&size.to_le_bytes());
        for bytes in samples.iter().flatten() {
            digest.update(bytes);
        }
        for (_, state) in &files {
            for number in [state.size, state.seconds, state.nanos] {
                digest.update(&number.to_le_bytes());
            }
        }
        let id = hex(&digest.finish().as_ref()[..ID_LEN]);
        let disk = text.to_owned();
        Ok(Self {
            record: ImageRecord { id, disk, size },
            files,
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.record.id
    }

    pub(super) const fn record(&self) -> &ImageRecord {
        &self.record
    }

    /// Whether the files behind it are as they were.
    pub(super) fn is_unchanged(&self) -> bool {
        let as_it_was = |(file, state): &(Arc<OwnedFd>, FileStamp)| state_of(file) == Some(*state);
        self.files.iter().all(as_it_was)
    }
}

/// The regular file that holds the bytes of `range`, where there is one.
fn file_behind(disk: &Node, range: Range) -> Option<(Arc<OwnedFd>, FileStamp)> {
    let first = Range::new(range.offset, range.len.min(SAMPLE));
    let (leaf, range) = block::resolve(&**disk, first);
    let file = leaf.file_region(range)?.file;
    let state = state_of(&file)?;
    Some((file, state))
}

fn state_of(file: &OwnedFd) -> Option<FileStamp> {
    let stat = fstat(file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then_some(FileStamp {
        size: stat.st_size,
        seconds: stat.st_mtime,
        nanos: i64::try_from(stat.st_mtime_nsec).ok()?,
    })
}

/// Where samples are taken: everywhere in a small image, evenly in a large one.
fn samples(size: u64) -> Vec<Range> {
    let units = size.div_ceil(SAMPLE);
    let count = units.min(SAMPLES_MAX);
    let unit = |index: u64| {
        // Wide, as an image may be of exabytes.
        let at = u128::from(index) * u128::from(units - 1) / u128::from((count - 1).max(1));
        u64::try_from(at).unwrap_or(units - 1)
    };
    let range = |index| {
        let offset = unit(index) * SAMPLE;
        Range::new(offset, SAMPLE.min(size - offset))
    };
    (0..count).map(range).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_small_image_is_looked_at_whole_and_a_large_one_at_both_ends() {
        assert!(samples(0).is_empty());
        assert_eq!(samples(512), [Range::new(0, 512)]);
        let small = samples(3 * SAMPLE + 512);
        assert_eq!(
            small.iter().map(|range| range.len).sum::<u64>(),
            3 * SAMPLE + 512
        );
        let large = samples(1 << 40);
        assert_eq!(large.len() as u64, SAMPLES_MAX);
        assert_eq!(large.first(), Some(&Range::new(0, SAMPLE)));
        assert_eq!(large.last(), Some(&Range::new((1 << 40) - SAMPLE, SAMPLE)));
    }

    proptest! {
        #[test]
        fn samples_lie_on_the_disk_in_order_and_never_twice(sectors in 0..u64::MAX / 512) {
            let size = sectors * 512;
            let ranges = samples(size);
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].offset + pair[0].len <= pair[1].offset);
            }
            for range in &ranges {
                prop_assert!(range.len > 0 && range.offset + range.len <= size);
            }
        }
    }
}
