//! [`DataCodec`]: how the data of a volume becomes the bytes of its objects, and its index: compressed, sealed, both or neither.
//!
//! # Invariants
//!
//! * The unit is a block: a read of one fetches and decodes that one, and a write reads nothing.
//! * A block that compression does not make smaller by a sixteenth is stored as it is.
//! * Blocks are compressed before they are sealed, and their checksums are of what was written.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use slatedb::BlockTransformer;

use crate::flush_plan::ObjectLayout;
use crate::format::{BLOCK_LEN, Compression, SEAL_LEN, WHOLE};
use crate::read_plan::{DecodeBlock, FetchError};
use crate::run_map::StoredBlock;
use crate::seal::{DataKey, PIECE_SEAL_LEN, SealingKey};

/// Bytes of a block that was compressed, at most.
const COMPRESSED_MAX: usize = BLOCK_LEN - BLOCK_LEN / 16;

/// How the data of a volume is encoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct DataCodec {
    /// What is written is compressed.
    pub(crate) compression: Option<Compression>,
    /// Everything is sealed.
    pub(crate) key: Option<DataKey>,
}

impl DataCodec {
    /// Whether blocks are stored as they are written.
    pub(crate) const fn is_plain(&self) -> bool {
        self.compression.is_none() && self.key.is_none()
    }

    /// The codec of a data object: `identity` is its volume's id and its name.
    pub(crate) fn object(&self, identity: impl FnOnce() -> String) -> ObjectCodec {
        ObjectCodec {
            compression: self.compression,
            key: self.key.as_ref().map(|key| key.of_object(&identity())),
        }
    }

    /// What seals the index, if anything does. SlateDB compresses it.
    pub(crate) fn transformer(&self) -> Option<Arc<dyn BlockTransformer>> {
        let key = self.key.clone()?;
        Some(Arc::new(IndexSeal(key)))
    }
}

/// Seals the blocks of SlateDB's tables and logs.
struct IndexSeal(DataKey);

#[async_trait]
impl BlockTransformer for IndexSeal {
    async fn encode(&self, data: Bytes) -> Result<Bytes, slatedb::Error> {
        Ok(self.0.seal_piece(&data).into())
    }

    async fn decode(&self, data: Bytes) -> Result<Bytes, slatedb::Error> {
        let opened = self.0.open_piece(&data);
        opened
            .map(Bytes::from)
            .map_err(|error| slatedb::Error::data(error.to_string()))
    }

    fn encoded_overhead(&self) -> usize {
        PIECE_SEAL_LEN
    }
}

/// How the blocks of an object are encoded.
pub(crate) struct ObjectCodec {
    compression: Option<Compression>,
    key: Option<SealingKey>,
}

/// What the seal of a block authenticates: its place on the disk and in the object.
fn place(number: u64, offset: u64) -> [u8; 16] {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&number.to_le_bytes());
    place[8..].copy_from_slice(&offset.to_le_bytes());
    place
}

/// An object that is being encoded.
pub(crate) struct ObjectEncoder {
    codec: ObjectCodec,
    bytes: Vec<u8>,
    lengths: Vec<u16>,
    scratch: Vec<u8>,
}

impl ObjectCodec {
    /// Encodes an object of so many blocks.
    pub(crate) fn encoder(self, block_count: usize) -> ObjectEncoder {
        let len = match self.compression {
            // At least half of it, mostly.
            Some(_) => block_count * BLOCK_LEN / 2,
            None => block_count * (BLOCK_LEN + SEAL_LEN as usize),
        };
        ObjectEncoder {
            codec: self,
            bytes: Vec::with_capacity(len),
            lengths: Vec::with_capacity(block_count),
            scratch: vec![0; get_maximum_output_size(BLOCK_LEN)],
        }
    }
}

impl ObjectEncoder {
    /// Adds a block of the volume.
    pub(crate) fn push(&mut self, number: u64, block: &[u8]) {
        let begin = self.bytes.len();
        let compressed = match self.codec.compression {
            Some(Compression::Lz4) => compress_into(block, &mut self.scratch).ok(),
            None => None,
        };
        let data = match compressed.filter(|len| *len <= COMPRESSED_MAX) {
            Some(len) => &self.scratch[..len],
            None => block,
        };
        self.bytes.extend_from_slice(data);
        let len = u16::try_from(data.len());
        self.lengths
            .push(len.expect("a block is at most 4096 bytes"));
        if let Some(key) = &self.codec.key {
            let place = place(number, begin as u64);
            key.seal(&mut self.bytes, begin, &place);
        }
    }

    /// The bytes of the object, and where its blocks are.
    pub(crate) fn finish(self) -> (Bytes, ObjectLayout) {
        let is_sealed = self.codec.key.is_some();
        let layout = match self.lengths.iter().all(|len| *len == WHOLE) {
            true => ObjectLayout::whole(is_sealed),
            false => ObjectLayout::of(is_sealed, &self.lengths),
        };
        (self.bytes.into(), layout)
    }
}

impl DecodeBlock for ObjectCodec {
    fn is_sealed(&self) -> bool {
        self.key.is_some()
    }

    fn decode(
        &self,
        block: &StoredBlock,
        stored: &[u8],
        into: &mut [u8],
    ) -> Result<(), FetchError> {
        let mut opened = [0; BLOCK_LEN];
        let data = match &self.key {
            None => stored,
            Some(key) => {
                let len = stored.len().checked_sub(SEAL_LEN as usize);
                let opened = len.and_then(|len| opened.get_mut(..len));
                let opened = opened.ok_or(FetchError::Seal(block.offset))?;
                let place = place(block.number, block.offset);
                let done = key.open(stored, &place, opened);
                done.map_err(|_| FetchError::Seal(block.offset))?;
                opened
            }
        };
        if data.len() == BLOCK_LEN {
            into.copy_from_slice(data);
            return Ok(());
        }
        match decompress_into(data, into) {
            Ok(BLOCK_LEN) => Ok(()),
            _ => Err(FetchError::Compression(block.offset)),
        }
    }
}
