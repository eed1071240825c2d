//! [`Pair`]: a client and a server in one struct, without a socket between them.

use proptest::prelude::*;

use super::server_harness::identity;

use crate::{
    BASE_ALLOCATION, ClientEvent, ClientHandshake, ClientHandshakeConfig, ContextOffer, ExportInfo,
    Framing, Goal, HandshakeEvent, HandshakeFailure, Refusal, ServerHandshake,
    ServerHandshakeConfig, TlsMode, TransmissionFlags, WriterAccess,
};

/// An export as a server would describe it.
pub(crate) fn disk() -> ExportInfo {
    let flags = TransmissionFlags::HAS_FLAGS
        | TransmissionFlags::SEND_FLUSH
        | TransmissionFlags::SEND_DF
        | TransmissionFlags::CAN_MULTI_CONN;
    let mut export = ExportInfo::new("disk", 1 << 30, flags);
    export.description = "a disk for tests".to_owned();
    export.block_size_min = 512;
    export.block_size_max = 1 << 20;
    export
}

/// A server with an export `disk`, which is also the default, and `locked`, which needs TLS; and a
/// client.
pub(crate) struct Pair {
    pub(crate) server: ServerHandshake,
    pub(crate) client: ClientHandshake,
    /// All bytes of both sides before TLS, and under it.
    pub(crate) clear: Vec<u8>,
    pub(crate) under: Vec<u8>,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    pub(crate) server_events: Vec<HandshakeEvent>,
    pub(crate) client_events: Vec<ClientEvent>,
    /// The client identity of each request for an export.
    pub(crate) writers: Vec<Option<WriterAccess>>,
    /// Bytes handed over at once.
    pub(crate) piece: usize,
}

impl Pair {
    pub(crate) fn new(server: ServerHandshakeConfig, client: ClientHandshakeConfig) -> Self {
        let server = ServerHandshake::new(server);
        Self {
            to_client: server.greeting(),
            server,
            client: ClientHandshake::new(client),
            clear: Vec::new(),
            under: Vec::new(),
            to_server: Vec::new(),
            server_events: Vec::new(),
            client_events: Vec::new(),
            writers: Vec::new(),
            piece: usize::MAX,
        }
    }

    fn spoken(&mut self, bytes: &[u8]) {
        match self.server.is_tls() {
            true => self.under.extend(bytes),
            false => self.clear.extend(bytes),
        }
    }

    /// Runs until neither side has anything left to do.
    pub(crate) fn run(&mut self) {
        loop {
            let progress = self.client_step() | self.server_step();
            if !progress {
                return;
            }
        }
    }

    fn client_step(&mut self) -> bool {
        let part = &self.to_client[..self.piece.min(self.to_client.len())];
        let taken = self.client.receive(part);
        self.to_client.drain(..taken);
        let mut progress = taken > 0;
        while let Some(event) = self.client.next_event() {
            progress = true;
            match event {
                ClientEvent::Send(bytes) => {
                    self.spoken(&bytes);
                    self.to_server.extend(bytes);
                }
                ClientEvent::StartTls => {
                    assert!(self.to_client.is_empty() && self.server.is_tls());
                    self.client.tls_started();
                }
                event => self.client_events.push(event),
            }
        }
        progress
    }

    fn server_step(&mut self) -> bool {
        let part = &self.to_server[..self.piece.min(self.to_server.len())];
        let taken = self.server.receive(part);
        self.to_server.drain(..taken);
        let mut progress = taken > 0;
        while let Some(event) = self.server.next_event() {
            progress = true;
            match event {
                HandshakeEvent::Send(bytes) => {
                    self.spoken(&bytes);
                    self.to_client.extend(bytes);
                }
                HandshakeEvent::StartTls => {
                    assert!(self.to_server.is_empty());
                    self.server.tls_started();
                }
                HandshakeEvent::FindExport { name, writer, .. } => {
                    self.writers.push(writer);
                    let answer = match name.as_str() {
                        "" | "disk" => Ok(disk()),
                        "locked" if self.server.is_tls() => Ok(disk()),
                        "locked" => Err(Refusal::TlsRequired),
                        _ => Err(Refusal::Unknown),
                    };
                    self.server.answer_export(answer);
                }
                HandshakeEvent::List => self
                    .server
                    .answer_list(&[("disk".to_owned(), "a disk for tests".to_owned())]),
                HandshakeEvent::FindContexts { .. } => {
                    self.server.answer_contexts(Ok(ContextOffer {
                        contexts: &[BASE_ALLOCATION],
                        disk: identity(),
                    }));
                }
                event => self.server_events.push(event),
            }
        }
        progress
    }
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Server modes and whether the client wants TLS; what comes of it, and whether under TLS.
#[test]
fn every_mode_of_tls_meets_every_client() {
    use TlsMode::{Off, Optional, Required};
    for (tls, wants, export, expected) in [
        (Off, false, "disk", Some(false)),
        (Off, true, "disk", None),
        (Optional, false, "disk", Some(false)),
        (Optional, true, "disk", Some(true)),
        (Optional, false, "locked", None),
        (Optional, true, "locked", Some(true)),
        (Required, false, "disk", None),
        (Required, true, "disk", Some(true)),
        (Required, true, "nope", None),
    ] {
        for goal in [Goal::Go, Goal::Info] {
            let server = ServerHandshakeConfig {
                tls,
                ..ServerHandshakeConfig::default()
            };
            let client = ClientHandshakeConfig {
                tls: wants,
                ..config_for(export, goal)
            };
            let mut pair = Pair::new(server, client);
            pair.run();
            let got = match &pair.client_events[..] {
                [ClientEvent::Finished(used) | ClientEvent::Described(used)] => Some(used.tls),
                [ClientEvent::Failed(_)] => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(got, expected, "{tls:?} {wants} {export}");
            if tls != Off && wants {
                assert!(!has(&pair.clear, export.as_bytes()));
                assert!(has(&pair.under, export.as_bytes()));
            }
        }
    }
}

#[test]
fn extended_headers_and_contexts_are_agreed_on_under_tls_as_in_the_clear() {
    for tls in [false, true] {
        let server = ServerHandshakeConfig {
            framing: Framing::Extended,
            tls: TlsMode::Optional,
            ..ServerHandshakeConfig::default()
        };
        let client = ClientHandshakeConfig {
            framing: Framing::Extended,
            tls,
            contexts: vec![BASE_ALLOCATION.to_owned(), "x-box:none".to_owned()],
            ..config_for("disk", Goal::Go)
        };
        let mut pair = Pair::new(server, client);
        pair.run();
        let [HandshakeEvent::Finished(served)] = &pair.server_events[..] else {
            panic!("{:?}", pair.server_events);
        };
        assert_eq!(pair.client_events, [ClientEvent::Finished(served.clone())]);
        assert_eq!((served.framing, served.tls), (Framing::Extended, tls));
        let names: Vec<_> = served.contexts.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, [BASE_ALLOCATION]);
    }
}

fn config_for(export: &str, goal: Goal) -> ClientHandshakeConfig {
    ClientHandshakeConfig {
        goal,
        ..ClientHandshakeConfig::new(export)
    }
}

#[test]
fn both_sides_agree_on_the_export_and_on_structured_replies() {
    let mut pair = Pair::new(ServerHandshakeConfig::default(), config_for("", Goal::Go));
    pair.run();
    let [HandshakeEvent::Finished(served)] = &pair.server_events[..] else {
        panic!("{:?}", pair.server_events);
    };
    let [ClientEvent::Finished(used)] = &pair.client_events[..] else {
        panic!("{:?}", pair.client_events);
    };
    assert_eq!(served, used);
    assert_eq!(used.export, disk());
    assert_eq!(used.requested_name, "");
    assert!(used.framing == Framing::Structured && used.block_sizes_agreed);
}

#[test]
fn a_server_without_structured_replies_is_used_without_and_hides_df() {
    let config = ServerHandshakeConfig {
        framing: Framing::Simple,
        ..ServerHandshakeConfig::default()
    };
    let mut pair = Pair::new(config, config_for("disk", Goal::Go));
    pair.run();
    let [ClientEvent::Finished(used)] = &pair.client_events[..] else {
        panic!("{:?}", pair.client_events);
    };
    assert_eq!(used.framing, Framing::Simple);
    assert!(!used.export.flags.contains(TransmissionFlags::SEND_DF));
}

#[test]
fn an_unknown_export_is_refused_by_name_and_the_client_leaves_politely() {
    let mut pair = Pair::new(
        ServerHandshakeConfig::default(),
        config_for("nope", Goal::Go),
    );
    pair.run();
    let [ClientEvent::Failed(failure)] = &pair.client_events[..] else {
        panic!("{:?}", pair.client_events);
    };
    assert!(matches!(failure, HandshakeFailure::UnknownExport { .. }));
    assert_eq!(
        failure.to_string(),
        "the server has no export \"nope\": export \"nope\" is not known here"
    );
    assert_eq!(
        pair.server_events,
        [HandshakeEvent::Close(crate::CloseReason::Aborted)]
    );
}

#[test]
fn info_and_list_describe_and_leave() {
    let mut pair = Pair::new(
        ServerHandshakeConfig::default(),
        config_for("disk", Goal::Info),
    );
    pair.run();
    let [ClientEvent::Described(described)] = &pair.client_events[..] else {
        panic!("{:?}", pair.client_events);
    };
    assert_eq!(described.export, disk());

    let mut pair = Pair::new(ServerHandshakeConfig::default(), config_for("", Goal::List));
    pair.run();
    let listed = vec![("disk".to_owned(), "a disk for tests".to_owned())];
    assert_eq!(pair.client_events, [ClientEvent::Listed(listed)]);
}

proptest! {
    #[test]
    fn any_cutting_of_the_stream_gives_the_same_events(
        piece in 1usize..60,
        goal in prop::sample::select(vec![Goal::Go, Goal::Info, Goal::List]),
        export in prop::sample::select(vec!["", "disk", "nope"]),
        framing in prop::sample::select(vec![Framing::Simple, Framing::Structured, Framing::Extended]),
        tls: bool,
    ) {
        let server = ServerHandshakeConfig {
            framing: Framing::Extended,
            tls: TlsMode::Optional,
            ..ServerHandshakeConfig::default()
        };
        let client = ClientHandshakeConfig {
            framing,
            tls,
            contexts: vec![BASE_ALLOCATION.to_owned()],
            ..config_for(export, goal)
        };
        let mut whole = Pair::new(server.clone(), client.clone());
        whole.run();
        let mut cut = Pair::new(server, client);
        cut.piece = piece;
        cut.run();
        prop_assert_eq!(whole.client_events, cut.client_events);
        prop_assert_eq!(whole.server_events, cut.server_events);
    }
}
