//! Where the bytes of arrays are in files: what a server sends from the page cache.

use std::sync::Arc;

use block::{BlockDevice, Node, Range};

use super::kit::{DISK, Recipe, open, read, write};
use crate::array::format::Level;
use crate::{File, FileOptions};

const CHUNK: u64 = 4096;

async fn files(folder: &tempfile::TempDir, count: usize) -> Vec<Node> {
    let mut files = Vec::new();
    for part in 0..count {
        let path = folder.path().join(part.to_string());
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(DISK).unwrap();
        let file = File::open(&path, FileOptions::default()).await.unwrap();
        files.push(Arc::new(file) as Node);
    }
    files
}

/// What plain reads of files give, piece by piece, and how long the pieces are. `None`: some of it is in no file.
fn pieces(array: &dyn BlockDevice, range: Range) -> Option<(Vec<u8>, Vec<u64>)> {
    let (mut bytes, mut lens) = (Vec::new(), Vec::new());
    let mut rest = range;
    while !rest.is_empty() {
        let (region, len) = array.file_region_start(rest)?;
        let mut piece = vec![0; usize::try_from(len).unwrap()];
        let count = rustix::io::pread(&region.file, &mut piece, region.offset);
        assert_eq!(count, Ok(piece.len()));
        bytes.extend(piece);
        lens.push(len);
        rest = Range::new(rest.offset + len, rest.len - len);
    }
    Some((bytes, lens))
}

#[test]
fn a_long_read_of_a_complete_array_is_in_the_files_of_its_members_chunk_by_chunk() {
    let folder = tempfile::tempdir().unwrap();
    crate::test_runtime::timed(async {
        let mut disks = files(&folder, 5).await;
        let array = Recipe::parity(Level::Raid6, 2, 5).open(&disks).await;
        let range = Range::new(512, 4 * CHUNK);
        write(&array, Range::new(0, 6 * CHUNK), 3).await.unwrap();
        let (bytes, lens) = pieces(&*array, range).unwrap();
        assert_eq!(lens, [CHUNK - 512, CHUNK, CHUNK, CHUNK, 512]);
        assert_eq!(bytes, read(&array, range).await);
        assert!(array.file_region(range).is_none(), "it is in no one file");
        assert!(array.file_region(Range::new(0, CHUNK)).is_some());
        array.stop().await.unwrap();
        drop(array);
        // Row 0 has its data on parts 1 to 3: what is on part 2 is in no file, and what is before it is.
        drop(disks.remove(2));
        let array = open(&disks).await;
        assert!(pieces(&*array, range).is_none());
        assert!(pieces(&*array, Range::new(0, CHUNK)).is_some());
    });
}
