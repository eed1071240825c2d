//! What a step of a merge copies, and the table that it leaves. Pure.

use block::Range;

use crate::overlay::format::{StoreLayout, read_table};
use crate::overlay::map::{ChunkRun, Exception};

/// Bytes that a step copies, at most, unless a single chunk is more.
const STEP_LEN_MAX: u64 = 1 << 20;

/// One step: the last exceptions of the last table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MergeStep {
    /// Number of the table.
    pub(super) table: u64,
    /// What it will hold afterwards.
    pub(super) bytes: Vec<u8>,
    /// What is copied.
    pub(super) exceptions: Vec<Exception>,
}

/// Number of the last table that lists something, of `committed` exceptions, of which there is one.
pub(super) fn last_table(layout: StoreLayout, committed: u64) -> u64 {
    committed.saturating_sub(1) / layout.per_table()
}

impl MergeStep {
    /// The step that begins with the last of `committed` exceptions, of which the last table holds `bytes`.
    /// `None`: the table does not list as many as it should.
    pub(super) fn new(layout: StoreLayout, committed: u64, mut bytes: Vec<u8>) -> Option<Self> {
        let table = last_table(layout, committed);
        let used = committed - table * layout.per_table();
        let mut exceptions = Vec::new();
        let found = read_table(&bytes, &mut exceptions);
        if found.count as u64 != used {
            return None;
        }
        let count = (STEP_LEN_MAX / layout.chunk()).clamp(1, used);
        let first = Range::new(0, used - count).len_usize();
        let exceptions = exceptions.split_off(first);
        let entries = bytes.len() / Range::new(0, layout.per_table()).len_usize();
        bytes[first * entries..].fill(0);
        Some(Self {
            table,
            bytes,
            exceptions,
        })
    }

    /// What is copied, neighbours together, by chunk of the disk.
    pub(super) fn runs(&self) -> Vec<ChunkRun> {
        let mut exceptions = self.exceptions.clone();
        exceptions.sort_unstable_by_key(Exception::old);
        let mut runs: Vec<ChunkRun> = Vec::new();
        for exception in exceptions {
            let (old, new) = (exception.old(), exception.new_chunk());
            match runs.last_mut() {
                Some(last)
                    if last.old + last.len == old
                        && last.new.is_some_and(|first| first + last.len == new) =>
                {
                    last.len += 1;
                }
                _ => runs.push(ChunkRun {
                    old,
                    new: Some(new),
                    len: 1,
                }),
            }
        }
        runs
    }
}
