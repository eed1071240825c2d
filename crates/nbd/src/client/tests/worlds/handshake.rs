//! The handshake of a simulated server.

use std::time::Duration;

use nbd_proto::{
    BASE_ALLOCATION, ContextOffer, DiskIdentity, ExportInfo, ExportPurpose, FENCED, HandshakeEvent,
    Negotiated, Refusal, ServerHandshake, ServerHandshakeConfig, WriterPolicy,
};
use testkit::SECTOR;

use super::network::Link;
use super::pipe::Ending;
use super::server::Process;

impl Process {
    fn export(&self) -> ExportInfo {
        let size = self.disk.sectors() * SECTOR;
        let mut export = ExportInfo::new("", size, self.offer.flags);
        export.block_size_min = 512;
        export
    }

    /// Whether it lets the client use the export.
    fn admit(&self, why: ExportPurpose) -> Result<ExportInfo, Refusal> {
        if why != ExportPurpose::Info && self.disk.is_fenced() {
            let text = format!("{FENCED} 192.0.2.2 took over writing");
            return Err(Refusal::Policy(text));
        }
        Ok(self.export())
    }

    fn contexts(&self) -> ContextOffer<'static> {
        let contexts: &[&str] = match self.offer.allocation {
            true => &[BASE_ALLOCATION],
            false => &[],
        };
        let disk = match self.offer.names_disks {
            true => DiskIdentity {
                identity: format!("disk:{}", self.disk.number).parse().ok(),
                incarnation: Some(self.number),
                writers: Some(WriterPolicy::Fenced),
                is_fenced: self.offer.fence.is_some(),
            },
            false => DiskIdentity::default(),
        };
        ContextOffer { contexts, disk }
    }

    /// Negotiates a connection; `None`: it is over.
    pub(super) async fn negotiate(&self, link: &Link) -> Result<Option<Negotiated>, Ending> {
        let mut handshake = ServerHandshake::new(ServerHandshakeConfig {
            framing: self.offer.framing,
            ..ServerHandshakeConfig::default()
        });
        link.reply(handshake.greeting());
        loop {
            let bytes = link.receive_some().await?;
            if !self.wait(Duration::ZERO).await {
                return Ok(None);
            }
            let mut rest = &bytes[..];
            loop {
                let taken = handshake.receive(rest);
                rest = &rest[taken..];
                let Some(event) = handshake.next_event() else {
                    break;
                };
                match event {
                    HandshakeEvent::Send(bytes) => link.reply(bytes),
                    HandshakeEvent::FindExport { purpose, .. } => {
                        if purpose != ExportPurpose::Info && !self.open_for(link).await {
                            return Ok(None);
                        }
                        handshake.answer_export(self.admit(purpose));
                    }
                    HandshakeEvent::FindContexts { .. } => {
                        handshake.answer_contexts(Ok(self.contexts()));
                    }
                    HandshakeEvent::List => handshake.answer_list(&[]),
                    HandshakeEvent::Finished(negotiated) => {
                        assert!(
                            rest.is_empty(),
                            "the client waits for the end of the handshake"
                        );
                        return Ok(Some(*negotiated));
                    }
                    HandshakeEvent::StartTls | HandshakeEvent::Close(_) => return Ok(None),
                }
            }
        }
    }
}
