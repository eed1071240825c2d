//! Options of a client in any order, one by one or pipelined, against the server's handshake.

use nbd_proto::{
    BASE_ALLOCATION, ContextOffer, ExportInfo, ExportPurpose, Framing, HandshakeEvent, Negotiated,
    Refusal, ServerHandshake, ServerHandshakeConfig, TlsMode, TransmissionFlags,
};

use crate::counted;

/// The lower four bits of a byte choose the option, the fifth holds it back for the next one, the rest
/// cut it.
pub(crate) fn play(mode: u8, script: &[u8]) {
    let tls = [TlsMode::Off, TlsMode::Optional, TlsMode::Required][usize::from(mode) % 3];
    let framings = [Framing::Simple, Framing::Structured, Framing::Extended];
    let mut world = World {
        server: ServerHandshake::new(ServerHandshakeConfig {
            framing: framings[usize::from(mode / 3) % 3],
            tls,
            ..ServerHandshakeConfig::default()
        }),
        tls,
        waiting: Vec::new(),
        framing: Framing::Simple,
        asked: String::new(),
        chosen: None,
        over: false,
        by_name: false,
    };
    let mut held = vec![0, 0, 0, 3];
    for byte in script {
        held.extend(option(byte & 15));
        if byte & 16 == 0 {
            world.feed(&std::mem::take(&mut held), usize::from(byte >> 5) * 7 + 1);
        }
    }
    world.feed(&held, usize::MAX);
}

struct World {
    server: ServerHandshake,
    tls: TlsMode,
    waiting: Vec<u8>,
    /// What the replies agreed on, as a client would understand them.
    framing: Framing,
    /// The export of the last search for contexts, and the one for which they were selected.
    asked: String,
    chosen: Option<String>,
    over: bool,
    by_name: bool,
}

impl World {
    fn feed(&mut self, bytes: &[u8], piece: usize) {
        for part in bytes.chunks(piece) {
            self.waiting.extend_from_slice(part);
            loop {
                let taken = self.server.receive(&self.waiting);
                assert!(!self.over || taken == 0, "bytes taken after the end");
                self.waiting.drain(..taken);
                let Some(event) = self.server.next_event() else {
                    break;
                };
                assert!(!self.over, "{event:?} after the end");
                self.apply(event);
            }
        }
    }

    fn apply(&mut self, event: HandshakeEvent) {
        let silent = self.tls == TlsMode::Required && !self.server.is_tls();
        match event {
            HandshakeEvent::Send(bytes) => self.replies(&bytes),
            HandshakeEvent::FindExport { name, purpose, .. } => {
                assert!(!silent, "an export is looked for in the clear");
                self.by_name = purpose == ExportPurpose::ExportName;
                self.server
                    .answer_export(self.find(&name).map(|()| export(&name)));
            }
            HandshakeEvent::FindContexts { name, identify, .. } => {
                assert!(!silent && (identify || self.framing.is_chunked()));
                let offered = ContextOffer {
                    contexts: &[BASE_ALLOCATION, "x-fuzz:layer"],
                    ..ContextOffer::default()
                };
                self.server
                    .answer_contexts(self.find(&name).map(|()| offered));
                self.asked = name;
            }
            HandshakeEvent::List => {
                assert!(!silent, "a list in the clear");
                self.server
                    .answer_list(&[("disk".to_owned(), String::new())]);
            }
            HandshakeEvent::StartTls => {
                assert!(self.waiting.is_empty() && self.tls != TlsMode::Off);
                self.server.tls_started();
                self.framing = Framing::Simple;
                self.chosen = None;
            }
            HandshakeEvent::Finished(agreed) => self.check(&agreed),
            HandshakeEvent::Close(_) => self.over = true,
        }
    }

    fn find(&self, name: &str) -> Result<(), Refusal> {
        match name {
            "disk" | "other" => Ok(()),
            "locked" if self.server.is_tls() => Ok(()),
            "locked" => Err(Refusal::TlsRequired),
            _ => Err(Refusal::Unknown),
        }
    }

    fn check(&mut self, agreed: &Negotiated) {
        self.over = true;
        assert_eq!(agreed.tls, self.server.is_tls());
        assert!(agreed.tls || self.tls != TlsMode::Required);
        assert!(agreed.tls || agreed.requested_name != "locked");
        assert_eq!(agreed.framing, self.framing);
        let flags = agreed.export.flags;
        assert_eq!(
            flags.contains(TransmissionFlags::SEND_DF),
            self.framing.is_chunked()
        );
        let payload = flags.contains(TransmissionFlags::BLOCK_STATUS_PAYLOAD);
        let filters = self.framing.is_extended() && !agreed.contexts.is_empty();
        assert_eq!(payload, filters);
        if !agreed.contexts.is_empty() {
            assert_eq!(self.chosen.as_ref(), Some(&agreed.requested_name));
        }
    }

    /// Reads replies as a client would; the answer to `EXPORT_NAME` has no form to be read.
    fn replies(&mut self, mut bytes: &[u8]) {
        if self.by_name {
            assert!(!self.framing.is_extended());
            return;
        }
        while !bytes.is_empty() {
            let field = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
            assert_eq!(bytes[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
            let (option, kind, len) = (field(8), field(12), field(16) as usize);
            let tls_required = kind == (1 << 31 | 5);
            assert!(!tls_required || (self.tls != TlsMode::Off && !self.server.is_tls()));
            match (option, kind) {
                (8, 1) => self.framing = Framing::Structured,
                (11, 1) => self.framing = Framing::Extended,
                (10, 1) => self.chosen = Some(self.asked.clone()),
                (10, error) if error >> 31 == 1 => self.chosen = None,
                _ => {}
            }
            bytes = &bytes[20 + len..];
        }
    }
}

fn export(name: &str) -> ExportInfo {
    let flags = TransmissionFlags::SEND_DF | TransmissionFlags::BLOCK_STATUS_PAYLOAD;
    ExportInfo::new(name, 1 << 20, flags)
}

fn option(number: u8) -> Vec<u8> {
    let named = |name: &str| [counted(name), vec![0, 1, 0, 3]].concat();
    let queries = |name: &str, query: &str| {
        let count = u32::from(!query.is_empty()).to_be_bytes().to_vec();
        let query = if query.is_empty() {
            Vec::new()
        } else {
            counted(query)
        };
        [counted(name), count, query].concat()
    };
    let (code, data): (u32, Vec<u8>) = match number {
        0 => (8, vec![]),
        1 => (11, vec![]),
        2 => (5, vec![]),
        3 => (3, vec![]),
        4 => (6, named("disk")),
        5 => (7, named("disk")),
        6 => (7, named("other")),
        7 => (1, b"disk".to_vec()),
        8 => (2, vec![]),
        9 => (10, queries("disk", BASE_ALLOCATION)),
        10 => (10, queries("other", "x-fuzz:layer")),
        11 => (9, queries("disk", "base:")),
        12 => (10, queries("disk", "")),
        13 => (7, named("locked")),
        14 => (7, named("none")),
        _ => (9, queries("disk", "outboard:disk")),
    };
    let len = u32::try_from(data.len()).expect("a short option");
    [
        &b"IHAVEOPT"[..],
        &code.to_be_bytes(),
        &len.to_be_bytes(),
        &data,
    ]
    .concat()
}
