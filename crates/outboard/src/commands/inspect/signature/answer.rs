//! Reading what blkid says: what it found, and where it looked. Pure.

use std::collections::BTreeSet;
use std::io;

use block::Range;
use serde::Serialize;

use super::program::BlkidOutput;

/// blkid's exit statuses for "nothing found" and for "several things found".
const NOTHING: i32 = 2;
const AMBIVALENT: i32 = 8;
/// Unit in which a disk is copied, bytes.
const PAGE: u64 = 4096;

/// What is on a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Signature {
    /// `ext4`, `swap`, `crypto_LUKS`…; none where only a partition table was found.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    /// `filesystem`, `raid`, `crypto` or `other`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<String>,
    /// Its label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// Its UUID, or what stands for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uuid: Option<String>,
    /// Version of its format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Kind of the partition table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) table: Option<String>,
    /// All that was found, where that contradicts itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) several: Vec<String>,
}

/// The output of blkid.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BlkidResult {
    pub(super) signature: Option<Signature>,
    pub(super) looked_at: Vec<Range>,
}

impl BlkidResult {
    /// Parses the output.
    pub(super) fn read(said: &BlkidOutput) -> io::Result<Self> {
        let signature = match said.status {
            Some(0 | AMBIVALENT) => Some(Signature::read(&said.answer)),
            Some(NOTHING) => None,
            status => {
                let status = status.map_or("a signal".to_owned(), |code| code.to_string());
                let last = said.messages.lines().next_back().unwrap_or_default();
                let why = format!("it ended with {status}: {last}");
                return Err(io::Error::other(why));
            }
        };
        Ok(Self {
            signature: signature.filter(|found| *found != Signature::default()),
            looked_at: said.messages.lines().filter_map(place).collect(),
        })
    }
}

impl Signature {
    /// Reads lines of `ID_FS_TYPE=ext4`.
    fn read(answer: &str) -> Self {
        let value = |key: &str| {
            let mut lines = answer.lines().filter_map(|line| line.split_once('='));
            lines
                .find(|(found, _)| *found == key)
                .map(|(_, value)| decoded(value))
        };
        Self {
            kind: value("ID_FS_TYPE"),
            usage: value("ID_FS_USAGE"),
            label: value("ID_FS_LABEL_ENC"),
            uuid: value("ID_FS_UUID_ENC"),
            version: value("ID_FS_VERSION"),
            table: value("ID_PART_TABLE_TYPE"),
            several: value("ID_FS_AMBIVALENT")
                .map_or_else(Vec::new, |all| all.split_whitespace().map(name).collect()),
        }
    }
}

impl Signature {
    /// What it is, in a few words; nothing where it is only a table.
    pub(crate) fn in_words(&self) -> Option<String> {
        let Some(kind) = &self.kind else {
            return (!self.several.is_empty()).then(|| self.several.join(" or "));
        };
        let mut words = vec![kind.clone()];
        words.extend(self.label.as_ref().map(|label| format!("\"{label}\"")));
        words.extend(self.uuid.clone());
        Some(words.join(" "))
    }
}

impl Signature {
    /// What it says that the disk holds, in one word or a few: `ext4`, `LVM2_member`, a partition table.
    pub(crate) fn content(&self) -> String {
        match (&self.kind, &self.table) {
            (Some(kind), _) => kind.clone(),
            (None, _) if !self.several.is_empty() => "signatures of several kinds".into(),
            (None, Some(table)) => format!("a partition table ({table})"),
            (None, None) => "something that blkid knows without a name".into(),
        }
    }
}

/// `ext4` of `filesystem:ext4:1.0`
fn name(told: &str) -> String {
    told.split(':').nth(1).unwrap_or(told).to_owned()
}

/// `read: off=1024 len=256` in a line.
fn place(line: &str) -> Option<Range> {
    let (_, told) = line.split_once("read: off=")?;
    let (offset, rest) = told.split_once(" len=")?;
    let len = rest.split_whitespace().next()?;
    let (offset, len): (u64, u64) = (offset.parse().ok()?, len.parse().ok()?);
    offset.checked_add(len)?;
    Some(Range::new(offset, len))
}

/// A value in which unusual bytes are written `\x20`.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let digits = behind.strip_prefix(b"x").and_then(|digits| digits.get(..2));
        let hex = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) if byte == b'\\' => {
                bytes.push(decoded);
                rest = &behind[3..];
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The pages of a disk that were copied.
#[derive(Debug)]
pub(super) struct Pages {
    size: u64,
    copied: BTreeSet<u64>,
}

impl Pages {
    pub(super) const fn new(size: u64) -> Self {
        Self {
            size,
            copied: BTreeSet::new(),
        }
    }

    /// How much that is.
    pub(super) fn bytes(&self) -> u64 {
        (self.copied.len() as u64).saturating_mul(PAGE)
    }

    /// Adds the pages of `looked`; returns those that were not copied before, as ordered runs.
    pub(super) fn add(&mut self, looked: &[Range]) -> Vec<Range> {
        let mut runs: Vec<Range> = Vec::new();
        let mut new = BTreeSet::new();
        for range in looked {
            let end = range.end().min(self.size);
            let first = range.offset / PAGE;
            // A page more than may be copied shows that it is too much.
            let last = end.div_ceil(PAGE).min(first + super::COPIED_MAX / PAGE + 1);
            new.extend((first..last).filter(|page| !self.copied.contains(page)));
        }
        for page in &new {
            let start = page * PAGE;
            let len = PAGE.min(self.size - start);
            match runs.last_mut() {
                Some(run) if run.end() == start => run.len += len,
                _ => runs.push(Range::new(start, len)),
            }
        }
        self.copied.extend(new);
        runs
    }
}
