//! Tests of the errors for files that cannot be used.

use crate::tls::server::ClientCertificates;
use crate::tls::tests::pki::Pki;
use crate::tls::{ClientTls, ServerTls, ServerTlsFiles, TlsError, TlsVersion, VerifyPeer};

fn server(pki: &Pki) -> Result<ServerTls, TlsError> {
    ServerTls::load(ServerTlsFiles::in_folder(pki.folder()))
}

#[test]
fn each_file_that_is_missing_is_named() {
    for name in ["ca-cert.pem", "server-cert.pem", "server-key.pem"] {
        let pki = Pki::new();
        pki.remove(name);
        let error = server(&pki).expect_err(name).to_string();
        assert!(
            error.starts_with("cannot read ") && error.contains(name),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_holds_something_else_is_named() {
    let pki = Pki::new();
    pki.write(
        "ca-cert.pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    let error = server(&pki).expect_err("no certificate").to_string();
    assert!(
        error.contains("ca-cert.pem: a certificate in it cannot be used"),
        "{error}"
    );
    pki.write("ca-cert.pem", "");
    let error = server(&pki).expect_err("empty").to_string();
    assert!(
        error.contains("ca-cert.pem: there is no certificate in it"),
        "{error}"
    );
}

#[test]
fn the_key_of_another_certificate_is_refused() {
    let (pki, other) = (Pki::new(), Pki::new());
    let key = std::fs::read_to_string(other.folder().join("server-key.pem")).expect("a file");
    pki.write("server-key.pem", &key);
    let error = server(&pki).expect_err("no pair").to_string();
    assert!(
        error.contains("the key is another certificate's"),
        "{error}"
    );
}

#[test]
fn a_server_that_asks_no_certificates_needs_no_authority() {
    let pki = Pki::new();
    pki.remove("ca-cert.pem");
    let mut files = ServerTlsFiles::in_folder(pki.folder());
    files.clients = ClientCertificates::Ignored;
    assert!(ServerTls::load(files).is_ok());
}

#[test]
fn a_client_needs_an_authority_and_a_name_that_can_be_one() {
    let pki = Pki::new();
    let folder = Some(pki.folder());
    let error = ClientTls::load("no name", folder, VerifyPeer::Yes, TlsVersion::default())
        .expect_err("a space");
    assert!(matches!(error, TlsError::ServerName(_)));
    pki.remove("ca-cert.pem");
    let error = ClientTls::load("localhost", folder, VerifyPeer::Yes, TlsVersion::default())
        .expect_err("no authority");
    assert!(error.to_string().contains("ca-cert.pem"));
    assert!(ClientTls::load("localhost", folder, VerifyPeer::No, TlsVersion::default()).is_ok());
}

#[test]
fn nothing_that_is_printed_has_a_key_in_it() {
    let pki = Pki::new();
    let key = std::fs::read_to_string(pki.folder().join("server-key.pem")).expect("a file");
    let line = key.lines().nth(1).expect("a line of base64");
    let printed = format!("{:?} {:?}", pki.server_tls(), pki.client_tls());
    assert!(!printed.contains(line));
}
