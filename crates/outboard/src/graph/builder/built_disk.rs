//! [`BuiltDisk`]: an open disk and those below it, as they were written.

use block::{Node, Range};

use super::claims::Footprint;

/// An open disk and those below it.
#[derive(Debug)]
pub(crate) struct BuiltDisk {
    /// What it is called in the language.
    pub(crate) name: &'static str,
    /// What distinguishes it from others of its name: a path, a number.
    pub(crate) about: String,
    /// The disk; `None` for a file that is part of the node above it.
    pub(crate) node: Option<Node>,
    /// Whether it is never written: the expression says so, or the partition table that it is found by is damaged.
    pub(crate) read_only: bool,
    /// How its bytes lie in those below.
    pub(crate) below: Below,
    /// Those below.
    pub(crate) children: Vec<Self>,
    /// The files it is made of.
    pub(super) footprint: Footprint,
}

/// How the bytes of a disk lie in those below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Below {
    /// There is none below.
    Nothing,
    /// Each at its own place in the only one.
    Straight,
    /// As its `remap` reports.
    Mapped,
}

/// Where a byte is in one disk of a tree.
#[derive(Debug)]
pub(crate) struct GraphStep<'a> {
    /// The disk.
    pub(crate) built: &'a BuiltDisk,
    /// The byte, counted in it.
    pub(crate) offset: u64,
}

/// Remaps that are followed within what one name made.
const HOPS_MAX: usize = 64;

impl BuiltDisk {
    /// A disk without others below it.
    pub(super) fn leaf(name: &'static str, about: String, node: Node) -> Self {
        Self {
            name,
            about,
            node: Some(node),
            read_only: false,
            below: Below::Nothing,
            children: Vec::new(),
            footprint: Footprint::default(),
        }
    }

    /// A disk that keeps each byte of `child` at its place.
    pub(super) fn over(name: &'static str, about: String, node: Node, child: Self) -> Self {
        Self {
            name,
            about,
            node: Some(node),
            read_only: child.read_only,
            below: Below::Straight,
            footprint: child.footprint.clone(),
            children: vec![child],
        }
    }

    /// The disk itself.
    ///
    /// # Panics
    /// For a file that is part of the node above it.
    pub(super) fn disk(&self) -> &Node {
        self.node
            .as_ref()
            .expect("only a TOP is no disk of its own")
    }

    /// The way of byte `offset` down to where it is kept, this disk first.
    pub(crate) fn locate(&self, offset: u64) -> Vec<GraphStep<'_>> {
        let mut way = Vec::new();
        let mut at = Some(GraphStep {
            built: self,
            offset,
        });
        while let Some(step) = at {
            at = step.built.below_at(step.offset);
            way.push(step);
        }
        way
    }

    /// The child that keeps byte `offset`, and where.
    fn below_at(&self, offset: u64) -> Option<GraphStep<'_>> {
        match self.below {
            Below::Nothing => None,
            Below::Straight => Some(GraphStep {
                built: self.children.first()?,
                offset,
            }),
            Below::Mapped => self.mapped(offset),
        }
    }

    fn mapped(&self, offset: u64) -> Option<GraphStep<'_>> {
        let top = self.node.as_ref()?;
        let block = u64::from(top.geometry().block_size.max(1));
        // What holds all of one disk and nothing else may be that disk.
        let itself = |child: &&Self| child.node.as_ref().is_some_and(|node| is_same(node, top));
        if let Some(built) = self.children.iter().find(itself) {
            return Some(GraphStep { built, offset });
        }
        let start = offset / block * block;
        let (mut disk, mut range) = top.remap(Range::new(start, block))?;
        for _ in 0..HOPS_MAX {
            let same = |child: &&Self| child.node.as_ref().is_some_and(|node| is_same(node, disk));
            if let Some(built) = self.children.iter().find(same) {
                let offset = range.offset + (offset - start);
                return Some(GraphStep { built, offset });
            }
            match disk.remap(range) {
                Some(next) => (disk, range) = next,
                None => break,
            }
        }
        // What is kept in none of the disks below is kept in the node's own file.
        let own = self.children.iter().find(|child| child.node.is_none())?;
        let offset = range.offset + (offset - start);
        Some(GraphStep { built: own, offset })
    }
}

/// Whether both are one disk, not two equal ones.
fn is_same(one: &Node, other: &Node) -> bool {
    std::ptr::addr_eq(std::sync::Arc::as_ptr(one), std::sync::Arc::as_ptr(other))
}

/// A disk as it is named to users: `file a.img`.
pub(crate) fn label(node: &str, about: &str) -> String {
    let space = if about.is_empty() { "" } else { " " };
    format!("{node}{space}{about}")
}
