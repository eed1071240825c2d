//! Tests of the protocol: [`pair::Pair`] drives both handshakes against each other, the files below hold
//! one subject each.

mod client_contexts;
mod client_disk;
mod client_handshake;
mod client_harness;
mod client_oldstyle;
mod client_tls;
mod extended;
mod framing;
mod pair;
mod receive;
mod request;
mod server_contexts;
mod server_disk;
mod server_handshake;
mod server_harness;
mod server_tls;
mod status;
mod transmission;
mod uri;

pub(crate) use pair::disk;

use crate::{OptionCode, OptionReply};

/// An option as a client sends it. Written out here so that the encoder is not its own judge.
pub(crate) fn option(code: OptionCode, data: &[u8]) -> Vec<u8> {
    let mut out = b"IHAVEOPT".to_vec();
    out.extend(u32::from(code).to_be_bytes());
    out.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    out.extend(data);
    out
}

/// A reply as a server sends it.
pub(crate) fn reply(code: OptionCode, kind: OptionReply, data: &[u8]) -> Vec<u8> {
    let mut out = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
    out.extend(u32::from(code).to_be_bytes());
    out.extend(u32::from(kind).to_be_bytes());
    out.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    out.extend(data);
    out
}

/// The replies in what a server sent.
pub(crate) fn replies(mut sent: &[u8]) -> Vec<(OptionCode, OptionReply, Vec<u8>)> {
    let field = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut replies = Vec::new();
    while !sent.is_empty() {
        assert_eq!(sent[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
        let len = usize::try_from(field(sent, 16)).unwrap();
        let (whole, rest) = sent.split_at(20 + len);
        let code = OptionCode::from(field(whole, 8));
        replies.push((
            code,
            OptionReply::from(field(whole, 12)),
            whole[20..].to_vec(),
        ));
        sent = rest;
    }
    replies
}
