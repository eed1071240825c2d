//! [`Footprint`]: which bytes of which files a disk is made of, and where two of them collide. Pure.
//!
//! ```text
//! linear(partition(disk.img, 2), b.img)
//!
//! the disk     ├──────── at 0 ────────┼──── at 1G ─────▶
//! claims        disk.img: 64M..1088M    b.img: 0..∞
//! ```
//!
//! # Invariants
//!
//! * A byte of the disk that lies on a file is in one of its pieces, so that two disks without a
//!   collision never touch each other's bytes. The reverse is not promised: a stripe claims all that
//!   lies between its chunks.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use block::{BlockDevice, Node, Range};
use nodes::FileOptions;

use crate::graph::error::SourceMark;

/// What makes two paths the same disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileIdentity {
    /// File: device and inode.
    File(u64, u64),
    /// Block device: its number.
    Device(u64),
}

/// A file that is open, or read as a text.
#[derive(Debug)]
pub(super) struct Leaf {
    /// What it is.
    pub(super) identity: FileIdentity,
    /// How it was named.
    pub(super) path: PathBuf,
    /// Where it was named.
    pub(super) mark: SourceMark,
    /// How it is open.
    pub(super) options: FileOptions,
    /// The disk on it, while it is open; `None` for a claim without a disk.
    pub(super) node: Option<Weak<dyn BlockDevice>>,
}

impl Leaf {
    /// The disk on it, if it is still open.
    pub(super) fn node(&self) -> Option<Node> {
        self.node.as_ref()?.upgrade()
    }
}

/// Bytes of a file that a disk reads or writes.
#[derive(Debug, Clone)]
pub(crate) struct FileClaim {
    /// Which file.
    pub(super) leaf: Arc<Leaf>,
    /// Which bytes of it.
    pub(super) range: Range,
    /// Whether they are written.
    pub(super) writes: bool,
}

impl FileClaim {
    /// Whether the bytes may still be in use: a closed disk uses none.
    pub(crate) fn is_alive(&self) -> bool {
        self.leaf.node.is_none() || self.leaf.node().is_some()
    }
}

/// All of a file, however large it grows.
const ALL: Range = Range::new(0, u64::MAX);

/// A claim and where its bytes are in the disk.
#[derive(Debug, Clone)]
struct ClaimedPiece {
    /// Its first byte in the disk; `None`: they are all over it.
    at: Option<u64>,
    claim: FileClaim,
}

/// What a disk is made of.
#[derive(Debug, Clone, Default)]
pub(super) struct Footprint(Vec<ClaimedPiece>);

impl Footprint {
    /// All of a file.
    pub(super) fn of(leaf: Arc<Leaf>) -> Self {
        let writes = !leaf.options.read_only;
        let claim = FileClaim {
            leaf,
            range: ALL,
            writes,
        };
        Self(vec![ClaimedPiece { at: Some(0), claim }])
    }

    /// That of a part of the disk.
    pub(super) fn window(&self, part: Range) -> Self {
        let pieces = self.0.iter().filter_map(|piece| {
            let Some(at) = piece.at else {
                return Some(piece.clone());
            };
            let start = at.max(part.offset);
            let piece_end = at.saturating_add(piece.claim.range.len);
            let end = piece_end.min(part.offset.saturating_add(part.len));
            (start < end).then(|| ClaimedPiece {
                at: Some(start - part.offset),
                claim: FileClaim {
                    range: Range::new(piece.claim.range.offset + (start - at), end - start),
                    ..piece.claim.clone()
                },
            })
        });
        Self(pieces.collect())
    }

    /// The same, its bytes anywhere in a larger disk.
    pub(super) fn scattered(mut self) -> Self {
        for piece in &mut self.0 {
            piece.at = None;
        }
        self
    }

    /// The same, of a disk that is never written.
    pub(super) fn kept(mut self) -> Self {
        for piece in &mut self.0 {
            piece.claim.writes = false;
        }
        self
    }

    /// Adds what begins at byte `at` of the disk.
    pub(super) fn add(&mut self, at: u64, other: Self) {
        let pieces = other.0.into_iter().map(|piece| ClaimedPiece {
            at: piece.at.map(|within| within.saturating_add(at)),
            ..piece
        });
        self.0.extend(pieces);
    }

    /// Whether any of it is on this file.
    pub(super) fn has(&self, identity: FileIdentity) -> bool {
        let mut pieces = self.0.iter();
        pieces.any(|piece| piece.claim.leaf.identity == identity)
    }

    /// The claims alone.
    pub(super) fn into_claims(self) -> Vec<FileClaim> {
        self.0.into_iter().map(|piece| piece.claim).collect()
    }
}

/// The first two claims that may not be held at once, the earlier of them first: the same bytes, of
/// which one or both are written.
pub(super) fn collision(claims: &[FileClaim]) -> Option<(&FileClaim, &FileClaim)> {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|&n| (claims[n].leaf.identity, claims[n].range.offset, n));
    let ends = |n: usize| {
        let range = claims[n].range;
        range.offset.saturating_add(range.len)
    };
    // Of what began before, on the same file: what ends last, and of what is written.
    let mut furthest: Option<usize> = None;
    let mut written: Option<usize> = None;
    let mut before: Option<FileIdentity> = None;
    for n in order {
        let claim = &claims[n];
        if before != Some(claim.leaf.identity) {
            (furthest, written) = (None, None);
            before = Some(claim.leaf.identity);
        }
        let rival = if claim.writes { furthest } else { written };
        if let Some(rival) = rival.filter(|&rival| ends(rival) > claim.range.offset) {
            let (first, second) = (rival.min(n), rival.max(n));
            return Some((&claims[first], &claims[second]));
        }
        let later = |held: Option<usize>| match held {
            Some(held) if ends(held) >= ends(n) => Some(held),
            _ => Some(n),
        };
        furthest = later(furthest);
        if claim.writes {
            written = later(written);
        }
    }
    None
}
