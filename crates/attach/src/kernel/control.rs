//! The socket to the kernel's nbd family: one request, its answers.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use super::KernelError;
use super::netlink as wire;
use super::netlink::{Answer, Connect, Family, Index, Sequence};

/// The kernel answers at once, or after it has ended a device's receivers.
const ANSWER_FOR: Duration = Duration::from_secs(20);
/// Largest answer: the list of one device is far below.
const ANSWER_LEN_MAX: usize = 32 * 1024;

/// A socket and the family's id.
#[derive(Debug)]
pub(crate) struct Control {
    socket: OwnedFd,
    family: Family,
    sequence: u32,
}

/// What an accepted request brought.
#[derive(Debug, Default)]
struct Told {
    family: Option<Family>,
    index: Option<Index>,
    connected: Option<bool>,
}

impl Control {
    /// Opens a socket and finds the family.
    ///
    /// # Errors
    /// [`KernelError::NoModule`] where the kernel has no nbd.
    pub(crate) fn open() -> Result<Self, KernelError> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::GENERIC),
        )
        .map_err(|e| KernelError::Socket(e.into()))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_FOR))
            .map_err(|e| KernelError::Socket(e.into()))?;
        let mut control = Self {
            socket,
            family: Family(wire::FAMILY_CONTROL),
            sequence: 0,
        };
        let told = control.ask("find", None, |_, sequence| {
            wire::find_family(sequence, "nbd")
        });
        match told {
            Ok(Told {
                family: Some(family),
                ..
            }) => {
                control.family = family;
                Ok(control)
            }
            Ok(_) | Err(KernelError::Refused { .. }) => Err(KernelError::NoModule(
                "it has no netlink family of that name".to_owned(),
            )),
            Err(e) => Err(e),
        }
    }

    /// Sets up a free device.
    ///
    /// # Errors
    /// [`KernelError`].
    pub(crate) fn connect(&mut self, connect: &Connect<'_>) -> Result<Index, KernelError> {
        let told = self.ask("connect", None, |family, sequence| {
            wire::connect(family, sequence, connect)
        })?;
        told.index.ok_or(KernelError::NoIndex)
    }

    /// Hands over fresh connections for dead ones.
    ///
    /// # Errors
    /// [`KernelError`].
    pub(crate) fn reconnect(
        &mut self,
        index: Index,
        backend: &str,
        sockets: &[i32],
    ) -> Result<(), KernelError> {
        self.ask("reconnect", Some(index), |family, sequence| {
            wire::reconnect(family, sequence, index, backend, sockets)
        })
        .map(|_| ())
    }

    /// Takes a device down.
    ///
    /// # Errors
    /// [`KernelError`].
    pub(crate) fn disconnect(&mut self, index: Index) -> Result<(), KernelError> {
        self.ask("disconnect", Some(index), |family, sequence| {
            wire::disconnect(family, sequence, index)
        })
        .map(|_| ())
    }

    /// Whether the device is connected.
    ///
    /// # Errors
    /// [`KernelError`].
    pub(crate) fn connected(&mut self, index: Index) -> Result<bool, KernelError> {
        let told = self.ask("status", Some(index), |family, sequence| {
            wire::status(family, sequence, index)
        })?;
        Ok(told.connected.unwrap_or(false))
    }

    fn ask(
        &mut self,
        what: &'static str,
        index: Option<Index>,
        message: impl FnOnce(Family, Sequence) -> Vec<u8>,
    ) -> Result<Told, KernelError> {
        self.sequence += 1;
        let sequence = Sequence(self.sequence);
        let message = message(self.family, sequence);
        rustix::net::send(&self.socket, &message, SendFlags::empty())
            .map_err(|e| KernelError::Socket(e.into()))?;
        let mut told = Told::default();
        let mut buffer = vec![0; ANSWER_LEN_MAX];
        loop {
            let (_, len) = rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::empty())
                .map_err(|e| KernelError::Socket(e.into()))?;
            for answer in wire::answers(&buffer[..len.min(ANSWER_LEN_MAX)], sequence)? {
                match answer {
                    Answer::Done => return Ok(told),
                    Answer::Refused(errno) => {
                        let source = std::io::Error::from_raw_os_error(errno);
                        return Err(KernelError::Refused { what, source });
                    }
                    Answer::Attributes(attributes) => {
                        told.family = told.family.or_else(|| attributes.family());
                        told.index = told.index.or_else(|| attributes.index());
                        told.connected = index
                            .and_then(|index| attributes.connected(index))
                            .or(told.connected);
                    }
                }
            }
        }
    }
}
