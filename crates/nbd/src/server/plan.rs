//! What a request means for an export: carried out, or refused and why. Pure.
//!
//! Checks are made in the order of the table "Answers where servers differ" in the format notes:
//! command and flags first, then length, then range, then permission.

use block::{Geometry, Range, RangeError, WriteFlags};
use nbd_proto::{
    Command, CommandFlags, Framing, MetaContext, Request, StatusFilter, TransmissionFlags,
    WireError, limits,
};
use smallvec::SmallVec;

/// A request that passed its checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestAction {
    /// Send the bytes.
    Read {
        /// Which.
        range: Range,
        /// In one chunk.
        whole: bool,
    },
    /// Take the payload.
    Write(Range, WriteFlags),
    /// Make writes durable.
    Flush,
    /// Forget the bytes, then flush if `fua`.
    Trim {
        /// Which.
        range: Range,
        /// Durable before the reply.
        fua: bool,
    },
    /// Zero the bytes.
    WriteZeroes(Range, WriteFlags),
    /// Fetch the bytes into the cache.
    Cache(Range),
    /// Report the bytes' allocation.
    Status(Status),
    /// The same, but so many bytes of payload carry the filter: see [`judge_filter`].
    Filter(usize),
    /// End the connection.
    Disconnect,
}

/// A request for the allocation of a run of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    /// Which bytes. Not empty.
    pub(super) range: Range,
    /// The first extent only.
    pub(super) one: bool,
    /// The contexts to report.
    pub(super) ids: Ids,
}

/// Ids of metadata contexts.
pub(super) type Ids = SmallVec<[u32; 4]>;

impl RequestAction {
    /// Whether it changes the disk.
    pub(super) const fn changes(&self) -> bool {
        matches!(
            self,
            Self::Write(..) | Self::Trim { .. } | Self::WriteZeroes(..)
        )
    }

    /// The bytes it concerns, where it concerns some.
    pub(super) const fn range(&self) -> Option<Range> {
        match *self {
            Self::Read { range, .. }
            | Self::Write(range, _)
            | Self::Trim { range, .. }
            | Self::WriteZeroes(range, _)
            | Self::Status(Status { range, .. })
            | Self::Cache(range) => Some(range),
            Self::Flush | Self::Filter(_) | Self::Disconnect => None,
        }
    }
}

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefusedRequest {
    /// The answer.
    pub(super) error: WireError,
    /// Why, for the client's log.
    pub(super) text: String,
    /// What follows the header.
    pub(super) payload: Payload,
}

/// What is done with the bytes behind a refused request's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// Skip so many, then answer.
    Skip(u64),
    /// Too many to skip: drop the connection.
    Drop,
}

/// What was agreed on with the client, and what bounds its requests.
#[derive(Debug, Clone)]
pub(super) struct ConnectionTerms {
    pub(super) flags: TransmissionFlags,
    pub(super) framing: Framing,
    /// Each is of allocation; there is no other context yet.
    pub(super) contexts: Vec<MetaContext>,
    pub(super) payload_max: u32,
}

/// The transmission flags that are true of a disk.
pub(super) fn transmission_flags(geometry: &Geometry) -> TransmissionFlags {
    let mut flags = TransmissionFlags::HAS_FLAGS | TransmissionFlags::CAN_MULTI_CONN;
    flags.set(TransmissionFlags::READ_ONLY, geometry.read_only);
    flags.set(TransmissionFlags::ROTATIONAL, geometry.rotational);
    flags.set(TransmissionFlags::SEND_FLUSH, geometry.flush.any());
    flags.set(TransmissionFlags::SEND_FUA, geometry.fua.any());
    // The handshake takes from a client what needs more than it has agreed on.
    flags.insert(
        TransmissionFlags::SEND_CACHE
            | TransmissionFlags::SEND_DF
            | TransmissionFlags::BLOCK_STATUS_PAYLOAD,
    );
    if !geometry.read_only {
        flags.set(TransmissionFlags::SEND_TRIM, geometry.trim.any());
        flags.set(
            TransmissionFlags::SEND_WRITE_ZEROES | TransmissionFlags::SEND_FAST_ZERO,
            geometry.write_zeroes.any(),
        );
    }
    flags
}

/// Judges `request`.
pub(super) fn judge(
    request: &Request,
    geometry: &Geometry,
    terms: &ConnectionTerms,
) -> Result<RequestAction, RefusedRequest> {
    let judged = judge_header(request, terms).and_then(|decided| match decided {
        Some(action) => Ok(action),
        None => judge_range(request, geometry, terms),
    });
    judged.map_err(|(error, text)| RefusedRequest {
        error,
        text,
        payload: payload_of(request, terms),
    })
}

/// Command, flags and length. `None`: it is for the range to decide.
fn judge_header(
    request: &Request,
    terms: &ConnectionTerms,
) -> Result<Option<RequestAction>, (WireError, String)> {
    let invalid = |text: String| Err((WireError::Invalid, text));
    let Some(allowed) = allowed_flags(request.command, terms) else {
        let number = u16::from(request.command);
        return invalid(format!("command {number} is not negotiated here"));
    };
    let foreign = request.flags.difference(allowed);
    if !foreign.is_empty() {
        return invalid(format!(
            "flags {:#x} are not negotiated here",
            foreign.bits()
        ));
    }
    let len = request.len;
    match request.command {
        Command::Disconnect => Ok(Some(RequestAction::Disconnect)),
        Command::Flush if request.offset == 0 && len == 0 => Ok(Some(RequestAction::Flush)),
        Command::Flush => invalid("a flush has neither offset nor length".to_owned()),
        Command::BlockStatus if request.flags.contains(CommandFlags::PAYLOAD_LEN) => {
            match filter(len) {
                Some(action) => Ok(Some(action)),
                None => invalid(format!("a status request with a payload of {len} bytes")),
            }
        }
        Command::BlockStatus if len == 0 => invalid("a status of no bytes".to_owned()),
        Command::Write if payload_is_missing(request, terms) => {
            invalid("a write without a payload".to_owned())
        }
        Command::Read | Command::Write if len > u64::from(terms.payload_max) => {
            let error = if request.flags.contains(CommandFlags::DF) {
                WireError::Overflow
            } else {
                WireError::Invalid
            };
            let text = format!("payload of {len} bytes; at most {}", terms.payload_max);
            Err((error, text))
        }
        _ => Ok(None),
    }
}

/// Refuses a request of a client that may not write, and says why.
pub(super) fn forbidden(
    request: &Request,
    terms: &ConnectionTerms,
    text: String,
) -> RefusedRequest {
    RefusedRequest {
        error: WireError::Permission,
        text,
        payload: payload_of(request, terms),
    }
}

fn judge_range(
    request: &Request,
    geometry: &Geometry,
    terms: &ConnectionTerms,
) -> Result<RequestAction, (WireError, String)> {
    let changes = matches!(
        request.command,
        Command::Write | Command::Trim | Command::WriteZeroes
    );
    if changes && geometry.read_only {
        return Err((WireError::Permission, "the export is read-only".to_owned()));
    }
    let range = Range::new(request.offset, request.len)
        .check(geometry.size, geometry.block_size)
        .map_err(|e| (range_error(request.command, e), e.to_string()))?;
    Ok(action(request, range, terms))
}

/// Judges a status request with a filter in its payload.
pub(super) fn judge_filter(
    request: &Request,
    payload: &[u8],
    geometry: &Geometry,
    terms: &ConnectionTerms,
) -> Result<RequestAction, RefusedRequest> {
    // The payload was taken with the header.
    let refuse = |text: String| RefusedRequest {
        error: WireError::Invalid,
        text,
        payload: Payload::Skip(0),
    };
    let filter =
        StatusFilter::decode(payload, &terms.contexts).map_err(|e| refuse(e.to_string()))?;
    let mut asked = *request;
    asked.flags -= CommandFlags::PAYLOAD_LEN;
    asked.len = filter.len;
    match judge(&asked, geometry, terms)? {
        RequestAction::Status(status) => Ok(RequestAction::Status(Status {
            ids: filter.ids.into(),
            ..status
        })),
        other => Ok(other),
    }
}

/// What is done with a status request that has a payload of `len` bytes; `None`: it cannot be one.
fn filter(len: u64) -> Option<RequestAction> {
    let within = len <= u64::from(limits::STATUS_FILTER_MAX);
    usize::try_from(len)
        .ok()
        .filter(|_| within)
        .map(RequestAction::Filter)
}

/// In extended form a write says that it has a payload, or has none (proto.md, "Request message").
fn payload_is_missing(request: &Request, terms: &ConnectionTerms) -> bool {
    terms.framing.is_extended() && !request.flags.contains(CommandFlags::PAYLOAD_LEN)
}

fn action(request: &Request, range: Range, terms: &ConnectionTerms) -> RequestAction {
    let fua = request.flags.contains(CommandFlags::FUA);
    let mut flags = WriteFlags::empty();
    flags.set(WriteFlags::FUA, fua);
    flags.set(
        WriteFlags::NO_HOLE,
        request.flags.contains(CommandFlags::NO_HOLE),
    );
    flags.set(
        WriteFlags::FAST_ZERO,
        request.flags.contains(CommandFlags::FAST_ZERO),
    );
    match request.command {
        Command::Read => RequestAction::Read {
            range,
            whole: request.flags.contains(CommandFlags::DF),
        },
        Command::Write => RequestAction::Write(range, flags),
        Command::Trim => RequestAction::Trim { range, fua },
        Command::WriteZeroes => RequestAction::WriteZeroes(range, flags),
        Command::Cache => RequestAction::Cache(range),
        Command::Flush => RequestAction::Flush,
        Command::BlockStatus => RequestAction::Status(Status {
            range,
            one: request.flags.contains(CommandFlags::REQ_ONE),
            ids: terms.contexts.iter().map(|context| context.id).collect(),
        }),
        Command::Disconnect | Command::Unknown(_) => RequestAction::Disconnect,
    }
}

/// The flags a client may set on a command; `None`: the command itself was not negotiated.
fn allowed_flags(command: Command, terms: &ConnectionTerms) -> Option<CommandFlags> {
    let needs = |flag| terms.flags.contains(flag);
    let mut allowed = CommandFlags::empty();
    // FUA is legal on every command once it is advertised (proto.md, "Command flags").
    allowed.set(CommandFlags::FUA, needs(TransmissionFlags::SEND_FUA));
    match command {
        Command::Read => allowed.set(CommandFlags::DF, terms.framing.is_chunked()),
        Command::Write => allowed.set(CommandFlags::PAYLOAD_LEN, terms.framing.is_extended()),
        Command::Disconnect => {}
        Command::Flush if needs(TransmissionFlags::SEND_FLUSH) => {}
        // A client that trims or zeroes a read-only disk gets that error.
        Command::Trim if needs(TransmissionFlags::SEND_TRIM) => {}
        Command::Trim | Command::WriteZeroes if needs(TransmissionFlags::READ_ONLY) => {
            allowed |= CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO;
        }
        Command::WriteZeroes if needs(TransmissionFlags::SEND_WRITE_ZEROES) => {
            allowed |= CommandFlags::NO_HOLE;
            allowed.set(
                CommandFlags::FAST_ZERO,
                needs(TransmissionFlags::SEND_FAST_ZERO),
            );
        }
        Command::Cache if needs(TransmissionFlags::SEND_CACHE) => {}
        Command::BlockStatus if !terms.contexts.is_empty() => {
            allowed |= CommandFlags::REQ_ONE;
            allowed.set(
                CommandFlags::PAYLOAD_LEN,
                needs(TransmissionFlags::BLOCK_STATUS_PAYLOAD),
            );
        }
        _ => return None,
    }
    Some(allowed)
}

/// Past the end is a full disk for what writes, and a bad argument for what reads.
fn range_error(command: Command, error: RangeError) -> WireError {
    match (error, command) {
        (RangeError::PastEnd { .. }, Command::Write | Command::WriteZeroes) => WireError::NoSpace,
        _ => WireError::Invalid,
    }
}

/// One beyond twice the cap is not worth skipping.
fn payload_of(request: &Request, terms: &ConnectionTerms) -> Payload {
    let len = request.payload_len(terms.framing);
    if len > 2 * u64::from(terms.payload_max) {
        return Payload::Drop;
    }
    Payload::Skip(len)
}
