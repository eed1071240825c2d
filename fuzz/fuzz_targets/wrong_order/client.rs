//! Replies of a server in any order against the client's handshake.

use nbd_proto::{
    AccessMode, BASE_ALLOCATION, ClientEvent, ClientHandshake, ClientHandshakeConfig, ClientToken,
    Framing, Goal, Negotiated, WriterAccess,
};

use crate::counted;

/// The lower three bits of a byte choose the reply, the next whether it answers the pending option; if not,
/// the rest choose what.
pub(crate) fn play(mode: u8, script: &[u8]) {
    let config = ClientHandshakeConfig {
        tls: mode & 1 == 1,
        framing: [Framing::Structured, Framing::Extended][usize::from(mode >> 1 & 1)],
        contexts: vec![BASE_ALLOCATION.to_owned(), "x-fuzz:layer".to_owned()],
        goal: [Goal::Go, Goal::Info, Goal::List][usize::from(mode >> 2) % 3],
        identify: mode & 0x20 == 0,
        writer: (mode & 0x80 == 0).then_some(WriterAccess {
            token: ClientToken::new([mode; 16]),
            mode: AccessMode::Write,
        }),
        ..ClientHandshakeConfig::new("disk")
    };
    let mut world = World {
        client: ClientHandshake::new(config.clone()),
        config,
        tls: false,
        asked: 0,
        over: false,
    };
    let greeting = if mode & 0x40 == 0 { 3u16 } else { 2 };
    world.feed(&[&b"NBDMAGICIHAVEOPT"[..], &greeting.to_be_bytes()].concat());
    for byte in script {
        let option = match byte & 8 {
            0 => world.asked,
            _ => u32::from(byte >> 4),
        };
        world.feed(&reply(option, byte & 7, byte >> 4));
    }
}

struct World {
    client: ClientHandshake,
    config: ClientHandshakeConfig,
    tls: bool,
    /// The last option that the client sent.
    asked: u32,
    over: bool,
}

impl World {
    fn feed(&mut self, mut bytes: &[u8]) {
        loop {
            let taken = self.client.receive(bytes);
            assert!(!self.over || taken == 0, "bytes taken after the end");
            bytes = &bytes[taken..];
            let Some(event) = self.client.next_event() else {
                break;
            };
            assert!(!self.over, "{event:?} after the end");
            self.apply(event);
        }
    }

    fn apply(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Send(bytes) => {
                let is_secret = self.config.tls && !self.tls;
                let named = bytes.windows(4).any(|window| window == b"disk");
                assert!(!(is_secret && named), "the export is named in the clear");
                if let Some(at) = bytes.windows(8).position(|window| window == b"IHAVEOPT") {
                    let code = bytes[at + 8..at + 12].try_into().expect("four bytes");
                    self.asked = u32::from_be_bytes(code);
                }
            }
            ClientEvent::StartTls => {
                assert!(self.config.tls && !self.tls);
                self.client.tls_started();
                self.tls = true;
            }
            ClientEvent::Finished(agreed) => {
                assert_eq!(self.config.goal, Goal::Go);
                self.check(&agreed);
                let ours = |name| self.config.contexts.contains(name);
                assert!(agreed.contexts.iter().all(|context| ours(&context.name)));
            }
            ClientEvent::Described(agreed) => self.check(&agreed),
            ClientEvent::Listed(_) => {
                assert_eq!(self.tls, self.config.tls);
                self.over = true;
            }
            ClientEvent::Failed(_) => self.over = true,
        }
    }

    fn check(&mut self, agreed: &Negotiated) {
        self.over = true;
        assert_eq!((agreed.tls, self.tls), (self.config.tls, self.config.tls));
        assert!(agreed.framing <= self.config.framing);
        assert!(agreed.framing.is_chunked() || agreed.contexts.is_empty());
        assert!(i64::try_from(agreed.export.size).is_ok());
        assert!(agreed.export.block_size_min.is_power_of_two());
        assert!(agreed.export.block_size_max >= agreed.export.block_size_min);
    }
}

fn reply(option: u32, number: u8, variant: u8) -> Vec<u8> {
    let error = |number: u32| (1 << 31 | number, b"no".to_vec());
    let (kind, data): (u32, Vec<u8>) = match number {
        0 | 1 => (1, vec![]),
        2 => (3, [&[0; 8][..], &[16, 0, 0, variant]].concat()),
        3 => {
            let max = u32::from(variant) << 18;
            let sizes = [1 << variant, 4096, max].map(u32::to_be_bytes);
            (3, [&[0, 3][..], &sizes.concat()].concat())
        }
        4 => (2, counted("disk")),
        5 => {
            let names = [
                BASE_ALLOCATION,
                "x-fuzz:layer",
                "x-fuzz:none",
                "outboard:disk=x",
            ];
            let name = names[usize::from(variant) % 4];
            let id = u32::from(variant / 4).to_be_bytes();
            (4, [&id[..], name.as_bytes()].concat())
        }
        6 => error(1),
        _ => error(u32::from(variant) % 11),
    };
    let len = u32::try_from(data.len()).expect("a short reply");
    let magic = 0x0003_e889_0455_65a9_u64.to_be_bytes();
    let header = [option, kind, len].map(u32::to_be_bytes).concat();
    [&magic[..], &header, &data].concat()
}
