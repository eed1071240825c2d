//! The TLS options of the command line, and the check where clients may connect without.

use std::path::PathBuf;

use nbd::server::ListenAddress;
use nbd::tls::{
    ClientCertificates, Demand, ServerTls, ServerTlsFiles, TlsVersion, certificate_hosts,
};

use super::announce::AnnouncedTls;
use crate::config::{ServerPlan, TlsPlan};
use crate::failure::Failure;

/// What of `serve` is about TLS.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TlsArgs {
    /// Serve under TLS with the certificates in this folder (`outboard tls init DIR` makes one)
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,

    /// Let clients choose whether to use TLS
    #[arg(long, requires = "tls")]
    tls_optional: bool,

    /// Accept clients without a certificate
    #[arg(long, requires = "tls")]
    tls_any_client: bool,

    /// Accept clients with this version of TLS or a later one: 1.2 or 1.3 [default: 1.3]
    #[arg(long, requires = "tls", value_name = "VERSION", value_parser = parse_version)]
    tls_minimum: Option<TlsVersion>,

    /// Accept other machines without TLS: unencrypted, without authentication
    #[arg(long)]
    pub(super) insecure: bool,
}

impl TlsArgs {
    /// As a configuration would have it.
    pub(super) fn plan(&self) -> Option<TlsPlan> {
        let mut files = ServerTlsFiles::in_folder(self.tls.as_ref()?);
        if self.tls_any_client {
            files.clients = ClientCertificates::Ignored;
        }
        files.minimum = self.tls_minimum.unwrap_or_default();
        let demand = if self.tls_optional {
            Demand::Optional
        } else {
            Demand::Network
        };
        Some(TlsPlan { files, demand })
    }
}

fn parse_version(number: &str) -> Result<TlsVersion, String> {
    TlsVersion::from_number(number).ok_or_else(|| "it is 1.2 or 1.3".to_owned())
}

/// Reads the certificates of `plan`.
pub(super) fn load(plan: &ServerPlan) -> Result<Option<(ServerTls, Demand)>, Failure> {
    let Some(TlsPlan { files, demand }) = &plan.tls else {
        return Ok(None);
    };
    let tls = ServerTls::load(files.clone()).map_err(|error| {
        let folder = files.certificate.parent().unwrap_or(&files.certificate);
        let next = format!(
            "`outboard tls init {}` makes what is needed",
            folder.display()
        );
        Failure::from_error(&error).next(next)
    })?;
    Ok(Some((tls, *demand)))
}

/// The TLS part of the URIs of `plan`, after its certificates were read.
pub(super) fn announced(plan: &ServerPlan) -> Option<AnnouncedTls> {
    let TlsPlan { files, demand } = plan.tls.as_ref()?;
    let hosts = certificate_hosts(&files.certificate).unwrap_or_else(|error| {
        tracing::debug!("the names in the certificate are not known: {error}");
        Vec::new()
    });
    Some(AnnouncedTls {
        demand: *demand,
        hosts,
    })
}

/// Decides whether addresses may be served with the TLS configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guard {
    demand: Option<Demand>,
    insecure: bool,
}

impl Guard {
    /// That of a plan.
    pub(super) fn of(plan: &ServerPlan) -> Self {
        Self {
            demand: plan.tls.as_ref().map(|tls| tls.demand),
            insecure: plan.insecure,
        }
    }

    /// Refuses to listen where other machines could connect without TLS, unless `--insecure` permits that.
    pub(super) fn check(self, places: &[ListenAddress]) -> Result<(), Failure> {
        let is_clear = matches!(self.demand, None | Some(Demand::Optional));
        let far = places.iter().find(|place| !place.is_local());
        match far {
            Some(place) if is_clear && !self.insecure => {
                let what =
                    format!("{place} can be reached by other machines, and they need no TLS");
                Err(Failure::new(what).next(match self.demand {
                    Some(_) => {
                        "leave --tls-optional (demand = \"optional\") away, or pass --insecure \
                         (insecure = true)"
                    }
                    None => {
                        "add --tls DIR ([tls] with a directory; `outboard tls init DIR` makes one), \
                         or say --insecure (insecure = true)"
                    }
                }))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of where clients may connect without TLS.

    use super::*;

    fn at(address: &str) -> ListenAddress {
        ListenAddress::Tcp(address.parse().expect("an address"))
    }

    fn is_served(demand: Option<Demand>, insecure: bool, places: &[ListenAddress]) -> bool {
        Guard { demand, insecure }.check(places).is_ok()
    }

    #[test]
    fn only_other_machines_need_tls() {
        let near = [at("127.0.0.1:1"), at("[::1]:1"), ListenAddress::Unix(None)];
        assert!(is_served(None, false, &near));
        for far in ["0.0.0.0:1", "[::]:1", "192.168.1.5:1"] {
            let places = [near[0].clone(), at(far)];
            assert!(!is_served(None, false, &places), "{far}");
            assert!(is_served(None, true, &places));
            assert!(is_served(Some(Demand::Network), false, &places));
            assert!(is_served(Some(Demand::All), false, &places));
            assert!(!is_served(Some(Demand::Optional), false, &places));
            assert!(is_served(Some(Demand::Optional), true, &places));
        }
    }
}
