//! Messages to and from the kernel's nbd by generic netlink. Pure.
//!
//! ```text
//! nlmsghdr   len u32 | type u16 | flags u16 | seq u32 | pid u32
//! genlmsghdr cmd u8 | version u8 | reserved u16
//! attribute  len u16 | type u16 | payload | padding to 4      (len without the padding)
//! ```
//!
//! Numbers of `include/uapi/linux/{netlink,genetlink,nbd-netlink}.h`; byte order as in `fuse/proto.rs`.
//! What the kernel answers is bounded by its buffers; what cannot be read is an error, never a panic.

/// Bytes of both headers.
const HEADERS_LEN: usize = 20;
const NLMSG_HEADER_LEN: usize = 16;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const NLA_F_NESTED: u16 = 0x8000;
/// The type of an attribute without its flag bits.
const NLA_TYPE_MASK: u16 = 0x3fff;

/// The family that knows the others.
pub(crate) const FAMILY_CONTROL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const NBD_CMD_CONNECT: u8 = 1;
const NBD_CMD_DISCONNECT: u8 = 2;
const NBD_CMD_RECONFIGURE: u8 = 3;
const NBD_CMD_STATUS: u8 = 5;

const NBD_ATTR_INDEX: u16 = 1;
const NBD_ATTR_SIZE_BYTES: u16 = 2;
const NBD_ATTR_BLOCK_SIZE_BYTES: u16 = 3;
const NBD_ATTR_TIMEOUT: u16 = 4;
const NBD_ATTR_SERVER_FLAGS: u16 = 5;
const NBD_ATTR_SOCKETS: u16 = 7;
const NBD_ATTR_DEAD_CONN_TIMEOUT: u16 = 8;
const NBD_ATTR_DEVICE_LIST: u16 = 9;
const NBD_ATTR_BACKEND_IDENTIFIER: u16 = 10;
const NBD_SOCK_ITEM: u16 = 1;
const NBD_SOCK_FD: u16 = 1;
const NBD_DEVICE_ITEM: u16 = 1;
const NBD_DEVICE_INDEX: u16 = 1;
const NBD_DEVICE_CONNECTED: u16 = 2;

/// The family's id, as the control family told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Family(pub(crate) u16);

/// What an answer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence(pub(crate) u32);

/// The number in `/dev/nbdN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Index(pub(crate) u32);

/// A device to be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connect<'a> {
    /// Size of the disk, bytes.
    pub(crate) size: u64,
    /// Logical block size, bytes.
    pub(crate) block_size: u64,
    /// Seconds after which a request is taken from its connection and sent over another.
    pub(crate) request_timeout_s: u64,
    /// Seconds that requests wait for a connection when there is none.
    pub(crate) dead_conn_timeout_s: u64,
    /// The export's transmission flags.
    pub(crate) server_flags: u16,
    /// File descriptors of negotiated connections.
    pub(crate) sockets: &'a [i32],
    /// A name for the device's owner, kept by the kernel.
    pub(crate) backend: &'a str,
}

/// Why an answer cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's netlink answer cannot be read ({0})")]
pub(crate) struct AnswerError(&'static str);

/// One message of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// The request was carried out.
    Done,
    /// It was not: a positive errno.
    Refused(i32),
    /// Attributes behind a generic header.
    Attributes(Attributes<'a>),
}

/// Attributes one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes<'a>(&'a [u8]);

/// Builds a message. Attributes are few, so lengths are patched in afterwards.
struct Builder(Vec<u8>);

fn len_u16(len: usize) -> u16 {
    u16::try_from(len).expect("an attribute is below 64 KiB: sockets and names have maxima")
}

impl Builder {
    fn new(family: u16, command: u8, sequence: Sequence) -> Self {
        let mut out = vec![0; 4];
        out.extend_from_slice(&family.to_le_bytes());
        out.extend_from_slice(&(NLM_F_REQUEST | NLM_F_ACK).to_le_bytes());
        out.extend_from_slice(&sequence.0.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[command, 1, 0, 0]);
        Self(out)
    }

    fn attribute(&mut self, kind: u16, payload: &[u8]) {
        self.0
            .extend_from_slice(&len_u16(payload.len() + 4).to_le_bytes());
        self.0.extend_from_slice(&kind.to_le_bytes());
        self.0.extend_from_slice(payload);
        let padded = self.0.len().next_multiple_of(4);
        self.0.resize(padded, 0);
    }

    fn nested(&mut self, kind: u16, inside: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.attribute(kind | NLA_F_NESTED, &[]);
        inside(self);
        let len = len_u16(self.0.len() - start);
        self.0[start..start + 2].copy_from_slice(&len.to_le_bytes());
    }

    fn text(&mut self, kind: u16, text: &str) {
        let mut payload = text.as_bytes().to_vec();
        payload.push(0);
        self.attribute(kind, &payload);
    }

    fn sockets(&mut self, sockets: &[i32]) {
        self.nested(NBD_ATTR_SOCKETS, |list| {
            for socket in sockets {
                list.nested(NBD_SOCK_ITEM, |item| {
                    item.attribute(NBD_SOCK_FD, &socket.to_le_bytes());
                });
            }
        });
    }

    fn finish(mut self) -> Vec<u8> {
        let len = u32::try_from(self.0.len()).expect("a message is below 4 GiB");
        self.0[..4].copy_from_slice(&len.to_le_bytes());
        self.0
    }
}

/// Asks the control family for the id of the family `name`.
pub(crate) fn find_family(sequence: Sequence, name: &str) -> Vec<u8> {
    let mut message = Builder::new(FAMILY_CONTROL, CTRL_CMD_GETFAMILY, sequence);
    message.text(CTRL_ATTR_FAMILY_NAME, name);
    message.finish()
}

/// Sets up a free device.
pub(crate) fn connect(family: Family, sequence: Sequence, connect: &Connect<'_>) -> Vec<u8> {
    let mut message = Builder::new(family.0, NBD_CMD_CONNECT, sequence);
    for (kind, number) in [
        (NBD_ATTR_SIZE_BYTES, connect.size),
        (NBD_ATTR_BLOCK_SIZE_BYTES, connect.block_size),
        (NBD_ATTR_TIMEOUT, connect.request_timeout_s),
        (NBD_ATTR_DEAD_CONN_TIMEOUT, connect.dead_conn_timeout_s),
        (NBD_ATTR_SERVER_FLAGS, u64::from(connect.server_flags)),
    ] {
        message.attribute(kind, &number.to_le_bytes());
    }
    message.text(NBD_ATTR_BACKEND_IDENTIFIER, connect.backend);
    message.sockets(connect.sockets);
    message.finish()
}

/// Puts fresh connections in the place of dead ones. Says nothing of the size: a resize while the
/// connections are dead freezes the queue.
pub(crate) fn reconnect(
    family: Family,
    sequence: Sequence,
    index: Index,
    backend: &str,
    sockets: &[i32],
) -> Vec<u8> {
    let mut message = Builder::new(family.0, NBD_CMD_RECONFIGURE, sequence);
    message.attribute(NBD_ATTR_INDEX, &index.0.to_le_bytes());
    message.text(NBD_ATTR_BACKEND_IDENTIFIER, backend);
    message.sockets(sockets);
    message.finish()
}

/// Takes a device down.
pub(crate) fn disconnect(family: Family, sequence: Sequence, index: Index) -> Vec<u8> {
    let mut message = Builder::new(family.0, NBD_CMD_DISCONNECT, sequence);
    message.attribute(NBD_ATTR_INDEX, &index.0.to_le_bytes());
    message.finish()
}

/// Asks whether a device is connected.
pub(crate) fn status(family: Family, sequence: Sequence, index: Index) -> Vec<u8> {
    let mut message = Builder::new(family.0, NBD_CMD_STATUS, sequence);
    message.attribute(NBD_ATTR_INDEX, &index.0.to_le_bytes());
    message.finish()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_le_bytes(field))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(field))
}

/// The messages in `bytes` that answer `sequence`.
///
/// # Errors
/// [`AnswerError`] if a length inside makes no sense.
pub(crate) fn answers(bytes: &[u8], sequence: Sequence) -> Result<Vec<Answer<'_>>, AnswerError> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let len = u32_at(rest, 0).and_then(|len| usize::try_from(len).ok());
        let message = len
            .filter(|&len| len >= NLMSG_HEADER_LEN)
            .and_then(|len| rest.get(..len))
            .ok_or(AnswerError("a message's length"))?;
        if u32_at(message, 8) == Some(sequence.0) {
            found.push(answer(message)?);
        }
        rest = rest
            .get(message.len().next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Ok(found)
}

fn answer(message: &[u8]) -> Result<Answer<'_>, AnswerError> {
    if u16_at(message, 4) != Some(NLMSG_ERROR) {
        let attributes = message.get(HEADERS_LEN..).unwrap_or_default();
        return Ok(Answer::Attributes(Attributes(attributes)));
    }
    let code = u32_at(message, NLMSG_HEADER_LEN).ok_or(AnswerError("an error without a number"))?;
    match code.cast_signed() {
        0 => Ok(Answer::Done),
        negative => Ok(Answer::Refused(negative.saturating_neg())),
    }
}

impl<'a> Attributes<'a> {
    /// The payload of the first attribute of this kind.
    fn find(self, kind: u16) -> Option<&'a [u8]> {
        self.each()
            .find(|(found, _)| *found == kind)
            .map(|(_, payload)| payload)
    }

    /// Every attribute; ends at the first that makes no sense.
    fn each(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let len = usize::from(u16_at(rest, 0)?);
            let kind = u16_at(rest, 2)? & NLA_TYPE_MASK;
            let payload = rest.get(4..len)?;
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
            Some((kind, payload))
        })
    }

    /// The family's id, of an answer to [`find_family`].
    pub(crate) fn family(self) -> Option<Family> {
        u16_at(self.find(CTRL_ATTR_FAMILY_ID)?, 0).map(Family)
    }

    /// The device's number, of an answer to [`connect`].
    pub(crate) fn index(self) -> Option<Index> {
        u32_at(self.find(NBD_ATTR_INDEX)?, 0).map(Index)
    }

    /// Whether the device is connected, of an answer to [`status`].
    pub(crate) fn connected(self, index: Index) -> Option<bool> {
        let list = Attributes(self.find(NBD_ATTR_DEVICE_LIST)?);
        list.each()
            .filter(|(kind, _)| *kind == NBD_DEVICE_ITEM)
            .map(|(_, item)| Attributes(item))
            .find(|item| item.find(NBD_DEVICE_INDEX).and_then(|p| u32_at(p, 0)) == Some(index.0))
            .and_then(|item| item.find(NBD_DEVICE_CONNECTED)?.first().copied())
            .map(|connected| connected != 0)
    }
}
