//! The nbd family's messages: requests and what is read from replies. Pure; `neli` has the
//! encoding, [`super::control`] the socket.
//!
//! Numbers of `include/uapi/linux/nbd-netlink.h`.

use neli::consts::genl::{Cmd, NlAttrType};
use neli::err::SerError;
use neli::genl::{
    AttrTypeBuilder, AttrTypeBuilderError, Genlmsghdr, GenlmsghdrBuilder, GenlmsghdrBuilderError,
    Nlattr, NlattrBuilder, NlattrBuilderError,
};
use neli::neli_enum;
use neli::types::{Buffer, GenlBuffer};
use neli::{Size, ToBytes};

/// The family's name.
pub(crate) const FAMILY: &str = "nbd";
const VERSION: u8 = 1;

/// The command of a message.
#[neli_enum(serialized_type = "u8")]
pub(crate) enum Command {
    Connect = 1,
    Disconnect = 2,
    Reconfigure = 3,
    Status = 5,
}

/// A message's own attributes.
#[neli_enum(serialized_type = "u16")]
pub(crate) enum Attr {
    NbdIndex = 1,
    SizeBytes = 2,
    BlockSizeBytes = 3,
    Timeout = 4,
    ServerFlags = 5,
    Sockets = 7,
    DeadConnTimeout = 8,
    DeviceList = 9,
    BackendIdentifier = 10,
}

impl Cmd for Command {}
impl NlAttrType for Attr {}

const SOCK_ITEM: u16 = 1;
const SOCK_FD: u16 = 1;
const DEVICE_ITEM: u16 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_CONNECTED: u16 = 2;

/// A message to or from the family.
pub(crate) type Message = Genlmsghdr<Command, Attr>;

/// The number in `/dev/nbdN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NbdIndex(pub(crate) u32);

/// What a device looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NbdShape {
    /// Size of the disk, bytes.
    pub(crate) size: u64,
    /// Logical block size, bytes.
    pub(crate) block_size: u32,
}

/// A device to be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connect<'a> {
    /// What it looks like.
    pub(crate) shape: NbdShape,
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

/// Why a message cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MessageError {
    #[error(transparent)]
    Type(#[from] AttrTypeBuilderError),
    #[error(transparent)]
    Attribute(#[from] NlattrBuilderError),
    #[error(transparent)]
    Nested(#[from] SerError),
    #[error(transparent)]
    Message(#[from] GenlmsghdrBuilderError),
}

fn attribute<T, P>(kind: T, payload: P) -> Result<Nlattr<T, Buffer>, MessageError>
where
    T: Size,
    P: Size + ToBytes,
{
    let kind = AttrTypeBuilder::default().nla_type(kind).build()?;
    let builder = NlattrBuilder::default().nla_type(kind);
    Ok(builder.nla_payload(payload).build()?)
}

fn sockets(sockets: &[i32]) -> Result<Nlattr<Attr, Buffer>, MessageError> {
    let mut list = attribute(Attr::Sockets, Buffer::new())?;
    for socket in sockets {
        let item = attribute(SOCK_ITEM, Buffer::new())?;
        list = list.nest(&item.nest(&attribute(SOCK_FD, *socket)?)?)?;
    }
    Ok(list)
}

fn message<const N: usize>(
    command: Command,
    attributes: [Nlattr<Attr, Buffer>; N],
) -> Result<Message, MessageError> {
    let builder = GenlmsghdrBuilder::default().cmd(command).version(VERSION);
    let attributes: GenlBuffer<_, _> = attributes.into_iter().collect();
    Ok(builder.attrs(attributes).build()?)
}

/// Sets up a free device.
pub(crate) fn connect(connect: &Connect<'_>) -> Result<Message, MessageError> {
    message(
        Command::Connect,
        [
            attribute(Attr::SizeBytes, connect.shape.size)?,
            attribute(Attr::BlockSizeBytes, u64::from(connect.shape.block_size))?,
            attribute(Attr::Timeout, connect.request_timeout_s)?,
            attribute(Attr::DeadConnTimeout, connect.dead_conn_timeout_s)?,
            attribute(Attr::ServerFlags, u64::from(connect.server_flags))?,
            attribute(Attr::BackendIdentifier, connect.backend)?,
            sockets(connect.sockets)?,
        ],
    )
}

/// Puts fresh connections in the place of dead ones. Says nothing of the size: a resize while the
/// connections are dead freezes the queue.
pub(crate) fn reconnect(
    index: NbdIndex,
    backend: &str,
    fresh: &[i32],
) -> Result<Message, MessageError> {
    message(
        Command::Reconfigure,
        [
            attribute(Attr::NbdIndex, index.0)?,
            attribute(Attr::BackendIdentifier, backend)?,
            sockets(fresh)?,
        ],
    )
}

/// Resizes the device. Its connections must be alive, see [`reconnect`].
pub(crate) fn resize(
    index: NbdIndex,
    backend: &str,
    shape: NbdShape,
) -> Result<Message, MessageError> {
    message(
        Command::Reconfigure,
        [
            attribute(Attr::NbdIndex, index.0)?,
            attribute(Attr::SizeBytes, shape.size)?,
            attribute(Attr::BlockSizeBytes, u64::from(shape.block_size))?,
            attribute(Attr::BackendIdentifier, backend)?,
        ],
    )
}

/// Takes a device down.
pub(crate) fn disconnect(index: NbdIndex) -> Result<Message, MessageError> {
    message(Command::Disconnect, [attribute(Attr::NbdIndex, index.0)?])
}

/// Queries whether a device is connected.
pub(crate) fn status(index: NbdIndex) -> Result<Message, MessageError> {
    message(Command::Status, [attribute(Attr::NbdIndex, index.0)?])
}

/// The device's number, of an answer to [`connect`].
pub(crate) fn connected_index(answer: &Message) -> Option<NbdIndex> {
    let attributes = answer.attrs().get_attr_handle();
    let index = attributes.get_attr_payload_as::<u32>(Attr::NbdIndex);
    index.ok().map(NbdIndex)
}

/// Whether the device is connected, of an answer to [`status`].
pub(crate) fn is_connected(answer: &Message, index: NbdIndex) -> Option<bool> {
    let attributes = answer.attrs().get_attr_handle();
    let devices = attributes
        .get_nested_attributes::<u16>(Attr::DeviceList)
        .ok()?;
    devices
        .iter()
        .filter(|item| *item.nla_type().nla_type() == DEVICE_ITEM)
        .filter_map(|item| item.get_attr_handle::<u16>().ok())
        .find(|item| item.get_attr_payload_as(DEVICE_INDEX).ok() == Some(index.0))
        .and_then(|item| item.get_attr_payload_as::<u8>(DEVICE_CONNECTED).ok())
        .map(|connected| connected != 0)
}
