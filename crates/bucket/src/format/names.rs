//! [`Names`]: the objects of a volume, by name.
//!
//! # Invariants
//!
//! * Index and data lie below the id of the volume: a server that still has a deleted volume open writes nothing of another one that was
//!   made at its place.
//! * The name of a data object has its writer's generation, which no two writers share: two writers never write the same object.
//! * A clone has data objects in the folders of its origins. Their generations are at most those of the origins, and those of its own
//!   objects are larger.

use std::fmt;

use super::{Origin, VolumeHeader};

/// Digits of a version of the header, so that names sort as the numbers do.
const VERSION_DIGITS: usize = 20;

/// The file name of the mark of a journal. It sorts before the versions, so that a delete removes these last.
pub(crate) const JOURNAL_MARK: &str = "+journal";

/// The names of the objects of one volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    root: String,
    /// That of the volume; empty until its header was read.
    id: String,
    /// Those of the volume, of which it has data objects.
    origins: Vec<Origin>,
}

/// A data object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DataObject {
    /// Its writer.
    pub(crate) generation: u32,
    /// Counts the writer's objects.
    pub(crate) number: u64,
}

impl fmt::Display for DataObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, number } = self;
        write!(f, "{generation:08x}-{number:016x}")
    }
}

impl Names {
    /// Those below `root`; an empty one is the store itself.
    pub(crate) const fn new(root: String) -> Self {
        Self {
            root,
            id: String::new(),
            origins: Vec::new(),
        }
    }

    /// The same, with the objects of this volume.
    pub(crate) fn of(&self, header: &VolumeHeader) -> Self {
        Self {
            root: self.root.clone(),
            id: header.id.to_string(),
            origins: header.origins.clone(),
        }
    }

    /// Those of a volume of which a clone has data objects. Its own origins are the clone's, too.
    pub(crate) fn of_origin(origin: &Origin) -> Self {
        Self {
            root: origin.path.clone(),
            id: origin.id.to_string(),
            origins: Vec::new(),
        }
    }

    fn below(&self, name: &str) -> String {
        match self.root.as_str() {
            "" => name.to_owned(),
            root => format!("{root}/{name}"),
        }
    }

    /// What all of them begin with.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// The folder with the versions of the header.
    pub(crate) fn headers(&self) -> String {
        self.below("volume")
    }

    /// A version of the header, from 1 on.
    pub(crate) fn header(&self, version: u64) -> String {
        self.below(&format!("volume/{version:0VERSION_DIGITS$}"))
    }

    /// The mark that the volume may have an open journal: among the headers, so that no request is needed to find none.
    pub(crate) fn journal_mark(&self) -> String {
        self.below(&format!("volume/{JOURNAL_MARK}"))
    }

    /// The folder of the index: SlateDB's.
    pub(crate) fn index(&self) -> String {
        self.below(&format!("index/{}", self.own_id()))
    }

    /// The folder of the logs of the index: SlateDB's.
    pub(crate) fn index_logs(&self) -> String {
        format!("{}/wal", self.index())
    }

    /// The folder of the data objects.
    pub(crate) fn data(&self) -> String {
        self.below(&format!("data/{}", self.own_id()))
    }

    fn own_id(&self) -> &str {
        assert!(
            !self.id.is_empty(),
            "the header is read before anything else"
        );
        &self.id
    }

    /// The volumes of which it has data objects.
    pub(crate) fn origins(&self) -> &[Origin] {
        &self.origins
    }

    /// The volume that wrote the objects of a generation, if that is an origin.
    pub(crate) fn origin_of(&self, generation: u32) -> Option<&Origin> {
        let mut origins = self.origins.iter();
        origins.find(|origin| generation <= origin.generation)
    }

    /// The folder of the data objects of a generation.
    fn data_of(&self, generation: u32) -> String {
        match self.origin_of(generation) {
            Some(origin) => Self::of_origin(origin).data(),
            None => self.data(),
        }
    }

    /// What distinguishes a data object from those of every other volume, wherever its folder lies: `ID/NAME`.
    pub(crate) fn identity(&self, object: DataObject) -> String {
        match self.origin_of(object.generation) {
            Some(origin) => format!("{}/{object}", origin.id),
            None => format!("{}/{object}", self.own_id()),
        }
    }

    /// The folders with everything but headers, of any volume.
    pub(crate) fn contents(&self) -> [String; 4] {
        ["data", "probe", "index", "gc"].map(|folder| self.below(folder))
    }

    /// A data object.
    pub(crate) fn object(&self, object: DataObject) -> String {
        let folder = self.data_of(object.generation);
        format!("{folder}/{object}")
    }

    /// The record of the collection of data objects.
    pub(crate) fn collection(&self) -> String {
        self.below(&format!("gc/{}", self.own_id()))
    }

    /// The folder of the requests to the writer to vacate data objects.
    pub(crate) fn relocations(&self) -> String {
        self.below(&format!("gc/{}-relocations", self.own_id()))
    }

    /// One of these requests.
    pub(crate) fn relocation(&self, request: u128) -> String {
        format!("{}/{request:032x}", self.relocations())
    }

    /// The folder of the marks of volumes that are being deleted.
    pub(crate) fn deletions(&self) -> String {
        self.below("deleting")
    }

    /// The mark of a volume that is being deleted: its header, while snapshots are looked for once more.
    pub(crate) fn deletion(&self) -> String {
        self.below(&format!("deleting/{}", self.own_id()))
    }

    /// The folder of the marks of clones that are being made or deleted.
    pub(crate) fn unfinished_clones(&self) -> String {
        self.below("unfinished")
    }

    /// The mark of a clone that is being made or deleted: its header, by which its origin is found.
    pub(crate) fn unfinished_clone(&self) -> String {
        self.below(&format!("unfinished/{}", self.own_id()))
    }

    /// The folder of the objects by which a store is probed.
    pub(crate) fn probes(&self) -> String {
        self.below("probe")
    }
}

/// The version of the header with this file name.
pub(crate) fn header_version(name: &str) -> Option<u64> {
    let is_version = name.len() == VERSION_DIGITS && name.bytes().all(|b| b.is_ascii_digit());
    is_version.then(|| name.parse().ok())?
}

/// The data object with this file name.
pub(crate) fn data_object(name: &str) -> Option<DataObject> {
    let (generation, number) = name.split_once('-')?;
    let is_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if (generation.len(), number.len()) != (8, 16) || !is_hex(generation) || !is_hex(number) {
        return None;
    }
    Some(DataObject {
        generation: u32::from_str_radix(generation, 16).ok()?,
        number: u64::from_str_radix(number, 16).ok()?,
    })
}
