//! Tests of names in certificates.

use proptest::prelude::*;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::tls::certificate_name::certificate_name;
use crate::tls::tests::pki::{Life, Pki};

fn client_certificate(pki: &Pki) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(pki.folder().join("client-cert.pem")).expect("a certificate")
}

fn name(common_name: &str, dns: &[&str]) -> Option<String> {
    let pki = Pki::new();
    pki.client(common_name, dns, Life::Valid);
    certificate_name(&client_certificate(&pki))
}

#[test]
fn the_first_dns_name_goes_before_the_common_name() {
    assert_eq!(name("laptop", &[]).as_deref(), Some("laptop"));
    assert_eq!(
        name("laptop", &["pi.lan", "b.lan"]).as_deref(),
        Some("pi.lan")
    );
    assert_eq!(name("laptop", &["10.0.0.1"]).as_deref(), Some("laptop"));
    assert_eq!(name("my old laptop", &[]).as_deref(), Some("my old laptop"));
}

#[test]
fn a_name_that_cannot_be_compared_is_none() {
    assert_eq!(name("", &[]), None);
    assert_eq!(name("a\nb", &[]), None);
    assert_eq!(name("a\0b", &[]), None);
    assert_eq!(name("büro", &[]), None);
    assert_eq!(name(&"x".repeat(254), &[]), None);
}

#[test]
fn a_long_certificate_is_read_to_its_name() {
    let names: Vec<String> = (0..4000).map(|n| format!("n{n}.lan")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(name("laptop", &names).as_deref(), Some("n0.lan"));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = certificate_name(&CertificateDer::from(bytes));
    }
}

#[test]
fn no_change_to_a_certificate_panics() {
    let pki = Pki::new();
    let good = client_certificate(&pki);
    for at in 0..good.len() {
        for value in [0, 1, 0x30, 0x7f, 0x80, 0x84, 0xff] {
            let mut bytes = good.to_vec();
            bytes[at] = value;
            let _ = certificate_name(&CertificateDer::from(bytes));
        }
        let _ = certificate_name(&CertificateDer::from(good[..at].to_vec()));
    }
}
