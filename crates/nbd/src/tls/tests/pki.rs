//! Certificates for tests, in the files that libnbd, nbdkit and qemu read.

use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose as Usage, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, date_time_ymd,
};
use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject as _;
use tempfile::TempDir;

use crate::tls::{ClientTls, ServerTls, ServerTlsFiles, TlsVersion, VerifyPeer};

/// A folder with an authority, and certificates that it signed.
pub(crate) struct Pki {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

/// When a certificate ends, years behind or before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Valid,
    Expired,
}

fn serial(who: &str) -> u64 {
    if who == "client" { 77 } else { 78 }
}

impl Pki {
    /// A server for `localhost` and 127.0.0.1, and a client named `laptop`.
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "test authority");
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        let pki = Self { folder, authority };
        pki.write("ca-cert.pem", &pki.authority.pem());
        pki.server(&["localhost", "127.0.0.1"], Life::Valid);
        pki.client("laptop", &[], Life::Valid);
        pki
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn server(&self, names: &[&str], life: Life) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params
            .distinguished_name
            .push(DnType::CommonName, "test server");
        self.sign("server", params, Usage::ServerAuth, life);
    }

    pub(crate) fn client(&self, common_name: &str, dns: &[&str], life: Life) {
        let dns: Vec<String> = dns.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(dns).expect("names");
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        self.sign("client", params, Usage::ClientAuth, life);
    }

    fn sign(&self, who: &str, mut params: CertificateParams, usage: Usage, life: Life) {
        params.extended_key_usages = vec![usage];
        params.serial_number = Some(serial(who).into());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if life == Life::Expired {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = params.not_before + Duration::from_secs(86400);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.authority).expect("signed");
        self.write(&format!("{who}-cert.pem"), &certificate.pem());
        self.write(&format!("{who}-key.pem"), &key.serialize_pem());
    }

    /// Takes a certificate back.
    pub(crate) fn revoke(&self, who: &str) {
        let this_update = date_time_ymd(2020, 1, 1);
        let revoked = RevokedCertParams {
            serial_number: serial(who).into(),
            revocation_time: this_update,
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update,
            next_update: date_time_ymd(2090, 1, 1),
            crl_number: 1u64.into(),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.authority).expect("signed");
        self.write("ca-crl.pem", &list.pem().expect("PEM"));
    }

    /// Takes the version, and the extensions that version 1 does not have, out of the revocation list.
    pub(crate) fn make_list_version_1(&self) {
        let text = std::fs::read(self.folder().join("ca-crl.pem")).expect("a list");
        let der = CertificateRevocationListDer::from_pem_slice(&text).expect("PEM");
        let (list, _) = element(&der);
        let (content, signature) = element(list);
        // SEQUENCE { INTEGER 1, …, [0] extensions }
        let mut rest = content.strip_prefix(&[2, 1, 1]).expect("version 2");
        let mut kept = Vec::new();
        while !rest.is_empty() {
            let (_, behind) = element(rest);
            if rest[0] != 0xa0 {
                kept.extend(&rest[..rest.len() - behind.len()]);
            }
            rest = behind;
        }
        let list = sequence(&[&sequence(&kept)[..], signature].concat());
        let text = format!(
            "-----BEGIN X509 CRL-----\n{}\n-----END X509 CRL-----\n",
            base64(&list)
        );
        self.write("ca-crl.pem", &text);
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder().join(name), text).expect("a file");
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.folder().join(name)).expect("it was there");
    }

    pub(crate) fn server_tls(&self) -> ServerTls {
        ServerTls::load(self.files_from(TlsVersion::default())).expect("good files")
    }

    /// The server's files, for clients with `minimum` or better.
    pub(crate) fn files_from(&self, minimum: TlsVersion) -> ServerTlsFiles {
        ServerTlsFiles {
            minimum,
            ..ServerTlsFiles::in_folder(self.folder())
        }
    }

    /// A client with these ciphers and no others.
    pub(crate) fn client_with(&self, cipher_suites: &[SupportedCipherSuite]) -> ClientTls {
        let provider = CryptoProvider {
            cipher_suites: cipher_suites.to_vec(),
            ..default_provider()
        };
        let folder = Some(self.folder());
        ClientTls::with_provider("localhost", folder, VerifyPeer::Yes, provider.into())
            .expect("good files")
    }

    pub(crate) fn client_tls(&self) -> ClientTls {
        self.client_tls_for("localhost")
    }

    pub(crate) fn client_tls_for(&self, name: &str) -> ClientTls {
        let minimum = TlsVersion::default();
        ClientTls::load(name, Some(self.folder()), VerifyPeer::Yes, minimum).expect("good files")
    }
}

/// The content of the first element of DER, and what is behind it.
fn element(der: &[u8]) -> (&[u8], &[u8]) {
    let (len, head) = match der[1] {
        short @ 0..0x80 => (usize::from(short), 2),
        long => {
            let bytes = &der[2..][..usize::from(long & 0x7f)];
            let len = bytes
                .iter()
                .fold(0, |len, &byte| len << 8 | usize::from(byte));
            (len, 2 + bytes.len())
        }
    };
    der[head..].split_at(len)
}

fn sequence(content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).expect("short").to_be_bytes();
    [&[0x30, 0x82], &len[..], content].concat()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number = (0..3).fold(0, |sum, at| {
            sum << 8 | u32::from(*three.get(at).unwrap_or(&0))
        });
        for at in 0..4 {
            let digit = number >> (18 - 6 * at) & 63;
            let is_there = at <= three.len();
            text.push(if is_there {
                char::from(DIGITS[digit as usize])
            } else {
                '='
            });
        }
    }
    text
}
