//! Which requests the live page answers: by their `Host`, `Origin` and token. Pure but for the token's file.
//!
//! # Invariants
//!
//! * A page of another site that a browser on this machine shows learns nothing and changes nothing: its `Host` is a
//!   name that is not configured (DNS rebinding), or its `Origin` is another one.
//! * Without `--http-admin` no request changes anything.

use std::net::{IpAddr, SocketAddr};

use lab_drivers::agent::ServerToken;

/// What requests are checked against.
#[derive(Debug)]
pub(super) struct PageAccess {
    /// Where the page is.
    pub(super) address: SocketAddr,
    /// More names of this machine, in lower case.
    pub(super) hosts: Vec<String>,
    /// What actions need; `None`: there are none.
    pub(super) token: Option<ServerToken>,
}

/// Why an action is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionRefusal {
    /// There are no actions.
    Off,
    /// It was sent by a page of another origin, or by none.
    Origin,
    /// The token is missing or wrong.
    Token,
}

impl PageAccess {
    /// Whether `host` (`NAME[:PORT]`) is this server.
    pub(super) fn is_host(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else {
            return false;
        };
        let name = name.to_ascii_lowercase();
        let bare = name.strip_prefix('[').and_then(|v6| v6.strip_suffix(']'));
        let listens = self.address.ip();
        match bare.unwrap_or(&name).parse::<IpAddr>() {
            // Rebinding needs a name: an address is reached by itself alone.
            Ok(ip) => listens.is_unspecified() || ip == listens || ip.is_loopback(),
            Err(_) => name == "localhost" || self.hosts.contains(&name),
        }
    }

    /// Whether an action with these headers is permitted.
    pub(super) fn check_action(
        &self,
        host: &str,
        origin: Option<&str>,
        token: Option<&[u8]>,
    ) -> Result<(), ActionRefusal> {
        let wanted = self.token.as_ref().ok_or(ActionRefusal::Off)?;
        let own = origin.and_then(|origin| {
            let plain = origin.strip_prefix("http://");
            // A proxy that adds TLS.
            plain.or_else(|| origin.strip_prefix("https://"))
        });
        if !own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
            return Err(ActionRefusal::Origin);
        }
        match token.is_some_and(|token| wanted.is(token)) {
            true => Ok(()),
            false => Err(ActionRefusal::Token),
        }
    }
}

/// The name before a port. `None` for what is no host.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    (!name.is_empty() && port.is_none_or(is_port)).then_some(name)
}

#[cfg(test)]
mod tests {
    //! Tests of hosts and origins.

    use super::*;

    fn access(address: &str, hosts: &[&str]) -> PageAccess {
        PageAccess {
            address: address.parse().expect("an address"),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            token: None,
        }
    }

    #[test]
    fn only_names_of_this_server_are_its_hosts() {
        let own = access("127.0.0.1:9110", &[]);
        for host in ["127.0.0.1:9110", "localhost:9110", "LOCALHOST", "[::1]:80"] {
            assert!(own.is_host(host), "{host}");
        }
        let refused = [
            "evil.example:9110",
            "localhost.evil.example",
            "192.168.1.5:9110",
            "127.0.0.1.evil.example",
            "localhost:port",
            ":9110",
            "",
        ];
        for host in refused {
            assert!(!own.is_host(host), "{host}");
        }
        let all = access("0.0.0.0:9110", &["nas.lan"]);
        for host in ["192.168.1.5:9110", "nas.lan:9110", "NAS.lan", "[fe80::1]"] {
            assert!(all.is_host(host), "{host}");
        }
        assert!(!all.is_host("evil.example"));
    }

    #[test]
    fn an_action_needs_the_option_the_origin_and_the_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let token = ServerToken::of(Some(&path)).expect("a token");
        let text = std::fs::read(&path).expect("the token");
        let text = Some(text.trim_ascii());
        let mut access = access("127.0.0.1:9110", &[]);
        let host = "127.0.0.1:9110";
        let own = Some("http://127.0.0.1:9110");
        let off = access.check_action(host, own, text);
        assert_eq!(off, Err(ActionRefusal::Off));
        access.token = Some(token);
        assert_eq!(access.check_action(host, own, text), Ok(()));
        for origin in [
            None,
            Some("null"),
            Some("http://127.0.0.1:9111"),
            Some("http://evil.example"),
            Some("ftp://127.0.0.1:9110"),
        ] {
            let refused = access.check_action(host, origin, text);
            assert_eq!(refused, Err(ActionRefusal::Origin), "{origin:?}");
        }
        for token in [None, Some(&b"x"[..])] {
            let refused = access.check_action(host, own, token);
            assert_eq!(refused, Err(ActionRefusal::Token));
        }
    }
}
