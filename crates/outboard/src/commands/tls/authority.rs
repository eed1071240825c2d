//! [`Authority`]: what signs the certificates of a home or a small office.
//!
//! Its name is always the same, and its certificate follows from its key alone but for the dates; so
//! the key, kept in the folder, is all that is needed to sign more.

use std::time::{Duration, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::failure::Failure;

/// What the authority calls itself.
const NAME: &str = "outboard authority";
/// Validity of certificates: long, since nothing renews them.
const LIFE: Duration = Duration::from_secs(20 * 365 * 86_400);
/// Certificates are valid from this long ago: clocks of small machines are behind until NTP has set them.
const LATE_CLOCKS: Duration = Duration::from_secs(86_400);

/// A certificate with its key, as PEM.
#[derive(Debug)]
pub(super) struct CertificatePair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Signs certificates.
pub(super) struct Authority(Issuer<'static, KeyPair>);

fn failed(error: &rcgen::Error) -> Failure {
    Failure::because("cannot make a certificate", error)
}

impl Authority {
    /// A new one.
    pub(super) fn new() -> Result<(Self, CertificatePair), Failure> {
        let key = KeyPair::generate().map_err(|e| failed(&e))?;
        let params = params();
        let certificate = params.self_signed(&key).map_err(|e| failed(&e))?;
        let pair = CertificatePair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        };
        Ok((Self(Issuer::new(params, key)), pair))
    }

    /// The one of this key.
    pub(super) fn from_key(pem: &str) -> Result<Self, Failure> {
        let key = KeyPair::from_pem(pem).map_err(|e| failed(&e))?;
        Ok(Self(Issuer::new(params(), key)))
    }

    /// A certificate for a server of these names and addresses.
    pub(super) fn server(&self, hosts: &[String]) -> Result<CertificatePair, Failure> {
        let params = CertificateParams::new(hosts).map_err(|e| failed(&e))?;
        let name = hosts.first().map_or("outboard server", String::as_str);
        self.sign(params, name, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a client that is called so.
    pub(super) fn client(&self, name: &str) -> Result<CertificatePair, Failure> {
        let params = CertificateParams::default();
        self.sign(params, name, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        name: &str,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<CertificatePair, Failure> {
        params = dated(params);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(|e| failed(&e))?;
        let certificate = params.signed_by(&key, &self.0).map_err(|e| failed(&e))?;
        Ok(CertificatePair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn params() -> CertificateParams {
    let mut params = dated(CertificateParams::default());
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Certificates made now are good from a while ago on, and long.
fn dated(mut params: CertificateParams) -> CertificateParams {
    let now = engine::clock::wall().duration_since(UNIX_EPOCH);
    let begin = now.unwrap_or_default().saturating_sub(LATE_CLOCKS);
    params.not_before = date_time_ymd(1970, 1, 1) + begin;
    params.not_after = params.not_before + LIFE;
    params
}
