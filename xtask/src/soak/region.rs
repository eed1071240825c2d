//! A part of an export that one client alone writes to, and what its bytes may be. Pure.
//!
//! What was acknowledged is certain. A write that was sent and never acknowledged, because its client was
//! killed, may have happened or not, byte by byte; so may a trim. What a later read shows is certain
//! from then on: a write that landed after its connection was gone would be found.

use std::ops::Range;

use anyhow::{Result, bail};

/// Bytes of the words that content is made of.
const WORD: usize = 8;

/// A range of an export and what is known of it.
#[derive(Debug)]
pub(crate) struct Region {
    start: u64,
    certain: Vec<u8>,
    /// Where in the region, and what may be there instead.
    maybe: Vec<(usize, Vec<u8>)>,
}

/// Bytes that encode their write and their position in it.
pub(crate) fn content(serial: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.next_multiple_of(WORD)];
    for (index, word) in (0_u64..).zip(bytes.chunks_exact_mut(WORD)) {
        word.copy_from_slice(&(u64::from(serial) << 32 | index).to_be_bytes());
    }
    bytes.truncate(len);
    bytes
}

impl Region {
    /// A region of zeroes.
    pub(crate) fn new(start: u64, len: usize) -> Self {
        Self {
            start,
            certain: vec![0; len],
            maybe: Vec::new(),
        }
    }

    /// Where it begins in the export.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Its length.
    pub(crate) fn len(&self) -> usize {
        self.certain.len()
    }

    /// A write of `data` at `at` was acknowledged.
    pub(crate) fn wrote(&mut self, at: usize, data: &[u8]) {
        self.certain[at..at + data.len()].copy_from_slice(data);
        self.forget(&(at..at + data.len()));
    }

    /// A write of `data` at `at` may have happened.
    pub(crate) fn may_have_written(&mut self, at: usize, data: Vec<u8>) {
        self.maybe.push((at, data));
    }

    /// A read at `at` returned `found`, which is certain from now on if it can be right at all.
    pub(crate) fn read(&mut self, at: usize, found: &[u8]) -> Result<()> {
        let expected = &self.certain[at..at + found.len()];
        let all = if found == expected { 0 } else { found.len() };
        for (index, byte) in found[..all].iter().enumerate() {
            let place = at + index;
            let is_certain = self.certain[place] == *byte;
            if !is_certain && !self.may_be(place, *byte) {
                bail!(
                    "byte {} is {byte:#04x} and was {:#04x}: {}",
                    self.start + place as u64,
                    self.certain[place],
                    self.describe(place, found, index)
                );
            }
        }
        self.wrote(at, found);
        Ok(())
    }

    fn may_be(&self, place: usize, byte: u8) -> bool {
        self.maybe.iter().any(|(at, data)| {
            let inside = place.checked_sub(*at).and_then(|index| data.get(index));
            inside == Some(&byte)
        })
    }

    /// What is around a wrong byte, for debugging.
    fn describe(&self, place: usize, found: &[u8], index: usize) -> String {
        let begin = index - index.min(place % WORD);
        let word = |bytes: &[u8], begin: usize| {
            let end = bytes.len().min(begin + WORD);
            format!("{:02x?}", &bytes[begin..end])
        };
        let covering = |(at, data): &&(usize, Vec<u8>)| (*at..*at + data.len()).contains(&place);
        format!(
            "found {}, expected {} or one of {} unacknowledged writes",
            word(found, begin),
            word(&self.certain, place - place % WORD),
            self.maybe.iter().filter(covering).count()
        )
    }

    /// Nothing else may be in `range` any more.
    fn forget(&mut self, range: &Range<usize>) {
        let before = std::mem::take(&mut self.maybe);
        for (at, data) in before {
            let end = at + data.len();
            if end <= range.start || at >= range.end {
                self.maybe.push((at, data));
                continue;
            }
            if at < range.start {
                self.maybe.push((at, data[..range.start - at].to_vec()));
            }
            if end > range.end {
                self.maybe
                    .push((range.end, data[range.end - at..].to_vec()));
            }
        }
    }
}
