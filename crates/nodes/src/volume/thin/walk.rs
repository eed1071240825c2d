//! Reading metadata blocks, and walking a btree.
//!
//! # Invariants
//!
//! * A walk ends with any metadata: it goes at most [`DEPTH_MAX`] levels deep, visits at most as many
//!   nodes as there are metadata blocks, and keeps at most the children of one node of each level.
//! * The keys of a node are those that its parent says: what a walk returns ascends.
//! * Internal nodes are kept, at most [`INTERNAL_NODES_MAX`]; leaves are not: what is made of them is kept in
//!   sections (`sections.rs`).

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Node, Range};

use super::ThinError;
use super::format::{BLOCK_LEN, BLOCK_SIZE, NodeFault, NodeKind, TreeNode};
use crate::read::read_within;

/// Levels of a tree. Four hold more mappings than the largest metadata.
const DEPTH_MAX: usize = 16;
/// Internal nodes that are kept: 16 MiB. A volume of 1 TiB in chunks of 64 KiB has at most 800.
const INTERNAL_NODES_MAX: usize = 4096;

/// The disk of the metadata.
#[derive(Debug)]
pub(super) struct Metadata {
    disk: Node,
    /// Blocks of it.
    blocks: u64,
    internal_nodes: Mutex<HashMap<u64, Arc<TreeNode>>>,
}

impl Metadata {
    /// The first `blocks` blocks of `disk`.
    pub(super) fn new(disk: Node, blocks: u64) -> Self {
        Self {
            disk,
            blocks,
            internal_nodes: Mutex::default(),
        }
    }

    pub(super) const fn disk(&self) -> &Node {
        &self.disk
    }

    /// The bytes of a block.
    pub(super) async fn block(&self, block: u64) -> Result<Vec<u8>, ThinError> {
        let blocks = self.blocks;
        let outside = || ThinError::node(block, NodeFault::Outside { blocks });
        if block >= blocks {
            return Err(outside());
        }
        let offset = block.checked_mul(BLOCK_SIZE).ok_or_else(outside)?;
        let bytes = read_within(&self.disk, Range::new(offset, BLOCK_SIZE)).await?;
        if bytes.len() == BLOCK_LEN {
            Ok(bytes)
        } else {
            Err(outside())
        }
    }

    /// The node in a block, of a tree with leaf values of `value_size` bytes.
    async fn node(&self, block: u64, value_size: u32) -> Result<Arc<TreeNode>, ThinError> {
        if let Some(known) = self.internal_nodes().get(&block) {
            return Ok(known.clone());
        }
        let bytes = self.block(block).await?;
        let node = TreeNode::decode(bytes, block, value_size);
        let node = Arc::new(node.map_err(|fault| ThinError::node(block, fault))?);
        if node.kind() == NodeKind::Internal {
            let mut known = self.internal_nodes();
            if known.len() >= INTERNAL_NODES_MAX {
                known.clear();
            }
            known.insert(block, node.clone());
        }
        Ok(node)
    }

    fn internal_nodes(&self) -> MutexGuard<'_, HashMap<u64, Arc<TreeNode>>> {
        let nodes = self.internal_nodes.lock();
        nodes.unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of `key` in a tree.
    pub(super) async fn lookup(&self, tree: Tree, key: u64) -> Result<Option<Vec<u8>>, ThinError> {
        let mut walk = Walk::new(self, tree, key..=key);
        while let Some(leaf) = walk.next_leaf().await? {
            let index = leaf.lower_bound(key);
            if index < leaf.count() && leaf.key(index) == key {
                return Ok(Some(leaf.value(index).to_vec()));
            }
        }
        Ok(None)
    }

    /// The first key from `from` on in a tree.
    pub(super) async fn next_key(&self, tree: Tree, from: u64) -> Result<Option<u64>, ThinError> {
        let mut walk = Walk::new(self, tree, from..=u64::MAX);
        while let Some(leaf) = walk.next_leaf().await? {
            let index = leaf.lower_bound(from);
            if index < leaf.count() {
                return Ok(Some(leaf.key(index)));
            }
        }
        Ok(None)
    }
}

/// A btree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tree {
    /// Block of its root.
    pub(super) root: u64,
    /// Bytes of the values in its leaves.
    pub(super) value_size: u32,
}

/// A node that is to be visited.
#[derive(Debug)]
struct TreeStep {
    block: u64,
    /// What its parent says.
    keys: RangeInclusive<u64>,
    depth: usize,
}

/// A walk over the leaves of a tree that may have keys of a range, in order.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    metadata: &'a Metadata,
    value_size: u32,
    wanted: RangeInclusive<u64>,
    /// The next one is the last.
    steps: Vec<TreeStep>,
    visited: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(metadata: &'a Metadata, tree: Tree, wanted: RangeInclusive<u64>) -> Self {
        let root = TreeStep {
            block: tree.root,
            keys: 0..=u64::MAX,
            depth: 0,
        };
        Self {
            metadata,
            value_size: tree.value_size,
            wanted,
            steps: vec![root],
            visited: 0,
        }
    }

    /// The next leaf; `None` behind the last one.
    pub(super) async fn next_leaf(&mut self) -> Result<Option<Arc<TreeNode>>, ThinError> {
        while let Some(step) = self.steps.pop() {
            let node = self.visit(&step).await?;
            if node.kind() == NodeKind::Leaf {
                return Ok(Some(node));
            }
            self.descend(&node, &step);
        }
        Ok(None)
    }

    async fn visit(&mut self, step: &TreeStep) -> Result<Arc<TreeNode>, ThinError> {
        let refused = |fault| ThinError::node(step.block, fault);
        if step.depth >= DEPTH_MAX {
            return Err(refused(NodeFault::Depth(step.depth)));
        }
        if self.visited >= self.metadata.blocks {
            return Err(refused(NodeFault::Loop));
        }
        self.visited += 1;
        let node = self.metadata.node(step.block, self.value_size).await?;
        node.check_bounds(&step.keys).map_err(refused)?;
        Ok(node)
    }

    /// Plans to visit the children that may have keys that are wanted.
    fn descend(&mut self, node: &TreeNode, step: &TreeStep) {
        let (first, last) = (*self.wanted.start(), *self.wanted.end());
        let begin = match node.lower_bound(first) {
            exact if exact < node.count() && node.key(exact) == first => exact,
            above => above.saturating_sub(1),
        };
        let end = match node.lower_bound(last) {
            exact if exact < node.count() && node.key(exact) == last => exact + 1,
            above => above,
        };
        let high = *step.keys.end();
        let children = (begin..end).rev().map(|index| TreeStep {
            block: node.number(index),
            keys: node.child_keys(index, high),
            depth: step.depth + 1,
        });
        self.steps.extend(children);
    }
}
