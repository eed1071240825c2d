//! [`Pair`]: a client and a server in one struct, without a socket between them.

use proptest::prelude::*;

use crate::{
    BASE_ALLOCATION, ClientEvent, ClientHandshake, ClientHandshakeConfig, ExportInfo, Framing,
    Goal, HandshakeEvent, HandshakeFailure, Refusal, ServerHandshake, ServerHandshakeConfig,
    TransmissionFlags,
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

/// A server with one export, `disk`, which is also the default, and a client.
pub(crate) struct Pair {
    pub(crate) server: ServerHandshake,
    pub(crate) client: ClientHandshake,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    pub(crate) server_events: Vec<HandshakeEvent>,
    pub(crate) client_events: Vec<ClientEvent>,
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
            to_server: Vec::new(),
            server_events: Vec::new(),
            client_events: Vec::new(),
            piece: usize::MAX,
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
                ClientEvent::Send(bytes) => self.to_server.extend(bytes),
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
                HandshakeEvent::Send(bytes) => self.to_client.extend(bytes),
                HandshakeEvent::FindExport { name, .. } => {
                    let known = name.is_empty() || name == "disk";
                    let answer = known.then(disk).ok_or(Refusal::Unknown);
                    self.server.answer_export(answer);
                }
                HandshakeEvent::List => self
                    .server
                    .answer_list(&[("disk".to_owned(), "a disk for tests".to_owned())]),
                HandshakeEvent::FindContexts { .. } => {
                    self.server.answer_contexts(Ok(&[BASE_ALLOCATION]));
                }
                event => self.server_events.push(event),
            }
        }
        progress
    }
}

fn wish(export: &str, goal: Goal) -> ClientHandshakeConfig {
    ClientHandshakeConfig {
        goal,
        ..ClientHandshakeConfig::new(export)
    }
}

#[test]
fn both_sides_agree_on_the_export_and_on_structured_replies() {
    let mut pair = Pair::new(ServerHandshakeConfig::default(), wish("", Goal::Go));
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
    let mut pair = Pair::new(config, wish("disk", Goal::Go));
    pair.run();
    let [ClientEvent::Finished(used)] = &pair.client_events[..] else {
        panic!("{:?}", pair.client_events);
    };
    assert_eq!(used.framing, Framing::Simple);
    assert!(!used.export.flags.contains(TransmissionFlags::SEND_DF));
}

#[test]
fn an_unknown_export_is_refused_by_name_and_the_client_leaves_politely() {
    let mut pair = Pair::new(ServerHandshakeConfig::default(), wish("nope", Goal::Go));
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
    let mut pair = Pair::new(ServerHandshakeConfig::default(), wish("disk", Goal::Info));
    pair.run();
    let [ClientEvent::Described(described)] = &pair.client_events[..] else {
        panic!("{:?}", pair.client_events);
    };
    assert_eq!(described.export, disk());

    let mut pair = Pair::new(ServerHandshakeConfig::default(), wish("", Goal::List));
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
    ) {
        let mut whole = Pair::new(ServerHandshakeConfig::default(), wish(export, goal));
        whole.run();
        let mut cut = Pair::new(ServerHandshakeConfig::default(), wish(export, goal));
        cut.piece = piece;
        cut.run();
        prop_assert_eq!(whole.client_events, cut.client_events);
        prop_assert_eq!(whole.server_events, cut.server_events);
    }
}
