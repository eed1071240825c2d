//! Which reads are sent from files.

use std::sync::Arc;

use block::{Node, Range};
use nodes::{FileOptions, Segment, Stripe};

use super::super::regions::regions;
use super::on_engine;
use crate::file_disk;

const SIZE: usize = 1 << 20;

/// Two files in chunks of so many bytes.
fn striped(folder: &tempfile::TempDir, chunk: u64) -> Node {
    let legs = ["a", "b"].map(|name| {
        let path = folder.path().join(name);
        std::fs::write(&path, vec![0; SIZE]).expect("written");
        let file = file_disk::open(&path, FileOptions::default()).expect("a file");
        Segment::whole(Arc::new(file))
    });
    Arc::new(Stripe::new(legs.to_vec(), chunk).expect("even legs"))
}

fn pieces(chunk: u64, range: Range) -> Option<Vec<usize>> {
    let folder = tempfile::tempdir().expect("a folder");
    on_engine(|| async move {
        let pieces = regions(&*striped(&folder, chunk), range)?;
        Some(pieces.into_iter().map(|(_, len)| len).collect())
    })
}

#[test]
fn a_read_is_sent_from_each_file_that_has_a_piece_of_it() {
    let chunk = 64 << 10;
    assert_eq!(pieces(chunk, Range::new(0, chunk)), Some(vec![64 << 10]));
    let across = Range::new(chunk / 2, 2 * chunk);
    assert_eq!(
        pieces(chunk, across),
        Some(vec![32 << 10, 64 << 10, 32 << 10])
    );
    let halves = pieces(32 << 10, Range::new(0, chunk));
    assert_eq!(halves, Some(vec![32 << 10; 2]));
}

#[test]
fn a_read_in_shreds_is_left_to_the_disk() {
    assert_eq!(pieces(16 << 10, Range::new(0, SIZE as u64)), None);
    assert_eq!(pieces(4 << 10, Range::new(0, 64 << 10)), None);
    // One piece is no shred, however short.
    assert_eq!(pieces(16 << 10, Range::new(0, 4 << 10)), Some(vec![4096]));
}
