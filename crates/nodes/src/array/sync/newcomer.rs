//! A disk that becomes a spare, no matter what it held.
//!
//! # Invariants
//!
//! * Nothing is written to it before it was found to fit.

use block::{IoError, Node, Range, WriteFlags};
use bytes::Bytes;

use super::super::create::join::{Joining, join};
use super::super::create::write::wipe;
use super::super::external_input::random_uuid;
use super::super::format::bad_blocks::BadBlocks;
use super::super::format::{PLACE_LEN, Superblock, encode};
use super::super::member::Member;
use super::super::{AddOptions, ArrayError, Candidate};
use super::manager::SyncManager;
use super::members::not_updated;

impl SyncManager {
    /// Makes a disk a spare, no matter what it held.
    pub(super) async fn take_in(
        &self,
        disk: &Candidate,
        node: Node,
        options: AddOptions,
    ) -> Result<(), ArrayError> {
        let name = &disk.name;
        let model = self
            .array
            .written()
            .into_iter()
            .find(|member| member.in_sync);
        let Some(model) = model else {
            return Err(ArrayError::refused("the array has no member in sync", None));
        };
        let number = self.array.free_number();
        let joining = Joining {
            name,
            size: node.geometry().size,
            block: node.geometry().block_size,
            number,
            device: random_uuid(),
            write_mostly: options.write_mostly,
            fail_fast: options.fail_fast,
        };
        let shape = self
            .array
            .bitmap()
            .and_then(|header| header.shape(&model.superblock).ok());
        let (superblock, at) = join(&model.superblock, model.at, shape.as_ref(), &joining)?;
        self.array.refuse_misplaced(name, &node, &superblock, at)?;
        self.array.forget(name, number);
        let prepared = prepare(&node, &superblock).await;
        prepared.map_err(|source| ArrayError::Write {
            member: name.clone(),
            source,
        })?;
        let mut bytes = encode(&superblock, at);
        bytes.resize(usize::try_from(PLACE_LEN).expect("small"), 0);
        let member = Member {
            name: name.clone(),
            disk: node,
            remote: disk.remote,
            reopen: disk.reopen.clone(),
            at,
            superblock,
            bytes,
            bitmap: None,
            bad: Vec::new(),
        };
        self.array.adopt(member, true);
        self.remember(name, disk.remote, disk.reopen.as_ref());
        let told = self.array.commit_pending().await;
        told.map_err(|error| not_updated(&error))?;
        self.changed();
        Ok(())
    }
}

/// Removes superblocks of earlier arrays, and begins a log of bad blocks.
async fn prepare(disk: &Node, superblock: &Superblock) -> Result<(), IoError> {
    wipe(disk).await?;
    if let Some(log) = superblock.bad_blocks {
        let empty = BadBlocks::none(log.len, 0).ok();
        if let Some(bytes) = empty.and_then(|log| log.encode()) {
            let place = Range::new(log.offset, bytes.len() as u64);
            let data = std::iter::once(Bytes::from(bytes)).collect();
            disk.write(place, data, WriteFlags::empty()).await?;
        }
    }
    if disk.geometry().flush.any() {
        disk.flush().await?;
    }
    Ok(())
}
