//! What a request means for an export: carried out, or refused and why. Pure.
//!
//! Checks are made in the order of the table "Answers where servers differ" in the format notes:
//! command and flags first, then length, then range, then permission.

use block::{Geometry, Range, RangeError, WriteFlags};
use nbd_proto::{Command, CommandFlags, Request, TransmissionFlags, WireError};

/// A request that passed its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Send the bytes.
    Read(Range),
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
    /// End the connection.
    Disconnect,
}

impl Action {
    /// The bytes it concerns, where it concerns some.
    pub(super) const fn range(&self) -> Option<Range> {
        match *self {
            Self::Read(range)
            | Self::Write(range, _)
            | Self::Trim { range, .. }
            | Self::WriteZeroes(range, _)
            | Self::Cache(range) => Some(range),
            Self::Flush | Self::Disconnect => None,
        }
    }
}

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
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

/// What the client was told when it chose the export, and what bounds its requests.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) flags: TransmissionFlags,
    pub(super) structured: bool,
    pub(super) payload_max: u32,
}

/// Which transmission flags tell the truth about a disk.
pub(super) fn transmission_flags(geometry: &Geometry) -> TransmissionFlags {
    let mut flags = TransmissionFlags::HAS_FLAGS | TransmissionFlags::CAN_MULTI_CONN;
    flags.set(TransmissionFlags::READ_ONLY, geometry.read_only);
    flags.set(TransmissionFlags::ROTATIONAL, geometry.rotational);
    flags.set(TransmissionFlags::SEND_FLUSH, geometry.flush.any());
    flags.set(TransmissionFlags::SEND_FUA, geometry.fua.any());
    // The handshake takes DF away again from clients without structured replies.
    flags.insert(TransmissionFlags::SEND_CACHE | TransmissionFlags::SEND_DF);
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
    terms: &Terms,
) -> Result<Action, Refused> {
    let refuse = |error, text: String| Refused {
        error,
        text,
        payload: payload_of(request, terms),
    };
    let allowed = allowed_flags(request.command, terms)
        .ok_or_else(|| refuse(WireError::Invalid, unknown_command(request.command)))?;
    let foreign = request.flags.difference(allowed);
    if !foreign.is_empty() {
        let text = format!("flags {:#x} are not negotiated here", foreign.bits());
        return Err(refuse(WireError::Invalid, text));
    }
    let range = Range::new(request.offset, request.len);
    match request.command {
        Command::Disconnect => return Ok(Action::Disconnect),
        Command::Flush if request.offset == 0 && request.len == 0 => return Ok(Action::Flush),
        Command::Flush => {
            let text = "a flush has neither offset nor length".to_owned();
            return Err(refuse(WireError::Invalid, text));
        }
        Command::Read | Command::Write if request.len > u64::from(terms.payload_max) => {
            let no_fragment = request.flags.contains(CommandFlags::DF);
            let error = if no_fragment {
                WireError::Overflow
            } else {
                WireError::Invalid
            };
            let text = format!(
                "payload of {} bytes; at most {}",
                request.len, terms.payload_max
            );
            return Err(refuse(error, text));
        }
        _ => {}
    }
    let changes = matches!(
        request.command,
        Command::Write | Command::Trim | Command::WriteZeroes
    );
    if changes && geometry.read_only {
        return Err(refuse(
            WireError::Permission,
            "the export is read-only".to_owned(),
        ));
    }
    let range = range
        .check(geometry.size, geometry.block_size)
        .map_err(|e| refuse(range_error(request.command, e), e.to_string()))?;
    Ok(action(request, range))
}

fn action(request: &Request, range: Range) -> Action {
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
        Command::Read => Action::Read(range),
        Command::Write => Action::Write(range, flags),
        Command::Trim => Action::Trim { range, fua },
        Command::WriteZeroes => Action::WriteZeroes(range, flags),
        Command::Cache => Action::Cache(range),
        Command::Flush => Action::Flush,
        Command::Disconnect | Command::BlockStatus | Command::Unknown(_) => Action::Disconnect,
    }
}

/// The flags a client may set on a command; `None`: the command itself was not negotiated.
fn allowed_flags(command: Command, terms: &Terms) -> Option<CommandFlags> {
    let needs = |flag| terms.flags.contains(flag);
    let mut allowed = CommandFlags::empty();
    // FUA is legal on every command once it is advertised (proto.md, "Command flags").
    allowed.set(CommandFlags::FUA, needs(TransmissionFlags::SEND_FUA));
    match command {
        Command::Read => allowed.set(CommandFlags::DF, terms.structured),
        Command::Write | Command::Disconnect => {}
        Command::Flush if needs(TransmissionFlags::SEND_FLUSH) => {}
        // A client that trims or zeroes a read-only disk is told just that.
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
        _ => return None,
    }
    Some(allowed)
}

fn unknown_command(command: Command) -> String {
    format!("command {} is not negotiated here", u16::from(command))
}

/// Past the end is a full disk for what writes, and a bad argument for what reads.
fn range_error(command: Command, error: RangeError) -> WireError {
    match (error, command) {
        (RangeError::PastEnd { .. }, Command::Write | Command::WriteZeroes) => WireError::NoSpace,
        _ => WireError::Invalid,
    }
}

/// Only writes have a payload; one beyond twice the cap is not worth skipping.
fn payload_of(request: &Request, terms: &Terms) -> Payload {
    if request.command != Command::Write {
        return Payload::Skip(0);
    }
    if request.len > 2 * u64::from(terms.payload_max) {
        return Payload::Drop;
    }
    Payload::Skip(request.len)
}
