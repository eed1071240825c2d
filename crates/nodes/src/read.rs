//! Reading a disk of any size and block size to see what is on it, and reads of several pieces as one.

use block::{IoBufs, IoError, Node, Range};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::blocks::slice;

/// The bytes of `range`, as many of them as the disk has, wherever its blocks begin.
///
/// # Errors
/// What reading fails with.
pub async fn read_within(disk: &Node, range: Range) -> Result<Vec<u8>, IoError> {
    let geometry = disk.geometry();
    let start = range.offset.min(geometry.size);
    let end = range.offset.saturating_add(range.len).min(geometry.size);
    if start == end {
        return Ok(Vec::new());
    }
    let block = u64::from(geometry.block_size.max(1));
    let from = start / block * block;
    let to = end.next_multiple_of(block);
    let outer = Range::new(from, to - from);
    let data: IoBufs = disk.read(outer).await?;
    let skip = Range::new(0, start - from).len_usize();
    let wanted = Range::new(0, end - start).len_usize();
    Ok(slice(&data, skip, wanted).concat())
}

/// The data of several reads, in their order; so many are in flight at a time.
pub(crate) async fn read_in_order<F>(
    reads: impl IntoIterator<Item = F>,
    in_flight: usize,
) -> Result<IoBufs, IoError>
where
    F: Future<Output = Result<IoBufs, IoError>>,
{
    stream::iter(reads)
        .buffered(in_flight)
        .try_fold(IoBufs::new(), async |mut all, data| {
            all.extend(data);
            Ok(all)
        })
        .await
}
