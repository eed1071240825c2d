//! What a server says of its exports, checked and collected.

use crate::consts::limits;
use crate::context::{self, MetaContext};
use crate::flags::TransmissionFlags;
use crate::handshake::ExportInfo;
use crate::handshake::client::{BadReply, HandshakeFailure};
use crate::handshake::frame::info;
use crate::wire::{Fields, index, printable, string};
use crate::writers::DiskIdentity;

/// Replies to one option so far.
#[derive(Debug, Default)]
pub(super) struct CollectedReplies {
    replies: u32,
    export: Option<(u64, TransmissionFlags)>,
    name: Option<String>,
    description: String,
    block_sizes: Option<BlockSizes>,
    list: Vec<(String, String)>,
    contexts: Vec<MetaContext>,
    disk: DiskIdentity,
    disk_replies: u32,
}

#[derive(Debug, Clone, Copy)]
struct BlockSizes {
    min: u32,
    preferred: u32,
    max: u32,
}

impl CollectedReplies {
    /// One `INFO` reply. Kinds we do not know are ignored.
    pub(super) fn info(&mut self, data: &[u8]) -> Result<(), HandshakeFailure> {
        self.replies += 1;
        if self.replies > limits::REPLIES_MAX {
            return Err(BadReply::TooMany.into());
        }
        let mut fields = Fields::new(data);
        let wrong_length = |kind| BadReply::InfoLength {
            kind,
            len: data.len(),
        };
        let kind = fields.u16().ok_or(wrong_length(0))?;
        match kind {
            info::EXPORT => self.export = Some(export(fields).ok_or(wrong_length(kind))??),
            info::NAME => self.name = Some(text(fields.rest())?),
            info::DESCRIPTION => self.description = printable(text(fields.rest())?.as_bytes()),
            info::BLOCK_SIZE => {
                let sizes = block_sizes(fields).ok_or(wrong_length(kind))?;
                self.block_sizes = Some(checked(sizes)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// One `SERVER` reply: an export's name, and behind it a text for people.
    pub(super) fn listed(&mut self, data: &[u8]) -> Result<(), HandshakeFailure> {
        if self.list.len() >= limits::LISTED_MAX {
            return Err(BadReply::TooMany.into());
        }
        let mut fields = Fields::new(data);
        let name = fields
            .u32()
            .and_then(|len| fields.take(index(len)))
            .ok_or(BadReply::BadString)?;
        let entry = (text(name)?, printable(fields.rest()));
        self.list.push(entry);
        Ok(())
    }

    /// One `META_CONTEXT` reply. With `asked`, contexts are selected: each must be one of those and have
    /// its own id. Without, they are listed and their ids mean nothing.
    pub(super) fn context(
        &mut self,
        data: &[u8],
        asked: Option<&[String]>,
    ) -> Result<(), HandshakeFailure> {
        if self.contexts.len() >= index(limits::REPLIES_MAX) {
            return Err(BadReply::TooMany.into());
        }
        let mut fields = Fields::new(data);
        let id = fields.u32().ok_or(BadReply::BadString)?;
        let name = context::name(fields.rest()).ok_or(BadReply::BadString)?;
        let name = name.to_owned();
        if let Some(asked) = asked {
            let again = |other: &MetaContext| other.id == id || other.name == name;
            if !asked.contains(&name) || self.contexts.iter().any(again) {
                return Err(BadReply::Context { id, name }.into());
            }
        }
        self.contexts.push(MetaContext { id, name });
        Ok(())
    }

    /// One `META_CONTEXT` reply to the question for the disk. Names of other namespaces are ignored, and
    /// so is what is not understood.
    pub(super) fn disk(&mut self, data: &[u8]) -> Result<(), HandshakeFailure> {
        self.disk_replies += 1;
        if self.disk_replies > limits::REPLIES_MAX {
            return Err(BadReply::TooMany.into());
        }
        let mut fields = Fields::new(data);
        let name = fields.u32().and_then(|_id| context::name(fields.rest()));
        if let Some(name) = name {
            self.disk.add(name);
        }
        Ok(())
    }

    /// Forgets the disk: the option failed, so earlier replies do not count.
    pub(super) fn forget_disk(&mut self) {
        self.disk = DiskIdentity::default();
    }

    pub(super) fn take_disk(&mut self) -> DiskIdentity {
        std::mem::take(&mut self.disk)
    }

    /// Forgets the contexts: the option failed, so earlier replies do not count.
    pub(super) fn forget_contexts(&mut self) {
        self.contexts.clear();
    }

    pub(super) fn take_contexts(&mut self) -> Vec<MetaContext> {
        std::mem::take(&mut self.contexts)
    }

    /// The export, after `ACK`. Its name is the server's, else the requested one.
    pub(super) fn take_export(&mut self, asked: &str) -> Result<ExportInfo, HandshakeFailure> {
        let (size, flags) = self.export.take().ok_or(BadReply::NoExportInfo)?;
        let name = self.name.take().unwrap_or_else(|| asked.to_owned());
        let mut export = ExportInfo::new(name, size, flags);
        export.description = std::mem::take(&mut self.description);
        if let Some(sizes) = self.block_sizes {
            export.block_size_min = sizes.min;
            export.block_size_preferred = sizes.preferred;
            export.block_size_max = sizes.max;
        }
        Ok(export)
    }

    pub(super) fn take_list(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.list)
    }
}

/// Size and flags; `None` if the length is wrong.
fn export(mut fields: Fields<'_>) -> Option<Result<(u64, TransmissionFlags), BadReply>> {
    let size = fields.u64()?;
    // Unknown bits are to be ignored by clients.
    let flags = TransmissionFlags::from_bits_truncate(fields.u16()?);
    let whole = fields.rest().is_empty();
    whole.then(|| checked_size(size).map(|size| (size, flags)))
}

fn block_sizes(mut fields: Fields<'_>) -> Option<BlockSizes> {
    let sizes = BlockSizes {
        min: fields.u32()?,
        preferred: fields.u32()?,
        max: fields.u32()?,
    };
    fields.rest().is_empty().then_some(sizes)
}

/// A size that offsets of files can reach.
pub(super) fn checked_size(size: u64) -> Result<u64, BadReply> {
    i64::try_from(size)
        .map(|_| size)
        .map_err(|_| BadReply::Size(size))
}

/// The smallest block and the largest payload are rules a client must keep, so wrong ones end the
/// handshake; the preferred block is a hint, so a wrong one is mended.
fn checked(sizes: BlockSizes) -> Result<BlockSizes, BadReply> {
    let BlockSizes {
        min,
        preferred,
        max,
    } = sizes;
    if !min.is_power_of_two() || min > limits::BLOCK_SIZE_MIN_MAX {
        return Err(BadReply::BlockSizeMin(min));
    }
    if max < min {
        return Err(BadReply::BlockSizeMax { min, max });
    }
    let least = min.max(limits::BLOCK_SIZE_PREFERRED_MIN);
    let legal = preferred.is_power_of_two() && preferred >= least;
    let mended = min.max(limits::BLOCK_SIZE_PREFERRED_DEFAULT);
    Ok(BlockSizes {
        min,
        preferred: if legal { preferred } else { mended },
        max,
    })
}

fn text(bytes: &[u8]) -> Result<String, BadReply> {
    let text = string(bytes).filter(|text| text.len() <= limits::STRING_MAX);
    text.map(str::to_owned).ok_or(BadReply::BadString)
}
