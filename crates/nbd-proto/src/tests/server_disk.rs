//! Queries for the disk's identity and the client's own, on the server's side.

use super::server_harness::{
    FIXED, OFFERED, ServerHarness, ServerOutcome, go, good_go, queries, serve_as, session,
};
use super::{option, replies};
use crate::{
    AccessMode, ClientToken, Framing, OptionCode, OptionReply, ServerHandshakeConfig, TlsMode,
    WriterAccess,
};

const LIST: OptionCode = OptionCode::ListMetaContext;
const TOKEN: &str = "00112233445566778899aabbccddeeff";
const DISK: [&str; 3] = [
    "outboard:disk=file:1:2:3",
    "outboard:incarnation=0000000000000abc",
    "outboard:writers=one",
];

fn config() -> ServerHandshakeConfig {
    ServerHandshakeConfig {
        framing: Framing::Extended,
        ..ServerHandshakeConfig::default()
    }
}

fn feed_options(parts: &[Vec<u8>]) -> ServerOutcome {
    serve_as(&config(), &session(parts), 1000)
}

fn list(name: &str, asked: &[&str]) -> Vec<u8> {
    option(LIST, &queries(name, asked))
}

fn client(mode: &str) -> String {
    format!("outboard:client={TOKEN},{mode}")
}

fn access(mode: AccessMode) -> Option<WriterAccess> {
    let token = ClientToken::new([
        0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee,
        0xff,
    ]);
    Some(WriterAccess { token, mode })
}

/// The names that the server reported, and the kind of the last reply.
fn reported_names(outcome: &ServerOutcome) -> (Vec<String>, OptionReply) {
    let replies = replies(&outcome.sent);
    let is_name = |kind: &OptionReply| *kind == OptionReply::MetaContext;
    let names = replies.iter().filter(|(_, kind, _)| is_name(kind));
    let names = names.map(|(_, _, data)| String::from_utf8(data[4..].to_vec()).unwrap());
    (names.collect(), replies.last().unwrap().1)
}

#[test]
fn the_disk_is_reported_before_structured_replies_and_behind_them() {
    for before in [None, Some(OptionCode::StructuredReply)] {
        let mut parts: Vec<_> = before.map(|code| option(code, &[])).into_iter().collect();
        parts.push(list("disk", &["outboard:disk", &client("write")]));
        let (names, last) = reported_names(&feed_options(&parts));
        assert_eq!(names, DISK);
        assert_eq!(last, OptionReply::Ack);
    }
    let simple = ServerHandshakeConfig {
        framing: Framing::Simple,
        ..config()
    };
    let outcome = serve_as(&simple, &session(&[list("disk", &["outboard:"])]), 1000);
    assert_eq!(reported_names(&outcome).0, DISK);
}

#[test]
fn contexts_of_status_keep_their_rules_next_to_the_disk() {
    let structured = || option(OptionCode::StructuredReply, &[]);
    // Both are requested without structured replies: the same reply as without the disk.
    let outcome = feed_options(&[list("disk", &["outboard:disk", "base:allocation"])]);
    assert_eq!(reported_names(&outcome), (vec![], OptionReply::ErrInvalid));
    let outcome = feed_options(&[
        structured(),
        list("disk", &["outboard:disk", "base:allocation"]),
    ]);
    assert_eq!(
        reported_names(&outcome).0,
        [&OFFERED[..1], &DISK[..]].concat()
    );
    // A query for everything returns what BLOCK_STATUS can report.
    let outcome = feed_options(&[structured(), list("disk", &[])]);
    assert_eq!(reported_names(&outcome).0, OFFERED);
    // Names of the namespace that mean nothing are no question for everything.
    let outcome = feed_options(&[structured(), list("disk", &["outboard:layer"])]);
    assert_eq!(reported_names(&outcome), (vec![], OptionReply::Ack));
    // Nothing of the namespace can be chosen.
    let set = option(
        OptionCode::SetMetaContext,
        &queries("disk", &["outboard:disk", &client("write")]),
    );
    let outcome = feed_options(&[structured(), set, good_go("disk")]);
    assert!(outcome.finished.unwrap().contexts.is_empty());
    assert_eq!(outcome.writers, [None]);
}

#[test]
fn the_client_identity_is_kept_for_the_export_and_the_last_one_counts() {
    let said = |name: &str, mode: &str| list(name, &[&client(mode)]);
    let info = option(OptionCode::Info, &go(b"disk", 4, &[]));
    for (parts, expected) in [
        (vec![said("disk", "write")], access(AccessMode::Write)),
        (vec![said("", "write")], None),
        (
            vec![said("disk", "read"), said("disk", "takeover")],
            access(AccessMode::Takeover),
        ),
        // A question for the disk alone takes nothing back, and neither does a refused one.
        (
            vec![
                said("disk", "resume"),
                list("disk", &["outboard:disk"]),
                list("disk", &["outboard:client=junk"]),
                said("nope", "read"),
            ],
            access(AccessMode::Resume),
        ),
    ] {
        let outcome = feed_options(&[parts, vec![good_go("disk")]].concat());
        assert_eq!(outcome.writers, [expected]);
        assert_eq!(outcome.finished.unwrap().writer, expected);
    }
    // INFO uses nothing, and takes nothing away from the GO behind it.
    let outcome = feed_options(&[said("disk", "shared"), info, good_go("disk")]);
    assert_eq!(outcome.writers, [None, access(AccessMode::Shared)]);
}

#[test]
fn a_client_that_cannot_be_understood_and_exports_it_does_not_get_are_refused_in_step() {
    for (parts, refusal) in [
        (
            list("disk", &["outboard:client=00,write"]),
            OptionReply::ErrInvalid,
        ),
        (list("disk", &[&client("own")]), OptionReply::ErrInvalid),
        (list("nope", &[&client("write")]), OptionReply::ErrUnknown),
        (list("private", &["outboard:disk"]), OptionReply::ErrPolicy),
    ] {
        let outcome = feed_options(&[parts, good_go("disk")]);
        assert_eq!(replies(&outcome.sent)[0].1, refusal);
        assert_eq!(outcome.writers, [None]);
        assert!(outcome.finished.is_some());
    }
}

#[test]
fn options_sent_in_the_clear_are_forgotten_under_tls() {
    let config = ServerHandshakeConfig {
        tls: TlsMode::Optional,
        ..config()
    };
    let mut harness = ServerHarness::new(&config);
    harness.feed(&FIXED, 4);
    harness.feed(&list("disk", &[&client("write")]), 1000);
    harness.feed(&option(OptionCode::StartTls, &[]), 1000);
    harness.feed(&good_go("disk"), 1000);
    assert_eq!(harness.outcome.writers, [None]);
    assert!(harness.outcome.finished.is_some());
}
