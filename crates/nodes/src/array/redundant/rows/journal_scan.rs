//! [`FoundLog`]: what is in the journal of an array that is opened. Nothing is written.
//!
//! # Invariants
//!
//! * A meta block counts if it is whole, has the next sequence, and all of its pages have the right checksums. The first one
//!   that does not is the end.
//! * A place that the array does not have is an error: nothing of such a journal is replayed.

use std::sync::Mutex;

use block::{IoError, Node, Range};

use super::super::super::assembly::Assembly;
use super::super::super::external_input::random_uuid;
use super::super::super::format::r5l::{
    JournalKey, JournalSpace, MetaBlock, PAGE, PAGE_USIZE, SEQUENCE_STEP, len_min,
};
use super::super::super::member::Member;
use super::super::super::parity::journal_columns::FoundColumns;
use super::super::super::parity::layout::Layout;
use super::super::super::parity::layout_of;
use super::super::super::{ArrayError, ArrayOptions};
use super::journal::Journal;
use crate::read_within;

/// Largest blocks of a disk with a journal, bytes: pages are written whole.
const BLOCK_MAX: u32 = 4096;

/// What is in a journal.
#[derive(Debug, Default)]
pub(in crate::array) struct FoundLog {
    /// What may not be on members.
    pub(in crate::array) columns: FoundColumns,
    /// Where it ends, byte of the journal.
    pub(super) end: u64,
    /// The sequence of what is written there.
    pub(super) next_sequence: u64,
    /// There is no meta block where the superblock names one: what was in it is lost.
    pub(super) is_damaged: bool,
}

/// A journal that is read.
struct Scan<'a> {
    disk: &'a Node,
    key: JournalKey,
    space: JournalSpace,
}

impl Scan<'_> {
    /// Reads `len` bytes from byte `at` of the journal on.
    async fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, IoError> {
        let mut bytes = Vec::new();
        for piece in self.space.pieces(at, len) {
            bytes.extend(read_within(self.disk, piece).await?);
        }
        Ok(bytes)
    }

    /// The meta block at byte `at`, if there is one; `None`, too, where a page of it is not whole.
    async fn block(&self, at: u64) -> Result<Option<MetaBlock>, IoError> {
        let bytes = self.read(at, PAGE).await?;
        let Ok(block) = MetaBlock::decode(&bytes, self.key, at) else {
            return Ok(None);
        };
        let len = block.footprint() - PAGE;
        if len + PAGE > self.space.len() {
            return Ok(None);
        }
        let pages = self.read(self.space.advance(at, PAGE), len).await?;
        let is_whole = {
            let mut checked = block.checksums().zip(pages.chunks_exact(PAGE_USIZE));
            checked.all(|(checksum, page)| self.key.checksum([page]) == checksum)
        };
        Ok(is_whole.then_some(block))
    }

    /// All that it has, from the tail on.
    async fn run(&self, tail: u64, known: (&Layout, u64)) -> Result<FoundLog, ScanProblem> {
        let mut found = FoundLog {
            end: tail,
            ..FoundLog::default()
        };
        let first = self.block(tail).await?;
        let Some(first) = first else {
            let bytes = self.read(tail, PAGE).await?;
            // The tail is durable before superblocks name it: no cut leaves this.
            let block = MetaBlock::decode(&bytes, self.key, tail).ok();
            let [a, b, c, d, ..] = random_uuid();
            let random = u64::from(u32::from_le_bytes([a, b, c, d]));
            found.next_sequence =
                block.map_or(random, |block| block.sequence.wrapping_add(SEQUENCE_STEP));
            found.is_damaged = true;
            return Ok(found);
        };
        let mut sequence = first.sequence;
        let mut next = Some(first);
        let mut scanned = 0;
        while let Some(block) = next.filter(|block| block.sequence == sequence) {
            let added = found.columns.add(&block, known, self.space);
            added.map_err(ScanProblem::Place)?;
            let len = block.footprint();
            scanned += len;
            found.end = self.space.advance(found.end, len);
            sequence = sequence.wrapping_add(1);
            if scanned >= self.space.len() {
                break;
            }
            next = self.block(found.end).await?;
        }
        found.next_sequence = sequence.wrapping_add(SEQUENCE_STEP);
        Ok(found)
    }
}

/// Why a journal cannot be used.
#[derive(Debug)]
enum ScanProblem {
    Read(IoError),
    Place(String),
}

impl From<IoError> for ScanProblem {
    fn from(error: IoError) -> Self {
        Self::Read(error)
    }
}

/// Reads the journal of an array. `None`: it has none here.
///
/// # Errors
/// It cannot be read, or names places that the array does not have.
pub(in crate::array) async fn scan(assembly: &Assembly) -> Result<Option<FoundLog>, ArrayError> {
    let Some(member) = assembly.journal() else {
        return Ok(None);
    };
    let layout = layout_of(&assembly.facts)?;
    let scan = Scan {
        disk: &member.disk,
        key: JournalKey::of(assembly.facts.uuid),
        space: JournalSpace::of(&member.superblock),
    };
    if scan.space.is_empty() {
        return Err(too_small(member));
    }
    let tail = scan.space.tail(&member.bytes);
    match scan.run(tail, (&layout, assembly.facts.size)).await {
        Ok(found) => Ok(Some(found)),
        Err(ScanProblem::Read(source)) => Err(ArrayError::Read {
            member: member.name.clone(),
            source,
        }),
        Err(ScanProblem::Place(place)) => {
            let (journal, array) = (&member.name, &assembly.facts.name);
            Err(ArrayError::refused(
                format!(
                    "{journal}, the journal of array {array}, names what the array does not have: {place}"
                ),
                "assemble it with the kernel that wrote it",
            ))
        }
    }
}

fn too_small(member: &Member) -> ArrayError {
    let name = &member.name;
    ArrayError::refused(
        format!("{name} is too small for a journal of this array"),
        "assemble it with mdadm, and use a larger disk for the journal there",
    )
}

impl Journal {
    /// That of an array that is opened for writing. `None`: it has none.
    ///
    /// # Errors
    /// As [`scan`]; or it cannot be written.
    pub(in crate::array::redundant) async fn open(
        assembly: &Assembly,
        options: &ArrayOptions,
    ) -> Result<Option<Self>, ArrayError> {
        let Some(member) = assembly.journal().filter(|_| !options.read_only) else {
            return Ok(None);
        };
        let geometry = member.disk.geometry();
        if geometry.read_only || geometry.block_size > BLOCK_MAX {
            let name = &member.name;
            return Err(ArrayError::refused(
                format!(
                    "{name}, the array's journal, is read-only, or has blocks of more than {BLOCK_MAX} bytes"
                ),
                "open the array read-only",
            ));
        }
        let Some(found) = scan(assembly).await? else {
            return Ok(None);
        };
        let space = JournalSpace::of(&member.superblock);
        let key = JournalKey::of(assembly.facts.uuid);
        match space.len() >= len_min(assembly.parts.len()) {
            true => Ok(Some(Self::new(key, space, found))),
            false => Err(too_small(member)),
        }
    }

    /// What was found when the array was opened, once.
    pub(super) fn take_found(&self) -> Option<FoundLog> {
        let found: &Mutex<Option<FoundLog>> = &self.found;
        let mut found = found
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        found.take()
    }
}

impl FoundLog {
    /// Bytes of members that are in it, and where in the journal.
    pub(in crate::array) fn pages(&self) -> impl Iterator<Item = (usize, Range, u64)> {
        self.columns.iter().flat_map(|(place, column)| {
            let range = Range::new(place, PAGE);
            let pages = column.whole.iter();
            pages.map(move |(part, at)| (*part, range, *at))
        })
    }

    /// Whether it has data that are on no member, and have no parity yet.
    pub(in crate::array) fn has_cached(&self) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|(_, column)| !column.cached.is_empty())
    }
}
