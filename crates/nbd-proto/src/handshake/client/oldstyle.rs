//! The oldstyle handshake: what a server says that knows no options.
//!
//! ```text
//! server
//! NBDMAGIC 0x0000420281861253 size(u64) handshake flags(u16) transmission flags(u16) zeroes(124)  ->
//! ```
//!
//! The client answers nothing; transmission follows.
//!
//! # Invariants
//!
//! * A client that wants TLS, or an export by name, fails at the magic: before it believes a size, and without having sent a
//!   byte.
//! * Everything that takes an option is off: framing is simple, there are no contexts, no identity of the disk, and the server
//!   does not learn which client writes.

use super::option_negotiation::checked_export;
use super::{ClientEvent, ClientHandshake, ClientState, Goal, HandshakeFailure};
use crate::flags::CommandFlags;
use crate::handshake::HandshakeStyle;
use crate::request::{Command, Request};
use crate::wire::Fields;

impl ClientHandshake {
    /// Whether a server without options can give what the client wants.
    pub(super) fn check_oldstyle(&self) -> Result<(), HandshakeFailure> {
        if self.config.tls {
            let text = "it speaks the oldstyle NBD handshake, which has none".to_owned();
            return Err(HandshakeFailure::NoTls { text });
        }
        // A list names the export and does not request one.
        if !self.config.export.is_empty() && self.config.goal != Goal::List {
            let name = self.config.export.clone();
            return Err(HandshakeFailure::OldstyleExport(name));
        }
        Ok(())
    }

    /// Size, flags and zeroes, which are not looked at.
    pub(super) fn accept_oldstyle(&mut self, item: &[u8]) -> Result<(), HandshakeFailure> {
        let mut fields = Fields::new(item);
        let size = fields.u64().unwrap_or(0);
        // No handshake flag means anything here.
        let _handshake_flags = fields.u16();
        let export = checked_export("", size, fields.u16().unwrap_or(0))?;
        self.style = HandshakeStyle::Oldstyle;
        let negotiated = self.negotiated(export, false);
        match self.config.goal {
            Goal::Go => {
                self.state = ClientState::Done;
                self.events.push_back(ClientEvent::Finished(negotiated));
            }
            Goal::Info => self.disconnect(ClientEvent::Described(negotiated)),
            Goal::List => {
                let only = (String::new(), String::new());
                self.disconnect(ClientEvent::Listed(vec![only]));
            }
        }
        Ok(())
    }

    /// Sends `DISC`, by which a client leaves a server that is in transmission already, and queues `event`.
    fn disconnect(&mut self, event: ClientEvent) {
        let request = Request {
            cookie: 0,
            command: Command::Disconnect,
            flags: CommandFlags::empty(),
            offset: 0,
            len: 0,
        };
        self.state = ClientState::Done;
        self.events
            .push_back(ClientEvent::Send(request.encode().to_vec()));
        self.events.push_back(event);
    }
}
