//! Data of options: bytes to questions. Pure; the answers are in `answer`.

use crate::consts::{OptionCode, OptionReply, limits};
use crate::context;
use crate::handshake::frame::info;
use crate::handshake::server::ExportPurpose;
use crate::wire::{Fields, index, string};
use crate::writers::{DiskQueries, NAMESPACE};

/// A client's question for an export.
#[derive(Debug)]
pub(super) struct ExportQuestion {
    pub(super) name: String,
    pub(super) purpose: ExportPurpose,
    pub(super) wants_name: bool,
    pub(super) wants_description: bool,
    pub(super) wants_block_size: bool,
}

/// The reply to a malformed option.
#[derive(Debug)]
pub(super) struct OptionError {
    pub(super) reply: OptionReply,
    pub(super) text: &'static str,
}

const fn invalid(text: &'static str) -> OptionError {
    OptionError {
        reply: OptionReply::ErrInvalid,
        text,
    }
}

const fn too_big(text: &'static str) -> OptionError {
    OptionError {
        reply: OptionReply::ErrTooBig,
        text,
    }
}

const SHORT: OptionError = invalid("the option's data is too short");

/// A client's question for metadata contexts.
#[derive(Debug)]
pub(super) struct ContextQuestion {
    pub(super) name: String,
    /// Those for contexts of `BLOCK_STATUS`…
    pub(super) queries: Vec<String>,
    /// …and, in `LIST_META_CONTEXT`, those of outboard's own namespace.
    pub(super) disk: DiskQueries,
    /// No queries at all, which in `LIST_META_CONTEXT` requests all contexts of `BLOCK_STATUS`.
    pub(super) is_for_all: bool,
    /// `LIST_META_CONTEXT` or `SET_META_CONTEXT`.
    pub(super) option: OptionCode,
}

impl ContextQuestion {
    /// Whether it is about contexts, which need replies in chunks, and not about the disk alone.
    pub(super) const fn is_about_contexts(&self) -> bool {
        self.is_for_all || !self.queries.is_empty()
    }
}

/// `EXPORT_NAME`: the data is the name. `None` if it cannot be one.
pub(super) fn export_name(data: &[u8]) -> Option<ExportQuestion> {
    if data.len() > limits::STRING_MAX {
        return None;
    }
    Some(ExportQuestion {
        name: string(data)?.to_owned(),
        purpose: ExportPurpose::ExportName,
        wants_name: false,
        wants_description: false,
        wants_block_size: false,
    })
}

/// `INFO` and `GO`: name and the requested kinds of information. Kinds we do not know are ignored,
/// as proto.md demands.
pub(super) fn info_request(
    purpose: ExportPurpose,
    data: &[u8],
) -> Result<ExportQuestion, OptionError> {
    let mut fields = Fields::new(data);
    let name = name(&mut fields)?;
    let count = usize::from(fields.u16().ok_or(SHORT)?);
    let kinds = fields.rest();
    if kinds.len() != count * size_of::<u16>() {
        return Err(invalid(
            "the number of information requests does not match the option's length",
        ));
    }
    let wants = |kind: u16| kinds.chunks_exact(2).any(|two| two == kind.to_be_bytes());
    Ok(ExportQuestion {
        name: name.to_owned(),
        purpose,
        wants_name: wants(info::NAME),
        wants_description: wants(info::DESCRIPTION),
        wants_block_size: wants(info::BLOCK_SIZE),
    })
}

/// `LIST_META_CONTEXT` and `SET_META_CONTEXT`: name and queries.
pub(super) fn context_request(
    option: OptionCode,
    data: &[u8],
) -> Result<ContextQuestion, OptionError> {
    let mut fields = Fields::new(data);
    let name = name(&mut fields)?.to_owned();
    let count = fields.u32().ok_or(SHORT)?;
    // Each query has at least its length. A number that the option has no room for is a mistake, not a long request.
    let room = fields.rest().len() / size_of::<u32>();
    if index(count) > room {
        return Err(invalid("more queries than the option has room for"));
    }
    if count > limits::CONTEXT_QUERIES_MAX {
        return Err(too_big("more than 1024 queries"));
    }
    let mut queries = Vec::new();
    let mut disk = DiskQueries::default();
    for _ in 0..count {
        let len = index(fields.u32().ok_or(SHORT)?);
        let query = fields
            .take(len)
            .ok_or(invalid("a query is longer than the option"))?;
        if query.len() > limits::STRING_MAX {
            return Err(too_big("a query is longer than 4096 bytes"));
        }
        let query =
            context::name(query).ok_or(invalid("a query is no text of the form NAMESPACE:NAME"))?;
        if option == OptionCode::ListMetaContext && query.starts_with(NAMESPACE) {
            let unknown = invalid("a query of `outboard:client=` is not of the form TOKEN,ACCESS");
            disk.add(query).ok_or(unknown)?;
        } else {
            queries.push(query.to_owned());
        }
    }
    if !fields.rest().is_empty() {
        return Err(invalid(
            "the number of queries does not match the option's length",
        ));
    }
    Ok(ContextQuestion {
        name,
        queries,
        disk,
        option,
        is_for_all: count == 0,
    })
}

/// The export's name at the front of an option, behind its length.
fn name<'a>(fields: &mut Fields<'a>) -> Result<&'a str, OptionError> {
    let len = index(fields.u32().ok_or(SHORT)?);
    let name = fields
        .take(len)
        .ok_or(invalid("the name is longer than the option"))?;
    if name.len() > limits::STRING_MAX {
        return Err(too_big("the name is longer than 4096 bytes"));
    }
    string(name).ok_or(invalid("the name is no UTF-8 text"))
}
