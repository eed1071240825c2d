//! Tests of the handshake: which peers are admitted, and the errors for others.

use crate::tls::client::VerifyPeer;
use crate::tls::handshake::SecuredConnection;
use crate::tls::server::ClientCertificates;
use crate::tls::tests::pipe::shake;
use crate::tls::tests::pki::{Life, Pki};
use crate::tls::{
    ClientTls, Handshake, HandshakeStep, ServerTls, ServerTlsFiles, TlsFailure, TlsVersion,
};

type Outcome = Result<SecuredConnection, TlsFailure>;

fn meet(client: &ClientTls, server: &ServerTls) -> (Outcome, Outcome) {
    let client = Handshake::client(client).expect("a client");
    let server = Handshake::server(server).expect("a server");
    shake(client, server, usize::MAX)
}

fn failure_text(outcome: Outcome) -> String {
    outcome.expect_err("a refusal").to_string()
}

#[test]
fn the_name_in_the_certificate_of_a_client_is_known_to_the_server() {
    let pki = Pki::new();
    let (client, server) = meet(&pki.client_tls(), &pki.server_tls());
    assert!(client.is_ok());
    let secured = server.expect("both trust the authority");
    assert_eq!(secured.peer_name.as_deref(), Some("laptop"));
}

#[test]
fn a_handshake_may_come_byte_by_byte() {
    let pki = Pki::new();
    let client = Handshake::client(&pki.client_tls()).expect("a client");
    let server = Handshake::server(&pki.server_tls()).expect("a server");
    let (client, server) = shake(client, server, 1);
    assert!(client.is_ok() && server.is_ok());
}

#[test]
fn a_server_of_another_authority_is_refused() {
    let (ours, other) = (Pki::new(), Pki::new());
    let (client, server) = meet(&ours.client_tls(), &other.server_tls());
    let text = "its certificate is not signed by an authority that is trusted here";
    assert_eq!(failure_text(client), text);
    assert!(server.is_err(), "the client has reported it");
}

#[test]
fn a_client_of_another_authority_is_refused() {
    let (ours, other) = (Pki::new(), Pki::new());
    let files = |name: &str| std::fs::read_to_string(other.folder().join(name)).expect("a file");
    ours.write("client-cert.pem", &files("client-cert.pem"));
    ours.write("client-key.pem", &files("client-key.pem"));
    let (_, server) = meet(&ours.client_tls(), &ours.server_tls());
    let text = "its certificate is not signed by an authority that is trusted here";
    assert_eq!(failure_text(server), text);
}

#[test]
fn a_server_under_another_name_is_refused() {
    let pki = Pki::new();
    let (client, _) = meet(&pki.client_tls_for("nas.lan"), &pki.server_tls());
    assert!(failure_text(client).starts_with("its certificate is not for nas.lan, but for"));
    let (client, _) = meet(&pki.client_tls_for("127.0.0.2"), &pki.server_tls());
    assert!(failure_text(client).starts_with("its certificate is not for 127.0.0.2, but for"));
    let (client, _) = meet(&pki.client_tls_for("127.0.0.1"), &pki.server_tls());
    assert!(client.is_ok());
}

#[test]
fn expired_certificates_are_refused_on_both_sides() {
    let pki = Pki::new();
    pki.client("laptop", &[], Life::Expired);
    let (_, server) = meet(&pki.client_tls(), &pki.server_tls());
    assert_eq!(failure_text(server), "its certificate has expired");
    pki.client("laptop", &[], Life::Valid);
    pki.server(&["localhost"], Life::Expired);
    let (client, _) = meet(&pki.client_tls(), &pki.server_tls());
    assert_eq!(failure_text(client), "its certificate has expired");
}

#[test]
fn a_certificate_that_was_taken_back_is_refused_from_the_next_reload_on() {
    let pki = Pki::new();
    let tls = pki.server_tls();
    pki.revoke("client");
    let (_, server) = meet(&pki.client_tls(), &tls);
    assert!(server.is_ok(), "not reloaded yet");
    // `outboard reload` reported that nothing was different.
    assert!(tls.reload().expect("good files"), "a list is there now");
    assert!(!tls.reload().expect("good files"), "and is the same still");
    let (_, server) = meet(&pki.client_tls(), &tls);
    assert_eq!(failure_text(server), "its certificate is revoked");
    pki.revoke("server");
    tls.reload().expect("good files");
    let (client, _) = meet(&pki.client_tls(), &tls);
    assert_eq!(failure_text(client), "its certificate is revoked");
}

/// OpenSSL makes lists of version 1 unless its configuration says otherwise. They were refused as "ParseError", in the
/// name of the authority's certificate.
#[test]
fn a_revocation_list_of_version_1_is_refused_by_its_name() {
    let pki = Pki::new();
    pki.revoke("client");
    let tls = pki.server_tls();
    pki.make_list_version_1();
    let server = tls.reload().expect_err("no list").to_string();
    let client = ClientTls::load(
        "localhost",
        Some(pki.folder()),
        VerifyPeer::Yes,
        TlsVersion::default(),
    );
    for told in [server, client.expect_err("no list").to_string()] {
        assert!(
            told.contains("ca-crl.pem: it is no revocation list"),
            "{told}"
        );
        assert!(told.contains("of version 2"), "{told}");
    }
}

#[test]
fn a_certificate_made_for_a_server_does_not_let_a_client_in() {
    let pki = Pki::new();
    let text = |name: &str| std::fs::read_to_string(pki.folder().join(name)).expect("a file");
    pki.write("client-cert.pem", &text("server-cert.pem"));
    pki.write("client-key.pem", &text("server-key.pem"));
    let (_, server) = meet(&pki.client_tls(), &pki.server_tls());
    assert_eq!(
        failure_text(server),
        "its certificate is not made for this purpose"
    );
}

#[test]
fn a_client_without_a_certificate_is_admitted_only_where_that_is_configured() {
    let pki = Pki::new();
    pki.remove("client-cert.pem");
    let client = pki.client_tls();
    let (_, server) = meet(&client, &pki.server_tls());
    assert_eq!(failure_text(server), "the client has shown no certificate");
    let mut files = ServerTlsFiles::in_folder(pki.folder());
    let authority = pki.folder().join("ca-cert.pem");
    for clients in [
        ClientCertificates::Welcome { authority },
        ClientCertificates::Ignored,
    ] {
        files.clients = clients;
        let server = ServerTls::load(files.clone()).expect("good files");
        let (_, server) = meet(&client, &server);
        assert_eq!(server.expect("all are let in").peer_name, None);
    }
}

#[test]
fn a_client_without_verification_accepts_any_server() {
    let (ours, other) = (Pki::new(), Pki::new());
    let mut files = ServerTlsFiles::in_folder(other.folder());
    files.clients = ClientCertificates::Ignored;
    let server = ServerTls::load(files).expect("good files");
    let client = ClientTls::load(
        "nas.lan",
        Some(ours.folder()),
        VerifyPeer::No,
        TlsVersion::default(),
    );
    let (client, _) = meet(&client.expect("good files"), &server);
    assert!(client.is_ok());
}

#[test]
fn garbage_ends_the_handshake_and_gets_no_more_than_an_alert() {
    let pki = Pki::new();
    for garbage in [
        &b"IHAVEOPT\0\0\0\x05\0\0\0\0"[..],
        &[22, 3, 1, 0xff, 0xff],
        &[22, 3, 1, 0, 5, 1, 0xff, 0xff, 0xff, 0],
        &[0; 64],
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut server = Handshake::server(&pki.server_tls()).expect("a server");
        let said = server.advance(garbage);
        assert!(said.is_err(), "{garbage:?}: {said:?}");
        // An alert record, type 21, or nothing.
        assert!(
            server
                .take_outgoing()
                .first()
                .is_none_or(|&kind| kind == 21),
            "{garbage:?}"
        );
    }
}

#[test]
fn a_client_hello_without_end_is_not_kept_for_ever() {
    let pki = Pki::new();
    let mut server = Handshake::server(&pki.server_tls()).expect("a server");
    let mut fed = 0;
    // Records of a handshake message that announces 16 MiB less one.
    let mut record = vec![22, 3, 1, 0x40, 0];
    record.resize(5 + 0x4000, 0);
    record[5..9].copy_from_slice(&[1, 0xff, 0xff, 0xff]);
    while server.advance(&record).is_ok() {
        fed += record.len();
        record[5..9].fill(0);
        assert!(fed < 1 << 20, "still listening");
    }
}

#[test]
fn a_tls_1_2_client_gets_an_alert_for_its_version() {
    let pki = Pki::new();
    let mut server = Handshake::server(&pki.server_tls()).expect("a server");
    // A hello of TLS 1.2 with one cipher and no extensions.
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x2f, 1, 0]);
    let mut record = vec![22, 3, 1, 0, 4 + 41, 1, 0, 0, 41];
    record.extend(hello);
    let failure = server.advance(&record).expect_err("refused");
    assert_eq!(
        failure.to_string(),
        "it speaks no TLS 1.3 (nor 1.2, where tls-minimum allows that), or none of its ciphers"
    );
}

#[test]
fn new_handshakes_use_what_a_reload_read_and_a_bad_file_changes_nothing() {
    let pki = Pki::new();
    let tls = pki.server_tls();
    pki.server(&["nas.lan"], Life::Valid);
    let (client, _) = meet(&pki.client_tls(), &tls);
    assert!(client.is_ok(), "not reloaded yet");
    tls.reload().expect("good files");
    let (client, _) = meet(&pki.client_tls_for("nas.lan"), &tls);
    assert!(client.is_ok());
    let good = std::fs::read_to_string(pki.folder().join("server-key.pem")).expect("a file");
    pki.write("server-key.pem", "nonsense");
    let error = tls.reload().expect_err("no key").to_string();
    assert!(
        error.contains("server-key.pem: there is no private key in it"),
        "{error}"
    );
    let (client, _) = meet(&pki.client_tls_for("nas.lan"), &tls);
    assert!(client.is_ok(), "what was there is used");
    pki.write("server-key.pem", &good);
    tls.reload().expect("good again");
}

#[test]
fn a_handshake_that_waits_says_so() {
    let pki = Pki::new();
    let mut server = Handshake::server(&pki.server_tls()).expect("a server");
    assert_eq!(server.advance(&[]).ok(), Some(HandshakeStep::Receive));
    assert!(server.take_outgoing().is_empty());
}
